"""Write files whole or not at all, and say in a sentence why the system refused.

A file appears under its name only when all of it is on disk: it is written beside its place under a temporary
name, flushed to the disk, and renamed. A kill at any moment leaves the old file or the new one, and at worst a
temporary that ``sweep_temporaries`` removes.
"""

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from canarybank.errors import DataError, StoreError

__all__ = [
    "atomic_writer",
    "file_errors",
    "make_folder",
    "require_file",
    "set_aside",
    "sweep_temporaries",
    "sync_folder",
    "write_atomic",
]

_TEMPORARY = ".tmp"

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space or choose a folder on another disk",
    errno.EDQUOT: "your disk quota is used up; free some space or choose a folder on another disk",
    errno.EFBIG: "the file would pass the size limit of this process or disk; raise the limit or choose another disk",
    errno.EACCES: "permission is denied; change the folder's permissions or choose another folder",
    errno.EPERM: "the system does not permit it; change the folder's permissions or choose another folder",
    errno.EROFS: "the file system is read-only; choose a folder that can be written",
    errno.ENOTDIR: "a part of that path is a file, not a folder; move that file or choose another folder",
    errno.EEXIST: "a file of that name stands where a folder must be; move that file or choose another folder",
    errno.EISDIR: "a folder of that name stands there; move that folder or choose another name",
    errno.ENOENT: "it is not there; check the path",
    errno.ENAMETOOLONG: "the name is too long for this file system; choose a shorter one",
    errno.ENOTEMPTY: "the folder is not empty; move what is in it or choose another folder",
    errno.EIO: "the disk reports a fault; check the disk",
}

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


@contextlib.contextmanager
def file_errors(path: Path | str, doing: str = "write") -> Iterator[None]:
    """Turn an operating system's error inside the context into a StoreError that says what to do.

    What is to be read must be a regular file: a device may have no end, and a pipe may never begin.
    """
    try:
        if doing == "read" and (kind := _other_kind(path)):
            raise StoreError(f"Cannot read {os.fspath(path)!r}: it is {kind}, not a regular file; move it away.")
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"the system says {error.strerror or error}; check the disk and folder")
        raise StoreError(f"Cannot {doing} {os.fspath(path)!r}: {reason}.") from error


def require_file(path: Path | str, what: str = "file") -> None:
    """Refuse an input that is not there or is no regular file: a folder, device, pipe or socket."""
    if kind := _other_kind(path):
        raise DataError(f"{os.fspath(path)!r} is {kind}, not a regular file; name a file, or save it to one first.")
    if not Path(path).exists():
        raise DataError(f"There is no {what} {os.fspath(path)!r}; check the path.")


def _other_kind(path: Path | str) -> str | None:
    """Return what stands at a path where it is no regular file, and None where it is one or nothing is there."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116, of a path or a string
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode):
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "a special file")


def write_atomic(path: Path | str, data: bytes | str, *, durable: bool = True) -> None:
    """Write a file whole or not at all, making its folder where there is none.

    Text is written as UTF-8. A durable write survives a loss of power once this returns; without it the
    file is still whole or absent after a kill, which is all that a checksummed cache needs.
    """
    with atomic_writer(path, durable=durable) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def atomic_writer(path: Path | str, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a binary file for writing that takes its name when the context ends well, and vanishes otherwise."""
    path = Path(path)
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}{_TEMPORARY}")
    with file_errors(path):
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)


def make_folder(path: Path | str) -> Path:
    """Make a folder and its parents where they are missing, and return it."""
    path = Path(path)
    if path.is_dir():
        return path
    with file_errors(path, "make the folder"):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
    return path


def set_aside(path: Path | str, label: str) -> Path | None:
    """Rename a file to ``NAME.label``, so that nothing reads it again and a person can look at it.

    Return its new path, or None where another process moved or removed it first.
    """
    path = Path(path)
    target = path.with_name(f"{path.name}.{label}")
    try:
        with file_errors(path, "set aside"):
            path.replace(target)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    return target


def sweep_temporaries(folder: Path | str, *, older_than: float = 3600.0) -> int:
    """Remove temporaries in a folder that killed processes left, and return how many there were.

    Another process may be writing one right now, so only those untouched for that many seconds go; whoever
    holds the folder's lock may pass 0.
    """
    removed = 0
    horizon = time.time() - older_than
    for path in Path(folder).glob(f".*{_TEMPORARY}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime <= horizon:
                path.unlink()
                removed += 1
    return removed


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
