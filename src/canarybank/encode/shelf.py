"""Keep one encoder's vectors in a folder that processes share without a lock.

A shelf is a set of segments: immutable files that hold the sha256 of some texts and the vectors of those texts, each
written whole under a name that nobody else uses. So there is nothing to lock. A reader maps the segments that it
finds; a killed writer leaves at most a temporary; two processes that encode the same text leave two rows for it,
of which the segment that sorts first, the older, is read. Each segment carries checksums and the encoder's
fingerprint; one that does not fit is renamed to ``*.corrupt``, and its texts are absent again. Where nothing can be
written, vectors stay in memory. A segment's time of change is when it was last used.
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

__all__ = ["CORRUPT", "SEGMENT_SUFFIX", "Shelf", "text_keys"]

SEGMENT_SUFFIX = ".vectors"
CORRUPT = "corrupt"
_KEY_BYTES = 32
SMALL_BYTES = 4 << 20
LEAST_JOINED = 64


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


class Shelf:
    """One encoder's cached vectors, for one thread of this process."""

    def __init__(self, folder: Path, encoder: str, fingerprint: str, dimension: int) -> None:
        self.folder, self.dimension = folder, dimension
        self._meta = {"encoder": encoder, "fingerprint": fingerprint, "dimension": dimension}
        self._index: dict[bytes, int] = {}
        self._segments: list[Segment | _Unwritten] = []
        self._starts: list[int] = [0]
        self._seen: set[str] = set()
        self._used: set[int] = set()
        self._joined: set[int] = set()

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
        first: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            if key not in self._index:
                first.setdefault(key, position)
        return list(first.values())

    def get(self, keys: Sequence[bytes]) -> Vectors | None:
        """Return the vectors of the keys, or None where some are absent, or prove corrupt and so become absent."""
        try:
            rows = np.fromiter(map(self._index.__getitem__, keys), dtype=np.int64, count=len(keys))
        except KeyError:
            return None
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        gathered = np.empty((len(keys), self.dimension), dtype=np.float32)
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
        rows = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, _KEY_BYTES)
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
        """Join the small segments into one where there are many; what this process has taken in stays valid.

        Of a text's rows only the one that is read goes along, and the new segment sorts where the oldest stood,
        so that no text's vector changes.

        Args:
            least: The fewest small segments that are worth joining.
            small_bytes: A segment of fewer bytes is small.
        """
        small = [
            number
            for number, segment in enumerate(self._segments)
            if segment.size < small_bytes and number not in self._joined
        ]
        if len(small) < least:
            return
        sound = [number for number in small if self._vectors(number) is not None]
        self._joined.update(small)
        if read := [(number, rows) for number in sound if len(rows := self._rows_read(number))]:
            keys = np.concatenate([self._segments[number]["keys"][rows] for number, rows in read])
            vectors = np.concatenate([self._segments[number]["vectors"][rows] for number, rows in read])
            oldest = min(int(self._segments[number].path.name.partition("-")[0]) for number in sound)
            try:
                self._seen.add(self._write(keys, vectors, oldest).name)
            except StoreError:  # they stay apart
                return
        for number in sound:
            with contextlib.suppress(OSError):
                self._segments[number].path.unlink()

    def _rows_read(self, number: int) -> list[int]:
        """Return the rows of a segment that are read, not those of texts that an older segment holds too."""
        keys, start = self._segments[number]["keys"].tobytes(), self._starts[number]
        places = range(0, len(keys), _KEY_BYTES)
        return [row for row, at in enumerate(places) if self._index.get(keys[at : at + _KEY_BYTES]) == start + row]

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
            # Another process may have joined or pruned the segment since it was listed.
            if not isinstance(error.__cause__, FileNotFoundError):
                _drop(path)
            return
        # One model may go by two names; the fingerprint tells models apart.
        if {**segment.meta, "encoder": self._meta["encoder"]} == {**self._meta, "rows": rows}:
            self._add(segment)
        else:
            _drop(path)

    def _add(self, segment: Segment | _Unwritten) -> None:
        keys, start = segment["keys"].tobytes(), self._starts[-1]
        for row, place in enumerate(range(0, len(keys), _KEY_BYTES), start=start):
            self._index.setdefault(keys[place : place + _KEY_BYTES], row)
        self._segments.append(segment)
        self._starts.append(start + len(keys) // _KEY_BYTES)

    def _vectors(self, number: int) -> Vectors | None:
        segment = self._segments[number]
        try:
            vectors: Vectors = segment["vectors"]
        except StoreError:
            _drop(segment.path)
            start, stop = self._starts[number], self._starts[number + 1]
            self._index = {key: row for key, row in self._index.items() if not start <= row < stop}
            return None
        if number not in self._used:
            self._used.add(number)
            # A shared cache may be read-only; then its owner decides what is old.
            with contextlib.suppress(OSError):
                os.utime(segment.path)
        return vectors


def _drop(path: Path) -> None:
    # In a cache that can only be read, a broken segment stays; it is passed over.
    with contextlib.suppress(StoreError):
        set_aside(path, CORRUPT)
