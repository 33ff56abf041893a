"""Keep one encoder's vectors in a folder that processes share without a lock.

A shelf is a set of segments: immutable files that hold the sha256 of some texts and the vectors of those texts, each
written whole under a name that nobody else uses. So there is nothing to lock. A reader maps the segments that it
finds; a killed writer leaves at most a temporary; two processes that encode the same text leave two rows for it,
of which the segment that sorts first, the older, is read. Each segment carries checksums and the encoder's
fingerprint; one that does not fit is renamed to ``*.corrupt``, and its texts are absent again. Where nothing can be
written, vectors stay in memory. A segment's time of change is when it was last used.

Many millions of texts may lie here: tables on the disk say where each lies (see ``index``), and few segments are open.
"""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.index import SEGMENT_SUFFIX, TextIndex, split_places
from canarybank.encode.protocol import Vectors
from canarybank.encode.tables import KEY, Keys, Places
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

__all__ = ["CORRUPT", "Shelf", "text_keys"]

CORRUPT = "corrupt"
_KEY_BYTES = 32
SMALL_BYTES = 4 << 20
LEAST_JOINED = 64
MOST_JOINED = 128
MOST_OPEN = 128
"""Segments that are open at once: each large one takes a file descriptor, of which a process often has 1,024."""
MOST_SMALL_BYTES = 64 << 20
"""The bytes of small segments that are open at once: each is read whole."""


def text_keys(texts: Sequence[str]) -> list[bytes]:
    """Return the sha256 of each text's UTF-8 bytes."""
    sha256 = hashlib.sha256
    try:
        return [sha256(text.encode()).digest() for text in texts]
    except UnicodeEncodeError:
        return [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]


def _prefixes(keys: NDArray[np.uint8]) -> Keys:
    return np.ascontiguousarray(keys[:, : KEY.itemsize]).view(KEY)[:, 0]


def _key_rows(keys: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, _KEY_BYTES)


_Arrays = tuple[NDArray[np.uint8], Vectors]


class Shelf:
    """One encoder's cached vectors, for one thread of this process."""

    def __init__(self, folder: Path, encoder: str, fingerprint: str, dimension: int) -> None:
        self.folder, self.dimension = folder, dimension
        self._meta = {"encoder": encoder, "fingerprint": fingerprint, "dimension": dimension}
        self._index = TextIndex(folder, fingerprint)
        self._sizes: dict[str, int] = {}
        self._open: dict[str, Segment] = {}
        self._unwritten: dict[str, _Arrays] = {}
        self._seen: set[str] = set()
        self._used: set[str] = set()

    def refresh(self) -> None:
        """Take in the segments that other processes have added."""
        while True:
            present, covered = self._index.refresh()
            new = present - self._seen
            self._know(new & covered)
            if not new - covered:
                return
            for name in sorted(new - covered):
                self._take_in(name)

    def absent(self, keys: Sequence[bytes]) -> list[int]:
        """Return where in the keys each one without a vector stands for the first time."""
        if not keys:
            return []
        prefixes = _prefixes(_key_rows(keys))
        lacking = np.flatnonzero(self._places(prefixes) < 0)
        first: list[int] = np.sort(lacking[np.unique(prefixes[lacking], return_index=True)[1]]).tolist()
        return first

    def get(self, keys: Sequence[bytes]) -> Vectors | None:
        """Return the vectors of the keys, or None where some are absent, or prove corrupt and so become absent."""
        gathered = np.empty((len(keys), self.dimension), dtype=np.float32)
        if not keys:
            return gathered
        wanted = _key_rows(keys)
        places = self._places(_prefixes(wanted))
        if places.min() < 0:
            return None
        names, (numbers, rows), order = self._index.names, split_places(places), np.argsort(places)
        is_whole = True
        for part in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            vectors = self._vectors(names[numbers[part[0]]], rows[part], wanted[part])
            if vectors is None:
                is_whole = False
            else:
                gathered[part] = vectors
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
            name = f"~{len(self._unwritten)}"  # sorts behind every segment
            self._unwritten[name] = rows, vectors
            self._index.add(name, _prefixes(rows), kept=False)

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
        """Join the small segments into one where there are many, the oldest first.

        Of a text's rows only the one that is read goes along, and the new segment sorts where the oldest stood,
        so that no text's vector changes.

        Args:
            least: The fewest small segments that are worth joining.
            small_bytes: A segment of fewer bytes is small.
        """
        small = sorted(name for name, size in self._sizes.items() if size < small_bytes)[:MOST_JOINED]
        if len(small) < least:
            return
        read = {name: arrays for name in small if (arrays := self._arrays_read(name)) is not None}
        joined = None
        if any(len(keys) for keys, _ in read.values()):
            keys, vectors = (np.concatenate(each) for each in zip(*read.values(), strict=True))
            try:
                joined = self._write(keys, vectors, min(int(name.partition("-")[0]) for name in read))
            except StoreError:  # they stay apart
                return
        for name in read:
            self._lose(name)
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()
        if joined is not None:
            self._take_in(joined)

    def _places(self, prefixes: Keys) -> Places:
        """Return the place of each text; where a table cannot be read, the segments that it covers are."""
        while True:
            try:
                return self._index.find(prefixes)
            except StoreError:
                self._forget(self._index.drop_unsound())
                self.refresh()

    def _arrays_read(self, name: str) -> _Arrays | None:
        """Return the rows of a segment that are read, not those of texts that an older segment holds too."""
        arrays = self._arrays(name)
        if arrays is None:
            return None
        keys, vectors = arrays
        numbers, rows = split_places(self._places(_prefixes(keys)))
        if name not in self._sizes:  # another process removed it
            return None
        read = (numbers == self._index.names.index(name)) & (rows == np.arange(len(rows)))
        return keys[read], vectors[read]

    def _write(self, keys: NDArray[np.uint8], vectors: Vectors, written: int | None = None) -> str:
        stamp = time.time_ns() if written is None else written
        name = f"{stamp:020d}-{os.getpid()}-{secrets.token_hex(4)}{SEGMENT_SUFFIX}"
        write_segment(self.folder / name, {"keys": keys, "vectors": vectors}, {**self._meta, "rows": len(keys)})
        return name

    def _take_in(self, name: str) -> None:
        self._seen.add(name)
        segment = self._opened(name)
        if segment is not None:
            self._sizes[name] = segment.size
            self._index.add(name, _prefixes(segment["keys"]))
            self._forget(self._index.settle())

    def _forget(self, names: Collection[str]) -> None:
        """Let go of segments as if they had never been seen; they are taken in again if they are still there."""
        self._seen -= set(names)
        for name in names:
            self._open.pop(name, None)
            self._sizes.pop(name, None)

    def _know(self, names: Collection[str]) -> None:
        """Make the texts of segments present that a table covers; they are opened when one is asked for."""
        self._seen.update(names)
        self._index.know(names)
        for name in names:
            with contextlib.suppress(OSError):
                self._sizes[name] = (self.folder / name).stat().st_size

    def _opened(self, name: str) -> Segment | None:
        """Return a segment, opened again where it was closed, and close those that were long unused.

        None stands for one that is gone, of another encoder, or that cannot be read any more.
        """
        segment = self._open.pop(name, None)
        if segment is None:
            try:
                segment = Segment(self.folder / name)
                rows = len(segment["keys"])
            except StoreError as error:
                self._lose(name, error)
                return None
            # One model may go by two names; the fingerprint tells models apart.
            if {**segment.meta, "encoder": self._meta["encoder"]} != {**self._meta, "rows": rows}:
                self._lose(name)
                _drop(self.folder / name)
                return None
        self._open[name] = segment
        while len(self._open) > MOST_OPEN or (len(self._open) > 1 and self._small_bytes() > MOST_SMALL_BYTES):
            del self._open[next(iter(self._open))]
        return segment

    def _small_bytes(self) -> int:
        return sum(segment.size for segment in self._open.values() if segment.size < SMALL_BYTES)

    def _lose(self, name: str, error: StoreError | None = None) -> None:
        """Make the texts of a segment absent, and let go of it; set it aside where the error says that it is broken."""
        self._open.pop(name, None)
        self._sizes.pop(name, None)
        self._index.forget(name)
        # Otherwise the system could not read it: it was joined or pruned, or too many files are open.
        if error is not None and not isinstance(error.__cause__, OSError):
            _drop(self.folder / name)

    def _arrays(self, name: str) -> _Arrays | None:
        """Return the keys and vectors of a segment; None stands for one that cannot be read any more."""
        if name in self._unwritten:
            return self._unwritten[name]
        segment = self._opened(name)
        if segment is None:
            return None
        try:
            keys, vectors = segment["keys"], segment["vectors"]
        except StoreError as error:
            self._lose(name, error)
            return None
        if name not in self._used:
            self._used.add(name)
            # A shared cache may be read-only; then its owner decides what is old.
            with contextlib.suppress(OSError):
                os.utime(segment.path)
        return keys, vectors

    def _vectors(self, name: str, rows: NDArray[np.int64], wanted: NDArray[np.uint8]) -> Vectors | None:
        """Return some rows of a segment, after checking that they are those of the wanted keys."""
        arrays = self._arrays(name)
        if arrays is None:
            return None
        keys, vectors = arrays
        if rows.max() >= len(keys) or not np.array_equal(keys[rows], wanted):
            self._lose(name)
            return None
        return vectors[rows]


def _drop(path: Path) -> None:
    # In a cache that can only be read, a broken segment stays; it is passed over.
    with contextlib.suppress(StoreError):
        set_aside(path, CORRUPT)
