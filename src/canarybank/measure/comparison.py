"""Compare generated with real vectors: by MAUVE, and by precision and recall.

Precision and recall are measured by nearest-neighbour balls. The manifold of a set is the union of balls around its
points, each reaching to the point's k-th nearest neighbour within the set (Kynkäänniemi et al., 2019).
"""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError, MissingError
from canarybank.mechanism.mechanism import whole
from canarybank.mechanism.vectors import check_dimensions, check_vectors

__all__ = ["NEIGHBOURS", "Coverage", "Mauve", "precision_recall"]

NEIGHBOURS = 3
FEWEST_FOR_MAUVE = 20
CHUNK_VALUES = 1 << 22
TOLERANCE = 1e-12  # of the largest squared norm: above the rounding of a squared distance, so that copies are inside

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mauve:
    """MAUVE with its settings: the area under the divergence curve of two clustered clouds, 0 if apart, 1 if alike.

    Vectors are those of the run's own encoder, so a figure compares with others of the same encoder, settings and
    numbers of texts only. ``buckets`` is the number of clusters, a tenth of the smaller cloud where it is None. The
    defaults are those of the package ``mauve-text``; the same seed gives the same figure.
    """

    buckets: int | None = None
    """The number of clusters; null for a tenth of the smaller cloud."""
    scaling: float = 5.0
    """The factor of the divergence in the curve's exponent."""
    restarts: int = 5
    """The starts of the clustering, of which the best stays."""
    iterations: int = 500
    """The most iterations of each start."""
    seed: int = 25
    """The seed of the clustering."""

    def __post_init__(self) -> None:
        for name in ("restarts", "iterations"):
            whole(name, getattr(self, name))
        if self.buckets is not None and whole("buckets", self.buckets) < 2:  # noqa: PLR2004, one bucket tells nothing
            raise InputError("MAUVE needs at least 2 buckets; with one all clouds are alike.")
        if not 0 < self.scaling < np.inf:
            raise InputError(f"The scaling of MAUVE must be positive and finite, not {self.scaling!r}; 5 is usual.")
        if self.seed < 0:
            raise InputError(f"A seed is a whole number of at least 0, not {self.seed}.")

    def __call__(self, generated: ArrayLike, real: ArrayLike) -> float:
        """Return the MAUVE of generated against real vectors."""
        made, truth = check_vectors(generated, "generated"), check_vectors(real, "real")
        check_dimensions(made, truth, "real vectors")
        if min(len(made), len(truth)) < FEWEST_FOR_MAUVE:
            raise InputError(
                f"MAUVE of {len(made)} generated against {len(truth)} real vectors says nothing; give "
                f"{FEWEST_FOR_MAUVE} of each at least, better thousands."
            )
        try:
            package = importlib.import_module("mauve")
        except ImportError as problem:
            raise MissingError(
                "MAUVE comes with mauve-text, which is not installed; run: pip install 'canarybank[mauve]'"
            ) from problem
        found = package.compute_mauve(
            p_features=truth,
            q_features=made,
            num_buckets="auto" if self.buckets is None else self.buckets,
            mauve_scaling_factor=self.scaling,
            kmeans_num_redo=self.restarts,
            kmeans_max_iter=self.iterations,
            seed=self.seed,
            verbose=False,
        )
        return float(found.mauve)


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
    return Coverage(_covered_share(made, truth, k, slack), _covered_share(truth, made, k, slack), k)


def _covered_share(points: Floats, centres: Floats, k: int, slack: float) -> float:
    """Return the share of points that lie within some centre's ball, which reaches to its k-th nearest other centre."""
    radii = np.empty(len(centres))
    for rows, squares in _squared_distances(centres, centres):
        squares[np.arange(len(squares)), np.arange(len(centres))[rows]] = np.inf
        radii[rows] = np.partition(squares, k - 1, axis=1)[:, k - 1]
    inside = (squares <= radii + slack for _, squares in _squared_distances(points, centres))
    return sum(int(each.any(axis=1).sum()) for each in inside) / len(points)


def _squared_distances(points: Floats, others: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield the squared distances to all others, a block of points at a time, with where the block stands."""
    step = max(1, CHUNK_VALUES // len(others))
    for start in range(0, len(points), step):
        block = points[start : start + step]
        squares = np.square(block).sum(axis=1)[:, None] + np.square(others).sum(axis=1) - 2.0 * (block @ others.T)
        yield slice(start, start + step), np.maximum(squares, 0.0)
