"""Choose the threshold whose bound is best in expectation, for so many trials, at such a level, by such a method."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from canarybank.audit.bounds import Branch
from canarybank.audit.methods import Method, find_method
from canarybank.audit.methods.paper import PAPER
from canarybank.audit.rates import Array, rate_epsilon, small_probability
from canarybank.errors import InputError

__all__ = ["AttackRates", "Target", "aimed", "best_threshold"]

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
    canary's share, or all of it where the method pools all ``canaries``. ``stratified`` needs ``q``.
    """

    trials: float
    delta: float
    alpha: float
    method: Method = PAPER
    canaries: int = 1
    q: float | None = None

    def __post_init__(self) -> None:
        small_probability("delta", self.delta)
        object.__setattr__(self, "method", find_method(self.method))
        self.method.require(self.alpha, self.q)
        if not (self.trials >= 1 and (self.trials == math.inf or self.trials == int(self.trials))):
            raise InputError(f"trials must be a whole number of at least 1, or infinite, not {self.trials!r}.")
        if self.canaries < 1:
            raise InputError(f"There must be at least one canary, not {self.canaries!r}.")

    @property
    def pool(self) -> int:
        """Return how many canaries' counts go into one bound."""
        return self.canaries if self.method.pools else 1

    def bound(self, tpr: ArrayLike, fpr: ArrayLike, branch: Branch | None = None) -> Array:
        """Return one branch of the bound at the expected counts, or the better; below 0 where it certifies nothing.

        Rates are those of an eligible canary for every method; ``stratified`` derives those of a canary that surely
        takes part from them. ``joint`` is forecast by its statistic, to about 0.01.
        """
        return aimed(self.branches(tpr, fpr), branch)

    def branches(self, tpr: ArrayLike, fpr: ArrayLike) -> tuple[Array, Array]:
        """Return both branches of the bound at the expected counts: forward, reverse."""
        tpr, fpr = np.asarray(tpr, np.float64), np.asarray(fpr, np.float64)
        if self.trials == math.inf:
            # A rate that rounds to 1 leaves 1 - rate known to 2^-53 only: say no more than that supports.
            missed = np.maximum(1 - tpr, 2.0**-53)
            return rate_epsilon(tpr, fpr, self.delta), rate_epsilon(1 - fpr, missed, self.delta)
        n = self.pool * self.trials
        return self._branches(n * self.first_rate(tpr, fpr), n * fpr, n)

    def first_rate(self, tpr: ArrayLike, fpr: ArrayLike) -> Array:
        """Return the rate that the first count of the method estimates: TPR, or TPR_included for ``stratified``."""
        return self.method.first_rate(np.asarray(tpr, np.float64), np.asarray(fpr, np.float64), self.q)

    def at_counts(self, tp: ArrayLike, fp: ArrayLike, n: float) -> Array:
        """Return the better branch of the bound at counts of n trials a hypothesis; counts need not be whole."""
        return np.maximum(*self._branches(tp, fp, n))

    def claim(self, tp: float, fp: float, n: float) -> float:
        """Return the bound itself at whole counts of n trials a hypothesis, and no forecast of it."""
        whole = (int(tp), int(fp), int(n), int(n))
        return max(0.0, *self.method.claim(*whole, delta=self.delta, alpha=self.alpha, q=self.q))

    def _branches(self, tp: ArrayLike, fp: ArrayLike, n: float) -> tuple[Array, Array]:
        return self.method.branches(tp, fp, n, n, delta=self.delta, alpha=self.alpha, q=self.q)


def aimed(branches: tuple[Array, Array], branch: Branch | None) -> Array:
    """Return one branch of (forward, reverse), or the better of the two where none is asked for."""
    return np.maximum(*branches) if branch is None else branches[branch is Branch.REVERSE]


def best_threshold(rates: AttackRates, target: Target, branch: Branch | None = None) -> tuple[float, float]:
    """Return the threshold that maximises the bound at expected counts, or one branch of it, and that bound.

    A scan over all thresholds at which either rate is neither 0 nor 1 for so many trials, then five ever closer
    looks around the best. The bound is a forecast from true rates: it claims nothing.
    """
    low, high = _reach(rates, target.trials)
    grid = np.linspace(low, high, _SCAN)
    for _ in range(_ZOOMS + 1):
        fpr, tpr = rates(grid)
        values = target.bound(tpr, fpr, branch)
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
