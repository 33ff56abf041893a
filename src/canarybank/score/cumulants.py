"""Describe the noisy sum X = sum I_u w_u + N(0, s²) by its cumulant generating function."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from canarybank.errors import InputError

__all__ = ["EPS", "TINY", "NoisySum"]

EPS = float(np.finfo(np.float64).eps)
TINY = 1e-322  # above the absolute rounding error of subnormal numbers, so that a positive truth stays below its bound


@dataclass(frozen=True, eq=False)
class NoisySum:
    """A sum of distinct non-zero weights, each with its number of users, over coins of q, plus Gaussian noise.

    The unit of weights and noise is such that the noise lies in [1, 2); ``exponent`` holds the power of two by which
    everything was divided, so nothing was rounded.
    """

    weights: NDArray[np.float64]
    counts: NDArray[np.float64]
    q: float
    noise: float
    exponent: int = 0

    @classmethod
    def of(cls, weights: ArrayLike, q: float, noise: float) -> "NoisySum":
        """Check, scale by a power of two and group the weights."""
        given = np.asarray(weights, dtype=np.float64)
        if given.ndim != 1:
            raise InputError(f"Weights must be one number a user, not an array of shape {given.shape}.")
        if not np.isfinite(given).all():
            raise InputError("The weights hold NaN or infinite entries; check the contributions they come from.")
        if not 0.0 < q <= 1.0:
            raise InputError(f"The participation probability q must be in (0, 1], not {q}.")
        if not 0.0 < noise < np.inf:
            raise InputError(f"The noise must be a positive finite standard deviation, not {noise}.")
        exponent = int(np.frexp(noise)[1]) - 1
        distinct, counts = np.unique(given[given != 0.0], return_counts=True)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(distinct, -exponent)
        return cls(scaled, counts.astype(np.float64), float(q), float(np.ldexp(noise, -exponent)), exponent)

    def scale(self, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return thresholds in the unit of the scaled sum."""
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(thresholds, -self.exponent)

    @cached_property
    def mirrored(self) -> "NoisySum":
        """Return the law of -X."""
        return NoisySum(-self.weights, self.counts, self.q, self.noise, self.exponent)

    @cached_property
    def mean(self) -> float:
        """Return E[X]."""
        return self.q * float(self.counts @ self.weights) if np.isfinite(self.reach) else 0.0

    @cached_property
    def deviation(self) -> float:
        """Return the standard deviation of X."""
        with np.errstate(over="ignore"):
            spread = self.q * (1.0 - self.q) * float(self.counts @ self.weights**2)
        return float(np.sqrt(spread + self.noise**2))

    @cached_property
    def reach(self) -> float:
        """Return the largest distance from zero that the sum without noise could have; infinite where it overflows."""
        with np.errstate(over="ignore"):
            return float(self.counts @ np.abs(self.weights))

    @cached_property
    def users(self) -> float:
        """Return the number of users with a non-zero weight."""
        return float(self.counts.sum())

    @cached_property
    def _log_coin(self) -> tuple[float, float]:
        with np.errstate(divide="ignore"):
            return float(np.log1p(-self.q)), float(np.log(self.q))

    def _log_factors(self, h: float) -> NDArray[np.float64]:
        tails, heads = self._log_coin
        return np.logaddexp(tails, heads + h * self.weights)

    def cumulant(self, h: float) -> float:
        """Return K(h) = log E exp(h X)."""
        return 0.5 * (h * self.noise) ** 2 + float((self.counts * self._log_factors(h)).sum())

    def cumulant_error(self, h: float) -> float:
        """Bound the rounding error of `cumulant`."""
        tails, heads = self._log_coin
        up, down = self.tilted_coins(h)
        # A factor (1-q) + q exp(hw) moves by `down` with log(1-q) and by `up` with log(q) + hw; the sum is pairwise.
        each = up * (4.0 + 3.0 * (np.abs(h * self.weights) - heads))
        each += 2.0 * down * -tails if self.q < 1.0 else 0.0
        summing = (12.0 + np.log2(len(up) + 1.0)) * np.abs(self._log_factors(h))
        return EPS * (float(self.counts @ (each + summing)) + 4.0 * (h * self.noise) ** 2)

    def tilted_coins(self, h: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the probabilities of heads and of tails under the law tilted by exp(h X)."""
        tails, heads = self._log_coin
        log_odds = heads - tails + h * self.weights
        return expit(log_odds), expit(-log_odds)

    def slope(self, h: float) -> float:
        """Return K'(h), the mean of the tilted law."""
        return h * self.noise**2 + float((self.counts * self.tilted_coins(h)[0]) @ self.weights)
