"""A cohort that lies in shards: its contributions are asked for in passes, and its vectors are never all in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.encode import EncoderRecipe
from canarybank.engine import Engine
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.contributions import contributions
from canarybank.mechanism.mechanism import Mechanism
from canarybank.mechanism.routed import Ask
from canarybank.mechanism.routing import settled
from canarybank.mechanism.table import RouteTable
from canarybank.mechanism.vectors import Vectors
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache, hash_array, hash_json
from canarybank.users import Cohort, Members, Part, run_pass

__all__ = ["StreamedCohort"]

C = TypeVar("C", bound=Cohort)


@dataclass(frozen=True, eq=False)
class StreamedCohort(Generic[C]):
    """A cohort over shards. One pass answers all that is asked, with the bytes that the cohort in memory gives."""

    role: type[C]
    members: Members
    encoder: EncoderRecipe
    engine: Engine
    cache: StageCache | None = None
    progress: Progress = SILENT

    def __len__(self) -> int:
        return len(self.members)

    @property
    def hash(self) -> str:
        """Return the content address of the users, their records and what encodes them."""
        return hash_json(["streamed", self.members.digest, self.encoder.fingerprint])

    def has(self, name: str) -> bool:
        """Say whether the user of that id is in the cohort."""
        return self.members.has(name)

    def restricted(self, asks: Sequence[Ask], mechanism: Mechanism) -> list[csr_array]:
        """Return what is asked, each as a table (users, columns), by one pass over the shards.

        The banks may have different bases; each record is encoded once, and routed once over each base.
        """
        if not asks:
            return []
        function = ShardVotes.of(asks, mechanism, self.encoder.hosted_on(self.engine))
        name, gathered = f"{self.role.__name__.lower()} users", [_Rows(len(self), len(ask.columns)) for ask in asks]
        for part, kept in run_pass(
            name,
            function,
            self.members.parts(),
            self.engine,
            key=function.key,
            cache=self.cache,
            progress=self.progress,
        ):
            for number, rows in enumerate(gathered):
                rows.add(part.positions, *(kept[f"{field}{number}"] for field in ("data", "indices", "indptr")))
        return [rows.table() for rows in gathered]


class _Rows:
    """The rows of one table as they come, shard by shard: of each user a count, of each entry a column and a value."""

    def __init__(self, users: int, columns: int) -> None:
        self._shape = (users, columns)
        self._starts = np.zeros(users + 1, dtype=np.int32)
        """Behind each user's place the number of that user's entries, until all are there."""
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]] = []

    def add(
        self,
        positions: NDArray[np.int64],
        data: NDArray[np.float64],
        indices: NDArray[np.int64],
        indptr: NDArray[np.int64],
    ) -> None:
        """Take the rows of some users, by where these stand."""
        counts = np.diff(indptr)
        self._starts[positions + 1] = counts
        # Copies: what a shard gave lies among the large arrays of its worker, or is a view of a whole file.
        self._parts.append((positions[counts > 0], indices.astype(np.int32), data.copy()))

    def table(self) -> csr_array:
        """Return the table, and let go of the rows."""
        starts = self._starts
        if starts.sum(dtype=np.int64) > np.iinfo(np.int32).max:
            starts = starts.astype(np.int64)
        np.cumsum(starts, dtype=starts.dtype, out=starts)
        columns, values = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1])
        while self._parts:
            positions, own_columns, own_values = self._parts.pop()
            counts = starts[positions + 1] - starts[positions]
            first = np.repeat(starts[positions] - (np.cumsum(counts) - counts), counts)
            places = first + np.arange(len(own_values))
            columns[places], values[places] = own_columns, own_values
        return csr_array((values, columns, starts), shape=self._shape)


@dataclass(frozen=True, eq=False)
class Merged:
    """An ask in the form in which it travels: what is merged into which base, and which columns are looked at."""

    base: int
    entries: NDArray[np.float32]
    places: NDArray[np.int64]
    width: int
    columns: NDArray[np.int64]

    @property
    def key(self) -> list[Any]:
        """Return what the answer depends on, beside the base."""
        return [self.base, hash_array(self.entries), hash_array(self.places), self.width, hash_array(self.columns)]


@dataclass(frozen=True, eq=False)
class ShardVotes:
    """What a pass does with a shard: encode its users, route them over each base, merge each ask, count votes."""

    bases: tuple[Bank, ...]
    asks: tuple[Merged, ...]
    encoder: EncoderRecipe
    k: int
    clip: float
    entry_cap: float | None

    @classmethod
    def of(cls, asks: Sequence[Ask], mechanism: Mechanism, encoder: EncoderRecipe) -> "ShardVotes":
        """Return the function that answers these."""
        bases: dict[str, tuple[int, Bank]] = {}
        merged = []
        for ask in asks:
            bank = ask.bank
            # What is merged stands apart, so that banks that differ in their probes alone share a base.
            hollow = bank.vectors.copy()
            hollow[list(bank.reserved)] = 0.0
            barred = tuple(sorted(set(bank.barred) - set(bank.reserved)))
            key = hash_json([hash_array(hollow), sorted(bank.reserved), barred])
            base, _ = bases.setdefault(key, (len(bases), Bank(hollow, None, tuple(sorted(bank.reserved)), barred)))
            if ask.entries is None:
                places = np.array([each for each in bank.reserved if each not in set(bank.barred)], dtype=np.int64)
                entries, width = bank.vectors[places], bank.size
            else:
                entries, width = ask.entries, bank.size + len(ask.entries)
                places = np.arange(bank.size, width)
            merged.append(Merged(base, entries, places, width, np.asarray(ask.columns, dtype=np.int64)))
        banks = tuple(bank for _, bank in bases.values())
        return cls(banks, tuple(merged), encoder, mechanism.k, mechanism.clip, mechanism.entry_cap)

    @property
    def key(self) -> str:
        """Return the content address of all that the answers depend on but the users."""
        routing = [self.k, self.clip, self.entry_cap, *self.encoder.key]
        return hash_json([[bank.hash for bank in self.bases], [ask.key for ask in self.asks], routing])

    def __call__(self, part: Part) -> dict[str, NDArray[Any]]:
        """Return each answer's rows for the users of a part."""
        users = part.users()
        found: dict[str, NDArray[Any]] = {}
        for number, routes in enumerate(self.encoder.answer(users.require_texts(), self.routes)):
            ask = self.asks[number]
            votes = contributions(routes, users.owners, len(users), ask.width, self.clip, entry_cap=self.entry_cap)[
                :, ask.columns
            ]
            found |= {f"{name}{number}": getattr(votes, name) for name in ("data", "indices", "indptr")}
        return found

    def routes(self, vectors: Vectors, drift: float) -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
        """Yield the routes of records for each ask, and which of them name the same entries within the drift."""
        # One entry more than a route has bounds how far the others are, where the base has one.
        bounded = [drift > 0 and len(bank.open_base) > self.k for bank in self.bases]
        tables = [
            RouteTable.build(vectors, bank, self.k + 1 if more else self.k)
            for bank, more in zip(self.bases, bounded, strict=True)
        ]
        for ask in self.asks:
            table = tables[ask.base]
            positions, distances = table.positions, table.distances
            if len(ask.places):
                positions, distances = table.merge_distances(ask.entries, ask.places)
            if not drift:
                sure = np.ones(len(positions), dtype=bool)
            elif bounded[ask.base]:
                sure = settled(distances[:, self.k - 1 :], drift)
            else:
                sure = np.zeros(len(positions), dtype=bool)
            yield positions[:, : self.k].astype(np.int32), sure  # the tables of all asks may be held at once
