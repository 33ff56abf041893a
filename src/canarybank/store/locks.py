"""Let one process at a time work on a folder.

The lock is the operating system's ``flock``: it ends with the process that holds it, however that process ends,
so a lock left by a kill does not exist. What the lock file says is only for the message to the second process.
A forked child holds its parent's lock too, for as long as it lives; processes started afresh do not.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from canarybank.errors import StoreError
from canarybank.store.documents import canonical_json, parse_json
from canarybank.store.files import file_errors, open_private, private_folder

__all__ = ["LOCK_NAME", "Holder", "flocked", "folder_user", "lock_folder"]

LOCK_NAME = ".lock"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as it wrote itself down."""

    pid: int
    host: str
    purpose: str

    def __str__(self) -> str:
        purpose = f", {self.purpose}" if self.purpose else ""
        return f"process {self.pid} on {self.host}{purpose}"


@contextlib.contextmanager
def lock_folder(folder: Path | str, purpose: str = "") -> Iterator[Path]:
    """Hold a folder for this process alone, making it where there is none; refuse if another process holds it.

    A folder that is locked is ours, so it is made private to its owner.

    Args:
        folder: The folder.
        purpose: What it is held for, as the message to a second process says.

    Example:
        >>> with lock_folder("written/held", "the first audit"), lock_folder("written/held"):
        ...     pass
        Traceback (most recent call last):
        canarybank.errors.StoreError: The folder 'written/held' is in use by process ..., the first audit; ...
    """
    path = private_folder(folder) / LOCK_NAME
    descriptor = _locked(folder, path)
    try:
        _sign(descriptor, Holder(os.getpid(), socket.gethostname(), purpose), path)
        yield Path(folder)
        # The file stays: removing it would let two processes each lock a file of that name.
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _locked(folder: Path | str, path: Path) -> int:
    """Return the open lock file of a folder, locked; refuse if another process holds it."""
    while True:
        with file_errors(path, "lock"):
            descriptor = open_private(path, os.O_RDWR)
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, descriptor)
            if not flocked(descriptor, path, wait=False):
                raise StoreError(
                    f"The folder {str(folder)!r} is in use by {_holder(descriptor)}; "
                    "wait until it has finished, stop it, or choose another folder."
                )
            # A start that came to nothing removes its folder, and what we opened may be the lock of that one.
            if _is_at(descriptor, path):
                closing.pop_all()
                return descriptor
        private_folder(folder)


def _is_at(descriptor: int, path: Path) -> bool:
    """Say whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def folder_user(folder: Path | str) -> str | None:
    """Say which process holds a folder; None where nobody does, or where that cannot be asked.

    A lock ends with its process, so the folder of a process that died is held by nobody.

    Args:
        folder: The folder.

    Example:
        >>> with lock_folder("written/used", "an audit"):
        ...     folder_user("written/used")
        'process ... on ..., an audit'
        >>> folder_user("written/used") is None
        True
    """
    try:
        import fcntl

        descriptor = os.open(Path(folder) / LOCK_NAME, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def flocked(descriptor: int, path: Path, *, wait: bool) -> bool:
    """Lock an open file until it is closed, or return False where another process holds it and we do not wait."""
    try:
        import fcntl
    except ImportError as error:
        raise StoreError("Locks need a POSIX system such as Linux or macOS; this one has no flock.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}:
            raise StoreError(
                f"The file system of {str(path)!r} has no locks; choose a folder on a local disk."
            ) from error
        raise
    return True


def _sign(descriptor: int, holder: Holder, path: Path) -> None:
    with file_errors(path, "lock"):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, canonical_json(asdict(holder)).encode(), 0)


def _holder(descriptor: int) -> str:
    # Between taking the lock and signing it lies a moment in which the file says nothing.
    try:
        return str(Holder(**parse_json(os.pread(descriptor, 4096, 0), LOCK_NAME)))
    except (StoreError, TypeError):
        return "another process"
