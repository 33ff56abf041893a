"""Select an attack's probes from its pool: what a rule may look at, the built-in rules, and what each must return."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index

import numpy as np

from canarybank.attack.canary import Canary
from canarybank.attack.covariance import pool_covariance
from canarybank.attack.greedy import select_routed
from canarybank.attack.objective import Objective
from canarybank.attack.pool import Pool
from canarybank.errors import ConfigError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable
from canarybank.registry import SELECTIONS
from canarybank.seeds import stream
from canarybank.users import Auxiliary

__all__ = [
    "SelectionContext",
    "SelectionRule",
    "checked_indices",
    "greedy_mueff",
    "greedy_norm",
    "select",
    "spread",
    "take_all",
    "uniform",
]


@dataclass(frozen=True, slots=True, eq=False)
class SelectionContext:
    """All that a rule may look at: public things, the canary and the auxiliary users.

    ``table`` routes the canary's records over the base of the bank, and ``auxiliary`` holds the auxiliary users, routed
    likewise. A rule that draws, draws from ``seed``.
    """

    canary: Canary
    pool: Pool
    bank: Bank
    places: tuple[int, ...]
    """The bank positions that the probes get, in order."""
    table: RouteTable
    auxiliary: Routed[Auxiliary]
    mechanism: Mechanism
    eligible: int
    """How many users other than the canary are eligible."""
    seed: int


SelectionRule = Callable[[SelectionContext], Sequence[int]]
"""Return pool indices, the first for the first place: one for each place, or the whole pool where it is smaller."""


def select(name: str, context: SelectionContext) -> list[int]:
    """Return the pool indices that the rule of a name selects, checked."""
    rule: SelectionRule = SELECTIONS.find(name)
    if not callable(rule):
        raise ConfigError(
            f"The selection {name!r} is of type {type(rule).__name__}; make it a function of a SelectionContext."
        )
    return checked_indices(name, rule(context), context)


def checked_indices(name: str, returned: object, context: SelectionContext) -> list[int]:
    """Return what a rule returned as a list, or say what is wrong with it."""
    try:
        indices = [index(each) for each in returned]  # type: ignore[attr-defined]
    except TypeError as error:
        raise InputError(
            f"The selection {name!r} returned {returned!r:.80}; a rule returns pool indices, which are whole numbers."
        ) from error
    count, size = len(context.places), len(context.pool)
    if len(indices) != min(count, size):
        raise InputError(
            f"The selection {name!r} returned {len(indices)} pool indices for {count} places and a pool of {size}; a "
            "rule returns one for each place, or the whole pool where it is smaller."
        )
    outside = [each for each in indices if not 0 <= each < size]
    if outside:
        raise InputError(
            f"The selection {name!r} returned the pool index {outside[0]}, but the pool has {size} candidates, "
            "counted from 0."
        )
    if len(set(indices)) < len(indices):
        raise InputError(f"The selection {name!r} returned a pool index twice; a candidate can be planted once.")
    return indices


def take_all(context: SelectionContext) -> list[int]:
    """Return every pool index, in order."""
    size, count = len(context.pool), len(context.places)
    if size > count:
        raise InputError(
            f"The whole pool is to be planted, but it has {size} candidates and the bank reserves {count} positions; "
            "reserve a position for each."
        )
    return list(range(size))


def spread(context: SelectionContext) -> list[int]:
    """Return pool indices spread evenly over the canary's records, as many for each as the pool allows.

    The records take turns in an order drawn by seed; at its turn a record gives its first candidate not yet taken,
    and one that has none left is passed over. So two records that both have candidates left differ by one at most.
    """
    canary, pool, count = context.canary, context.pool, len(context.places)
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
    place = stream(context.seed, "attack", "spread", canary.id).permutation(len(canary))[sources]
    return [int(j) for j in np.lexsort((place, turn))[:count]]


def uniform(context: SelectionContext) -> list[int]:
    """Return pool indices drawn uniformly without replacement: every ordered choice is equally likely."""
    canary, pool, count = context.canary, context.pool, len(context.places)
    _require(count, pool)
    drawn = stream(context.seed, "attack", "uniform", canary.id).permutation(len(pool))[:count]
    return [int(j) for j in drawn]


def greedy_norm(context: SelectionContext) -> list[int]:
    """Return the pool indices on which the canary's votes are most concentrated, selected one by one."""
    return _greedy(context, Objective.NORM)


def greedy_mueff(context: SelectionContext) -> list[int]:
    """Return the pool indices on which the canary stands out most from the background, selected one by one."""
    return _greedy(context, Objective.MUEFF)


def _greedy(context: SelectionContext, objective: Objective) -> list[int]:
    pool, table, mechanism = context.pool, context.table, context.mechanism
    covariance = None
    if objective is Objective.MUEFF:
        covariance = pool_covariance(pool, context.auxiliary, context.bank, mechanism, context.eligible)
    return select_routed(
        context.canary.vectors,
        table.distances[:, : mechanism.k],
        table.positions[:, : mechanism.k],
        pool.vectors,
        context.places,
        objective=objective,
        covariance=covariance,
    )


def _require(count: int, pool: Pool) -> None:
    if count > len(pool):
        raise InputError(
            f"{count} probes were asked for from a pool of {len(pool)}; make a larger pool or reserve fewer positions."
        )
