"""Check tables of vectors, and define the distance by which records are routed."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError

__all__ = ["Vectors", "check_dimensions", "check_vectors", "norms", "squared_distances"]

Vectors = NDArray[np.float32] | NDArray[np.float64]

LARGEST = 1e150
BLOCK_VALUES = 1 << 17
"""So many values are computed at a time: few enough to stay in a processor's cache."""


def check_vectors(values: ArrayLike, what: str) -> Vectors:
    """Return a table of vectors as contiguous float32, or float64 where it came so, or say what is wrong with it.

    ``what`` names a row in messages, such as "record" or "bank entry".
    """
    array = np.asarray(values)
    if array.ndim != 2 or 0 in array.shape:  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"The {what} vectors must be a non-empty table (rows, dimension), not an array of shape {array.shape}."
        )
    if array.dtype.kind not in "fiu":
        raise InputError(f"The {what} vectors must hold real numbers, not values of type {array.dtype}.")
    wide = array.dtype.itemsize > np.dtype(np.float32).itemsize
    table: Vectors = np.ascontiguousarray(array, np.float64) if wide else np.ascontiguousarray(array, np.float32)
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        raise InputError(
            f"The vector of {what} {int(np.argmax(bad))} is NaN or infinite; fix the encoder or drop the {what}."
        )
    if table.dtype == np.float64 and np.abs(table).max() > LARGEST:
        raise InputError(
            f"A {what} vector holds {np.abs(table).max():.3g}, beyond {LARGEST:g}: its square overflows; "
            "scale records and bank alike."
        )
    return table


def check_dimensions(records: Vectors, entries: Vectors, what: str = "bank entries") -> None:
    """Refuse records and entries of different dimensions."""
    if records.shape[1] != entries.shape[1]:
        raise InputError(
            f"Records have dimension {records.shape[1]} but {what} have dimension {entries.shape[1]}; "
            "encode both with one encoder."
        )


def squared_distances(
    records: Vectors, entries: Vectors, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the squared Euclidean distance of each pair (rows[i], columns[i]) in float64.

    This is the definition that all routing answers to: differences of the values as float64, squared, and summed
    along the vector in numpy's own fixed order. A pair's value depends on its two vectors and on nothing else.
    """
    result = np.empty(len(rows))
    step = max(1, BLOCK_VALUES // records.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        difference = np.subtract(records[rows[part]], entries[columns[part]], dtype=np.float64)
        result[part] = np.square(difference, out=difference).sum(axis=1)
    return result


def norms(vectors: Vectors) -> NDArray[np.float64]:
    """Return the Euclidean norm of each row in float64."""
    result = np.empty(len(vectors))
    step = max(1, BLOCK_VALUES // vectors.shape[1])
    for start in range(0, len(vectors), step):
        part = vectors[start : start + step].astype(np.float64)
        result[start : start + step] = np.sqrt(np.square(part, out=part).sum(axis=1))
    return result
