"""Compute both tails of a Bernoulli-weighted sum plus a Gaussian as certified intervals.

The smaller tail of a threshold is computed, the other is its complement. A ladder of tilts covers each side of the
mean: the first rung, of about two standard deviations' worth, takes the place of a plain inversion near the mean (whose
accuracy is absolute, not relative), the next ones go as deep as 1e-300. Where the coins have few outcomes, these are
added up instead.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from canarybank.errors import InputError
from canarybank.score.cumulants import NoisySum
from canarybank.score.enumeration import enumerated_tail, outcomes
from canarybank.score.inversion import DEEPEST, Tilt

__all__ = ["Bounds", "Tails", "both_tails", "complement", "tail"]

SLACK = 2.0  # how far, in the exponent, a tilt may be from the best one of a threshold that it serves
MOST_TILTS = 64
FEW_OUTCOMES = 4  # beyond, an inversion is as fast for one threshold and a hundred times faster for many
MANY_OUTCOMES = 2**16
WIDEST = 1e12


class Bounds(NamedTuple):
    """Certified ends of a probability, entry by entry: lower <= truth <= upper, all in [0, 1]."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def complement(bounds: Bounds) -> Bounds:
    """Return the ends of one minus a probability, rounded outwards."""
    lower = np.where(bounds.upper > 0.0, np.nextafter(1.0 - bounds.upper, 0.0), 1.0)
    upper = np.where(bounds.lower > 0.0, np.nextafter(1.0 - bounds.lower, 1.0), 1.0)
    return Bounds(np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0))


def tail(weights: ArrayLike, q: float, noise: float, thresholds: ArrayLike) -> Bounds:
    """Return ends of P(sum I_u w_u + N(0, noise²) > t) for each threshold t, the I_u being independent coins of q.

    The statement is lower <= P <= upper, in the shape of ``thresholds``; aliasing, truncation and rounding are inside.
    Where noise is so small against the weights that the law cannot be resolved the interval is wide, never wrong;
    below 1e-300 the lower end is 0.

    The formula: an inversion of the characteristic function (Gil-Pelaez, 1951,
    https://doi.org/10.1093/biomet/38.3-4.481), with error terms in docs/mathematics.md.

    Args:
        weights: What each user adds to the score when taking part.
        q: The probability that a user takes part.
        noise: The standard deviation of the Gaussian.
        thresholds: The thresholds t.

    Example:
        >>> lower, upper = tail([], q=0.1, noise=1.0, thresholds=[1.6448536269514722])
        >>> round(float(lower[0]), 6), round(float(upper[0]), 6)
        (0.05, 0.05)
    """
    return Tails(NoisySum.of(weights, q, noise)).upper(thresholds)


def both_tails(weights: ArrayLike, q: float, noise: float, thresholds: ArrayLike) -> tuple[Bounds, Bounds]:
    """Return ends of P(X > t) and of P(X <= t), each of full relative accuracy, for the X of `tail`.

    Args:
        weights: What each user adds to the score when taking part.
        q: The probability that a user takes part.
        noise: The standard deviation of the Gaussian.
        thresholds: The thresholds t.

    Example:
        >>> above, below = both_tails([0.5, 0.2], q=0.1, noise=1.0, thresholds=[1.0])
        >>> bool(abs(above[0][0] + below[0][0] - 1) < 1e-9)
        True
    """
    return Tails(NoisySum.of(weights, q, noise)).both(thresholds)


class Tails:
    """Both tails of one noisy sum; what is independent of the threshold is computed once and kept."""

    def __init__(self, law: NoisySum) -> None:
        self.law = law

    @cached_property
    def _right(self) -> "_Side":
        return _Side(self.law)

    @cached_property
    def _left(self) -> "_Side":
        return _Side(self.law.mirrored)

    def upper(self, thresholds: ArrayLike) -> Bounds:
        """Return ends of P(X > t)."""
        return self.both(thresholds)[0]

    def both(self, thresholds: ArrayLike) -> tuple[Bounds, Bounds]:
        """Return ends of P(X > t) and of P(X <= t): the smaller one computed, the other its complement."""
        given = np.asarray(thresholds, dtype=np.float64)
        if np.isnan(given).any():
            raise InputError("A threshold is NaN; thresholds must be numbers, infinities allowed.")
        flat = self.law.scale(given.ravel())
        above = flat >= self.law.mean
        small = _pair(flat.size)
        # A finite threshold that overflows in the unit of the noise stays at [0, 1].
        known = np.isfinite(flat) | ~np.isfinite(given.ravel())
        for chosen, side, places in ((above & known, self._right, flat), (~above & known, self._left, -flat)):
            if chosen.any():
                small.lower[chosen], small.upper[chosen] = side.tail(places[chosen])
        large = complement(small)
        up, down = (
            Bounds(*(np.where(mask, s, g).reshape(given.shape) for s, g in zip(small, large, strict=True)))
            for mask in (above, ~above)
        )
        return up, down


class _Side:
    """The upper tail of one law, for thresholds at or above its mean."""

    def __init__(self, law: NoisySum) -> None:
        self.law = law
        self.tilts: list[Tilt] = []

    @cached_property
    def _enumerable(self) -> bool:
        count = outcomes(self.law)
        return bool(np.isfinite(self.law.reach)) and (
            count <= FEW_OUTCOMES or (count <= MANY_OUTCOMES and not self._resolvable)
        )

    @cached_property
    def _resolvable(self) -> bool:
        return self.law.reach <= WIDEST and self._first.resolved

    @cached_property
    def _first(self) -> Tilt:
        """Build the tilt that serves the neighbourhood of the mean: exp(K(h) - h mean) is exp(SLACK) there."""
        law, mean = self.law, self.law.mean
        low = 2.0 / law.noise
        while law.cumulant(low) - low * mean > SLACK:
            low /= 4.0
        h = _root(lambda x: law.cumulant(x) - x * mean - SLACK, low, 4.0 * low)
        return self._serve(h, mean)

    def _serve(self, h: float, start: float) -> Tilt:
        law = self.law
        at_h, slope = law.cumulant(h), law.slope(h)
        last = _root(lambda x: at_h - law.cumulant(x) - (h - x) * law.slope(x) - SLACK, h, h + 2.1 / law.noise)
        beyond = _root(lambda x: law.cumulant(h + x) - at_h - x * slope - 36.0, 0.0, 8.6 / law.noise)
        return Tilt.build(law, h, start, law.slope(last), beyond)

    def _next(self, tilt: Tilt) -> Tilt:
        law, start = self.law, tilt.stop
        touch = _root(lambda x: law.slope(x) - start, tilt.h, tilt.h + 2.2 / law.noise)
        base = law.cumulant(touch)
        h = _root(lambda x: law.cumulant(x) - base - (x - touch) * start - SLACK, touch, touch + 2.1 / law.noise)
        return self._serve(h, start)

    def _ladder(self, top: float) -> list[Tilt]:
        if not self.tilts:
            self.tilts.append(self._first)
        while (last := self.tilts[-1]).stop < top and len(self.tilts) < MOST_TILTS:
            if last.h * last.stop - last.cumulant > DEEPEST:
                break
            self.tilts.append(self._next(last))
        return self.tilts

    def tail(self, thresholds: NDArray[np.float64]) -> Bounds:
        """Return ends of P(X > t) for scaled thresholds at or above the mean, plus infinity among them."""
        bounds = _pair(thresholds.size)
        finite = np.isfinite(thresholds)
        bounds.lower[~finite] = bounds.upper[~finite] = 0.0
        if finite.any():
            bounds.lower[finite], bounds.upper[finite] = self._finite(thresholds[finite])
        return bounds

    def _finite(self, thresholds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self._enumerable:
            return enumerated_tail(self.law, thresholds)
        if not self._resolvable:
            return np.zeros_like(thresholds), self._rough(thresholds)
        ladder = self._ladder(float(thresholds.max()))
        bounds = _pair(thresholds.size)
        rung = np.searchsorted([tilt.stop for tilt in ladder[:-1]], thresholds)
        for i in np.unique(rung):
            chosen = rung == i
            bounds.lower[chosen], bounds.upper[chosen] = ladder[i].upper_tail(thresholds[chosen])
        return bounds

    def _rough(self, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound the tail by Cantelli's inequality."""
        with np.errstate(all="ignore"):
            ratio = (thresholds - self.law.mean) / self.law.deviation
            bound = np.nan_to_num(1.0 / (1.0 + np.square(ratio * (1.0 - 1e-9))) + 1e-9, nan=1.0)
        return np.clip(bound, 0.0, 1.0)


def _pair(size: int) -> Bounds:
    return Bounds(np.zeros(size), np.ones(size))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, rtol=1e-3))
