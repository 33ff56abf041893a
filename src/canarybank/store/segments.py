"""Keep arrays in immutable files that are read by memory map and know whether they are whole.

Layout: the magic; the header's length (8 bytes, little-endian); the header, canonical JSON; the header's sha256
(32 bytes); then each array's bytes at an offset that is a multiple of 64. The header says of each array its
type, shape, offset and CRC-32, and carries a small ``meta`` document. An array is checked when it is first asked
for, so opening thousands of segments stays cheap. The CRC guards against broken disks and torn writes, not against a
forger: whoever needs that hashes the file.
"""

import hashlib
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError, StoreError
from canarybank.store.documents import canonical_json, parse_json
from canarybank.store.files import atomic_writer, file_errors
from canarybank.store.hashes import array_bytes

__all__ = ["Segment", "write_segment"]

_MAGIC = b"canarybank segment 1\n"
_ALIGN = 64
_MAP_FROM_BYTES = 4 << 20


def write_segment(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], meta: Any = None, *, durable: bool = False
) -> None:
    """Write named arrays and a small document into one file, whole or not at all.

    Args:
        path: The file.
        arrays: The arrays by name; those of Python objects are refused.
        meta: A small document beside them, as JSON.
        durable: Whether it must survive a loss of power once this returns.

    Example:
        >>> write_segment("written/vectors.segment", {"vectors": np.eye(2)}, {"encoder": "hashing"})
        >>> segment = Segment("written/vectors.segment")
        >>> segment.meta, segment["vectors"].tolist()
        ({'encoder': 'hashing'}, [[1.0, 0.0], [0.0, 1.0]])
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    header = canonical_json({"arrays": _describe(plain), "meta": meta}).encode()
    preamble = _MAGIC + len(header).to_bytes(8, "little") + header + hashlib.sha256(header).digest()
    with atomic_writer(path, durable=durable) as file:
        file.write(preamble + bytes(-len(preamble) % _ALIGN))
        for array in plain.values():
            file.write(array_bytes(array))
            file.write(bytes(-array.nbytes % _ALIGN))


class Segment:
    """One segment file, open for reading; it stays readable even after its name is removed."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._data = _contents(self.path)
        self.size = len(self._data)
        header, self._start = self._header()
        self._described: dict[str, dict[str, Any]] = header["arrays"]
        self.meta = header["meta"]
        self._checked: dict[str, NDArray[Any]] = {}
        if self._end() > self.size:
            raise self._broken("it is cut short")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the arrays, sorted."""
        return tuple(sorted(self._described))

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return an array, read-only and mapped from the file, after checking it the first time."""
        if name not in self._checked:
            described = self._described.get(name)
            if described is None:
                raise self._broken(f"it holds no {name}")
            array = self._array(described)
            if zlib.crc32(array_bytes(array)) != described["crc32"]:
                raise self._broken(f"the checksum of its {name} does not fit")
            self._checked[name] = array
        return self._checked[name]

    def _array(self, described: dict[str, Any]) -> NDArray[Any]:
        shape, dtype = tuple(described["shape"]), np.dtype(described["dtype"])
        count = int(np.prod(shape, dtype=np.int64))
        offset = self._start + described["offset"]
        return np.frombuffer(self._data, dtype, count, offset if count else 0).reshape(shape)

    def _header(self) -> tuple[dict[str, Any], int]:
        begin = len(_MAGIC) + 8
        if self._data[: len(_MAGIC)] != _MAGIC:
            raise self._broken("it does not begin as a segment")
        end = begin + int.from_bytes(self._data[len(_MAGIC) : begin], "little")
        if end > self.size:
            raise self._broken("it is cut short")
        header = bytes(self._data[begin:end])
        if hashlib.sha256(header).digest() != self._data[end : end + 32]:
            raise self._broken("the checksum of its header does not fit")
        preamble = end + 32
        return parse_json(header, self.path), preamble + -preamble % _ALIGN

    def _end(self) -> int:
        return max((self._start + a["offset"] + a["bytes"] for a in self._described.values()), default=self._start)

    def _broken(self, why: str) -> StoreError:
        return StoreError(f"The segment {str(self.path)!r} is broken: {why}; delete it, and it will be made again.")


def _contents(path: Path) -> mmap.mmap | bytes:
    with file_errors(path, "read"), path.open("rb") as file:
        # A map holds a file descriptor, of which a process has few; small files are cheaper read whole.
        if path.stat().st_size < _MAP_FROM_BYTES:
            return file.read()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.hasobject:
        raise InputError(f"The array {name!r} holds Python objects, which a segment cannot keep; convert it first.")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _describe(arrays: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    described: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in arrays.items():
        described[name] = {
            "dtype": array.dtype.str,
            "shape": array.shape,
            "offset": offset,
            "bytes": array.nbytes,
            "crc32": zlib.crc32(array_bytes(array)),
        }
        offset += array.nbytes + -array.nbytes % _ALIGN
    return described
