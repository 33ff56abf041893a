"""Draw what users contribute where each votes within a secret set of their own: the share of ``Mechanism.share``.

What a user gives to the inspected entries is then random, and the release has no law of the form that exact tails need.
Here the votes are drawn as the mechanism casts them: a new set for every draw, all records of a user voting within the
same one, capped and clipped over the full vector.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, route
from canarybank.mechanism.shares import ranks_needed

__all__ = ["ShareVotes"]

CHUNK_VALUES = 1 << 21

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShareVotes:
    """Users whose records are ranked over a bank, deep enough for a share of it.

    A ranking that is cut before the end of the bank leaves a record with fewer than k votes less than once in a million
    draws; entries behind it are reached no more often than that.

    ``ranked`` holds a row for each different ranking among a user's records, ``records`` how many of them share it.
    """

    mechanism: Mechanism
    inspected: NDArray[np.int64]
    ranked: tuple[NDArray[np.int64], ...]
    records: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(
        cls, records: ArrayLike, owners: ArrayLike, bank: Bank, inspected: ArrayLike, mechanism: Mechanism
    ) -> "ShareVotes":
        """Rank every record over a bank.

        Args:
            records: The vectors of the records.
            owners: Whose they are: a whole number each, from 0.
            bank: The bank with its probes; nobody votes for what it bars.
            inspected: The positions on which contributions are wanted.
            mechanism: The parameters of the release, its share among them.
        """
        vectors, owner = np.asarray(records), np.asarray(owners, dtype=np.int64)
        if mechanism.k > len(bank.open):
            raise InputError(f"k is {mechanism.k}, but the bank has only {len(bank.open)} entries to choose from.")
        depth = min(len(bank.open), ranks_needed(mechanism.k, mechanism.share))
        routes = route(vectors, bank, depth)
        pairs = [
            np.unique(routes[owner == user], axis=0, return_counts=True)
            for user in range(int(owner.max(initial=0)) + 1)
        ]
        return cls(
            mechanism,
            np.asarray(inspected, dtype=np.int64),
            tuple(rows.astype(np.int64) for rows, _ in pairs),
            tuple(counts.astype(np.int64) for _, counts in pairs),
        )

    def __len__(self) -> int:
        return len(self.ranked)

    @cached_property
    def touching(self) -> NDArray[np.int64]:
        """Return the users who may vote for an inspected entry; all others contribute nothing there."""
        return np.array([u for u, rows in enumerate(self.ranked) if np.isin(rows, self.inspected).any()], np.int64)

    def draw(self, user: int, size: int, rng: np.random.Generator) -> Floats:
        """Draw what a user contributes to the inspected entries when taking part, shape (size, inspected).

        Every row has a secret set of its own.
        """
        ballot = self._ballots[user]
        if ballot is None:
            ballot = _Ballot.of(self.ranked[user], self.records[user], self.inspected, self.mechanism)
            self._ballots[user] = ballot
        result = np.zeros((size, len(self.inspected)))
        step = max(1, CHUNK_VALUES // ballot.rows.size)
        for start in range(0, size, step):
            part = result[start : start + step]
            part[:, ballot.known] = ballot.draw(len(part), self.mechanism, rng)
        return result

    @cached_property
    def _ballots(self) -> list["_Ballot | None"]:
        return [None] * len(self)

    def background(self, size: int, rng: np.random.Generator, copies: NDArray[np.int64] | None = None) -> Floats:
        """Draw the sum of everybody's contributions to the inspected entries, each taking part by a coin of q.

        ``copies`` says how often each user is there, once where it is left out.
        """
        total = np.zeros((size, len(self.inspected)))
        for user in self.touching:
            for _ in range(1 if copies is None else int(copies[user])):
                took = np.flatnonzero(rng.random(size) < self.mechanism.q)
                if len(took):
                    total[took] += self.draw(int(user), len(took), rng)
        return total


@dataclass(frozen=True, eq=False)
class _Ballot:
    """One user's rankings over the entries that stand in any of them, made ready to vote many times.

    ``rows`` (rankings, ranks) number those entries; ``columns`` are the numbers of the inspected ones among them, which
    stand at ``known``. ``near`` and ``far`` add up votes by entry, over the first ranks and over all of them.
    """

    rows: NDArray[np.int64]
    entries: int
    known: NDArray[np.bool_]
    columns: NDArray[np.int64]
    first: int
    near: csr_array
    far: csr_array

    @classmethod
    def of(
        cls,
        ranked: NDArray[np.int64],
        records: NDArray[np.int64],
        inspected: NDArray[np.int64],
        mechanism: Mechanism,
    ) -> "_Ballot":
        entries, places = np.unique(ranked, return_inverse=True)
        rows: NDArray[np.int64] = np.reshape(places, ranked.shape).astype(np.int64)
        columns = np.minimum(np.searchsorted(entries, inspected), len(entries) - 1)
        known = entries[columns] == inspected
        # A record seldom goes further than this; the few draws in which one does are looked at again.
        first = min(rows.shape[1], math.ceil((mechanism.k + 3 * math.sqrt(mechanism.k) + 3) / mechanism.share))
        near, far = (_adding_up(rows[:, :depth], records, len(entries)) for depth in (first, rows.shape[1]))
        return cls(rows, len(entries), known, columns[known], first, near, far)

    def draw(self, size: int, mechanism: Mechanism, rng: np.random.Generator) -> Floats:
        """Draw contributions to the known inspected entries, each row by a set of its own."""
        inside = (rng.random((self.entries, size), dtype=np.float32) < mechanism.share).view(np.uint8)
        votes, short = _cast(inside, self.rows[:, : self.first], self.near, mechanism.k)
        if self.first < self.rows.shape[1] and short.any():
            votes[:, short], _ = _cast(inside[:, short], self.rows, self.far, mechanism.k)
        total = votes.sum(axis=0)
        votes /= np.maximum(total, 1.0)
        if mechanism.entry_cap is not None:
            np.minimum(votes, mechanism.entry_cap, out=votes)
        norm = np.sqrt(np.square(votes).sum(axis=0))
        kept = votes[self.columns] * np.minimum(1.0, mechanism.clip / np.maximum(norm, 1e-300))
        return np.asarray(kept.T)


def _adding_up(rows: NDArray[np.int64], records: NDArray[np.int64], entries: int) -> csr_array:
    """Return the table (entries, rankings · ranks) that adds votes up by entry, each as often as records cast it."""
    weights = np.repeat(records, rows.shape[1]).astype(np.float64)
    return csr_array((weights, (rows.ravel(), np.arange(rows.size))), shape=(entries, rows.size))


def _cast(
    inside: NDArray[np.uint8], rows: NDArray[np.int64], adding_up: csr_array, k: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return each set's histogram of votes (entries, sets), and in which sets a ranking has fewer than k entries."""
    listed = inside[rows]
    so_far = np.cumsum(listed, axis=1, dtype=np.uint16)
    listed &= so_far <= k
    votes = adding_up @ listed.reshape(rows.size, -1).astype(np.float64)
    return np.asarray(votes), np.asarray((so_far[:, -1] < k).any(axis=0))
