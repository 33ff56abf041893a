"""Say where a bound falls by sampling alone: over its trials, and over those that its threshold was calibrated by."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.audit.bounds import Method
from canarybank.audit.exact import Law
from canarybank.audit.forecast import bound_law
from canarybank.audit.rates import Array, ends, probability
from canarybank.audit.target import Target
from canarybank.score import Interval
from canarybank.seeds import stream

__all__ = ["Canary", "calibrated_spread", "drawn_thresholds", "frozen_spread"]

LEVEL = 0.999
_CELLS = 1024
_REPLICATES = 400
_KINDS = 16
"""Drawn thresholds are gathered into at most this many, each with as many draws."""
_COUNTED = 4096
_RATIO = 1.002
_VALUES = 4001


@dataclass(frozen=True, slots=True)
class Canary:
    """The law that a canary's threshold is calibrated by, and the law that it is then evaluated by."""

    calibration: Law
    evaluation: Law


def frozen_spread(pairs: Sequence[tuple[float, float]], target: Target, *, level: float = LEVEL) -> Interval:
    """Return where the bound falls with probability ``level``, given each canary's true rates (TPR, FPR).

    The bound is the maximum over the canaries, or the pooled one. It falls below the interval, and above it, with
    probability at most (1 - level) / 2 each: the law is that of the binomial counts.
    """
    probability("level", level)
    values, mass = bound_law(target, pairs)
    return _between(values, np.cumsum(mass), level)


def calibrated_spread(
    canaries: Sequence[Canary],
    target: Target,
    *,
    number: int,
    seed: int,
    level: float = LEVEL,
    replicates: int = _REPLICATES,
) -> Interval:
    """Return where the bound falls with probability about ``level`` when thresholds are calibrated anew by trials.

    Calibrations with ``number`` trials of each hypothesis are simulated for each canary, which gives the law of its
    threshold; given a threshold, the law of the bound is that of its binomial counts, with no simulation. The ends
    move by about 0.005 from one seed to another.
    """
    probability("level", level)
    drawn = [
        drawn_thresholds(each.calibration, target, number, replicates, stream(seed, "spread", index))
        for index, each in enumerate(canaries)
    ]
    kinds = [_gathered(thresholds) for thresholds in drawn]
    rates = [each.evaluation.point(kind) for each, kind in zip(canaries, kinds, strict=True)]
    if target.method is Method.POOLED:
        together = zip(*(zip(tpr, fpr, strict=True) for fpr, tpr in _aligned(rates)), strict=True)
        laws = [[bound_law(target, [(float(tpr), float(fpr)) for tpr, fpr in pairs]) for pairs in together]]
    else:
        laws = [
            [bound_law(target, [(float(one), float(other))]) for other, one in zip(fpr, tpr, strict=True)]
            for fpr, tpr in rates
        ]
    return _between(*_largest(laws), level)


def drawn_thresholds(
    law: Law, target: Target, number: int, replicates: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return so many thresholds, each the best by the counts of ``number`` simulated trials of each hypothesis.

    Counts are drawn for the cells of a fixed grid, so a threshold is one of about a thousand, not one of the scores.
    """
    points = np.linspace(*law.reach(1e-3 / number), _CELLS)
    fpr, tpr = law.point(points)
    false, true = (_positives(rate, number, replicates, rng) for rate in (fpr, tpr))
    return np.asarray(points[np.argmax(_bounds(target, true, false, number), axis=1)])


def _positives(rates: Array, number: int, replicates: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return, for each replicate, how many of its trials exceed each of the points."""
    falling = np.minimum.accumulate(np.clip(rates, 0.0, 1.0))
    cells = np.concatenate([-np.diff(falling, prepend=1.0), falling[-1:]])
    counts = rng.multinomial(number, cells / cells.sum(), size=replicates)
    return np.asarray(number - np.cumsum(counts[:, :-1], axis=1))


def _bounds(target: Target, true: NDArray[np.int64], false: NDArray[np.int64], number: int) -> Array:
    """Return what ``target.bound`` gives at these counts, by a table where the ends are those of one rate alone."""
    if target.method not in {Method.PAPER, Method.CLOPPER_PEARSON} or target.trials != number:
        return target.bound(true / number, false / number)
    gamma = target.alpha / (4 if target.method is Method.PAPER else 2)
    steps = np.arange(_COUNTED, dtype=np.float64)
    above = np.geomspace(_COUNTED, max(number, _COUNTED), 2 + int(np.log(max(number / _COUNTED, 1)) / np.log(_RATIO)))
    counts = np.unique(np.minimum(np.concatenate([steps, above]), number))
    lower, upper = ends(counts, number, gamma)
    least = np.log(np.maximum(lower - target.delta, 1e-300))
    most = np.log(upper)
    forward = np.interp(true, counts, least) - np.interp(false, counts, most)
    reverse = np.interp(number - false, counts, least) - np.interp(number - true, counts, most)
    return np.maximum(forward, reverse)


def _gathered(thresholds: Array) -> Array:
    """Return the middles of groups of equal size, ascending."""
    groups = np.array_split(np.sort(thresholds), min(_KINDS, len(thresholds)))
    return np.array([group[len(group) // 2] for group in groups])


def _aligned(rates: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    # Canaries calibrate independently, so their thresholds are paired in no order.
    orders = [stream(0, "spread", "pairing", index).permutation(len(fpr)) for index, (fpr, _) in enumerate(rates)]
    return [(fpr[order], tpr[order]) for (fpr, tpr), order in zip(rates, orders, strict=True)]


def _largest(laws: Sequence[Sequence[tuple[Array, Array]]]) -> tuple[Array, Array]:
    """Return values and the chance that the maximum over canaries, each of a mixture of laws, is at most these."""
    high = max(float(values[-1]) for mixture in laws for values, _ in mixture)
    grid = np.linspace(0.0, high, _VALUES)
    reached = np.ones(_VALUES)
    for mixture in laws:
        each = [_at_most(values, mass, grid) for values, mass in mixture]
        reached *= np.mean(each, axis=0)
    return grid, reached


def _at_most(values: Array, mass: Array, grid: Array) -> Array:
    total = np.concatenate([[0.0], np.cumsum(mass)])
    return np.asarray(total[np.searchsorted(values, grid, side="right")])


def _between(values: Array, reached: Array, level: float) -> Interval:
    last = len(values) - 1
    tail = (1.0 - level) / 2
    low, high = (min(int(np.searchsorted(reached, share)), last) for share in (tail, 1.0 - tail))
    return Interval(float(values[low]), float(values[high]))
