"""Score a release: the linear log-likelihood ratio of a participating canary, and its mixture form."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from canarybank.errors import InputError
from canarybank.score.fit import Covariance, fit_moments
from canarybank.score.moments import Moments

__all__ = ["LinearScore", "mixture", "unmix"]


@dataclass(frozen=True, eq=False)
class LinearScore:
    """The log-likelihood ratio of a participating canary against its absence, as a linear function of the release.

    With v the canary's contribution, m the mean and S the covariance, all on the inspected coordinates, the score of
    a release y is vᵀ S⁻¹ (y - m - v/2): exact where the canary-free release is Gaussian with these moments, and a
    valid score with less power where it is not.
    """

    canary: NDArray[np.float64]
    moments: Moments

    def __post_init__(self) -> None:
        canary = np.array(self.canary, dtype=np.float64)
        if canary.shape != self.moments.mean.shape:
            raise InputError(
                f"The canary's contribution has shape {canary.shape}, but the moments are of "
                f"{self.moments.mean.size} inspected coordinates; restrict both to the same ones."
            )
        if not np.isfinite(canary).all():
            raise InputError(
                "The canary's contribution holds NaN or infinite entries; check the vectors it comes from."
            )
        canary.setflags(write=False)
        object.__setattr__(self, "canary", canary)

    @classmethod
    def fit(cls, absent: ArrayLike, eligible: ArrayLike, *, covariance: Covariance = "auto") -> "LinearScore":
        """Learn a score from releases alone: n0 rows without the canary, n1 rows with an eligible one.

        The canary's contribution is the difference of the two means, the covariance that within the two groups; see
        `fit_moments` for its forms and for how ``"auto"`` chooses. Judge other runs than these with it: on its own runs
        a fitted score, and its ``mu_eff``, look better than they are. A canary that takes part by a coin of q shifts
        the mean by q times its contribution, which changes the scale of the score and not the order of releases.

        Args:
            absent: Releases without the canary, one a row; rounds and labels are joined as coordinates.
            eligible: Releases with an eligible canary, on the same coordinates.
            covariance: ``"full"``, ``"diagonal"``, ``"scalar"``, or ``"auto"`` to choose by the number of runs.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> shared = rng.normal(size=(100, 1))  # one scalar of noise for both coordinates
            >>> score = LinearScore.fit(shared + [0.0, 0.0], shared[::-1] + [1.0, 0.0])
            >>> bool(score.llr([5.0, 5.0]) < 0 < score.llr([6.0, 5.0]))
            True
        """
        canary, moments = fit_moments(absent, eligible, covariance)
        return cls(canary, moments)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Return S⁻¹ v, the weight of each inspected coordinate."""
        try:
            factor = cho_factor(self.moments.covariance, lower=True)
        except LinAlgError as error:
            raise InputError(
                "The covariance is not positive definite, so no score exists; estimate it with Moments.estimate, "
                "whose noise and ridge make it so."
            ) from error
        weights = np.asarray(cho_solve(factor, self.canary), dtype=np.float64)
        weights.setflags(write=False)
        return weights

    @cached_property
    def mu_eff(self) -> float:
        """Return sqrt(vᵀ S⁻¹ v), the canary's separation from the background in standard deviations."""
        return float(np.sqrt(max(0.0, float(self.canary @ self.weights))))

    @cached_property
    def offset(self) -> float:
        """Return what is subtracted: the score of a release y is y @ weights - offset."""
        return float(self.weights @ self.moments.mean) + 0.5 * self.mu_eff**2

    def llr(self, releases: ArrayLike) -> NDArray[np.float64]:
        """Return the score of each release, the last axis being the inspected coordinates."""
        given = np.asarray(releases, dtype=np.float64)
        if given.ndim == 0 or given.shape[-1] != self.canary.size:
            raise InputError(
                f"Releases of shape {given.shape} do not end in the {self.canary.size} inspected coordinates; "
                f"restrict them to the coordinates that the score was built on."
            )
        return np.asarray(given @ self.weights - self.offset)

    def project(self, contributions: Any) -> NDArray[np.float64]:
        """Return each user's number a_u = weights · c_u from a dense or sparse table (users, r) of contributions."""
        if contributions.ndim != 2 or contributions.shape[1] != self.canary.size:  # noqa: PLR2004, a table has two axes
            raise InputError(
                f"Contributions of shape {contributions.shape} are not a table over the {self.canary.size} inspected "
                f"coordinates; restrict them to the coordinates that the score was built on."
            )
        return np.asarray(contributions @ self.weights, dtype=np.float64)


def mixture(llr: ArrayLike, q: float) -> NDArray[np.float64]:
    """Return log((1 - q) + q exp(llr)), the log-likelihood ratio of a canary that participates by a coin of q.

    It increases strictly in ``llr`` (in exact arithmetic), from log(1 - q) at minus infinity.

    The formula: the likelihood ratio of a mixture of taking part and not, equation 3 of the paper
    (docs/mathematics.md).

    Args:
        llr: The log-likelihood ratio of a canary that takes part.
        q: The probability that it takes part.

    Example:
        >>> mixture([2.0], q=0.1).round(3).tolist()
        [0.494]
    """
    _check_q(q)
    given = np.asarray(llr, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-q), np.log(q) + given))


def unmix(mixed: ArrayLike, q: float) -> NDArray[np.float64]:
    """Return the llr whose mixture score is ``mixed``; minus infinity at log(1 - q) and below, which none reaches.

    Args:
        mixed: Mixture scores.
        q: The probability that the canary takes part.

    Example:
        >>> unmix(mixture([2.0], q=0.1), q=0.1).round(12).tolist()
        [2.0]
    """
    _check_q(q)
    given = np.asarray(mixed, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        above = given - np.log1p(-q)
        llr = given + np.log(-np.expm1(-above)) - np.log(q)
        return np.asarray(np.where(above > 0.0, llr, -np.inf))


def _check_q(q: float) -> None:
    if not 0.0 < q <= 1.0:
        raise InputError(f"The participation probability q must be in (0, 1], not {q}.")
