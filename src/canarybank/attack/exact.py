"""Select probes from any pool by the exact epsilon of the frozen score: one by one, then by exchange.

The paper's rules aim at a norm or at mu_eff, which stand for epsilon where the background is Gaussian. Here a trial set
is judged by the law of its score over the auxiliary users, who are repeated to stand for the eligible ones. All trial
sets would take hours, so mu_eff says which few are worth it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.attack.contribution import canary_contribution
from canarybank.attack.covariance import pool_covariance
from canarybank.attack.greedy import Votes
from canarybank.attack.objective import Objective, scoring
from canarybank.attack.selection import SelectionContext, greedy_mueff
from canarybank.mechanism import contributions
from canarybank.mechanism.vectors import squared_distances
from canarybank.score import LinearScore, Moments, RoundLaw, quick_epsilon

__all__ = ["TrialSets", "add_probes", "exchange_probes", "greedy_exact"]

FEW = 6
"""How many trial sets of a round are judged exactly: those of the largest mu_eff."""
EXCHANGES = 128
"""How many exchanges are tried at most."""
GAIN = 1e-6

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrialSets:
    """Judge sets of probes from one pool by the exact epsilon that they reach on the auxiliary users.

    ``quick`` scales every user's votes as the clip scales them before anything is planted, for that takes one
    routing in all; ``exact`` plants the set and routes. They differ by what a few votes change in a user's norm.
    """

    context: SelectionContext

    @cached_property
    def to_records(self) -> Floats:
        """Return the squared distances of the canary's records from the pool (records, M)."""
        canary, pool = self.context.canary.vectors, self.context.pool.vectors
        rows, columns = (part.ravel() for part in np.indices((len(canary), len(pool))))
        return squared_distances(canary, pool, rows, columns).reshape(len(canary), len(pool))

    @cached_property
    def _pairs(self) -> tuple[Whole, Whole, Whole]:
        """Return which auxiliary records may vote for which candidates, and how many base entries are nearer.

        They are sorted by record, and then by distance.
        """
        table, k = self.context.auxiliary.table, self.context.mechanism.k
        rows, columns = table.within_reach(self.context.pool.vectors)
        distances = squared_distances(table.records, self.context.pool.vectors, rows, columns)
        nearer = (table.distances[rows, :k] <= distances[:, None]).sum(axis=1)
        kept = nearer < k
        order = np.lexsort((distances[kept], rows[kept]))
        return rows[kept][order], columns[kept][order], nearer[kept][order]

    @cached_property
    def _scale(self) -> Floats:
        """Return what one vote of each auxiliary user comes to, clipped, before anything is planted."""
        mechanism, users = self.context.mechanism, self.context.auxiliary.cohort.users
        table = self.context.auxiliary.table
        routes, size, cap = table.positions[:, : mechanism.k], self.context.bank.size, mechanism.entry_cap
        given = contributions(routes, users.owners, len(users), size, mechanism.clip, entry_cap=cap)
        cast = users.counts * mechanism.k
        return np.asarray(given.sum(axis=1), dtype=np.float64).ravel() / cast

    def canary(self, chosen: Sequence[int]) -> Floats:
        """Return the canary's contribution on the chosen candidates, which stand at the places in their order."""
        context, k = self.context, self.context.mechanism.k
        places = np.array(context.places[: len(chosen)], dtype=np.int64)
        distances = np.column_stack((context.table.distances[:, :k], self.to_records[:, list(chosen)]))
        positions = np.column_stack((context.table.positions[:, :k], np.tile(places, (len(distances), 1))))
        order = np.lexsort((positions, distances), axis=-1)[:, :k]
        routes = np.take_along_axis(positions, order, axis=1)
        owners = np.zeros(len(routes), dtype=np.int64)
        own = contributions(
            routes, owners, 1, context.bank.size, context.mechanism.clip, entry_cap=context.mechanism.entry_cap
        )
        return np.asarray(own[:, places].toarray()[0], dtype=np.float64)

    def background(self, chosen: Sequence[int]) -> csr_array:
        """Return the auxiliary users' contributions on the chosen candidates, scaled as before anything is planted."""
        context = self.context
        rows, columns, nearer = self._pairs
        place = np.full(len(context.pool), -1)
        place[list(chosen)] = np.arange(len(chosen))
        kept = place[columns] >= 0
        rows, at, nearer = rows[kept], place[columns[kept]], nearer[kept]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        before = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
        voting = nearer + before < context.mechanism.k
        users = context.auxiliary.cohort.users
        owners = users.owners[rows[voting]]
        return csr_array((self._scale[owners], (owners, at[voting])), shape=(len(users), len(chosen)))

    def quick(self, chosen: Sequence[int]) -> float:
        """Return the epsilon of a set, fast."""
        return self._reached(self.canary(chosen), self.background(chosen))

    def exact(self, chosen: Sequence[int]) -> float:
        """Return the epsilon of a set, as planted and routed."""
        context, pool = self.context, self.context.pool
        texts = None if context.bank.texts is None or pool.texts is None else [pool.texts[j] for j in chosen]
        bank = context.bank.with_probes(pool.vectors[list(chosen)], texts)
        places = np.array(context.places[: len(chosen)], dtype=np.int64)
        own = canary_contribution(context.table, bank, context.mechanism)[places]
        return self._reached(own, context.auxiliary.contributions(bank, context.mechanism)[:, places])

    def _reached(self, own: Floats, votes: csr_array) -> float:
        mechanism, eligible = self.context.mechanism, self.context.eligible
        score = LinearScore(own, Moments.estimate(votes, mechanism, eligible))
        return quick_epsilon(RoundLaw.of(score, votes, own, mechanism).repeated(eligible), mechanism.delta)


def greedy_exact(context: SelectionContext) -> list[int]:
    """Return the pool indices that give the largest exact epsilon: added one by one, then exchanged.

    They are those of ``greedy-mueff`` where nothing better was found on the auxiliary users.
    """
    sets, paper = TrialSets(context), greedy_mueff(context)
    covariance = pool_covariance(context.pool, context.auxiliary, context.bank, context.mechanism, context.eligible)
    added = add_probes(sets, covariance)
    found = [paper, added, *(exchange_probes(sets, each, covariance) for each in (paper, added))]
    return max(found, key=sets.exact)


def add_probes(sets: TrialSets, covariance: Floats) -> list[int]:
    """Return the candidates added one by one: of the few with the largest mu_eff, that of the largest epsilon."""
    context, k = sets.context, sets.context.mechanism.k
    table = context.table
    votes = Votes(table.distances[:, :k], table.positions[:, :k], sets.to_records, context.places)
    score = scoring(Objective.MUEFF, covariance, len(context.pool))
    for _ in range(min(len(context.places), len(context.pool))):
        scores = np.where(votes.free, score.scores(*votes.trials()), -np.inf)
        few = np.argsort(-scores, kind="stable")[: min(FEW, int(votes.free.sum()))]
        best = max(few, key=lambda j: round(sets.quick([*votes.selected, int(j)]), 9))
        votes.add(int(best))
        score.add(int(best))
    return votes.selected


def exchange_probes(sets: TrialSets, chosen: Sequence[int], covariance: Floats) -> list[int]:
    """Return the chosen candidates after exchanges with others, each of which raised the epsilon.

    Those that the canary votes for least leave first; those that it would vote for most, planted alone, come first.
    """
    order = list(chosen)
    alone = sets.to_records < sets.context.table.distances[:, sets.context.mechanism.k - 1 : sets.context.mechanism.k]
    worth = np.square(alone.sum(axis=0)) / covariance.diagonal()
    rest = [int(j) for j in np.argsort(-worth, kind="stable") if j not in set(order)]
    best, left = sets.quick(order), EXCHANGES
    for place in np.argsort(sets.canary(order), kind="stable"):
        for number, other in enumerate(rest[:FEW]):
            if not left:
                return order
            left -= 1
            trial = order.copy()
            trial[place] = other
            found = sets.quick(trial)
            if found > best + GAIN:
                rest[number], order, best = order[place], trial, found
    return order
