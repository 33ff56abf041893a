"""Compare a cloud of generated with one of real vectors as wholes: by MAUVE, and by the Fréchet distance."""

import importlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError, MissingError
from canarybank.mechanism.mechanism import whole
from canarybank.mechanism.vectors import check_dimensions, check_vectors

__all__ = ["Mauve", "frechet_distance"]

FEWEST_FOR_MAUVE = 20
FEW_DISTANCES = 1_000_000  # of points to clusters: below it, threads wait for one another far longer than they work

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
        buckets = self.buckets or max(2, min(len(made), len(truth)) // 10)
        few = buckets * (len(made) + len(truth)) <= FEW_DISTANCES
        # scikit-learn, which the package needs, brings threadpoolctl.
        with importlib.import_module("threadpoolctl").threadpool_limits(1 if few else None):
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


def frechet_distance(generated: ArrayLike, real: ArrayLike) -> float:
    """Return the squared Fréchet distance of two clouds, each as a Gaussian with its own mean and covariance.

    It is |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)), with unbiased covariances, as in the inception distance of images
    (Heusel et al., 2017, https://arxiv.org/abs/1706.08500). It is 0 for equal moments.

    Two samples of one distribution are apart too: the estimate is biased upwards, the more the fewer the vectors, and
    with fewer vectors than dimensions by most of its value. Compare figures of equal numbers of vectors only, beside
    real against real at those numbers.

    Args:
        generated: The vectors that are judged.
        real: The vectors that they are judged by.

    Example:
        >>> import numpy as np
        >>> cloud = np.random.default_rng(0).normal(size=(50, 3))
        >>> round(abs(frechet_distance(cloud, cloud)), 6), round(frechet_distance(cloud + 2.0, cloud), 6)
        (0.0, 12.0)
    """
    made, truth = (check_vectors(v, what).astype(np.float64) for v, what in ((generated, "generated"), (real, "real")))
    check_dimensions(made, truth, "real vectors")
    if min(len(made), len(truth)) < 2:  # noqa: PLR2004, one vector has no covariance
        raise InputError("The Fréchet distance needs at least 2 vectors on each side.")
    (first, first_root), (second, second_root) = _moments(made), _moments(truth)
    # tr (C1 C2)^(1/2) is the sum of the singular values of C1^(1/2) C2^(1/2).
    common = float(np.linalg.svd(first_root @ second_root, compute_uv=False).sum())
    spread = float(np.square(first_root).sum() + np.square(second_root).sum()) - 2.0 * common
    return float(np.square(first - second).sum()) + max(spread, 0.0)


def _moments(vectors: Floats) -> tuple[Floats, Floats]:
    """Return the mean of vectors and the symmetric square root of their covariance."""
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    values, axes = np.linalg.eigh(centred.T @ centred / (len(vectors) - 1))
    return mean, (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T
