"""Build the generator that a configuration names, behind the cache of its answers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from canarybank.config.model import NO_GENERATOR, Config, GeneratorConfig
from canarybank.errors import ConfigError
from canarybank.generate import (
    CachedGenerator,
    Ceiling,
    Generator,
    HFGenerator,
    LlamaCppGenerator,
    OpenAIGenerator,
    ResponseCache,
    server_of,
)
from canarybank.generate.server import OPENAI_URL
from canarybank.registry import GENERATORS, call_with
from canarybank.store import cache_root, tighten

__all__ = ["build_generator", "cached_generator", "destination", "response_file", "runs_in_process"]


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
