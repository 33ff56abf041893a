"""Route records: find the k nearest bank entries of each, exactly."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.vectors import Vectors, check_dimensions, check_vectors, squared_distances

__all__ = ["nearest", "route"]


def route(records: ArrayLike, bank: ArrayLike | Bank, k: int) -> NDArray[np.int64]:
    """Return the k nearest bank entries of each record, nearest first, ties to the lowest index, shape (n, k).

    Nearest is by Euclidean distance in float64.
    """
    entries = bank.vectors if isinstance(bank, Bank) else check_vectors(bank, "bank entry")
    return nearest(check_vectors(records, "record"), entries, k)[0]


def nearest(records: Vectors, entries: Vectors, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the k nearest entries of each record and their squared distances in float64, both of shape (n, k)."""
    check_dimensions(records, entries)
    if not 1 <= k <= len(entries):
        raise InputError(
            f"k is {k}, but there are {len(entries)} entries to choose from; k must lie between 1 and that."
        )
    positions = np.empty((len(records), k), dtype=np.int64)
    distances = np.empty((len(records), k))
    columns = np.arange(len(entries))
    for i in range(len(records)):
        squared = squared_distances(records, entries, np.full(len(entries), i), columns)
        positions[i] = np.argsort(squared, kind="stable")[:k]
        distances[i] = squared[positions[i]]
    return positions, distances
