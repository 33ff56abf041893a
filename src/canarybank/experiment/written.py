"""Keep of what a generator wrote how it came to be: the similarity of paraphrases to their records, and counters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import Field

from canarybank.attack import Pool
from canarybank.attack.vectors import column
from canarybank.experiment.commitment import Record

__all__ = ["PoolRecord", "SimilarityRecord", "WrittenPool", "counters_of", "pool_record"]

_DIGITS = 4


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WrittenPool(Pool):
    """Paraphrases of a canary's records, and how they came to be.

    ``similarities[j]`` is that of candidate ``j`` to the record which it rewrites, by ``measure``. ``counters`` tell
    what became of the answers that the whole pool was chosen from, of which this one may be a part.
    """

    similarities: tuple[float, ...] | None = None
    measure: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Pool.__post_init__(self)
        object.__setattr__(self, "similarities", column(self.similarities, len(self.vectors), "similarities"))


class SimilarityRecord(Record):
    """How similar the paraphrases of a pool are to the records that they rewrite."""

    measure: str = Field(description="What measured it: an encoder, and the cosine of its vectors.")
    smallest: float = Field(description="That of the least similar paraphrase.")
    low: float = Field(description="The 5% quantile.")
    median: float = Field(description="The median.")
    high: float = Field(description="The 95% quantile.")
    largest: float = Field(description="That of the most similar paraphrase, which is none the less not verbatim.")

    @classmethod
    def of(cls, values: Sequence[float], measure: str) -> "SimilarityRecord":
        """Return the quantiles of similarities, to four digits."""
        names, levels = ("smallest", "low", "median", "high", "largest"), (0.0, 0.05, 0.5, 0.95, 1.0)
        found = np.quantile(np.asarray(values, np.float64), levels)
        return cls(measure=measure, **{name: round(float(x), _DIGITS) for name, x in zip(names, found, strict=True)})


class PoolRecord(Record):
    """The paraphrases that the probes of a canary were selected from."""

    size: int = Field(description="The paraphrases that there were to select from.")
    similarity: SimilarityRecord | None = Field(
        default=None, description="Their similarity to the records that they rewrite; null where it was not kept."
    )
    counters: dict[str, int] = Field(
        default_factory=dict,
        description="What became of the answers that the whole pool was chosen from: asked for, kept, left over as "
        "surplus, rejected by which rule; and what was stripped off how many of those kept.",
    )


def pool_record(pool: Pool | None) -> PoolRecord | None:
    """Return the record of a pool of paraphrases, or None for another pool."""
    if not isinstance(pool, WrittenPool):
        return None
    measured = None if pool.similarities is None else SimilarityRecord.of(pool.similarities, pool.measure)
    return PoolRecord(size=len(pool), similarity=measured, counters=dict(pool.counters))


def counters_of(provenance: Any) -> dict[str, int]:
    """Return the counters that a provenance holds; none, where it is from elsewhere and holds something else."""
    found = provenance.get("counters") if isinstance(provenance, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {str(name): count for name, count in found.items() if type(count) is int}
