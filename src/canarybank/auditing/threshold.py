"""Freeze the threshold before anything is evaluated, from the calibration cohort alone.

The best threshold is the one whose bound is best in expectation, for so many trials, at such a level, by such a method.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from canarybank import seeds
from canarybank.auditing.exact import Law
from canarybank.auditing.methods import Branch, Method, find_method
from canarybank.auditing.methods.paper import PAPER
from canarybank.auditing.rates import Array, rate_epsilon
from canarybank.auditing.trials import Trials, draw
from canarybank.engine import Engine
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.progress import SILENT, Progress
from canarybank.users import Calibration

__all__ = [
    "AttackRates",
    "Target",
    "Threshold",
    "ThresholdMode",
    "aimed",
    "analytic",
    "best_threshold",
    "calibrated",
    "choose_aim",
    "stand_in",
]

AttackRates: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Thresholds to (FPR, TPR): the probability that the score exceeds them, canary absent and canary eligible."""

_SCAN = 257
_ZOOM = 33
_ZOOMS = 5
_WIDEST = 2.0**40
_CANDIDATES = 4096


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
        object.__setattr__(self, "method", find_method(self.method))
        self.method.require(self.alpha, delta=self.delta, q=self.q)
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
        return max(
            0.0,
            *self.method.claim(int(tp), int(fp), int(n), int(n), delta=self.delta, alpha=self.alpha, q=self.q),
        )

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
    rare = 1e-3 / min(target.trials, 1e9)
    high = _doubled(lambda at: float(rates(np.array([at]))[0][0]) <= rare)
    low = -_doubled(lambda at: float(rates(np.array([-at]))[1][0]) >= 1 - rare)
    grid = np.linspace(low, high, _SCAN)
    for _ in range(_ZOOMS + 1):
        fpr, tpr = rates(grid)
        values = target.bound(tpr, fpr, branch)
        best = int(np.argmax(values))
        threshold, value = float(grid[best]), float(values[best])
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], _ZOOM)
    return threshold, max(0.0, value)


def _doubled(beyond: Callable[[float], bool]) -> float:
    """Return a power of two beyond which it holds and at half of which it does not."""
    at = 1.0
    while not beyond(at) and at < _WIDEST:
        at *= 2
    while at > 1 / _WIDEST and beyond(at / 2):
        at /= 2
    return at


class ThresholdMode(StrEnum):
    """How the threshold is frozen."""

    CALIBRATED = "calibrated"
    ANALYTIC = "analytic"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A frozen threshold: the rule says "present" when the score exceeds ``value``."""

    value: float
    """The rule says "present" when the score exceeds this."""
    mode: ThresholdMode
    """How it was frozen."""
    expected: float
    """The bound that the calibration cohort's own rates would give; a forecast, not a claim."""


def stand_in(routed: Routed[Calibration], bank: Bank, mechanism: Mechanism, *, eligible: int, seed: int) -> csr_array:
    """Return contributions of ``eligible`` users, made by repeating the calibration cohort's users.

    Each user appears floor(eligible / cohort size) times, and the remainder is chosen by seed; every copy will
    toss a participation coin of its own.
    """
    if not isinstance(routed.cohort, Calibration):
        raise CohortError(f"A threshold is frozen on the calibration cohort, not on {type(routed.cohort).__name__}.")
    copies, rest = divmod(eligible, len(routed))
    extra = seeds.stream(seed, "calibration", "remainder").choice(len(routed), size=rest, replace=False)
    rows = np.concatenate([np.repeat(np.arange(len(routed)), copies), np.sort(extra)])
    return routed.contributions(bank, mechanism)[rows]


def choose_aim(candidates: Sequence[Sequence[Threshold]]) -> list[Threshold]:
    """Return each canary's threshold under the one aim that promises an attack's canaries most together.

    ``candidates[c][a]`` is the threshold of canary c under aim a of ``Method.aims``; the first of equal aims wins.
    """
    aims = list(zip(*candidates, strict=True))
    return list(max(aims, key=lambda aim: sum(threshold.expected for threshold in aim)))


def analytic(law: Law, target: Target, branch: Branch | None = None) -> Threshold:
    """Freeze the threshold at which the law's exact rates promise the best bound, or the best of one branch."""
    value, expected = best_threshold(law.point, target, branch)
    return Threshold(value, ThresholdMode.ANALYTIC, expected)


def calibrated(
    trials: Trials,
    target: Target,
    *,
    number: int,
    seed: int,
    path: tuple[str | int, ...] = (),
    branch: Branch | None = None,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> Threshold:
    """Freeze the threshold at which trials on the calibration cohort, or through a system, gave the best bound.

    With ``branch`` it is the best for that branch of the bound alone.
    The candidates are the scores at log-spaced ranks of both hypotheses together, from both ends.
    """
    absent, eligible = (
        np.sort(scores)
        for scores in draw(trials, number, seed=seed, path=(*path, "calibration"), engine=engine, progress=progress)
    )
    candidates = _candidates(absent, eligible)
    false_positives = len(absent) - np.searchsorted(absent, candidates, side="right")
    true_positives = len(eligible) - np.searchsorted(eligible, candidates, side="right")
    bounds = target.bound(true_positives / len(eligible), false_positives / len(absent), branch)
    best = int(np.argmax(bounds))
    return Threshold(float(candidates[best]), ThresholdMode.CALIBRATED, max(0.0, float(bounds[best])))


def _candidates(absent: NDArray[np.float64], eligible: NDArray[np.float64]) -> NDArray[np.float64]:
    picks = []
    for scores in (absent, eligible):
        ranks = np.unique(np.geomspace(1, len(scores), _CANDIDATES // 4).astype(np.int64)) - 1
        picks += [scores[ranks], scores[len(scores) - 1 - ranks]]
    return np.unique(np.concatenate(picks))
