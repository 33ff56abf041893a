"""Select probes one by one, each the best addition to those already selected.

The literal algorithm adds every remaining candidate to the selected set in turn, routes all of the canary's
records again, and commits the best trial set. The same sequence comes out of two facts. A probe enters a record's
route only by pushing out its last entry, so the votes of all trial sets follow from the last entries alone. And the
covariance of a trial set borders that of the selected set by one row, so its inverse follows from a Schur complement.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.attack.objective import Objective, scoring
from canarybank.errors import InputError
from canarybank.mechanism import route
from canarybank.mechanism.vectors import Vectors, check_dimensions, check_vectors, squared_distances

__all__ = ["select_probes", "select_routed"]

BASE = -1

Floats = NDArray[np.float64]


def select_probes(
    canary: ArrayLike,
    base: ArrayLike,
    pool: ArrayLike,
    *,
    count: int,
    k: int,
    objective: Objective | str,
    covariance: ArrayLike | None = None,
) -> list[int]:
    """Return the pool indices of the probes that the greedy algorithm selects, in the order of selection.

    In each round the score of a candidate is the objective of the selected probes with that candidate added. For
    ``norm`` scores are integers and the lowest pool index among the maxima wins; for ``mueff`` the lowest pool index
    whose score is at least ``(1 - 1e-10)`` times the maximum. At equal distance a record votes for base entries before
    probes, and for probes in the order of their selection, as in a bank whose probes follow its base.

    Args:
        canary: The canary's record vectors, one a row.
        base: The vectors of the bank without its reserved positions.
        pool: The vectors of the candidate probes.
        count: How many probes to select.
        k: The length of a route.
        objective: ``"norm"`` or ``"mueff"``.
        covariance: The frozen covariance of the background over all of the pool, needed by ``"mueff"`` alone.

    Example:
        >>> select_probes([[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5], [1.0, 0.1]], count=1, k=1, objective="norm")
        [0]
    """
    records, entries = check_vectors(canary, "canary record"), check_vectors(base, "base entry")
    _require_count(count, len(check_vectors(pool, "pool entry")))
    near = _distances(records, entries, route(records, entries, k))
    positions, places = np.full(near.shape, BASE), range(count)
    return select_routed(records, near, positions, pool, places, objective=objective, covariance=covariance)


def select_routed(
    canary: ArrayLike,
    near: Floats,
    positions: NDArray[np.int64],
    pool: ArrayLike,
    places: Sequence[int],
    *,
    objective: Objective | str,
    covariance: ArrayLike | None = None,
) -> list[int]:
    """Select as ``select_probes`` does, one probe for each place, for records that are routed over a bank's base.

    ``near`` and ``positions`` (records, k) are the squared distances and bank positions of each record's k nearest base
    entries, nearest first; the t-th probe will stand at ``places[t]``. At equal distance a record votes for the lower
    position, as the bank will have it: so the votes that selection counts are those that the planted bank gets.
    """
    records, candidates = check_vectors(canary, "canary record"), check_vectors(pool, "pool entry")
    check_dimensions(records, candidates, "pool entries")
    _require_count(len(places), len(candidates))
    score = scoring(objective, covariance, len(candidates))
    everyone = np.broadcast_to(np.arange(len(candidates)), (len(records), len(candidates)))
    votes = Votes(near, positions, _distances(records, candidates, everyone), places)
    for _ in places:
        winner = score.winner(score.scores(*votes.trials()), votes.free)
        votes.add(winner)
        score.add(winner)
    return votes.selected


class Votes:
    """The routes of the canary's records over the base and the selected probes.

    An entry of a route is a distance and a position; routes are sorted by distance, then position. ``order`` tells the
    position of the t-th probe from those of base entries: it is t for the one and ``BASE`` for the others.
    """

    def __init__(self, near: Floats, positions: NDArray[np.int64], pool: Floats, places: Sequence[int]) -> None:
        self.pool = pool
        self.places = places
        self.route = near.copy()
        self.position = positions.copy()
        self.selected: list[int] = []
        self.free = np.ones(pool.shape[1], dtype=bool)
        self.order = np.full(max(int(positions.max()), *places, 0) + 2, BASE)

    def trials(self) -> tuple[Floats, Floats]:
        """Return the votes in every trial set: the candidate's own (M,), and those the selected keep (t, M)."""
        enters = self._enters().astype(np.float64)
        probes = self.order[self.position]
        held = np.bincount(probes[probes != BASE], minlength=len(self.selected))
        return enters.sum(axis=0), held[:, None] - self._pushed_out(enters, probes[:, -1])

    def _pushed_out(self, enters: Floats, last: NDArray[np.int64]) -> Floats:
        """Return how many votes each selected probe loses to each candidate, by the last entry of every route."""
        order = np.argsort(last)
        probes, starts = np.unique(last[order], return_index=True)
        pushed = np.zeros((len(self.selected) + 1, len(self.free)))
        pushed[probes] = np.add.reduceat(enters[order], starts, axis=0)
        return pushed[:-1]

    def add(self, candidate: int) -> None:
        """Merge a probe into the routes that it enters."""
        rows, place = self._enters()[:, candidate], self._next
        route = np.column_stack([self.route[rows], self.pool[rows, candidate]])
        position = np.column_stack([self.position[rows], np.full(len(route), place)])
        order = np.lexsort((position, route), axis=-1)[:, :-1]
        self.route[rows] = np.take_along_axis(route, order, axis=1)
        self.position[rows] = np.take_along_axis(position, order, axis=1)
        self.order[place] = len(self.selected)
        self.selected.append(candidate)
        self.free[candidate] = False

    @property
    def _next(self) -> int:
        """Return the position that the next probe will stand at."""
        return self.places[len(self.selected)]

    def _enters(self) -> NDArray[np.bool_]:
        last, lower = self.route[:, -1:], self._next < self.position[:, -1:]
        enters: NDArray[np.bool_] = (self.pool < last) | ((self.pool == last) & lower)
        return enters


def _distances(records: Vectors, entries: Vectors, columns: NDArray[np.int64]) -> Floats:
    """Return the squared distance of each record from the entries in its row of columns, as routing defines it."""
    rows = np.repeat(np.arange(len(records)), columns.shape[1])
    return squared_distances(records, entries, rows, columns.ravel()).reshape(columns.shape)


def _require_count(count: int, pool: int) -> None:
    if not 0 <= count <= pool:
        raise InputError(
            f"{count} probes cannot be selected from a pool of {pool}; ask for at most {pool}, or give a larger pool."
        )
