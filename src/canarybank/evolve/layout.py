"""Lay a population and the probes out as a bank, the probes at the same positions in every round."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.evolve.population import Population
from canarybank.mechanism import Bank

__all__ = ["Probes", "lay_out", "split"]


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

    @classmethod
    def of(cls, bank: Bank) -> "Probes | None":
        """Return what stands at a bank's reserved positions, or None where none is reserved."""
        if not bank.reserved:
            return None
        places = list(bank.reserved)
        return cls(bank.reserved, bank.vectors[places], tuple(_texts(bank)[place] for place in places))

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
    vectors = np.empty((size, dimensions[0]), dtype=np.float32)
    vectors[free], vectors[list(probes.positions)] = population.vectors, probes.vectors
    texts = [""] * size
    for position, text in (
        *zip(free, population.texts, strict=True),
        *zip(probes.positions, probes.texts, strict=True),
    ):
        texts[position] = text
    return Bank(vectors, tuple(texts), probes.positions)


def split(bank: Bank, labels: Sequence[str] | None = None) -> tuple[Population, Probes | None]:
    """Return a bank's candidates as a first population, and what stands at its reserved positions as probes.

    ``labels`` are those of the candidates alone, in bank order. ``lay_out`` of the two is the same bank.
    """
    texts = _texts(bank)
    base = Population.start([texts[i] for i in bank.base], bank.vectors[bank.base], labels)
    return base, Probes.of(bank)


def _texts(bank: Bank) -> tuple[str, ...]:
    if bank.texts is None:
        raise InputError(
            "This bank has no texts, and evolution writes new texts from old ones; give the bank its texts."
        )
    return bank.texts
