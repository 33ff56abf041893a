"""Keep the columns of canaries and pools in one form."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.vectors import check_vectors

__all__ = ["column", "frozen_vectors"]

T = TypeVar("T")


def frozen_vectors(values: ArrayLike, what: str) -> NDArray[np.float32]:
    """Return a read-only float32 copy of a non-empty table of finite vectors; ``what`` names a row in messages."""
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
        table = check_vectors(np.array(check_vectors(values, what), dtype=np.float32), what)
    table.setflags(write=False)
    return table.astype(np.float32, copy=False)


def column(values: Sequence[T] | None, rows: int, what: str) -> tuple[T, ...] | None:
    """Return an optional column as a tuple, or refuse one that does not have an entry for each row."""
    if values is not None and len(values) != rows:
        raise InputError(f"There are {len(values)} {what} for {rows} vectors; give one for each, or none at all.")
    return None if values is None else tuple(values)
