"""Hold the candidate probes that an attack selects from, and the sources that make them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.attack.canary import Canary
from canarybank.attack.vectors import column, frozen_vectors
from canarybank.errors import InputError

__all__ = ["Pool", "PoolSource"]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Candidate probes in their order; ``sources[j]`` is the canary record that candidate ``j`` rewrites."""

    vectors: NDArray[np.float32]
    texts: tuple[str, ...] | None = None
    sources: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", frozen_vectors(self.vectors, "pool entry"))
        object.__setattr__(self, "texts", column(self.texts, len(self.vectors), "texts"))
        sources = column(self.sources, len(self.vectors), "sources")
        if sources is not None:
            sources = tuple(int(source) for source in sources)
            if min(sources) < 0:
                raise InputError(f"A source of the pool is {min(sources)}; sources count the canary's records from 0.")
        object.__setattr__(self, "sources", sources)

    @classmethod
    def of_records(cls, canary: Canary) -> "Pool":
        """Return the pool that holds each record of a canary once, in order."""
        return cls(vectors=canary.vectors, texts=canary.texts, sources=tuple(range(len(canary))))

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"Pool({len(self)} candidates)"


PoolSource = Callable[[Canary, int, int], Pool]
"""Make a pool for a canary: called with the canary, the number of candidates, and a seed."""
