"""Let users vote who lie in shards: each shard is read, encoded and counted on its own, and then let go.

Memory holds the users' ids, where each one lies, and the shards that are being counted. The count of a round is the sum
of its shards' counts, in whole numbers, so it is the same on every engine and with any number of shards.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.encode import EncoderRecipe
from canarybank.engine import Engine, Serial
from canarybank.evolution.ballots import Ballot, Whole
from canarybank.mechanism import Ask, Bank, Mechanism, StreamedCohort
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache, stage_key
from canarybank.users import Evaluation, Members, Part, Users, run_pass

__all__ = ["StreamedUsers", "encode_all"]

EncodeUsers = Callable[[Users, EncoderRecipe], Users]
"""Gives users their vectors, in their order; who has no record that can be encoded may be left out."""


def encode_all(users: Users, encoder: EncoderRecipe) -> Users:
    """Return the users with the vectors of all their records."""
    return users.with_vectors(encoder.encode(users.require_texts()))


@dataclass(frozen=True, eq=False)
class CountVotes:
    """Count the votes of some users of a shard."""

    ballot: Ballot
    encoder: EncoderRecipe
    encode: EncodeUsers

    def __call__(self, part: Part) -> Mapping[str, NDArray[Any]]:
        """Return the count of their votes; their positions are their numbers in the run."""
        given, ballot = part.users(), self.ballot
        if self.encode is encode_all and ballot.mechanism.share == 1:
            (routes,) = self.encoder.answer(given.require_texts(), ballot.routes)
            return {"counted": ballot.count_routes(routes, given)}
        users, numbers = self.encode(given, self.encoder), part.positions
        if len(users) < len(given):
            number = dict(zip(given.ids, numbers.tolist(), strict=True))
            numbers = np.array([number[name] for name in users.ids], dtype=np.int64)
        return {"counted": self.ballot.count(users, numbers)}

    @property
    def key(self) -> str:
        """Return the content address of all that decides a count but the users, where nobody has a secret set."""
        mechanism, grid = self.ballot.mechanism, self.ballot.grid
        return stage_key(
            "votes",
            encoder=self.encoder.key,
            bank=self.ballot.bank.hash,
            k=mechanism.k,
            clip=mechanism.clip,
            entry_cap=mechanism.entry_cap,
            grid=None if grid is None else [grid.step, grid.radius],
        )


@dataclass(frozen=True, eq=False)
class StreamedUsers:
    """The users of a run who lie in shards; they are read and encoded whenever they vote, on ``engine``.

    With a ``cache`` the count of every shard is kept, so that a simulation that was killed goes on at the shard where
    it stopped; counts under secret sets are never kept. A real run has no such cache: what a few users voted for,
    without noise, is kept nowhere.
    """

    members: Members
    encoder: EncoderRecipe
    engine: Engine = field(default_factory=Serial)
    cache: StageCache | None = None
    progress: Progress = SILENT
    encode: EncodeUsers = encode_all

    def __len__(self) -> int:
        return len(self.members)

    @property
    def ids(self) -> Sequence[str]:
        """Return the users' ids, in the order in which participants are numbered."""
        return tuple(self.members.ids)

    @property
    def dimension(self) -> int:
        """Return the length of a record's vector."""
        return self.encoder.dimension

    def cut(self, cap: int | None) -> "StreamedUsers":
        """Return these users with their first ``cap`` records each, or with all of them."""
        if cap is None:
            return self
        shards = self.members.shards
        lowered = shards.capped(cap if shards.cap is None else min(cap, shards.cap))
        return replace(self, members=Members(lowered, self.members.places))

    def count_votes(self, ballot: Ballot, participants: Whole) -> Whole:
        """Return the count of the votes of these users; shards in which nobody takes part are not read."""
        total = ballot.nothing()
        if not len(participants):
            return total
        count = CountVotes(ballot, self.encoder.hosted_on(self.engine), self.encode)
        parts = Members(self.members.shards, self.members.places[participants]).parts()
        for _, found in run_pass(
            "counting votes",
            count,
            [replace(part, positions=participants[part.positions]) for part in parts],
            self.engine,
            key=count.key,
            cache=self.cache if ballot.mechanism.share == 1 else None,
            progress=self.progress,
        ):
            total += found["counted"]
        return total

    def probe_contributions(self, bank: Bank, mechanism: Mechanism) -> csr_array:
        """Return what every user would contribute to the bank's probes, users by bank size."""
        columns = np.sort(np.array(bank.reserved, dtype=np.int64))
        cohort = StreamedCohort(Evaluation, self.members, self.encoder, self.engine, self.cache, self.progress)
        (table,) = cohort.restricted([Ask(bank, columns)], mechanism)
        return csr_array((table.data, columns[table.indices], table.indptr), shape=(len(self), bank.size))
