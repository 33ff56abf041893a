"""Let users vote who lie in shards: each shard is read, encoded and counted on its own, and then let go.

Memory holds the users' ids, where each one lies, and the shards that are being counted. The count of a round is the sum
of its shards' counts, in whole numbers, so it is the same on every engine and with any number of shards.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from canarybank.engine import Engine, Serial
from canarybank.evolution.ballots import Ballot, Whole, cut_records, probe_contributions
from canarybank.mechanism import Bank, Mechanism
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache, hash_array, stage_key
from canarybank.users import Users

__all__ = ["ShardReader", "StreamedUsers"]

Result = TypeVar("Result")


class ShardReader(Protocol):
    """Reads users of a shard and encodes their records; it can be pickled and runs wherever the engine does."""

    def key(self, shard: int) -> str:
        """Return the content address of a shard's users with their vectors."""

    def read(self, shard: int, places: Whole) -> tuple[Users, Whole]:
        """Return the users at these places of a shard, with vectors, and the index into ``places`` of each of them.

        They stand in the order of the places. A user is left out where none of their records can be encoded.
        """


@dataclass(frozen=True, eq=False)
class Members:
    """Some users of one shard: their places in it, and their numbers in the run."""

    shard: int
    places: Whole
    numbers: Whole


@dataclass(frozen=True, eq=False)
class CountVotes:
    """Count the votes of some users of a shard."""

    reader: ShardReader
    cap: int | None
    ballot: Ballot

    def __call__(self, members: Members) -> Whole:
        """Return the count of their votes."""
        users, present = self.reader.read(members.shard, members.places)
        return self.ballot.count(cut_records(users, self.cap), members.numbers[present])

    def key(self, members: Members) -> str:
        """Return the content address of the count, where no voter has a secret set."""
        ballot, mechanism = self.ballot, self.ballot.mechanism
        return stage_key(
            "votes",
            shard=self.reader.key(members.shard),
            places=hash_array(members.places),
            cap=self.cap,
            bank=ballot.bank.hash,
            k=mechanism.k,
            clip=mechanism.clip,
            entry_cap=mechanism.entry_cap,
            grid=None if ballot.grid is None else [ballot.grid.step, ballot.grid.radius],
        )


@dataclass(frozen=True, eq=False)
class ReachProbes:
    """Find what some users of a shard would contribute to a bank's probes."""

    reader: ShardReader
    cap: int | None
    bank: Bank
    mechanism: Mechanism

    def __call__(self, members: Members) -> tuple[Whole, csr_array]:
        """Return the numbers of those who have a record that can be encoded, and their rows."""
        users, present = self.reader.read(members.shard, members.places)
        return members.numbers[present], probe_contributions(cut_records(users, self.cap), self.bank, self.mechanism)


@dataclass(frozen=True, eq=False)
class StreamedUsers:
    """The users of a run who lie in shards; they are read and encoded whenever they vote, on ``engine``.

    ``shards`` and ``places`` say of each user in which shard they lie and at which place of it. With a ``memo`` the
    count of every shard is kept, so that a simulation that was killed goes on at the shard where it stopped. A real run
    has none: what a few users voted for, without noise, is kept nowhere.
    """

    ids: Sequence[str]
    dimension: int
    shards: NDArray[np.integer]
    places: NDArray[np.integer]
    reader: ShardReader
    engine: Engine = field(default_factory=Serial)
    progress: Progress = SILENT
    memo: StageCache | None = None
    cap: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def cut(self, cap: int | None) -> "StreamedUsers":
        """Return these users with their first ``cap`` records each, or with all of them."""
        return replace(self, cap=self.cap if cap is None else min(cap, self.cap or cap))

    def count_votes(self, ballot: Ballot, participants: Whole) -> Whole:
        """Return the count of the votes of these users; shards in which nobody takes part are not read."""
        count, total, left = CountVotes(self.reader, self.cap, ballot), ballot.nothing(), []
        memo = None if ballot.mechanism.share < 1 else self.memo
        for members in self._split(participants):
            kept = None if memo is None else memo.find("votes", count.key(members))
            if kept is None:
                left.append(members)
            else:
                total += kept["counted"]
        for members, counted in self._run("counting votes", count, left):
            total += counted
            if memo is not None:
                memo.arrays("votes", count.key(members), partial(dict, counted=counted))
        return total

    def probe_contributions(self, bank: Bank, mechanism: Mechanism) -> csr_array:
        """Return what every user would contribute to the bank's probes, users by bank size."""
        reach = ReachProbes(self.reader, self.cap, bank, mechanism)
        found = [rows for _, rows in self._run("routing users", reach, self._split(np.arange(len(self))))]
        if not found:
            return csr_array((0, bank.size), dtype=np.float64)
        table = vstack([rows for _, rows in found], format="coo")
        numbers = np.concatenate([numbers for numbers, _ in found])
        # Sorted by user and entry; a user without a record that can be encoded has no entry.
        ordered = csr_array((table.data, (numbers[table.row], table.col)), shape=(len(self), bank.size))
        ordered.sort_indices()
        return ordered

    def _split(self, participants: Whole) -> list[Members]:
        """Return the participants by shard, in the order of the shards."""
        if not len(participants):
            return []
        shards = self.shards[participants]
        order = np.argsort(shards, kind="stable")
        present, starts = np.unique(shards[order], return_index=True)
        groups = np.split(participants[order], starts[1:])
        return [
            Members(int(shard), np.asarray(self.places[numbers], dtype=np.int64), numbers)
            for shard, numbers in zip(present, groups, strict=True)
        ]

    def _run(
        self, name: str, function: Callable[[Members], Result], tasks: list[Members]
    ) -> Iterator[tuple[Members, Result]]:
        with self.progress.stage(name, len(tasks), "shards") as stage:
            for index, result in self.engine.run(function, tasks):
                yield tasks[index], result
                stage.advance()
