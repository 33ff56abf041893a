"""Draw those of many trials whose score exceeds a cut, and leave the others undrawn.

A threshold far out is exceeded by a few trials in a million, and only these count. Let X be the noisy sum, K its
cumulant generating function and t the cut. For any h >= 0, b = exp(K(h) - h t) is Chernoff's bound on P(X > t). Let a
trial survive with probability b, draw X for it from the law tilted by exp(h X), and keep it where X > t with
probability exp(-h (X - t)). The chance that a trial is kept with its score in dx is then

    b · exp(h x - K(h)) P(dx) · exp(-h (x - t)) = P(dx)    for every x > t,

which is what a trial that is drawn in full gives. So the number and the values of the kept scores have the law of those
above the cut among ``size`` full trials, for every h; the best h, with K'(h) = t, makes the fewest draws.

K and the tilted coins are computed here, and not as the exact tails compute them: trials can then contradict those.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from canarybank.errors import InputError
from canarybank.score.cumulants import NoisySum

__all__ = ["WIDEST", "Exceedances", "chernoff_cut"]

WIDEST = 1e12
"""Weights that are larger than this, in units of the noise, leave no digits of K(h) - h t: all trials are drawn."""
_BEYOND = 40.0
"""Standard deviations of the noise beyond which no float64 holds its tail."""
_COINS = 1 << 18
"""Coins that are tossed at once: few enough to stay in a processor's cache."""
_MANY = 32
"""So many users of one weight are drawn as one binomial number, which takes as long as their coins."""


@dataclass(frozen=True, eq=False)
class Exceedances:
    """The scores of a noisy sum above a cut; ``cut`` is in the unit of the law, ``h`` the tilt.

    The law of what is drawn does not depend on ``h``, only the number of draws.
    """

    law: NoisySum
    cut: float
    h: float

    @classmethod
    def above(cls, law: NoisySum, cut: float) -> "Exceedances":
        """Return the draws above a cut in the unit of the scores, with the tilt that makes the fewest.

        Args:
            law: The law of the score.
            cut: Scores above it are wanted.

        Example:
            >>> drawn = Exceedances.above(NoisySum.of([0.5, 0.2], q=0.1, noise=1.0), cut=3.0)
            >>> round(drawn.survival, 3)  # of so many trials the score is drawn at all
            0.014
        """
        if math.isnan(cut):
            raise InputError("The cut is NaN; give a number.")
        place = float(law.scale(np.array(cut)))
        if place > law.reach + _BEYOND * law.noise:
            return cls(law, math.inf, 0.0)
        if law.reach > WIDEST or place <= _slope(law, 0.0):
            return cls(law, place, 0.0)
        # K' grows by the noise's variance at least, so the root lies below; near it every h serves as well.
        highest = 1.01 * (place - _slope(law, 0.0)) / law.noise**2
        return cls(law, place, _find_root(lambda at: _slope(law, at) - place, highest))

    @cached_property
    def survival(self) -> float:
        """Return Chernoff's bound on the chance of a score above the cut: the share of trials that are drawn."""
        if self.h == 0.0:
            return 0.0 if self.cut == math.inf else 1.0
        return math.exp(min(0.0, _cumulant(self.law, self.h) - self.h * self.cut))

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the scores above the cut of ``size`` independent trials, in no order.

        Args:
            size: The number of trials.
            rng: Where randomness comes from.

        Example:
            >>> drawn = Exceedances.above(NoisySum.of([0.5, 0.2], q=0.1, noise=1.0), cut=3.0)
            >>> len(drawn.draw(100_000, np.random.default_rng(0)))  # P(X > 3) is 0.00195
            181
        """
        survivors = int(rng.binomial(size, self.survival))
        scores = rng.standard_normal(survivors)
        scores *= self.law.noise
        scores += self.h * self.law.noise**2 + self._tilted_sums(survivors, rng)
        kept = scores > self.cut
        if self.h > 0.0:  # an exponential number exceeds x with probability exp(-x)
            kept &= rng.standard_exponential(survivors) > self.h * (scores - self.cut)
        return np.ldexp(scores[kept], self.law.exponent)

    def _tilted_sums(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return so many sums of the weights of those who take part, by coins tilted by exp(h X)."""
        law, heads = self.law, _tilted_coins(self.law, self.h)[0]
        total, many = np.zeros(size), law.counts >= _MANY
        for weight, count, chance in zip(law.weights[many], law.counts[many], heads[many], strict=True):
            total += weight * rng.binomial(int(count), chance, size)
        often = law.counts[~many].astype(np.int64)
        weights, chances = np.repeat(law.weights[~many], often), np.repeat(heads[~many], often)
        rows = max(1, _COINS // max(1, len(weights)))
        for start in range(0, size if len(weights) else 0, rows):
            part = total[start : start + rows]
            part += ((rng.random((len(part), len(weights))) < chances) * weights).sum(axis=1)
        return total


def chernoff_cut(law: NoisySum, share: float) -> float:
    """Return the cut, in the unit of the scores, above which Chernoff's bound lets at most this share of trials lie.

    The formula: K'(h) with h K'(h) - K(h) = log(1 / share).

    Args:
        law: The law of the score.
        share: The bound, in (0, 1).

    Example:
        >>> round(chernoff_cut(NoisySum.of([], q=0.1, noise=1.0), share=0.011109), 3)  # exp(-3² / 2)
        3.0
    """
    if not 0.0 < share < 1.0:
        raise InputError(f"The share must lie strictly between 0 and 1, not be {share!r}.")
    if law.reach > WIDEST:
        raise InputError("The weights are too large against the noise for a cut by Chernoff's bound; draw all trials.")
    exponent = -math.log(share)
    highest = 1.01 * math.sqrt(2.0 * exponent) / law.noise

    def lacking(h: float) -> float:
        return h * _slope(law, h) - _cumulant(law, h) - exponent

    return float(np.ldexp(_slope(law, _find_root(lacking, highest)), law.exponent))


def _find_root(function: Callable[[float], float], highest: float) -> float:
    """Return where a function from 0 to ``highest`` crosses zero, to a millionth of itself, however near 0 that is."""
    return float(brentq(function, 0.0, highest, xtol=1e-300, rtol=1e-6))


def _tilted_coins(law: NoisySum, h: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return of each weight w the probability q e^(hw) / (1 - q + q e^(hw)), and the logarithm of its denominator."""
    moved = h * law.weights
    if law.q == 1.0:
        return np.ones_like(moved), moved
    small = np.exp(-np.abs(moved))  # the smaller of e^(hw) and 1, over the larger
    heads, tails = np.where(moved > 0, 1.0, small) * law.q, np.where(moved > 0, small, 1.0) * (1.0 - law.q)
    return heads / (heads + tails), np.log(heads + tails) + np.maximum(moved, 0.0)


def _cumulant(law: NoisySum, h: float) -> float:
    """Return K(h) = h² noise² / 2 + sum log(1 - q + q e^(hw))."""
    return 0.5 * (h * law.noise) ** 2 + float((law.counts * _tilted_coins(law, h)[1]).sum())


def _slope(law: NoisySum, h: float) -> float:
    """Return K'(h), the mean of the tilted law."""
    return h * law.noise**2 + float((law.counts * _tilted_coins(law, h)[0] * law.weights).sum())
