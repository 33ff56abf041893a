"""Keep one encoder's vectors in a folder that processes share without a lock.

A shelf is a set of segments: immutable files that hold the sha256 of some texts and the vectors of those texts, each
written whole under a name that nobody else uses. So there is nothing to lock. A reader maps the segments that it
finds; a killed writer leaves at most a temporary; two processes that encode the same text leave two rows for it,
of which the segment that sorts first, the older, is read. Each segment carries checksums and the encoder's
fingerprint; one that does not fit is renamed to ``*.corrupt``, and its texts are absent again. Where nothing can be
written, vectors stay in memory. A segment's time of change is when it was last used.

Many millions of texts may lie here: a process keeps 24 bytes of each in memory, and few segments open at a time.
"""

import contextlib
import hashlib
import math
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.protocol import Vectors
from canarybank.errors import InputError, StoreError
from canarybank.store import (
    Segment,
    go_on_without,
    private_folder,
    set_aside,
    sweep_temporaries,
    write_atomic,
    write_segment,
)

__all__ = ["CORRUPT", "INDEX_BYTES", "SEGMENT_SUFFIX", "Shelf", "text_keys"]

SEGMENT_SUFFIX = ".vectors"
CORRUPT = "corrupt"
_KEY_BYTES = 32
SMALL_BYTES = 4 << 20
LEAST_JOINED = 64
MOST_OPEN = 128
"""Large segments that are open at once: each takes a file descriptor, of which a process often has 1,024."""
_PREFIX = "S16"
"""The half of a key by which rows are found; nobody finds a text with the half of a given one."""
INDEX_BYTES = 24
"""The memory that a process needs to know where a text's vector lies: half a key, and a number."""


def text_keys(texts: Sequence[str]) -> list[bytes]:
    """Return the sha256 of each text's UTF-8 bytes."""
    sha256 = hashlib.sha256
    try:
        return [sha256(text.encode()).digest() for text in texts]
    except UnicodeEncodeError:
        return [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]


@dataclass(frozen=True)
class _Unwritten:
    """Vectors that could not be written, in the place of their segment."""

    path: Path
    arrays: Mapping[str, NDArray[Any]]
    size: float = math.inf

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]


@dataclass(frozen=True)
class _Closed:
    """A segment that is opened when it is asked for."""

    path: Path
    size: float


class _Index:
    """The row of each text, in a few sorted tables; a dictionary would take six times the memory.

    A new table is merged into the one before it, unless that is eight times as large.
    """

    def __init__(self) -> None:
        self._tables: list[tuple[NDArray[np.bytes_], NDArray[np.int64]]] = []

    def __len__(self) -> int:
        return sum(len(keys) for keys, _ in self._tables)

    def rows(self, keys: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Return the row of each key, and -1 for those that are absent."""
        found, order = np.full(len(keys), -1, dtype=np.int64), np.argsort(keys)
        wanted = keys[order]  # neighbours in a table are found together
        for known, rows in self._tables:
            places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            present = known[places] == wanted
            found[order[present]] = rows[places[present]]
        return found

    def add(self, keys: NDArray[np.bytes_], first: int) -> None:
        """Take in the keys of rows that are numbered from ``first`` on; a key that is known keeps its row."""
        absent = np.flatnonzero(self.rows(keys) < 0)
        fresh, places = np.unique(keys[absent], return_index=True)
        if not len(fresh):
            return
        self._tables.append((fresh, first + absent[places]))
        while len(self._tables) > 1 and len(self._tables[-2][0]) < 8 * len(self._tables[-1][0]):
            (small, small_rows), (large, large_rows) = self._tables.pop(), self._tables.pop()
            between = np.searchsorted(large, small)
            self._tables.append((np.insert(large, between, small), np.insert(large_rows, between, small_rows)))

    def forget(self, start: int, stop: int) -> None:
        """Make the keys of these rows absent."""
        kept = [(keys, rows, (rows < start) | (rows >= stop)) for keys, rows in self._tables]
        self._tables = [(keys[which], rows[which]) for keys, rows, which in kept if which.any()]


def _prefixes(keys: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    return np.ascontiguousarray(keys[:, : np.dtype(_PREFIX).itemsize]).view(_PREFIX)[:, 0]


def _key_rows(keys: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, _KEY_BYTES)


class Shelf:
    """One encoder's cached vectors, for one thread of this process."""

    def __init__(self, folder: Path, encoder: str, fingerprint: str, dimension: int) -> None:
        self.folder, self.dimension = folder, dimension
        self._meta = {"encoder": encoder, "fingerprint": fingerprint, "dimension": dimension}
        self._index = _Index()
        self._segments: list[Segment | _Unwritten | _Closed] = []
        self._starts: list[int] = [0]
        self._open: dict[int, None] = {}
        self._seen: set[str] = set()
        self._used: set[int] = set()

    def __len__(self) -> int:
        return len(self._index)

    def refresh(self) -> None:
        """Take in the segments that other processes have added."""
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.suffix == SEGMENT_SUFFIX)
        except OSError:  # there is no such folder, or nothing in it can be read
            return
        for path in paths:
            if path.name not in self._seen:
                self._take_in(path)

    def absent(self, keys: Sequence[bytes]) -> list[int]:
        """Return where in the keys each one without a vector stands for the first time."""
        if not keys:
            return []
        prefixes = _prefixes(_key_rows(keys))
        lacking = np.flatnonzero(self._index.rows(prefixes) < 0)
        first: list[int] = np.sort(lacking[np.unique(prefixes[lacking], return_index=True)[1]]).tolist()
        return first

    def get(self, keys: Sequence[bytes]) -> Vectors | None:
        """Return the vectors of the keys, or None where some are absent, or prove corrupt and so become absent."""
        gathered = np.empty((len(keys), self.dimension), dtype=np.float32)
        if not keys:
            return gathered
        rows = self._index.rows(_prefixes(_key_rows(keys)))
        if rows.min() < 0:
            return None
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        is_whole = True
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            vectors = self._vectors(number)
            if vectors is None:
                is_whole = False
                continue
            part = order[cuts[number] : cuts[number + 1]]
            gathered[part] = vectors[rows[part] - self._starts[number]]
        return gathered if is_whole else None

    def put(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Write the vectors of these keys to the disk as a segment, and take it in; keep them where that fails."""
        if vectors.shape != (len(keys), self.dimension) or vectors.dtype != np.float32:
            raise InputError(
                f"The encoder {self._meta['encoder']!r} gave {vectors.dtype} {vectors.shape} for {len(keys)} texts; "
                f"it must give float32 {(len(keys), self.dimension)}."
            )
        rows = _key_rows(keys)
        try:
            private_folder(self.folder)
            sweep_temporaries(self.folder)
            self._take_in(self._write(rows, vectors))
        except StoreError:
            go_on_without(self.folder)
            self._add(_Unwritten(self.folder, {"keys": rows, "vectors": vectors}))

    def check_writable(self) -> None:
        """Warn now where nothing can be written, whatever is absent or not."""
        probe = self.folder / f"probe-{secrets.token_hex(4)}"
        try:
            private_folder(self.folder)
            write_atomic(probe, b"probe", durable=False)
        except StoreError:
            go_on_without(self.folder)
        with contextlib.suppress(OSError):
            probe.unlink()

    def compact(self, *, least: int = LEAST_JOINED, small_bytes: int = SMALL_BYTES) -> None:
        """Join the small segments into one where there are many.

        Of a text's rows only the one that is read goes along, and the new segment sorts where the oldest stood,
        so that no text's vector changes.

        Args:
            least: The fewest small segments that are worth joining.
            small_bytes: A segment of fewer bytes is small.
        """
        small = [number for number, segment in enumerate(self._segments) if segment.size < small_bytes]
        if len(small) < least:
            return
        sound = {
            number: segment
            for number in small
            if (segment := self._opened(number)) and self._vectors(number) is not None
        }
        read = [(segment, rows) for number, segment in sound.items() if len(rows := self._rows_read(number, segment))]
        joined = None
        if read:
            keys, vectors = (
                np.concatenate([segment[name][rows] for segment, rows in read]) for name in ("keys", "vectors")
            )
            oldest = min(int(segment.path.name.partition("-")[0]) for segment in sound.values())
            try:
                joined = self._write(keys, vectors, oldest)
            except StoreError:  # they stay apart
                return
        for number, segment in sound.items():
            self._lose(number)
            with contextlib.suppress(OSError):
                segment.path.unlink()
        if joined is not None:
            self._take_in(joined)

    def _rows_read(self, number: int, segment: Segment | _Unwritten) -> NDArray[np.int64]:
        """Return the rows of a segment that are read, not those of texts that an older segment holds too."""
        rows = self._index.rows(_prefixes(segment["keys"]))
        return np.flatnonzero(rows == self._starts[number] + np.arange(len(rows)))

    def _write(self, keys: NDArray[np.uint8], vectors: Vectors, written: int | None = None) -> Path:
        stamp = time.time_ns() if written is None else written
        path = self.folder / f"{stamp:020d}-{os.getpid()}-{secrets.token_hex(4)}{SEGMENT_SUFFIX}"
        write_segment(path, {"keys": keys, "vectors": vectors}, {**self._meta, "rows": len(keys)})
        return path

    def _take_in(self, path: Path) -> None:
        self._seen.add(path.name)
        try:
            segment = Segment(path)
            rows = len(segment["keys"])
        except StoreError as error:
            _drop_broken(path, error)
            return
        # One model may go by two names; the fingerprint tells models apart.
        if {**segment.meta, "encoder": self._meta["encoder"]} == {**self._meta, "rows": rows}:
            self._add(segment)
        else:
            _drop(path)

    def _add(self, segment: Segment | _Unwritten) -> None:
        number, start, keys = len(self._segments), self._starts[-1], segment["keys"]
        self._index.add(_prefixes(keys), start)
        self._segments.append(segment)
        self._starts.append(start + len(keys))
        self._opened(number)

    def _opened(self, number: int) -> Segment | _Unwritten | None:
        """Return a segment; where it was closed, it is opened again, and a large one that was long unused is closed.

        None stands for one that is gone, or that cannot be read any more.
        """
        segment = self._segments[number]
        if isinstance(segment, _Closed):
            if math.isinf(segment.size):
                return None
            try:
                segment = Segment(segment.path)
            except StoreError as error:
                _drop_broken(segment.path, error)
                self._lose(number)
                return None
            self._segments[number] = segment
        if isinstance(segment, Segment) and segment.size >= SMALL_BYTES:  # the others are read whole, and joined soon
            self._open.pop(number, None)
            self._open[number] = None
            while len(self._open) > MOST_OPEN:
                oldest = next(iter(self._open))
                del self._open[oldest]
                self._segments[oldest] = _Closed(self._segments[oldest].path, self._segments[oldest].size)
        return segment

    def _lose(self, number: int) -> None:
        """Make the texts of a segment absent, and let go of it."""
        self._open.pop(number, None)
        self._segments[number] = _Closed(self._segments[number].path, math.inf)
        self._index.forget(self._starts[number], self._starts[number + 1])

    def _vectors(self, number: int) -> Vectors | None:
        segment = self._opened(number)
        if segment is None:
            return None
        try:
            vectors: Vectors = segment["vectors"]
        except StoreError as error:
            _drop_broken(segment.path, error)
            self._lose(number)
            return None
        if number not in self._used:
            self._used.add(number)
            # A shared cache may be read-only; then its owner decides what is old.
            with contextlib.suppress(OSError):
                os.utime(segment.path)
        return vectors


def _drop_broken(path: Path, error: StoreError) -> None:
    """Set a segment aside, unless the system could not read it: it was joined or pruned, or too many files are open."""
    if not isinstance(error.__cause__, OSError):
        _drop(path)


def _drop(path: Path) -> None:
    # In a cache that can only be read, a broken segment stays; it is passed over.
    with contextlib.suppress(StoreError):
        set_aside(path, CORRUPT)
