"""Append small records to a file that says of each line whether it is whole.

A line is a checksum, a space, the record's canonical JSON, and a newline. Processes may append to one log at
once: each append holds the file's lock for its own duration. A kill in the middle of an append leaves a
torn last line; readers pass over it, for its append never returned, and the next append sets it aside in
``NAME.torn``. A line whose checksum does not fit is damage: what that means is the reader's choice.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canarybank.errors import StoreError
from canarybank.store.documents import canonical_json, parse_json
from canarybank.store.files import file_errors, make_folder, open_private, sync_folder, write_atomic
from canarybank.store.locks import flocked

__all__ = ["Log", "LogContents"]

Record = dict[str, Any]
_CHECKSUM_DIGITS = 32
_TAIL_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class LogContents:
    """What a log holds: the whole records in order, the numbers of damaged lines, and whether its last line is torn."""

    records: tuple[Record, ...]
    damaged: tuple[int, ...]
    torn: bool


class Log:
    """A file of checksummed records that only grows."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, *records: Mapping[str, Any], durable: bool = True) -> None:
        """Append records, all or none; once a durable append returns, they survive a loss of power."""
        lines = b"".join(_line(record) for record in records)
        with self._locked() as descriptor, file_errors(self.path):
            end = self._sound_end(descriptor)
            try:
                _write_all(descriptor, lines)
                if durable:
                    os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, end)
                raise

    def read(self) -> LogContents:
        """Read every whole record, and say which lines are damaged."""
        records: list[Record] = []
        damaged: list[int] = []
        *lines, last = self._bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            record = parse_json(line[_CHECKSUM_DIGITS + 1 :], self.path) if _is_whole(line) else None
            if isinstance(record, dict):
                records.append(record)
            else:
                damaged.append(number)
        return LogContents(tuple(records), tuple(damaged), torn=bool(last))

    def records(self) -> tuple[Record, ...]:
        """Read every record of a log in which no line may be damaged, or say which line is."""
        return self.read_whole().records

    def read_whole(self) -> LogContents:
        """Read a log in which no line may be damaged, or say which line is; its last line may be torn."""
        contents = self.read()
        if contents.damaged:
            raise StoreError(
                f"Line {contents.damaged[0]} of {str(self.path)!r} does not fit its checksum: the file was altered "
                "or the disk is failing; restore the file from a copy."
            )
        return contents

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace the whole log with these records, at once or not at all."""
        lines = b"".join(_line(record) for record in records)
        with self._locked():
            write_atomic(self.path, lines)

    def discard(self) -> bool:
        """Remove the log unless another process is writing to it, and say whether it is gone.

        Whoever waits to append finds the file gone and begins another, so no append is lost.
        """
        with file_errors(self.path, "remove"):
            try:
                descriptor = os.open(self.path, os.O_RDWR)
            except FileNotFoundError:
                return True
            try:
                is_free = flocked(descriptor, self.path, wait=False) and _is_still_at(descriptor, self.path)
                if is_free:
                    self.path.unlink()
                return is_free
            finally:
                os.close(descriptor)

    def _bytes(self) -> bytes:
        with file_errors(self.path, "read"):
            try:
                return self.path.read_bytes()
            except FileNotFoundError:
                return b""

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = self._open()
        try:
            flocked(descriptor, self.path, wait=True)
            while not _is_still_at(descriptor, self.path):
                os.close(descriptor)
                descriptor = self._open()
                flocked(descriptor, self.path, wait=True)
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        folder = make_folder(self.path.parent)
        with file_errors(self.path):
            is_new = not self.path.exists()
            descriptor = open_private(self.path, os.O_RDWR | os.O_APPEND)
            if is_new:
                sync_folder(folder)
        return descriptor

    def _sound_end(self, descriptor: int) -> int:
        """Return where the log ends, after setting aside a torn last line."""
        end = os.fstat(descriptor).st_size
        sound = _last_newline(descriptor, end)
        if sound < end:
            torn = os.pread(descriptor, end - sound, sound)
            aside = open_private(self.path.with_name(f"{self.path.name}.torn"), os.O_WRONLY | os.O_APPEND)
            with os.fdopen(aside, "ab") as file:
                file.write(torn + b"\n")
            os.ftruncate(descriptor, sound)
        return sound


def _is_still_at(descriptor: int, path: Path) -> bool:
    # A rewrite puts a new file in the place of the one that we waited for.
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _line(record: Mapping[str, Any]) -> bytes:
    body = canonical_json(dict(record)).encode()
    return _checksum(body) + b" " + body + b"\n"


def _is_whole(line: bytes) -> bool:
    return line[: _CHECKSUM_DIGITS + 1] == _checksum(line[_CHECKSUM_DIGITS + 1 :]) + b" "


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_CHECKSUM_DIGITS].encode()


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _last_newline(descriptor: int, end: int) -> int:
    """Return the offset just past the last newline, reading backwards; 0 where there is none."""
    while end:
        start = max(0, end - _TAIL_BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
