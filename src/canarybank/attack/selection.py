"""Take probes from a pool by the two rules that look at no score."""

import numpy as np

from canarybank.attack.canary import Canary
from canarybank.attack.pool import Pool
from canarybank.errors import InputError
from canarybank.seeds import stream

__all__ = ["spread", "uniform"]


def spread(pool: Pool, canary: Canary, count: int, seed: int) -> list[int]:
    """Return pool indices spread evenly over the canary's records, as many for each as the pool allows.

    The records take turns in an order drawn by seed; at its turn a record gives its first candidate not yet taken,
    and one that has none left is passed over. So two records that both have candidates left differ by one at most.
    """
    _require(count, pool)
    if pool.sources is None:
        raise InputError(
            "Probes cannot be spread over the canary's records, because the pool has no sources; "
            "give Pool(..., sources=...), which says the record that each candidate rewrites."
        )
    sources = np.asarray(pool.sources)
    if sources.max() >= len(canary):
        raise InputError(
            f"A pool entry rewrites record {sources.max()}, but the canary has {len(canary)} records, counted from 0."
        )
    by_source = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[by_source], sources[by_source])
    turn = np.empty(len(sources), dtype=np.int64)
    turn[by_source] = np.arange(len(sources)) - starts
    place = stream(seed, "attack", "spread", canary.id).permutation(len(canary))[sources]
    return [int(j) for j in np.lexsort((place, turn))[:count]]


def uniform(pool: Pool, canary: Canary, count: int, seed: int) -> list[int]:
    """Return pool indices drawn uniformly without replacement: every ordered choice of ``count`` is equally likely."""
    _require(count, pool)
    drawn = stream(seed, "attack", "uniform", canary.id).permutation(len(pool))[:count]
    return [int(j) for j in drawn]


def _require(count: int, pool: Pool) -> None:
    if count > len(pool):
        raise InputError(
            f"{count} probes were asked for from a pool of {len(pool)}; make a larger pool or reserve fewer positions."
        )
