"""Read Parquet that somebody else wrote, whatever its bytes are.

Of damaged files polars refuses most with an error, some with a panic, which is no ``Exception`` and prints Rust's own
words on standard error, and a few with an abort that takes the whole process along (a length in the footer that no
machine can allocate). So a file is read once by a child process first; only what it could read is read here.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from canarybank.errors import CanarybankError, DataError
from canarybank.store.files import file_errors, require_file

__all__ = ["check_parquet", "parquet_errors"]

_CHILD = Path(__file__).with_name("parquet_child.py")
_SHOWN = 300
_PANIC = "its parts contradict each other"


@contextmanager
def parquet_errors(path: Path | str, fix: str = "write or fetch it again") -> Iterator[None]:
    """Turn whatever polars raises inside the context, panics included, into a DataError.

    Args:
        path: The file that the message names.
        fix: What the message says to do.

    Example:
        >>> import polars as pl
        >>> with parquet_errors("bank.txt", "name a Parquet file"):
        ...     pl.read_parquet("bank.txt")
        Traceback (most recent call last):
        canarybank.errors.DataError: 'bank.txt' cannot be read as Parquet (...); name a Parquet file.
    """
    import polars as pl

    try:
        with file_errors(path, "read"):
            yield
    except CanarybankError:
        raise
    except pl.exceptions.PanicException:
        raise _unreadable(path, _PANIC, fix) from None
    except (pl.exceptions.PolarsError, ValueError, OverflowError, MemoryError) as error:
        raise _unreadable(path, _short(str(error)), fix) from None


def check_parquet(path: Path | str, columns: Sequence[str] | None = None, fix: str = "write or fetch it again") -> None:
    """Refuse a file that polars cannot read: all of it, or some columns, as far as they exist.

    A file that was read well is not read again by the child for as long as it does not change.

    Args:
        path: The file.
        columns: The columns that must be readable; None for all.
        fix: What the message says to do.

    Example:
        >>> check_parquet("runs/demo/results.parquet")
        >>> check_parquet("bank.txt")
        Traceback (most recent call last):
        canarybank.errors.DataError: 'bank.txt' cannot be read as Parquet (...); write or fetch it again.
    """
    require_file(path)
    with file_errors(path, "read"):
        stat = os.stat(path)  # noqa: PTH116, of a path or a string
    wanted = None if columns is None else tuple(columns)
    _checked(str(path), wanted, fix, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=64)
def _checked(path: str, columns: tuple[str, ...] | None, fix: str, version: tuple[int, ...]) -> None:
    del version  # a part of the key; only a file that was read well is remembered
    done = subprocess.run(  # noqa: S603, our own interpreter and file
        [sys.executable, str(_CHILD), json.dumps([path, columns])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RUST_BACKTRACE": "0"},
        check=False,
    )
    if done.returncode:
        why = done.stdout.decode(errors="replace").strip() or _ended(done.returncode)
        raise _unreadable(path, _short(why), fix)


def _ended(code: int) -> str:
    return "it asks for more memory than there is" if -code in {signal.SIGABRT, signal.SIGKILL} else _PANIC


def _unreadable(path: Path | str, why: str, fix: str) -> DataError:
    return DataError(f"{str(path)!r} cannot be read as Parquet ({why}); {fix}.")


def _short(why: str) -> str:
    first = " ".join(why.split())
    return first if len(first) <= _SHOWN else f"{first[:_SHOWN]}…"
