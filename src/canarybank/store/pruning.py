"""Bring a cache down in size, and leave alone what a live process is writing.

Temporaries and locks are hidden files (see ``files`` and ``locks``), so a cache's own files are those that are not.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from canarybank.errors import InputError
from canarybank.store.files import file_errors, sweep_temporaries

__all__ = ["StoredFile", "prune_files", "stored_files", "sweep_folders"]


class StoredFile(NamedTuple):
    """A file of a cache: when it was last used, where it is, and its size in bytes."""

    last_used: float
    path: Path
    size: int


def stored_files(folder: Path | str, *, hidden: bool = False) -> list[StoredFile]:
    """Return every file under a folder in the order of its path.

    A file's time of change is taken as when it was last used; whoever uses a file without changing it renews it.

    Args:
        folder: The folder of a cache.
        hidden: Whether temporaries and locks, whose names begin with a dot, are among them.

    Example:
        >>> [file.path.name for file in stored_files("runs/demo")][:2]
        ['commitment.json', 'manifest.json']
    """
    found = []
    for path in sorted(Path(folder).rglob("*")):
        # Another process may remove a file at any moment, and a link may lead nowhere.
        with contextlib.suppress(OSError):
            if path.is_file() and (hidden or not path.name.startswith(".")):
                stat = path.stat()
                found.append(StoredFile(stat.st_mtime, path, stat.st_size))
    return found


def prune_files(
    files: Iterable[StoredFile],
    *,
    max_bytes: int | None = None,
    unused_for: float | None = None,
    remove: Callable[[Path], bool] | None = None,
) -> int:
    """Remove files, the longest unused first, and return how many bytes that freed.

    Args:
        files: The files of a cache, as ``stored_files`` finds them.
        max_bytes: How many bytes may stay; None for any number.
        unused_for: What was unused for so many seconds goes, whatever the size; None lets nothing go so.
        remove: Removes a file and says whether it did; None removes every file.

    Example:
        >>> files = [StoredFile(float(day), Path(f"day-{day}"), 100) for day in (3, 1, 2)]
        >>> gone = []
        >>> prune_files(files, max_bytes=150, remove=lambda path: gone.append(path.name) is None)
        200
        >>> gone
        ['day-1', 'day-2']
    """
    allowed = _at_least_0(max_bytes, "bytes", math.inf)
    horizon = time.time() - _at_least_0(unused_for, "seconds", math.inf)
    ordered = sorted(files)
    left, freed = sum(file.size for file in ordered), 0
    for file in ordered:
        if (file.last_used < horizon or left - freed > allowed) and (remove or _unlink)(file.path):
            freed += file.size
    return freed


def sweep_folders(folder: Path | str) -> None:
    """Remove the temporaries that dead processes left in a folder and in all under it; see ``sweep_temporaries``.

    Args:
        folder: The folder of a cache.

    Example:
        >>> Path("left/deeper").mkdir(parents=True, exist_ok=True)
        >>> half = Path("left/deeper/.half.999999999.00000000.tmp")  # its writer, process 999999999, is dead
        >>> half.touch()
        >>> sweep_folders("left")
        >>> half.exists()
        False
    """
    root = Path(folder)
    for each in (root, *(path for path in root.rglob("*") if path.is_dir())):
        sweep_temporaries(each, orphans=True)


def _at_least_0(value: float | None, unit: str, default: float) -> float:
    if value is None:
        return default
    if not value >= 0:
        raise InputError(f"A cache cannot be pruned to {value} {unit}; give 0 or more.")
    return value


def _unlink(path: Path) -> bool:
    with file_errors(path, "remove"):
        path.unlink(missing_ok=True)
    return True
