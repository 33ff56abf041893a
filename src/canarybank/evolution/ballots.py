"""Count votes in whole numbers, so that the sum is the same bits however users are split up and in whatever order.

Votes are counted where the users lie: all of them in memory, or a shard at a time, here or on other machines. What is
counted of some users is a table of 64-bit whole numbers; tables of disjoint users add up exactly, so the count of
everybody does not depend on the number of shards, on workers or on the order in which they finish.

A real release counts in steps of its grid. A simulated one has contributions in float64, whose sum would depend on the
order of its terms. So each value is cut into two whole numbers of 31 bits: multiples of clip·2^-31 and of clip·2^-62,
with clip rounded up to a power of two. What is cut off is less than 2^-62 of the clip, and less than float64 would
round in adding two contributions; 2^32 of them can be added before 64 bits overflow.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.mechanism import Bank, Grid, Mechanism, contributions, route, route_within, whole_contributions
from canarybank.mechanism.mechanism import whole
from canarybank.mechanism.routing import settled
from canarybank.mechanism.vectors import Vectors, squared_distances
from canarybank.users import Users

__all__ = ["Ballot", "HeldUsers", "SeededShares", "Shares", "VotingUsers", "cut_records", "probe_contributions"]

MOST_SHARES = 1 << 23
"""Secret sets are drawn for as many voters at a time as have this many entries together."""
LIMB_BITS = 31

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Shares = Callable[[float, Whole, int], Bools]
"""Share, voters and bank size to which entries each of the voters may vote for."""


@dataclass(frozen=True, eq=False)
class Ballot:
    """What a round's votes are cast on and how they are counted.

    With a ``grid`` a contribution is a row of whole steps, as a real release needs it; without one it is the float64
    row of ``canarybank.mechanism.contributions``, as in a simulation. ``shares`` draws the voters' secret sets, where
    the mechanism has a share below 1.
    """

    bank: Bank
    mechanism: Mechanism
    shares: Shares
    grid: Grid | None = None

    def nothing(self) -> Whole:
        """Return the count of nobody's votes."""
        return np.zeros((2 if self.grid is None else 1, self.bank.size), dtype=np.int64)

    def count(self, users: Users, numbers: Whole) -> Whole:
        """Return the count of these users' votes: the sum of their contributions in whole numbers.

        Users have vectors; ``numbers`` says for each of them which voter of the run they are, to draw their secret set.
        """
        counted = self.nothing()
        if self.mechanism.share == 1:
            groups = [np.arange(len(users))] if len(users) else []
        else:
            groups = np.array_split(np.arange(len(users)), math.ceil(len(users) * self.bank.size / MOST_SHARES) or 1)
        for group in groups:
            if len(group):
                present = users if len(group) == len(users) else users.take(group)
                counted += self._counted(present, numbers[group])
        return counted

    def sum(self, counted: Whole) -> NDArray[np.float64 | np.int64]:
        """Return the sum of contributions that a count stands for: in steps of the grid, or in float64 without one."""
        if self.grid is not None:
            return np.asarray(counted[0])
        high, low = counted.astype(np.float64)
        unit = _unit(self.mechanism.clip)
        return np.asarray(high * unit + low * math.ldexp(unit, -LIMB_BITS))

    def routes(self, vectors: Vectors, drift: float) -> Iterator[tuple[Whole, Bools]]:
        """Yield the routes of records over the whole bank, and which of them name the same entries within the drift."""
        bank, k = self.bank, self.mechanism.k
        if not drift or k >= len(bank.open):
            yield route(vectors, bank, k), np.ones(len(vectors), dtype=np.bool_)
            return
        found = route(vectors, bank, k + 1)
        rows = np.repeat(np.arange(len(vectors)), 2)
        distances = squared_distances(vectors, bank.vectors, rows, found[:, k - 1 :].ravel())
        yield found[:, :k], settled(distances.reshape(-1, 2), drift)

    def _counted(self, users: Users, numbers: Whole) -> Whole:
        bank, mechanism = self.bank, self.mechanism
        if mechanism.share == 1:
            ((routes, _),) = self.routes(users.require_vectors(), 0.0)
        else:
            sets = self.shares(mechanism.share, numbers, bank.size)
            routes = route_within(users.require_vectors(), users.owners, bank, mechanism.k, sets)
        return self.count_routes(routes, users)

    def count_routes(self, routes: Whole, users: Users) -> Whole:
        """Return the count of the votes of users whose records have these routes."""
        bank, mechanism = self.bank, self.mechanism
        contribute = (
            partial(contributions, clip=mechanism.clip)
            if self.grid is None
            else partial(whole_contributions, grid=self.grid)
        )
        table = contribute(routes, users.owners, len(users), bank.size, entry_cap=mechanism.entry_cap)
        if self.grid is not None:
            return np.asarray(table.sum(axis=0), dtype=np.int64)[None]
        limbs = [csr_array((limb, table.indices, table.indptr), table.shape) for limb in _limbs(table.data, mechanism)]
        return np.array([limb.sum(axis=0) for limb in limbs], dtype=np.int64)


def _unit(clip: float) -> float:
    """Return the value of one in the higher of the two whole numbers: 2^-31 of the clip, rounded up to a power of two.

    It is a power of two, so dividing by it is exact.
    """
    return math.ldexp(1.0, math.frexp(clip)[1] - LIMB_BITS)


def _limbs(values: Floats, mechanism: Mechanism) -> tuple[Whole, Whole]:
    """Cut values between 0 and the clip into two whole numbers each."""
    scaled = values / _unit(mechanism.clip)
    high = np.trunc(scaled)
    return high.astype(np.int64), np.trunc(np.ldexp(scaled - high, LIMB_BITS)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SeededShares:
    """Secret sets of a simulation: those of the n-th participant follow from the generator's state and n alone.

    They are the values that the generator would draw for one participant after another, so it does not matter who is
    asked for first, or where.
    """

    bits: np.random.PCG64 | np.random.PCG64DXSM
    participants: Whole
    """Who takes part, in ascending order."""

    @classmethod
    def draw(cls, rng: np.random.Generator, participants: Whole, entries: int) -> "SeededShares":
        """Return the sets of these participants over so many entries, and move the generator on behind them."""
        made = cls(copy.deepcopy(rng.bit_generator), participants)  # type: ignore[arg-type]
        rng.bit_generator.advance(len(participants) * entries)  # type: ignore[attr-defined]
        return made

    def __call__(self, share: float, voters: Whole, entries: int) -> Bools:
        """Return which entries each of these voters may vote for."""
        rows = np.zeros((len(voters), entries), dtype=np.bool_)
        for row, place in zip(rows, np.searchsorted(self.participants, voters), strict=True):
            bits = copy.deepcopy(self.bits)
            bits.advance(int(place) * entries)
            row[:] = np.random.Generator(bits).random(entries) < share
        return rows


class VotingUsers(Protocol):
    """The users of a run, wherever they lie; who they are is known, and their records vote when they are asked to."""

    @property
    def ids(self) -> Sequence[str]:
        """Return the users' ids, in the order in which participants are numbered."""

    @property
    def dimension(self) -> int:
        """Return the length of a record's vector."""

    def __len__(self) -> int:
        """Return how many users there are."""

    def cut(self, cap: int | None) -> "VotingUsers":
        """Return these users with their first ``cap`` records each, or with all of them."""

    def count_votes(self, ballot: Ballot, participants: Whole) -> Whole:
        """Return the count of the votes of these users, each of whom is named once."""

    def probe_contributions(self, bank: Bank, mechanism: Mechanism) -> csr_array:
        """Return what every user would contribute to the bank's probes, users by bank size."""


@dataclass(frozen=True, eq=False)
class HeldUsers:
    """Users whose vectors are all in memory; the first of them is voter number ``first`` of the run."""

    users: Users
    first: int = 0

    @property
    def ids(self) -> Sequence[str]:
        """Return the users' ids."""
        return self.users.ids

    @property
    def dimension(self) -> int:
        """Return the length of a record's vector."""
        return int(self.users.require_vectors().shape[1])

    def __len__(self) -> int:
        return len(self.users)

    def cut(self, cap: int | None) -> "HeldUsers":
        """Return these users with their first ``cap`` records each, or with all of them."""
        return HeldUsers(cut_records(self.users, cap), self.first)

    def count_votes(self, ballot: Ballot, participants: Whole) -> Whole:
        """Return the count of the votes of these users."""
        if not len(participants):
            return ballot.nothing()
        return ballot.count(self.users.take(participants), self.first + participants)

    def probe_contributions(self, bank: Bank, mechanism: Mechanism) -> csr_array:
        """Return what every user would contribute to the bank's probes, users by bank size."""
        return probe_contributions(self.users, bank, mechanism)


def cut_records(users: Users, cap: int | None) -> Users:
    """Return users with their vectors alone, each cut to their first ``cap`` records."""
    vectors, owners = users.require_vectors(), users.owners
    if cap is not None:
        place = np.arange(len(owners)) - np.searchsorted(owners, owners)
        within = place < whole("The cap on records", cap)
        vectors, owners = vectors[within], owners[within]
    return Users(users.ids, owners, vectors=vectors)


def probe_contributions(users: Users, bank: Bank, mechanism: Mechanism) -> csr_array:
    """Return what users with vectors would contribute to the bank's probes, users by bank size."""
    routes = route(users.require_vectors(), bank, mechanism.k)
    table = contributions(routes, users.owners, len(users), bank.size, mechanism.clip, entry_cap=mechanism.entry_cap)
    on_probes = np.isin(np.arange(bank.size), bank.reserved).astype(np.float64)
    found = csr_array(table * on_probes)
    found.eliminate_zeros()
    return found
