"""Write files whole, and for their owner alone; say in a sentence why the system refused.

A file appears under its name only when all of it is on disk: it is written beside its place under a temporary
name, flushed to the disk, and renamed. A kill at any moment leaves the old file or the new one, and at worst a
temporary that ``sweep_temporaries`` removes.

Files are 0600 and folders 0700 from the moment they exist, whatever the umask: what canarybank writes is made of
people's texts unless its writer says otherwise (``mode``).
"""

import contextlib
import errno
import logging
import os
import re
import secrets
import socket
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from canarybank.errors import DataError, StoreError
from canarybank.registry import nearest

__all__ = [
    "BY_UMASK",
    "PRIVATE",
    "SHAREABLE",
    "atomic_writer",
    "discard",
    "file_errors",
    "go_on_without",
    "make_folder",
    "open_private",
    "private_folder",
    "private_temporary",
    "require_file",
    "set_aside",
    "sweep_temporaries",
    "sync_folder",
    "tighten",
    "write_atomic",
]

PRIVATE = 0o600
"""The mode of a file that only its owner may read; its folders are 0700."""
SHAREABLE = 0o644
"""The mode of a file that everybody on the machine may read; folders made for it are 0755."""
BY_UMASK = None
"""For public text that the user asked for: the umask decides, as for the output of any other program."""

_NOTES = logging.getLogger("canarybank")
_told: set[Path] = set()
_OTHERS = 0o077
_TEMPORARY = ".tmp"
_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"
_WRITER = re.compile(r"\.(?:([0-9a-f]{8})-)?(\d+)\.[0-9a-f]{8}\.tmp")
"""A temporary's name ends with its writer's host (not in names of version 0.1.0) and process."""

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

    Args:
        path: The file or folder that the message names.
        doing: The verb after "Cannot" in the message, such as write, read or remove.

    Example:
        >>> with file_errors("missing.txt", "read"):
        ...     Path("missing.txt").read_text()
        Traceback (most recent call last):
        canarybank.errors.StoreError: Cannot read 'missing.txt': it is not there; check the path.
    """
    try:
        if doing == "read" and (kind := _other_kind(path)):
            raise StoreError(f"Cannot read {os.fspath(path)!r}: it is {kind}, not a regular file; move it away.")
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"the system says {error.strerror or error}; check the disk and folder")
        raise StoreError(f"Cannot {doing} {os.fspath(path)!r}: {reason}.") from error


def require_file(path: Path | str, what: str = "file") -> None:
    """Refuse an input that is not there or is no regular file: a folder, device, pipe or socket.

    Args:
        path: The file that somebody named.
        what: What it is called in the message.

    Example:
        >>> require_file("bank.txt")
        >>> require_file("bnak.txt", "bank")
        Traceback (most recent call last):
        canarybank.errors.DataError: There is no bank 'bnak.txt'; did you mean 'bank.txt'?
    """
    if kind := _other_kind(path):
        raise DataError(f"{os.fspath(path)!r} is {kind}, not a regular file; name a file, or save it to one first.")
    if not Path(path).exists():
        raise DataError(f"There is no {what} {os.fspath(path)!r}; {path_hint(path)}")


def path_hint(path: Path | str) -> str:
    """Say what may have been meant by a path that leads nowhere: the name beside it that is most like it.

    Args:
        path: A path at which nothing is.

    Example:
        >>> path_hint("my-user.csv")
        "did you mean 'my-users.csv'?"
    """
    place = Path(path)
    try:
        beside = [each.name for each in place.parent.iterdir()]
    except OSError:
        return f"there is no folder {str(place.parent)!r} either; check the path."
    close = nearest(place.name, beside)
    return f"did you mean {str(place.parent / close)!r}?" if close else "check the path."


def _other_kind(path: Path | str) -> str | None:
    """Return what stands at a path where it is no regular file, and None where it is one or nothing is there."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116, of a path or a string
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode):
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "a special file")


def write_atomic(path: Path | str, data: bytes | str, *, durable: bool = True, mode: int | None = PRIVATE) -> None:
    """Write a file whole or not at all, making its folder where there is none.

    Text is written as UTF-8, a lone surrogate as its escape.

    Args:
        path: The file; one that is there is replaced.
        data: Its bytes or its text.
        durable: Whether it must survive a loss of power once this returns. Without it the file is still whole or absent
            after a kill, which is all that a checksummed cache needs.
        mode: Who may read it: PRIVATE, SHAREABLE or BY_UMASK. Folders that are missing follow it too.

    Example:
        >>> write_atomic("written/note.txt", "all of it")
        >>> Path("written/note.txt").read_text(), oct(Path("written/note.txt").stat().st_mode & 0o777)
        ('all of it', '0o600')
    """
    with atomic_writer(path, durable=durable, mode=mode) as file:
        file.write(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)


@contextlib.contextmanager
def atomic_writer(path: Path | str, *, durable: bool = True, mode: int | None = PRIVATE) -> Iterator[BinaryIO]:
    """Open a binary file for writing that takes its name when the context ends well, and vanishes otherwise.

    Args:
        path: The file; one that is there is replaced.
        durable: Whether it must survive a loss of power once the context ends.
        mode: Who may read it: PRIVATE, SHAREABLE or BY_UMASK. Folders that are missing follow it too.

    Example:
        >>> with contextlib.suppress(KeyboardInterrupt), atomic_writer("written/half.bin") as file:
        ...     _ = file.write(b"half of it")
        ...     raise KeyboardInterrupt
        >>> Path("written/half.bin").exists()
        False
    """
    path = Path(path)
    make_folder(path.parent, mode=mode)
    temporary = _temporary(path)
    with file_errors(path):
        try:
            with _create(temporary, mode) as file:
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


@contextlib.contextmanager
def private_temporary(folder: Path | str, name: str) -> Iterator[Path]:
    """Give the path of a new file in a folder of a cache, for its owner alone, and remove it when the context ends.

    A kill leaves it behind for ``sweep_temporaries``.

    Args:
        folder: The folder; it is made, or made private, where it is not yet so.
        name: What the file's name is made from.

    Example:
        >>> with private_temporary("written/cache", "users.parquet") as path:
        ...     path.exists(), path.suffix
        (True, '.tmp')
        >>> path.exists()
        False
    """
    path = _temporary(private_folder(folder) / name)
    with file_errors(path):
        _create(path, PRIVATE).close()
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """Return a name of our own beside a path; it says which process of which machine writes there."""
    return path.with_name(f".{path.name[:100]}.{_HOST}-{os.getpid()}.{secrets.token_hex(4)}{_TEMPORARY}")


def _create(path: Path, mode: int | None) -> BinaryIO:
    # Created for its owner alone and widened while it is still empty, so that it is never wider than asked for.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else PRIVATE)
    if mode is not None:
        _set_mode(descriptor, mode)
    return os.fdopen(descriptor, "wb")


def open_private(path: Path | str, flags: int) -> int:
    """Open a file by its flags, made where there is none, and leave it to its owner alone; return the descriptor."""
    descriptor = os.open(path, flags | os.O_CREAT, PRIVATE)
    _set_mode(descriptor, PRIVATE)
    return descriptor


def _set_mode(descriptor: int, mode: int) -> None:
    # Only the owner may change a mode; in a folder that people share, the owner decides.
    if os.name == "posix" and stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, mode)


def make_folder(path: Path | str, *, mode: int | None = PRIVATE) -> Path:
    """Make a folder and its parents where they are missing, and return it; what exists keeps its permissions.

    Args:
        path: The folder.
        mode: That of the files to come: a folder for PRIVATE ones is 0700, one for SHAREABLE ones 0755; for BY_UMASK,
            the umask decides.

    Example:
        >>> folder = make_folder("written/shared", mode=SHAREABLE)
        >>> oct(folder.stat().st_mode & 0o777)
        '0o755'
    """
    path = Path(path)
    with file_errors(path, "make the folder"):
        if not path.is_dir():
            missing = [each for each in (path, *path.parents) if not each.exists()]
            for folder in reversed(missing or [path]):
                _make(folder, mode)
                sync_folder(folder.parent)
    return path


def _make(folder: Path, mode: int | None) -> None:
    try:
        folder.mkdir(0o777 if mode is None else 0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return  # another process was first
    if mode is not None:
        # Whoever may read the files may also list the folder and enter it.
        folder.chmod(mode | (mode & 0o444) >> 2)


def private_folder(path: Path | str) -> Path:
    """Make a folder that is ours alone, or make an existing one so; see ``tighten``.

    Args:
        path: The folder.

    Example:
        >>> oct(private_folder("written/private").stat().st_mode & 0o777)
        '0o700'
    """
    return tighten(make_folder(path))


def tighten(folder: Path | str) -> Path:
    """Take from a folder of ours what other users of the machine may do there, and return it.

    Left as they are: a folder of another owner, one that everybody may write to (such as /tmp), and a missing one.

    Args:
        folder: The folder.

    Example:
        >>> open_to_all = make_folder("written/open", mode=SHAREABLE)
        >>> oct(tighten(open_to_all).stat().st_mode & 0o777)
        '0o700'
    """
    path = Path(folder)
    with file_errors(path, "make private"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = path.stat()
        is_ours = os.name == "posix" and found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX
        if is_ours and found.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    return path


def set_aside(path: Path | str, label: str) -> Path | None:
    """Rename a file or folder to ``NAME.label``, so that nothing reads it again and a person can look at it.

    Return its new path, or None where another process moved or removed it first.

    Args:
        path: The file or folder.
        label: What its name ends with from now on.

    Example:
        >>> write_atomic("written/broken.json", "{")
        >>> set_aside("written/broken.json", "corrupt").name
        'broken.json.corrupt'
        >>> set_aside("written/broken.json", "corrupt") is None
        True
    """
    path = Path(path)
    target = path.with_name(f"{path.name}.{label}")
    if target.is_dir() or path.is_dir():  # neither can take the other's place
        target = path.with_name(f"{path.name}.{secrets.token_hex(4)}.{label}")
    try:
        with file_errors(path, "set aside"):
            path.replace(target)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    return target


def discard(path: Path | str) -> None:
    """Get a broken file of a cache out of the way: remove it, or set it aside; leave it where neither can be done.

    So a folder that stands in a file's place, or a cache that can only be read, fails no run.

    Args:
        path: The file.

    Example:
        >>> write_atomic("written/to-discard.json", "{")
        >>> discard("written/to-discard.json")
        >>> Path("written/to-discard.json").exists()
        False
    """
    with contextlib.suppress(OSError, StoreError):
        try:
            Path(path).unlink(missing_ok=True)
        except OSError:
            set_aside(path, "corrupt")


def go_on_without(folder: Path) -> None:
    """Tell the user, once for each folder, that a cache cannot be written and the run goes on without it.

    What is said while warnings are muted, as during private work, was not told: the next time says it.

    Args:
        folder: The folder of the cache.

    Example:
        >>> told = []
        >>> listener = logging.Handler()
        >>> listener.emit = told.append
        >>> logging.getLogger("canarybank").addHandler(listener)
        >>> for _ in range(3):
        ...     go_on_without(Path("a-full-disk"))
        >>> logging.getLogger("canarybank").removeHandler(listener)
        >>> len(told)
        1
    """
    if folder in _told or not _NOTES.isEnabledFor(logging.WARNING):
        return
    _told.add(folder)
    _NOTES.warning(
        "The cache in %r cannot be written, so this run goes on without it, and the next one will make everything "
        "again. Free some space, change the folder's permissions, or set CANARYBANK_CACHE to another folder.",
        str(folder),
    )


def sweep_temporaries(folder: Path | str, *, older_than: float = 3600.0, orphans: bool = False) -> int:
    """Remove temporaries in a folder that killed processes left, and return how many there were.

    Args:
        folder: The folder; those under it are left alone.
        older_than: For how many seconds a temporary must be untouched, for another process may be writing a younger
            one right now. Whoever holds the folder's lock may pass 0.
        orphans: Whether younger ones go too where their writer ran on this machine and is dead.

    Example:
        >>> with private_temporary("written/swept", "half") as path:
        ...     sweep_temporaries("written/swept"), sweep_temporaries("written/swept", older_than=0)
        (0, 1)
    """
    removed = 0
    horizon = time.time() - older_than
    for path in Path(folder).glob(f".*{_TEMPORARY}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime <= horizon or (orphans and _is_orphan(path)):
                path.unlink()
                removed += 1
    return removed


def _is_orphan(path: Path) -> bool:
    """Say whether the process that wrote a temporary is known to be dead."""
    found = _WRITER.search(path.name)
    if found is None or found[1] not in {None, _HOST}:
        return False
    try:
        os.kill(int(found[2]), 0)
    except ProcessLookupError:
        return True
    except (OverflowError, OSError):
        return False
    return False


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
