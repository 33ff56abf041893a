"""Hold the evolving population: candidates with where they came from, their vectors, and the bank they make.

The auditor's probes stand beside the population, at the same positions of every round's bank.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.encode import Encoder
from canarybank.errors import InputError
from canarybank.mechanism import Bank

__all__ = ["Candidate", "Population", "Probes", "candidate_id", "encode_texts", "lay_out", "split"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One text of the population and its lineage.

    ``born`` is the number of the first round whose bank held it, 0 for the first population; ``parents`` are the ids
    of the candidates that its prompt showed; ``prompt`` names that prompt.
    """

    id: str
    text: str
    label: str = ""
    born: int = 0
    parents: tuple[str, ...] = ()
    prompt: str = ""


@dataclass(frozen=True, eq=False)
class Population:
    """Candidates in order, each with its vector; probes are never among them."""

    candidates: tuple[Candidate, ...]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        vectors = np.ascontiguousarray(self.vectors, dtype=np.float32).view()
        if not self.candidates:
            raise InputError("A population needs at least one candidate, and this one is empty.")
        if vectors.ndim != 2 or len(vectors) != len(self.candidates):  # noqa: PLR2004, a table has two axes
            raise InputError(
                f"{len(self.candidates)} candidates need a table of as many vectors, not one of shape {vectors.shape}."
            )
        if len(set(self.ids)) != len(self.ids):
            twice = next(name for name in self.ids if self.ids.count(name) > 1)
            raise InputError(f"Two candidates have the id {twice!r}; lineage needs every id to be unique.")
        vectors.setflags(write=False)
        object.__setattr__(self, "vectors", vectors)

    @classmethod
    def start(cls, texts: Sequence[str], vectors: ArrayLike, labels: Sequence[str] | None = None) -> "Population":
        """Return a first population of these texts, born in round 0 of no parents."""
        if isinstance(texts, str) or (labels is not None and len(labels) != len(texts)):
            raise InputError("Give a list of texts, and as many labels as texts or none at all.")
        pairs = enumerate(zip(texts, [""] * len(texts) if labels is None else labels, strict=True))
        candidates = tuple(Candidate(candidate_id(0, i), text, label) for i, (text, label) in pairs)
        return cls(candidates, np.asarray(vectors, dtype=np.float32))

    def __len__(self) -> int:
        return len(self.candidates)

    def __repr__(self) -> str:
        return f"Population({len(self)} candidates, born in rounds {sorted({c.born for c in self.candidates})})"

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the candidates' ids, in order."""
        return tuple(candidate.id for candidate in self.candidates)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the candidates' texts, in order."""
        return tuple(candidate.text for candidate in self.candidates)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the candidates' labels, in order."""
        return tuple(candidate.label for candidate in self.candidates)

    def followed_by(self, kept: Sequence[int], new: Iterable[Candidate], vectors: ArrayLike) -> "Population":
        """Return the next population: these kept candidates in this order, then the new ones with their vectors."""
        table = np.concatenate([self.vectors[list(kept)], np.asarray(vectors, dtype=np.float32)])
        return Population((*(self.candidates[i] for i in kept), *new), table)


@dataclass(frozen=True, eq=False)
class Probes:
    """Entries that the auditor plants: the t-th of them stands at ``positions[t]`` of every round's bank.

    They take votes like any entry, and never enter selection, feedback or the population.
    """

    positions: tuple[int, ...]
    vectors: NDArray[np.float32]
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", tuple(int(position) for position in self.positions))
        object.__setattr__(self, "vectors", np.asarray(self.vectors, dtype=np.float32))
        object.__setattr__(self, "texts", tuple(self.texts))
        counts = (len(self.positions), len(self.vectors), len(self.texts))
        if len(set(counts)) != 1:
            raise InputError(f"Probes need a position, a vector and a text each; there are {counts}.")

    def __len__(self) -> int:
        return len(self.positions)


def lay_out(population: Population, probes: Probes | None = None) -> Bank:
    """Return the bank of a population: probes at their positions, the candidates in order at the others."""
    if probes is None:
        return Bank(population.vectors, population.texts)
    size = len(population) + len(probes)
    if max(probes.positions, default=0) >= size:
        raise InputError(
            f"A probe stands at position {max(probes.positions)}, but a bank of {len(population)} candidates and "
            f"{len(probes)} probes ends at {size - 1}; generate more candidates a round or reserve lower positions."
        )
    dimensions = population.vectors.shape[1], probes.vectors.shape[-1]
    if len(set(dimensions)) != 1:
        raise InputError(f"Candidates have dimension {dimensions[0]} and probes {dimensions[1]}; use one encoder.")
    free = np.setdiff1d(np.arange(size), probes.positions)
    order = np.argsort([*free, *probes.positions])
    vectors, texts = np.concatenate([population.vectors, probes.vectors]), (*population.texts, *probes.texts)
    return Bank(vectors[order], tuple(texts[i] for i in order), probes.positions)


def split(bank: Bank, labels: Sequence[str] | None = None) -> tuple[Population, Probes | None]:
    """Return a bank's candidates as a first population, and what stands at its reserved positions as probes.

    ``labels`` are those of the candidates alone, in bank order. ``lay_out`` of the two is the same bank.
    """
    if bank.texts is None:
        raise InputError(
            "This bank has no texts, and evolution writes new texts from old ones; give the bank its texts."
        )
    population = Population.start([bank.texts[i] for i in bank.base], bank.vectors[bank.base], labels)
    if not bank.reserved:
        return population, None
    places = list(bank.reserved)
    return population, Probes(bank.reserved, bank.vectors[places], tuple(bank.texts[place] for place in places))


def candidate_id(round_number: int, index: int) -> str:
    """Return the id of the index-th candidate born in a round."""
    return f"r{round_number}-{index:05d}"


def encode_texts(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Encode texts and check that one vector of the encoder's dimension came back for each."""
    vectors = np.asarray(encoder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), encoder.dimension):
        raise InputError(
            f"The encoder {encoder.name!r} gave an array of shape {vectors.shape} for {len(texts)} texts, but it must "
            f"be ({len(texts)}, {encoder.dimension}); fix the encoder."
        )
    return vectors
