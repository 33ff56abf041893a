"""Hold the candidate probes that an attack selects from, and the sources that make them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from canarybank.attack.canary import Canary
from canarybank.attack.findings import SearchFacts
from canarybank.attack.vectors import column, frozen_vectors
from canarybank.errors import InputError

__all__ = ["Pool", "PoolFacts", "PoolSource", "Similarity"]

_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Similarity:
    """How similar the paraphrases of a pool are to the records that they rewrite."""

    measure: str
    """What measured it: an encoder, and the cosine of its vectors."""
    smallest: float
    """That of the least similar paraphrase."""
    low: float
    """The 5% quantile."""
    median: float
    """The median."""
    high: float
    """The 95% quantile."""
    largest: float
    """That of the most similar paraphrase, which is none the less not verbatim."""

    @classmethod
    def of(cls, values: Sequence[float], measure: str) -> "Similarity":
        """Return the quantiles of similarities, to four digits."""
        found = np.quantile(np.asarray(values, np.float64), (0.0, 0.05, 0.5, 0.95, 1.0))
        return cls(measure, *(round(float(value), _DIGITS) for value in found))


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The written texts that the probes of a canary were selected from."""

    size: int
    """The paraphrases that there were to select from."""
    similarity: Similarity | None = None
    """Their similarity to the records that they rewrite; null where it was not kept."""
    counters: dict[str, int] = field(default_factory=dict)
    """What became of the answers that the whole pool was chosen from: asked for, kept, left over as surplus, rejected
    by which rule; and what was stripped off how many of those kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Candidate probes in their order; ``sources[j]`` is the canary record that candidate ``j`` rewrites.

    Where a model wrote them, ``similarities[j]`` is that of candidate ``j`` to its record, by ``measure``, and
    ``counters`` tell what became of the answers that the whole pool was chosen from, of which this may be a part.
    ``search`` says what a search found, where the pool is what it found.
    """

    vectors: NDArray[np.float32]
    texts: tuple[str, ...] | None = None
    sources: tuple[int, ...] | None = None
    similarities: tuple[float, ...] | None = None
    measure: str = ""
    counters: Mapping[str, int] | None = None
    search: SearchFacts | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", frozen_vectors(self.vectors, "pool entry"))
        object.__setattr__(self, "texts", column(self.texts, len(self.vectors), "texts"))
        sources = column(self.sources, len(self.vectors), "sources")
        if sources is not None:
            sources = tuple(int(source) for source in sources)
            if min(sources) < 0:
                raise InputError(f"A source of the pool is {min(sources)}; sources count the canary's records from 0.")
        object.__setattr__(self, "sources", sources)
        object.__setattr__(self, "similarities", column(self.similarities, len(self.vectors), "similarities"))

    @classmethod
    def of_records(cls, canary: Canary) -> "Pool":
        """Return the pool that holds each record of a canary once, in order."""
        return cls(vectors=canary.vectors, texts=canary.texts, sources=tuple(range(len(canary))))

    @property
    def facts(self) -> PoolFacts | None:
        """Return what is known of how a written pool came to be; None for a pool that no model wrote."""
        if self.counters is None:
            return None
        measured = None if self.similarities is None else Similarity.of(self.similarities, self.measure)
        return PoolFacts(len(self), measured, dict(self.counters))

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"Pool({len(self)} candidates)"


PoolSource = Callable[[Canary, int, int], Pool]
"""Make a pool for a canary: called with the canary, the number of candidates, and a seed."""
