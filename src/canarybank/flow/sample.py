"""Write a sample of a finished evolution's texts, drawn by noisy votes."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from canarybank.errors import ConfigError
from canarybank.evolution import Candidate, Evolution, Rounds, sample, write_candidates
from canarybank.run.folder import EVOLUTION, MANIFEST, Run
from canarybank.run.verification import refuse_unverified

__all__ = ["SAMPLE", "How", "Sampled", "sample_run", "write_sample"]

SAMPLE = "sample"
"""What a sample's files are called in a run's folder, before their endings."""


class How(TypedDict, total=False):
    """How a sample is drawn: what ``canarybank.evolution.sample`` takes beside the run and the size."""

    rounds: Rounds
    seed: int
    distinct: bool
    neighbours: int
    focus: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sample that was written: where, what is in it, and the files of an earlier one that it replaced."""

    paths: tuple[Path, ...]
    candidates: tuple[Candidate, ...]
    insecure_seed: int | None
    replaced: tuple[Path, ...] = ()

    @property
    def distinct(self) -> int:
        """Return how many different candidates are in it."""
        return len({candidate.id for candidate in self.candidates})


def write_sample(evolution: Evolution, folder: Path, size: int, **how: Unpack[How]) -> Sampled:
    """Draw a sample and write it into a folder as parquet, JSON lines and CSV; ``how`` is what ``sample`` takes."""
    drawn, before = sample(evolution, size, **how), set(folder.glob(f"{SAMPLE}.*"))
    paths = write_candidates(drawn, folder, SAMPLE, insecure_seed=evolution.insecure_seed)
    return Sampled(paths, drawn, evolution.insecure_seed, tuple(path for path in paths if path in before))


def sample_run(folder: Path, size: int, *, out: Path | None = None, **how: Unpack[How]) -> Sampled:
    """Write a sample of the evolution in a folder, beside its population or into another folder.

    Args:
        folder: The folder of a run, or the one that ``canarybank.evolve`` wrote.
        size: How many texts to draw.
        out: Where to write; left out, the folder itself. An earlier sample there is replaced.
        **how: How to draw, as ``canarybank.evolution.sample`` takes it.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.evolution import evolve
        >>> from canarybank.generate import ScriptedGenerator
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.users import Users
        >>> encoder, start = HashingEncoder(), [f"note {i} says {i * i} and {i + 7}" for i in range(20)]
        >>> users = Users.from_vectors(encoder.encode(start * 2).reshape(20, 2, -1))
        >>> writer = ScriptedGenerator(lambda request: f"text {request.seed} has {request.seed % 97} words")
        >>> _ = evolve(users, start, Mechanism(k=1), encoder, writer, 1, insecure_seed=0, folder="evolved")
        >>> made = sample_run(Path("evolved"), 30)
        >>> len(made.candidates), sorted(path.name for path in made.paths)
        (30, ['sample.csv', 'sample.jsonl', 'sample.parquet'])
    """
    if not (folder / MANIFEST).exists():
        return write_sample(Evolution.load(folder), out or folder, size, **how)
    run = Run.open(folder)
    if run.kind != "evolution":
        raise ConfigError(f"The {run.noun} in {str(folder)!r} has no texts to draw a sample of; name an evolution.")
    refuse_unverified(run, rewritten=True)
    made = write_sample(Evolution.load(folder / EVOLUTION), out or folder, size, **how)
    if out is None:
        run.seal()
    return made
