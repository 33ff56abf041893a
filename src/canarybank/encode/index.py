"""Find in which segment, and in which row of it, a shelf holds a text's vector, with memory that does not grow.

Sorted tables say where each text's vector lies. The keys of new segments are held in memory until they are many; then
they are written to a table beside the segments, together with tables that are not much larger, whose place it takes. So
few tables are left (a log-structured merge tree, https://doi.org/10.1007/s002360050048).

A table names the segments that it covers. All processes use each other's tables, and nothing is locked: two tables may
cover the same segment, and a segment that none covers is read itself. A table that is broken is removed, and made again
from the segments.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.tables import HeldTable, Keys, Places, Rows, Table, merge_rows, sort_rows, write_table
from canarybank.errors import StoreError
from canarybank.store import discard

__all__ = ["INDEX_BYTES", "INDEX_SUFFIX", "SEGMENT_SUFFIX", "TextIndex", "split_places"]

SEGMENT_SUFFIX = ".vectors"
INDEX_SUFFIX = ".index"
HELD_ROWS = 1 << 18
"""Keys that are held in memory before they are written to a table."""
MOST_ROWS = 1 << 24
"""Tables do not grow beyond so many rows: merging takes seconds, and processes rarely do the same work."""
INDEX_BYTES = 40 << 20
"""The most memory that a process needs to find vectors: the keys that it holds, three times while they are merged."""
_ROW_BITS = 32
_ATTEMPTS = 5


@dataclass(frozen=True, eq=False)
class _Part:
    """A table, and the names of the segments that it covers, sorted.

    A place in the table is the number of a segment in these, and in the lower 32 bits the row there. A text has a row
    for each segment that holds it, for the oldest one may be removed.
    """

    table: Table | HeldTable
    segments: tuple[str, ...]
    kept: bool = True

    @property
    def name(self) -> str:
        """Return the name of the table's file; one in memory has none, and sorts behind all."""
        return self.table.path.name if isinstance(self.table, Table) else "~"

    @property
    def held(self) -> bool:
        """Return whether the table is in memory."""
        return isinstance(self.table, HeldTable)


class TextIndex:
    """The place of each text of a shelf, for one thread of this process."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder, self._fingerprint = folder, fingerprint
        self._parts: list[_Part] = []
        self._names: list[str] | None = None
        self._numbers: list[NDArray[np.int64]] = []
        self._known: set[str] = set()
        self._on_disk: set[str] = set()
        self._seen: set[str] = set()
        self._useless: set[str] = set()
        self._most_held = HELD_ROWS

    @property
    def names(self) -> list[str]:
        """Return the names of the known segments, sorted; the list does not change when they do."""
        if self._names is None:
            self._names = sorted(self._known)
            self._numbers = [_numbers(part.segments, self._names) for part in self._parts]
        return self._names

    def find(self, keys: Keys) -> Places:
        """Return for each key the number of its segment in ``names`` and in the lower 32 bits the row; -1 if absent.

        A StoreError tells of a table that cannot be read; see ``drop_unsound``.
        """
        order, least = np.argsort(keys), np.full(len(keys), -1, dtype=np.int64).view(np.uint64)
        wanted, _ = keys[order], self.names  # neighbours in a table are found together
        for part, numbers in zip(self._parts, self._numbers, strict=True):
            which, places = part.table.find(wanted)
            np.minimum.at(least, which, _renumber(places, numbers).view(np.uint64))  # -1 is the largest here
        found = np.empty(len(keys), dtype=np.int64)
        found[order] = least.view(np.int64)
        return found

    def add(self, name: str, keys: Keys, *, kept: bool = True) -> None:
        """Take in the keys of a segment; one that is not kept does not lie on the disk."""
        self._known.add(name)
        if kept:
            self._on_disk.add(name)
        self._use([*self._parts, _Part(HeldTable(sort_rows(keys, np.arange(len(keys)))), (name,), kept)])
        while len(held := self._held(kept=kept)) > 1 and len(held[-2].table) < 2 * len(held[-1].table):
            segments, pieces = self._merge(held[-2:])
            others = [part for part in self._parts if part not in held[-2:]]
            self._use([*others, _Part(HeldTable.of(pieces), segments, kept)])

    def forget(self, name: str) -> None:
        """Make the texts of a segment absent."""
        self._known.discard(name)
        self._on_disk.discard(name)
        self._names = None

    def refresh(self) -> tuple[set[str], set[str]]:
        """Take in the tables that other processes have added; return the segments on the disk, and those covered."""
        for _ in range(_ATTEMPTS):
            try:
                names = os.listdir(self._folder)  # noqa: PTH208, names are all that is needed
            except OSError:  # there is no such folder, or nothing in it can be read
                return set(), set()
            self._on_disk = {name for name in names if name.endswith(SEGMENT_SUFFIX)}
            if self._take_in(name for name in names if name.endswith(INDEX_SUFFIX) and name not in self._seen):
                break
        return self._on_disk, self._on_disk & _covered(self._parts)

    def know(self, names: Collection[str]) -> None:
        """Make the texts of covered segments present."""
        self._known.update(names)
        self._names = None

    def settle(self) -> set[str]:
        """Write the keys held in memory to a table where they are many; return what ``drop_unsound`` does.

        Where nothing can be written, they stay in memory.
        """
        if self._rows_held() <= self._most_held:
            return set()
        self.refresh()  # another process may have written them
        held = self._held(kept=True)
        if (total := self._rows_held()) <= self._most_held:
            return set()
        merged = list(held)
        for part in sorted((part for part in self._parts if not part.held), key=lambda part: len(part.table)):
            if len(part.table) < 2 * total and len(part.table) + total <= MOST_ROWS:
                merged.append(part)
                total += len(part.table)
        segments, pieces = self._merge(merged)
        path = self._folder / f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}{INDEX_SUFFIX}"
        try:
            write_table(path, pieces, {"fingerprint": self._fingerprint, "segments": segments})
            self._seen.add(path.name)
            table = Table(path)
        except StoreError:
            self._most_held = max(self._most_held, 2 * self._rows_held())
            return self.drop_unsound()
        self._most_held = HELD_ROWS
        self._use([*(part for part in self._parts if part not in merged), _Part(table, segments)])
        for name in self._useless.union(part.name for part in merged if not part.held):
            discard(self._folder / name)
        self._useless.clear()
        return set()

    def drop_unsound(self) -> set[str]:
        """Let go of the tables that could not be read, and return the segments that no table covers any more."""
        sound = [part for part in self._parts if part.table.is_sound]
        unsound = [part for part in self._parts if not part.table.is_sound]
        for part in unsound:
            discard(self._folder / part.name)
        lost = _covered(unsound) - _covered(sound)
        self._known -= lost
        self._use(sound)
        return lost

    def _use(self, parts: list[_Part]) -> None:
        self._parts, self._names = parts, None

    def _held(self, *, kept: bool) -> list[_Part]:
        """Return the parts in memory, the largest first."""
        held = (part for part in self._parts if part.held and part.kept == kept)
        return sorted(held, key=lambda part: -len(part.table))

    def _rows_held(self) -> int:
        return sum(len(part.table) for part in self._held(kept=True))

    def _merge(self, parts: Sequence[_Part]) -> tuple[tuple[str, ...], Iterator[Rows]]:
        """Return the segments of some parts that still are, and the rows of them in one order."""
        living = self._known | self._on_disk
        names = sorted({name for part in parts for name in part.segments if name in living})
        return tuple(names), merge_rows(_renumbered(part, names) for part in parts)

    def _take_in(self, names: Iterator[str]) -> bool:
        """Use new tables, and let go of those that are of no use beside others; say whether all were still there."""
        new, is_whole = [], True
        for name in names:
            path = self._folder / name
            try:
                table = Table(path)
            except StoreError as error:
                if isinstance(error.__cause__, OSError):  # merged or pruned, or too many files are open
                    is_whole = False
                else:
                    discard(path)
                    self._seen.add(name)
                continue
            self._seen.add(name)
            if table.meta["fingerprint"] != self._fingerprint:
                discard(path)
                continue
            new.append(_Part(table, tuple(table.meta["segments"])))
            with contextlib.suppress(OSError):  # it is used now
                os.utime(path)
        if new:
            self._choose([*self._parts, *new])
        return is_whole

    def _choose(self, parts: list[_Part]) -> None:
        """Use the parts that cover a living segment which those before them do not, those that cover most first.

        All processes agree on the order, and so remove no table that another one relies on.
        """
        living, covered, chosen = self._known | self._on_disk, set[str](), []
        alive = {part: living.intersection(part.segments) for part in parts}
        for part in sorted(parts, key=lambda part: (-len(alive[part]), part.name)):
            if not alive[part] <= covered:
                covered |= alive[part]
                chosen.append(part)
            elif not part.held:
                self._useless.add(part.name)
        self._use(chosen)


def _covered(parts: Iterable[_Part]) -> set[str]:
    return set(chain.from_iterable(part.segments for part in parts))


def split_places(places: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each place's segment, and the row there."""
    return places >> _ROW_BITS, places & ((1 << _ROW_BITS) - 1)


def _numbers(segments: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Return each segment's number in the names, or -1."""
    number = {name: position for position, name in enumerate(names)}
    return np.array([number.get(name, -1) for name in segments], dtype=np.int64)


def _renumber(places: Places, numbers: NDArray[np.int64]) -> Places:
    """Return places with other numbers for their segments, and -1 where there is none."""
    old, rows = split_places(places)
    new = numbers[old]
    return np.where(new < 0, -1, new << _ROW_BITS | rows)


def _renumbered(part: _Part, names: Sequence[str]) -> Iterator[Rows]:
    numbers = _numbers(part.segments, names)
    for rows in part.table.pieces():
        places = _renumber(rows["place"], numbers)
        present = places >= 0
        piece = rows[present]
        piece["place"] = places[present]
        yield piece
