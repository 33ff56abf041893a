"""Say how far two clouds of vectors cover each other, by balls that reach to a point's k-th nearest neighbour.

Precision and recall (Kynkäänniemi et al., 2019, https://arxiv.org/abs/1904.06991) ask who lies in the union of the
other cloud's balls. A few generated outliers have huge balls, so recall can be raised by adding nonsense. Density and
coverage (Naeem et al., 2020, https://arxiv.org/abs/2002.09797) use balls around real points alone: nothing that is
generated can widen them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import whole
from canarybank.mechanism.vectors import check_dimensions, check_vectors

__all__ = ["NEIGHBOURS", "Balls", "Coverage", "expected_coverage", "precision_recall"]

NEIGHBOURS = 3
CHUNK_VALUES = 1 << 22
TOLERANCE = 1e-12  # of the largest squared norm: above the rounding of a squared distance, so that copies are inside

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far generated and real vectors cover each other, by balls to the ``neighbours``-th nearest neighbour."""

    precision: float
    """The share of generated vectors that lie in some real vector's ball."""
    recall: float
    """The share of real vectors that lie in some generated vector's ball; outliers raise it."""
    neighbours: int
    """Which nearest neighbour the balls reach to."""
    density: float
    """How many real balls hold a generated vector, on average, over ``neighbours``: 1 in expectation where both clouds
    are drawn alike; it may exceed 1."""
    coverage: float
    """The share of real vectors whose ball holds a generated vector; outliers do not raise it."""


@dataclass(frozen=True, eq=False)
class Balls:
    """The balls around the points of one cloud, each to the point's k-th nearest other point of the cloud."""

    centres: Floats
    squared_radii: Floats
    neighbours: int

    @classmethod
    def around(cls, vectors: ArrayLike, *, neighbours: int = NEIGHBOURS, what: str = "real") -> "Balls":
        """Return the balls around vectors; messages call them ``what``."""
        centres = check_vectors(vectors, what).astype(np.float64)
        k = whole("neighbours", neighbours)
        if k >= len(centres):
            raise InputError(
                f"A {k}-th nearest neighbour needs more than {k} vectors on each side, but there are {len(centres)} "
                f"{what} ones; use fewer neighbours or more vectors."
            )
        radii = np.empty(len(centres))
        for rows, squares in _squared_distances(centres, centres):
            squares[np.arange(len(squares)), np.arange(len(centres))[rows]] = np.inf
            radii[rows] = np.partition(squares, k - 1, axis=1)[:, k - 1]
        return cls(centres, radii, k)

    def hits(self, points: Floats) -> tuple[Counts, Counts]:
        """Return how many balls hold each point, and how many points each ball holds."""
        slack = TOLERANCE * max(float(np.square(v).sum(axis=1).max()) for v in (points, self.centres))
        by_point, by_ball = np.zeros(len(points), np.int64), np.zeros(len(self.centres), np.int64)
        for rows, squares in _squared_distances(points, self.centres):
            inside = squares <= self.squared_radii + slack
            by_point[rows] = inside.sum(axis=1)
            by_ball += inside.sum(axis=0)
        return by_point, by_ball


def precision_recall(generated: ArrayLike, real: ArrayLike | Balls, *, neighbours: int = NEIGHBOURS) -> Coverage:
    """Return precision, recall, density and coverage of generated against real vectors.

    The formula: precision and recall of Kynkäänniemi et al. (2019, https://arxiv.org/abs/1904.06991), density and
    coverage of Naeem et al. (2020, https://arxiv.org/abs/2002.09797).

    Args:
        generated: The vectors that are judged.
        real: The vectors that they are judged by, or the balls around them, where many clouds meet the same.
        neighbours: Which nearest neighbour a ball reaches to.

    Example:
        >>> import numpy as np
        >>> cloud = np.random.default_rng(0).normal(size=(50, 3))
        >>> found = precision_recall(cloud, cloud + 100.0)
        >>> found.precision, found.recall
        (0.0, 0.0)
    """
    truth = real if isinstance(real, Balls) else Balls.around(real, neighbours=neighbours)
    made = Balls.around(generated, neighbours=neighbours, what="generated")
    check_dimensions(made.centres, truth.centres, "real vectors")
    if truth.neighbours != made.neighbours:
        raise InputError(f"The real balls reach to neighbour {truth.neighbours}, not {neighbours}; use the same.")
    held, holding = truth.hits(made.centres)
    recalled, _ = made.hits(truth.centres)
    return Coverage(
        precision=int((held > 0).sum()) / len(held),
        recall=int((recalled > 0).sum()) / len(recalled),
        neighbours=made.neighbours,
        density=int(held.sum()) / (made.neighbours * len(held)),
        coverage=int((holding > 0).sum()) / len(holding),
    )


def expected_coverage(generated: int, real: int, *, neighbours: int = NEIGHBOURS) -> float:
    """Return the coverage that two clouds of these sizes have in expectation if one distribution drew both.

    A real point is missed when its ``neighbours`` nearest of all others are real. All orders are equally likely, so the
    chance of that is the product of (real - i) / (real + generated - i) over i from 1 to ``neighbours``. This holds
    exactly for independent draws from any continuous distribution.

    >>> round(expected_coverage(1000, 1000, neighbours=3), 4)
    0.8754

    Args:
        generated: How many vectors are judged.
        real: How many they are judged by.
        neighbours: Which nearest neighbour a ball reaches to.
    """
    if not 1 <= neighbours < real or generated < 1:
        raise InputError(
            f"Coverage of {real} real by {generated} generated vectors with {neighbours} neighbours is undefined."
        )
    missed = 1.0
    for i in range(1, neighbours + 1):
        missed *= (real - i) / (real + generated - i)
    return 1.0 - missed


def _squared_distances(points: Floats, others: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield the squared distances to all others, a block of points at a time, with where the block stands."""
    step = max(1, CHUNK_VALUES // len(others))
    for start in range(0, len(points), step):
        block = points[start : start + step]
        squares = np.square(block).sum(axis=1)[:, None] + np.square(others).sum(axis=1) - 2.0 * (block @ others.T)
        yield slice(start, start + step), np.maximum(squares, 0.0)
