"""Keep sorted rows of a key and a place in immutable files, and find keys there with little memory.

Layout: the magic; blocks of rows, sorted by key; the footer; its length (8 bytes, little-endian) and its sha256. The
footer holds the number of blocks, the first key and the CRC-32 of each, and a small document as canonical JSON. So a
reader keeps 20 bytes a block, and reads and checks only the blocks in which a wanted key may lie. This is the "sorted
string table" of Bigtable (https://doi.org/10.1145/1365815.1365816).
"""

import hashlib
import os
import weakref
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import StoreError
from canarybank.store import atomic_writer, canonical_json, file_errors, parse_json

__all__ = ["KEY", "HeldTable", "Keys", "Places", "Rows", "Table", "merge_rows", "sort_rows", "write_table"]

KEY = np.dtype("S16")
"""The half of a text's sha256 by which rows are found; nobody finds a text with the half of a given one."""
_ROW = np.dtype([("key", KEY), ("place", "<i8")])
BLOCK_ROWS = 2048
_BLOCKS_TOGETHER = 16
_MAGIC = b"canarybank table 1\n"
_TRAILER = 8 + 32

Keys = NDArray[np.bytes_]
Places = NDArray[np.int64]
Rows = NDArray[np.void]
Found = tuple[NDArray[np.int64], Places]


def sort_rows(keys: Keys, places: Places) -> Rows:
    """Return rows sorted by key; a key may stand in several."""
    order = np.argsort(keys, kind="stable")
    rows = np.empty(len(keys), dtype=_ROW)
    rows["key"], rows["place"] = keys[order], places[order]
    return rows


def merge_rows(sources: Iterable[Iterable[Rows]]) -> Iterator[Rows]:
    """Yield the rows of sorted sources as one sorted source, holding a piece of each."""
    heads = [(head, rest) for rest in map(iter, sources) if (head := _next_piece(rest)) is not None]
    while heads:
        bound = min(head["key"][-1] for head, _ in heads)
        cuts = [int(np.searchsorted(head["key"], bound, side="right")) for head, _ in heads]
        pieces = np.concatenate([head[:cut] for (head, _), cut in zip(heads, cuts, strict=True)])
        yield sort_rows(pieces["key"], pieces["place"])
        left = [
            (head[cut:] if cut < len(head) else _next_piece(rest), rest)
            for (head, rest), cut in zip(heads, cuts, strict=True)
        ]
        heads = [(head, rest) for head, rest in left if head is not None]


def _next_piece(source: Iterator[Rows]) -> Rows | None:
    return next((piece for piece in source if len(piece)), None)


def _find(rows: Rows, wanted: Keys) -> Found:
    """Return all rows with one of these sorted keys: the number of the key, and the place."""
    if not len(rows):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    keys = np.ascontiguousarray(rows["key"])
    begins = np.searchsorted(keys, wanted)
    ends = begins + (keys.take(begins, mode="clip") == wanted)
    more = np.flatnonzero(keys.take(ends, mode="clip") == wanted)  # few keys have several rows
    ends[more] = np.searchsorted(keys, wanted[more], side="right")
    which, at = _spans(begins, ends)
    return which, rows["place"][at]


def _spans(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for every position in any of these spans the number of the span, and the position."""
    counts = ends - begins
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) + (begins - np.cumsum(counts) + counts)[which]


@dataclass(frozen=True, eq=False)
class HeldTable:
    """Sorted rows in memory, to be used as a ``Table`` is."""

    rows: Rows
    is_sound: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, wanted: Keys) -> Found:
        """Return all rows with one of these sorted keys: the number of the key, and the place."""
        return _find(self.rows, wanted)

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows, so many at a time as a block holds."""
        return _blocks([self.rows])

    @classmethod
    def of(cls, pieces: Iterable[Rows]) -> Self:
        """Return the table of sorted rows that come in pieces."""
        return cls(np.concatenate([np.empty(0, dtype=_ROW), *pieces]))


def write_table(path: Path, pieces: Iterable[Rows], meta: Any) -> None:
    """Write sorted rows, which come in pieces, and a small document into a file, whole or not at all."""
    total, first, sums = 0, [], []
    with atomic_writer(path, durable=False) as file:
        file.write(_MAGIC)
        for block in _blocks(pieces):
            data = block.tobytes()
            file.write(data)
            total += len(block)
            first.append(block["key"][:1].tobytes())
            sums.append(zlib.crc32(data))
        document = canonical_json({"rows": total, "block": BLOCK_ROWS, "meta": meta}).encode()
        footer = b"".join((len(sums).to_bytes(8, "little"), *first, np.array(sums, dtype="<u4").tobytes(), document))
        file.write(footer + len(footer).to_bytes(8, "little") + hashlib.sha256(footer).digest())


def _blocks(pieces: Iterable[Rows]) -> Iterator[Rows]:
    """Yield the rows of all pieces, so many at a time as a block holds, and those left over."""
    left = np.empty(0, dtype=_ROW)
    for piece in pieces:
        left = np.concatenate((left, piece))
        whole = len(left) - len(left) % BLOCK_ROWS
        yield from np.split(left[:whole], range(BLOCK_ROWS, whole, BLOCK_ROWS)) if whole else ()
        left = left[whole:]
    if len(left):
        yield left


class Table:
    """A file of sorted rows, open for reading; it stays readable even after its name is removed.

    A StoreError of any method leaves ``is_sound`` false: it is broken, or the system cannot read it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.is_sound = path, True
        with file_errors(path, "read"):
            self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        size = os.fstat(self._file).st_size
        trailer = self._read(size - _TRAILER, _TRAILER)
        length = int.from_bytes(trailer[:8], "little")
        footer = self._read(size - _TRAILER - length, length)
        if hashlib.sha256(footer).digest() != trailer[8:] or self._read(0, len(_MAGIC)) != _MAGIC:
            raise self._broken("its checksum does not fit")
        blocks = int.from_bytes(footer[:8], "little")
        end = 8 + blocks * (KEY.itemsize + 4)
        self._first: Keys = np.frombuffer(footer, KEY, blocks, 8)
        self._sums = np.frombuffer(footer, "<u4", blocks, end - 4 * blocks)
        document = parse_json(footer[end:], path)
        self._rows, self._block_rows, self.meta = (document[name] for name in ("rows", "block", "meta"))

    def __len__(self) -> int:
        return int(self._rows)

    def find(self, wanted: Keys) -> Found:
        """Return all rows with one of these sorted keys: the number of the key, and the place."""
        # A key may lie in the last block that begins below it, and in all that begin with it.
        begins = np.maximum(np.searchsorted(self._first, wanted) - 1, 0)
        _, blocks = _spans(begins, np.searchsorted(self._first, wanted, side="right"))
        numbers = np.unique(blocks).tolist()
        which, places = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for at in range(0, len(numbers), _BLOCKS_TOGETHER):
            rows = np.concatenate([self._block(number) for number in numbers[at : at + _BLOCKS_TOGETHER]])
            start = np.searchsorted(wanted, rows["key"][0])
            stop = np.searchsorted(wanted, rows["key"][-1], side="right")
            some, found = _find(rows, wanted[start:stop])
            which.append(start + some)
            places.append(found)
        return np.concatenate(which), np.concatenate(places)

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows, a block at a time."""
        return map(self._block, range(len(self._first)))

    def _block(self, number: int) -> Rows:
        begin = number * self._block_rows
        count = min(self._block_rows, self._rows - begin)
        data = self._read(len(_MAGIC) + begin * _ROW.itemsize, count * _ROW.itemsize)
        if zlib.crc32(data) != self._sums[number]:
            raise self._broken("the checksum of a block does not fit")
        return np.frombuffer(data, _ROW)

    def _read(self, offset: int, length: int) -> bytes:
        # Not by memory map, whose pages would count as this process's; nor by a position, which forks share.
        try:
            with file_errors(self.path, "read"):
                data = os.pread(self._file, length, offset) if offset >= 0 else b""
        except StoreError:
            self.is_sound = False
            raise
        if len(data) < length or offset < 0:
            raise self._broken("it is cut short")
        return data

    def _broken(self, why: str) -> StoreError:
        self.is_sound = False
        return StoreError(f"The table {str(self.path)!r} is broken: {why}; delete it, and it will be made again.")
