"""Measure precision and recall of generated against real vectors, by nearest-neighbour balls.

The manifold of a set is the union of balls around its points, each reaching to the point's k-th nearest neighbour
within the set (Kynkäänniemi et al., 2019).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import whole
from canarybank.mechanism.vectors import check_dimensions, check_vectors

__all__ = ["NEIGHBOURS", "Coverage", "precision_recall"]

NEIGHBOURS = 3
CHUNK_VALUES = 1 << 22
TOLERANCE = 1e-12  # of the largest squared norm: above the rounding of a squared distance, so that copies are inside

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far generated and real vectors cover each other, by balls to the ``neighbours``-th nearest neighbour."""

    precision: float
    """The share of generated vectors that lie in some real vector's ball."""
    recall: float
    """The share of real vectors that lie in some generated vector's ball."""
    neighbours: int


def precision_recall(generated: ArrayLike, real: ArrayLike, *, neighbours: int = NEIGHBOURS) -> Coverage:
    """Return the share of generated vectors within the real manifold, and of real ones within the generated."""
    made, truth = (check_vectors(v, what).astype(np.float64) for v, what in ((generated, "generated"), (real, "real")))
    check_dimensions(made, truth, "real vectors")
    k = whole("neighbours", neighbours)
    if k >= min(len(made), len(truth)):
        raise InputError(
            f"A {k}-th nearest neighbour needs more than {k} vectors on each side, but there are {len(made)} generated "
            f"and {len(truth)} real ones; use fewer neighbours or more vectors."
        )
    slack = TOLERANCE * max(float(np.square(v).sum(axis=1).max()) for v in (made, truth))
    precision = _covered(made, truth, _radii(truth, k) + slack)
    recall = _covered(truth, made, _radii(made, k) + slack)
    return Coverage(precision, recall, k)


def _radii(points: Floats, k: int) -> Floats:
    """Return each point's squared distance to its k-th nearest other point."""
    radii = np.empty(len(points))
    for rows in _chunks(len(points), len(points)):
        squares = _squared_distances(points[rows], points)
        squares[np.arange(len(squares)), np.arange(len(points))[rows]] = np.inf
        radii[rows] = np.partition(squares, k - 1, axis=1)[:, k - 1]
    return radii


def _covered(points: Floats, centres: Floats, radii: Floats) -> float:
    """Return the share of points that lie within the radius of some centre."""
    inside = 0
    for rows in _chunks(len(points), len(centres)):
        inside += int((_squared_distances(points[rows], centres) <= radii).any(axis=1).sum())
    return inside / len(points)


def _squared_distances(a: Floats, b: Floats) -> Floats:
    squares = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2.0 * (a @ b.T)
    return np.asarray(np.maximum(squares, 0.0), dtype=np.float64)


def _chunks(rows: int, columns: int) -> list[slice]:
    step = max(1, CHUNK_VALUES // columns)
    return [slice(start, start + step) for start in range(0, rows, step)]
