"""Score all trial sets of a greedy round at once, and say which candidate wins it."""

from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError

__all__ = ["Mueff", "Norm", "Objective", "Scoring", "scoring"]

TIE = 1e-10
SYMMETRY = 1e-9
SINGULAR = 1e-13
SERIAL = 1 << 18
NARROW = 64

Floats = NDArray[np.float64]


class Objective(StrEnum):
    """What a set of probes is selected for.

    ``NORM`` is the squared norm of the canary's votes on the probes; ``MUEFF`` is the squared Mahalanobis norm of the
    same votes under the frozen pool covariance, which discounts probes that other users vote for too.
    """

    NORM = "norm"
    MUEFF = "mueff"


class Scoring(Protocol):
    """Score the trial sets that add one candidate each to the selected probes."""

    def scores(self, own: Floats, kept: Floats) -> Floats:
        """Return the objective of each trial set, up to the same factor for all.

        ``own[j]`` counts the votes that candidate ``j`` would get; ``kept[s, j]`` those that selected probe ``s`` would
        keep beside it.
        """

    def winner(self, scores: Floats, free: NDArray[np.bool_]) -> int:
        """Return the lowest index among the free candidates whose score is maximal."""

    def add(self, candidate: int) -> None:
        """Take the winner into the selected set."""


class Norm:
    """Sum the squares of the votes: integers, held exactly by float64 and compared exactly."""

    def scores(self, own: Floats, kept: Floats) -> Floats:
        """Return the sums of squared counts."""
        return np.square(own) + _products(kept, kept)

    def winner(self, scores: Floats, free: NDArray[np.bool_]) -> int:
        """Return the lowest free index with the largest score."""
        return int(np.argmax(np.where(free, scores, -1.0)))

    def add(self, candidate: int) -> None:
        """Keep nothing: the score depends on the votes alone."""


class Mueff:
    """Whiten the votes by the covariance of the trial set, from a Cholesky factor L that grows by one row a round.

    ``whitener`` is L^-1 and ``whitened`` is L^-1 times the rows of the selected probes; ``left`` is the Schur
    complement of each candidate, the variance on it that the selected probes do not explain; infinite once selected.
    """

    def __init__(self, covariance: ArrayLike | None, size: int) -> None:
        self.covariance = _require_covariance(covariance, size)
        self.left = self.covariance.diagonal().copy()
        self.whitener = np.empty((0, 0))
        self.whitened = np.empty((0, size))

    def scores(self, own: Floats, kept: Floats) -> Floats:
        """Return w' Sigma^-1 w of each trial set, as the part on the selected plus the part that is the candidate's."""
        seen = _small_product(self.whitener, kept)
        rest = own - _products(self.whitened, seen)
        return _products(seen, seen) + np.square(rest) / self.left

    def winner(self, scores: Floats, free: NDArray[np.bool_]) -> int:
        """Return the lowest free index whose score is within the tie's relative width of the largest."""
        best = scores[free].max()
        return int(np.argmax(free & (scores >= best * (1 - TIE))))

    def add(self, candidate: int) -> None:
        """Border the factor by the row of a new probe."""
        border, pivot = self.whitened[:, candidate], np.sqrt(self.left[candidate])
        row = (self.covariance[candidate] - _small_product(border[None], self.whitened)[0]) / pivot
        self.whitener = np.block([[self.whitener, np.zeros((len(border), 1))], [-border @ self.whitener, 1.0]])
        self.whitener[-1] /= pivot
        self.whitened = np.vstack([self.whitened, row])
        self.left = self.left - row**2
        self.left[candidate] = np.inf
        if (self.left <= SINGULAR * self.covariance.diagonal()).any():
            raise InputError(_NOT_DEFINITE.format("singular to rounding"))


def _products(left: Floats, right: Floats) -> Floats:
    result: Floats = np.einsum("sj,sj->j", left, right)
    return result


def _small_product(left: Floats, right: Floats) -> Floats:
    # A second BLAS thread costs more to wake than it saves here, on a busy machine a hundred times more.
    width = max(NARROW, SERIAL // max(left.size, 1))
    return np.concatenate([left @ right[:, i : i + width] for i in range(0, right.shape[1], width)], axis=1)


_NOT_DEFINITE = (
    "The pool covariance is not positive definite ({}); it must be an estimate with the release noise on its diagonal, "
    "as pool_covariance() returns it."
)


def scoring(objective: Objective | str, covariance: ArrayLike | None, size: int) -> Scoring:
    """Return how to score an objective over a pool of some size."""
    if objective not in list(Objective):
        raise InputError(f"There is no objective {objective!r}; choose 'norm' or 'mueff'.")
    return Norm() if Objective(objective) is Objective.NORM else Mueff(covariance, size)


def _require_covariance(covariance: ArrayLike | None, size: int) -> Floats:
    if covariance is None:
        raise InputError(
            "The objective 'mueff' needs the covariance of the pool; give covariance=pool_covariance(...)."
        )
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.shape != (size, size):
        raise InputError(
            f"The covariance has shape {matrix.shape}, but the pool has {size} candidates; it must be {size} by {size}."
        )
    if not np.isfinite(matrix).all():
        raise InputError("The covariance holds NaN or infinite values; estimate it again from finite contributions.")
    scale = np.sqrt(np.abs(matrix.diagonal()))
    if (np.abs(matrix - matrix.T) > SYMMETRY * np.outer(scale, scale)).any():
        raise InputError("The covariance is not symmetric; give the covariance matrix itself, not a factor of it.")
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InputError(_NOT_DEFINITE.format("a pivot is not positive")) from None
    return matrix
