"""Choose the threshold whose bound is best in expectation, for so many trials, at such a level, by such a method."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from canarybank.audit.bounds import REVERSE_SHARE, Method
from canarybank.audit.joint import EFFECTIVE_SHARE, score_epsilon
from canarybank.audit.rates import (
    Array,
    count_epsilons,
    ends,
    pooled_ends,
    probability,
    rate_epsilon,
    small_probability,
    stratified_epsilon,
)
from canarybank.errors import InputError

__all__ = ["AttackRates", "Target", "best_threshold"]

AttackRates: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Thresholds to (FPR, TPR): the probability that the score exceeds them, canary absent and canary eligible."""

_SCAN = 257
_ZOOM = 33
_ZOOMS = 5
_WIDEST = 2.0**40


@dataclass(frozen=True, slots=True)
class Target:
    """What a threshold is chosen for.

    ``trials`` counts each hypothesis of each canary, and may be infinite. ``alpha`` is the level of each bound: a
    canary's share, or all of it for ``pooled``, which is one bound over all ``canaries``. ``stratified`` needs ``q``.
    """

    trials: float
    delta: float
    alpha: float
    method: Method = Method.PAPER
    canaries: int = 1
    q: float | None = None

    def __post_init__(self) -> None:
        small_probability("delta", self.delta), probability("alpha", self.alpha)
        object.__setattr__(self, "method", Method.named(self.method))
        if not (self.trials >= 1 and (self.trials == math.inf or self.trials == int(self.trials))):
            raise InputError(f"trials must be a whole number of at least 1, or infinite, not {self.trials!r}.")
        if self.canaries < 1:
            raise InputError(f"There must be at least one canary, not {self.canaries!r}.")
        if self.method is Method.STRATIFIED and not (self.q is not None and 0 < self.q <= 1):
            raise InputError(f"A stratified bound needs q in (0, 1], the probability of taking part, not {self.q!r}.")

    def bound(self, tpr: ArrayLike, fpr: ArrayLike) -> Array:
        """Return the better branch of the bound at the expected counts, below 0 where that certifies nothing.

        Rates are those of an eligible canary for every method; ``stratified`` derives those of a canary that surely
        takes part from them. ``joint`` is forecast by its statistic, to about 0.01.
        """
        tpr, fpr = np.asarray(tpr, np.float64), np.asarray(fpr, np.float64)
        if self.trials == math.inf:
            # A rate that rounds to 1 leaves 1 - rate known to 2^-53 only: say no more than that supports.
            missed = np.maximum(1 - tpr, 2.0**-53)
            return np.maximum(rate_epsilon(tpr, fpr, self.delta), rate_epsilon(1 - fpr, missed, self.delta))
        pool = self.canaries if self.method is Method.POOLED else 1
        return self.at_counts(
            pool * self.trials * self.first_rate(tpr, fpr), pool * self.trials * fpr, pool * self.trials
        )

    def first_rate(self, tpr: ArrayLike, fpr: ArrayLike) -> Array:
        """Return the rate that the first count of the method estimates: TPR, or TPR_included for ``stratified``."""
        tpr, fpr = np.asarray(tpr, np.float64), np.asarray(fpr, np.float64)
        if self.method is not Method.STRATIFIED or self.q is None:
            return tpr
        return np.clip((tpr - (1 - self.q) * fpr) / self.q, 0.0, 1.0)

    def at_counts(self, tp: ArrayLike, fp: ArrayLike, n: float) -> Array:
        """Return the better branch of the bound at counts of n trials a hypothesis; counts need not be whole."""
        if self.method is Method.STRATIFIED:
            return stratified_epsilon(tp, fp, n, n, q=self.q or 1.0, delta=self.delta, gamma=self.alpha / 2)
        if self.method is Method.JOINT:
            level = (1 - REVERSE_SHARE) * EFFECTIVE_SHARE * self.alpha
            forward = score_epsilon(tp, fp, n, n, delta=self.delta, alpha=level)
            return np.maximum(forward, self._branches(tp, fp, n, REVERSE_SHARE * self.alpha / 2)[1])
        return np.maximum(*self._branches(tp, fp, n, self.alpha / (4 if self.method is Method.PAPER else 2)))

    def _branches(self, tp: ArrayLike, fp: ArrayLike, n: float, gamma: float) -> tuple[Array, Array]:
        each = pooled_ends if self.method is Method.POOLED else ends
        return count_epsilons(tp, fp, n, n, delta=self.delta, gamma=gamma, each=each)


def best_threshold(rates: AttackRates, target: Target) -> tuple[float, float]:
    """Return the threshold that maximises the bound at expected counts, and that bound.

    A scan over all thresholds at which either rate is neither 0 nor 1 for so many trials, then five ever closer
    looks around the best. The bound is a forecast from true rates: it claims nothing.
    """
    low, high = _reach(rates, target.trials)
    grid = np.linspace(low, high, _SCAN)
    for _ in range(_ZOOMS + 1):
        fpr, tpr = rates(grid)
        values = target.bound(tpr, fpr)
        best = int(np.argmax(values))
        threshold, value = float(grid[best]), float(values[best])
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], _ZOOM)
    return threshold, max(0.0, value)


def _reach(rates: AttackRates, trials: float) -> tuple[float, float]:
    rare = 1e-3 / min(trials, 1e9)
    high = _doubled(lambda at: float(rates(np.array([at]))[0][0]) <= rare)
    low = -_doubled(lambda at: float(rates(np.array([-at]))[1][0]) >= 1 - rare)
    return low, high


def _doubled(beyond: Callable[[float], bool]) -> float:
    """Return a power of two beyond which it holds and at half of which it does not."""
    at = 1.0
    while not beyond(at) and at < _WIDEST:
        at *= 2
    while at > 1 / _WIDEST and beyond(at / 2):
        at /= 2
    return at
