"""Keep every record's nearest base entries, so that swapping probes in costs a merge and not a new search."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.cores import free_cores, over_cores
from canarybank.mechanism.routing import nearest, rank_places, route
from canarybank.mechanism.scan import Scan, parts, precision
from canarybank.mechanism.vectors import Vectors, check_dimensions, check_vectors, norms, squared_distances
from canarybank.progress import SILENT, Progress

__all__ = ["RouteTable"]

MERGED_VALUES = 1 << 20
"""Records are scored against few entries so many values at a time: few enough to stay in a processor's cache."""


@dataclass(frozen=True, eq=False)
class RouteTable:
    """Each record's k nearest base entries, nearest first, with their distances.

    Reserved positions are left out of the base, so whatever stands there is merged in by ``swap``: a base entry
    that is not among a record's k nearest base entries can never enter its route. Barred entries are left out too.
    """

    records: Vectors
    bank: Bank
    positions: NDArray[np.int64]
    distances: NDArray[np.float64]
    """Squared Euclidean distances in float64, shape (n, k), in the order of ``positions``."""

    def __post_init__(self) -> None:
        for column in (self.positions, self.distances):
            column.setflags(write=False)

    @classmethod
    def build(
        cls, records: ArrayLike, bank: Bank, k: int, progress: Progress = SILENT, *, device: str | None = None
    ) -> "RouteTable":
        """Search the base of a bank once for each record's k nearest entries, on a torch device where one is given."""
        vectors = check_vectors(records, "record")
        entries = bank.open_base
        if not 1 <= k <= len(entries):
            raise InputError(
                f"k is {k}, but the bank has {len(entries)} entries that are neither reserved nor barred; "
                "k must lie between 1 and that."
                if bank.barred
                else f"k is {k}, but the bank has {len(entries)} entries that are not reserved; "
                "k must lie between 1 and that."
            )
        positions = entries[nearest(vectors, bank.vectors[entries], k, progress, device=device)]
        rows = np.repeat(np.arange(len(vectors)), k)
        distances = squared_distances(vectors, bank.vectors, rows, positions.ravel())
        return cls(vectors, bank, positions, distances.reshape(positions.shape))

    @property
    def k(self) -> int:
        """Return the length of each record's list."""
        return int(self.positions.shape[1])

    def require_k(self, k: int) -> None:
        """Refuse routes longer than the table's."""
        if k > self.k:
            raise InputError(
                f"The mechanism routes to k = {k} entries but the table keeps {self.k}; build it with k = {k}."
            )

    def swap(self, bank: Bank) -> NDArray[np.int64]:
        """Return the routes over a bank that shares the table's base: exactly ``route(records, bank, k)``.

        Whatever stands at the bank's reserved positions, probe or not, is merged in, unless it is barred. A bank that
        bars other base entries than the table's is searched anew.
        """
        self._check_shares_base(bank)
        if not np.array_equal(bank.open_base, self.bank.open_base):
            return route(self.records, bank, self.k)
        places = np.array([place for place in bank.reserved if place not in bank.barred], dtype=np.int64)
        return self.merge(bank.vectors[places], places) if len(places) else self.positions.copy()

    def merge(self, entries: ArrayLike, places: ArrayLike) -> NDArray[np.int64]:
        """Return each record's k nearest among the base and these further entries, numbered by ``places``.

        The places must not be base positions; they may lie beyond the bank. Ties go to the lowest number.
        """
        return self.merge_distances(entries, places)[0]

    def merge_distances(self, entries: ArrayLike, places: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return what ``merge`` returns, and the squared distances in the same order."""
        vectors, numbers = check_vectors(entries, "merged entry"), np.asarray(places, dtype=np.int64)
        check_dimensions(self.records, vectors, "merged entries")
        self._check_places(numbers, len(vectors))
        rows, columns = self.within_reach(vectors)
        positions, distances = self.positions.copy(), self.distances.copy()
        touched = rows[np.diff(rows, prepend=-1) > 0]
        if len(touched):
            owners = np.concatenate((np.repeat(touched, self.k), rows))
            ids = np.concatenate((self.positions[touched].ravel(), numbers[columns]))
            own = squared_distances(self.records, vectors, rows, columns)
            own = np.concatenate((self.distances[touched].ravel(), own))
            chosen = rank_places(owners, ids, own, self.k)
            positions[touched], distances[touched] = ids[chosen], own[chosen]
        return positions, distances

    def within_reach(self, entries: Vectors) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all pairs (record, entry) but those that are certainly farther than the record's k-th base entry."""
        scan = Scan.of(entries, precision(self._lengths, entries))
        most = np.finfo(scan.dtype).max
        threshold = np.minimum(self._reach + scan.margin(self._lengths), most).astype(scan.dtype)

        def search(part: slice) -> NDArray[np.int64]:
            near = np.flatnonzero(scan.scores(self.records[part]) <= threshold[part, None])
            return np.asarray(near + part.start * len(entries))

        slices = parts(len(self.records), max(entries.shape), MERGED_VALUES, at_once=free_cores())
        found = over_cores(search, list(slices))
        rows, columns = np.divmod(np.concatenate(found), len(entries))
        return rows, columns

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        return norms(self.records)

    @cached_property
    def _reach(self) -> NDArray[np.float64]:
        return self.distances[:, -1] - np.square(self._lengths)

    def _check_places(self, places: NDArray[np.int64], count: int) -> None:
        if places.shape != (count,):
            raise InputError(f"There are {places.size} places for {count} merged entries; each needs one of its own.")
        if len(np.unique(places)) != count:
            raise InputError("A place is given twice; each merged entry needs one of its own.")
        taken = np.isin(places, self.bank.base)
        if taken.any():
            raise InputError(
                f"The place {int(places[np.argmax(taken)])} is a base position, which keeps its own entry; "
                "use reserved positions or numbers beyond the bank."
            )

    def _check_shares_base(self, bank: Bank) -> None:
        if bank.vectors.shape != self.bank.vectors.shape or set(bank.reserved) != set(self.bank.reserved):
            raise InputError(
                f"{bank!r} does not reserve the same positions as the table's {self.bank!r}, or is of another size; "
                "build a new table for it."
            )
        differs = (bank.vectors != self.bank.vectors).any(axis=1)
        if differs[bank.base].any():
            raise InputError("The bank differs from the table's outside the reserved positions; build a new table.")
