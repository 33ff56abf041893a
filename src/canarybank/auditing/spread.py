"""Say where a bound falls by sampling alone: over its trials, and over those that its threshold was calibrated by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from canarybank.auditing.forecast import bound_law, bound_values, count_law
from canarybank.auditing.rates import Array, Law, ends, probability
from canarybank.auditing.settings import Target, aimed
from canarybank.errors import InputError
from canarybank.score import Interval
from canarybank.seeds import stream

__all__ = ["LEVEL", "Outcomes", "calibrated_spread", "count_branches", "drawn_thresholds", "frozen_spread"]

Whole: TypeAlias = NDArray[np.int64]
Terms: TypeAlias = Callable[[Any], Array]
"""Counts to the logarithm of what an end of each one's rate adds to a bound."""

LEVEL = 0.999
_CELLS = 512
_AT_ONCE = 500
_COUNTED, _PART, _RATIO = 4096, 1 / 4, 1.001
"""A table of ends holds counts up to the first in steps of the second, then each so many times the one before."""
_LISTED = 2**22  # trials up to which a figure of every count is kept, 32 MiB for each end
_VALUES = 4001
_LEAST = 1e-300
"""Stands for zero where a logarithm is taken."""


def frozen_spread(pairs: Sequence[tuple[float, float]], target: Target, *, level: float = LEVEL) -> Interval:
    """Return where the bound falls with probability ``level``, given each canary's true rates (TPR, FPR).

    The bound is the maximum over the canaries, or the pooled one. It falls below the interval, and above it, with
    probability at most about (1 - level) / 2 each: the law is that of the binomial counts, gathered into blocks.

    Args:
        pairs: Each canary's true rates, TPR and FPR.
        target: What the bound will be made with: trials, method, level.
        level: The chance that the bound falls inside.

    Example:
        >>> found = frozen_spread([(0.06, 0.01)], Target(trials=10_000, delta=1e-5, alpha=0.05))
        >>> 0 < found.lower < found.upper
        True
    """
    probability("level", level)
    if not pairs or not all(0 <= rate <= 1 for pair in pairs for rate in pair):
        raise InputError(f"A spread needs the rates of at least one canary, each between 0 and 1, not {pairs!r}.")
    values, mass = bound_law(target, pairs)
    tail, last = (1.0 - level) / 2, len(values) - 1
    low, high = (min(int(np.searchsorted(np.cumsum(mass), share)), last) for share in (tail, 1.0 - tail))
    return Interval(float(values[low]), float(values[high]))


def calibrated_spread(
    calibration: Sequence[Law],
    evaluation: Sequence[Law],
    target: Target,
    *,
    number: int,
    seed: int,
    level: float = LEVEL,
    replicates: int = 8000,
) -> Interval:
    """Return where the bound falls with probability ``level`` when thresholds are calibrated anew by trials.

    Each canary's threshold is calibrated by its law of ``calibration`` and evaluated by that of ``evaluation``.
    Calibrations with ``number`` trials of each hypothesis are simulated, ``replicates`` over all canaries, which gives
    the law of each threshold; given a threshold, the law of the bound is that of its binomial counts, with no
    simulation. Each end is put where the chance of missing it, and the standard error of that chance by so many
    calibrations, come to (1 - level) / 2 together. A low end that hangs on rare thresholds still moves by a few
    hundredths from one seed to another.

    Args:
        calibration: Each canary's law over the calibration cohort.
        evaluation: Each canary's law over the evaluation cohort.
        target: What the bound will be made with: trials, method, level.
        number: The trials of each hypothesis that calibrate a threshold.
        seed: The root of what is simulated.
        level: The chance that the bound falls inside.
        replicates: How many calibrations are simulated, over all canaries.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> law = RoundLaw.perfect(Mechanism(q=0.5))
        >>> target = Target(trials=2_000, delta=1e-5, alpha=0.01)
        >>> found = calibrated_spread([law], [law], target, number=2_000, seed=0, replicates=40)
        >>> 0 <= found.lower < found.upper
        True
    """
    probability("level", level)
    canaries = len(calibration)
    if not canaries or replicates < canaries:
        raise InputError(
            f"A spread needs a canary and a calibration for each, not {canaries} canaries and {replicates}."
        )
    share, streams = replicates // canaries, [stream(seed, "spread", index) for index in range(canaries)]
    drawn = drawn_thresholds(calibration, target, number, share, streams)
    grid, reached = _largest(
        [_together(evaluation, drawn, target)]
        if target.method.pools
        else [_mixture(law, kinds, target) for law, kinds in zip(evaluation, drawn, strict=True)]
    )
    # The chance that comes to (1 - level) / 2 together with the standard error of its share in so many draws.
    draws = share * canaries
    tail = float((np.sqrt(1 / draws + 4 * ((1.0 - level) / 2)) - np.sqrt(1 / draws)) ** 2 / 4)
    low, high = (int(np.searchsorted(reached, at)) for at in (tail, 1.0 - tail))
    # Between two values of the grid there may be mass: the interval takes it in at both ends.
    return Interval(float(grid[max(low - 1, 0)]), float(grid[min(high, len(grid) - 1)]))


def drawn_thresholds(
    laws: Sequence[Law], target: Target, number: int, replicates: int, streams: Sequence[np.random.Generator]
) -> list[NDArray[np.float64]]:
    """Return so many thresholds of each canary, the best by the counts of ``number`` simulated trials a hypothesis.

    Counts are drawn for the cells of a grid over the thresholds that can come out best, so a threshold is one of some
    hundred, not one of the scores. Where a method has several aims, a replicate's canaries all take the aim that
    promises them most together.
    """
    drawn = [_best_drawn(law, target, number, replicates, rng) for law, rng in zip(laws, streams, strict=True)]
    aim = np.argmax(np.sum([np.maximum(promised, 0.0) for _, promised in drawn], axis=0), axis=0)
    return [best[aim, np.arange(replicates)] for best, _ in drawn]


def _best_drawn(
    law: Law, target: Target, number: int, replicates: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the best threshold by each aim (a row) and replicate (a column), and the bound that it promises."""
    points = _plausible(law, target, number)
    fpr, tpr = law.point(points)
    best, promised = [], []
    for start in range(0, replicates, _AT_ONCE):
        false, true = (_positives(rate, number, min(_AT_ONCE, replicates - start), rng) for rate in (fpr, tpr))
        branches = count_branches(target, true, false, number)
        bounds = np.stack([aimed(branches, aim) for aim in target.method.aims])
        best.append(points[np.argmax(bounds, axis=2)])
        promised.append(bounds.max(axis=2))
    return np.concatenate(best, axis=1), np.concatenate(promised, axis=1)


def _plausible(law: Law, target: Target, number: int) -> Array:
    """Return thresholds over the range outside which none comes out best, even with counts six sd better than due."""
    points = np.linspace(*law.reach(1e-3 / number), 2 * _CELLS)
    fpr, tpr = law.point(points)
    six = [6 * np.sqrt(rate * (1 - rate) / number) for rate in (fpr, tpr)]
    lucky = np.maximum(
        target.bound(np.minimum(tpr + six[1], 1.0), np.maximum(fpr - six[0], 0.0)),
        target.bound(np.maximum(tpr - six[1], 0.0), np.minimum(fpr + six[0], 1.0)),
    )
    chance = np.flatnonzero(lucky >= np.max(target.bound(tpr, fpr)) - 1e-12)  # what is the same but for rounding
    return np.linspace(points[max(chance[0] - 1, 0)], points[min(chance[-1] + 1, len(points) - 1)], _CELLS)


def _positives(rates: Array, number: int, replicates: int, rng: np.random.Generator) -> Whole:
    """Return, for each replicate, how many of its trials exceed each of the points."""
    falling = np.minimum.accumulate(np.clip(rates, 0.0, 1.0))
    cells = np.concatenate([-np.diff(falling, prepend=1.0), falling[-1:]])
    return np.asarray(number - np.cumsum(rng.multinomial(number, cells / cells.sum(), replicates)[:, :-1], axis=1))


def count_branches(target: Target, true: Whole, false: Whole, number: int) -> tuple[Array, Array]:
    """Return what ``target.branches`` gives at these counts, by a table where the ends are those of one rate alone."""
    if not target.method.separate or target.trials != number:
        return target.branches(true / number, false / number)
    least, most = _listed_terms(number, target.alpha / target.method.tails, target.delta)
    return least(true) - most(false), least(number - false) - most(number - true)


@lru_cache(maxsize=8)
def _log_terms(number: int, gamma: float, delta: float) -> tuple[Terms, Terms]:
    """Return the logarithms of a rate's lower end less delta, and of its upper end, as functions of a count.

    They are exact at whole counts up to 4,096. Between two counts of the table they are off by less than 4e-5, at
    counts from 100 on and at half of delta above it. The table holds the logarithm of the end itself, which is smooth;
    delta is subtracted from what is looked up.
    """
    above = np.geomspace(_COUNTED, max(number, _COUNTED), 2 + int(np.log(max(number / _COUNTED, 1)) / np.log(_RATIO)))
    few = np.minimum(np.concatenate([np.arange(0, _COUNTED, _PART), above]), number)
    counts = np.unique(np.concatenate([few, number - few]))
    lower, upper = ends(counts, number, gamma)
    least, most = np.log(np.maximum(lower, _LEAST)), np.log(upper)
    return partial(_less_delta, delta, counts, least), partial(_interpolated, counts, most)


def _less_delta(delta: float, counts: Array, values: Array, at: Any) -> Array:
    return np.asarray(np.log(np.maximum(np.exp(np.interp(at, counts, values)) - delta, _LEAST)))


def _interpolated(counts: Array, values: Array, at: Any) -> Array:
    return np.asarray(np.interp(at, counts, values))


@lru_cache(maxsize=8)
def _listed_terms(number: int, gamma: float, delta: float) -> tuple[Terms, Terms]:
    """Return the same as functions of whole counts, which take less time where every count can be listed."""
    least, most = _log_terms(number, gamma, delta)
    if number > _LISTED:
        return least, most
    every = np.arange(number + 1)
    return least(every).take, most(every).take


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of one bound: counts of true and of false positives, the chance of each, the bound at each pair.

    ``values`` may be off as ``_log_terms`` says, and more where an end is next to delta: they are sorted into cells,
    and shown nowhere.
    """

    first: tuple[Array, Array]
    second: tuple[Array, Array]
    values: Array
    most: float
    """The largest value, as the method itself gives it."""

    @classmethod
    def of_each(cls, target: Target, cases: Sequence[Sequence[tuple[float, float]]]) -> "list[Outcomes]":
        """Return the outcomes of each case: of a canary's counts, or of the sums of as many canaries' in every case."""
        n, total = int(target.trials), int(target.trials) * len(cases[0])
        firsts = [count_law(n, [float(target.first_rate(*pair)) for pair in pairs]) for pairs in cases]
        seconds = [count_law(n, [fpr for _, fpr in pairs]) for pairs in cases]
        if not target.method.separate:
            tables = [bound_values(target, *laws, total) for laws in zip(firsts, seconds, strict=True)]
            return [cls(*each, float(each[2].max())) for each in zip(firsts, seconds, tables, strict=True)]
        least, most = _log_terms(total, target.alpha / target.method.tails, target.delta)
        tables = []
        for (tp, _), (fp, _) in zip(firsts, seconds, strict=True):
            values = np.subtract.outer(least(tp), most(fp))
            np.maximum(values, least(total - fp) - most(total - tp)[:, None], out=values)
            tables.append(np.maximum(values, 0.0, out=values))
        # The bound grows with the first count and falls with the second.
        highest, lowest = [counts[-1] for counts, _ in firsts], [counts[0] for counts, _ in seconds]
        largest = np.maximum(target.at_counts(highest, lowest, total), 0.0).tolist()
        return [cls(*each) for each in zip(firsts, seconds, tables, largest, strict=True)]

    def at_most(self, grid: Array) -> Array:
        """Return the chance that the bound is at most each value of an even grid from 0 to no less than ``most``."""
        values, last = self.values.ravel(), len(grid) - 1
        places = values * (last / grid[-1] if grid[-1] > 0 else 0.0)
        cells = np.minimum(np.ceil(places), last).astype(np.int64)
        close = np.flatnonzero(np.abs(places - np.rint(places)) < 1e-6)  # noqa: PLR2004, far above rounding
        # Rounding may have put these into a neighbouring cell, and may put a value above the largest.
        cells[close] = np.minimum(np.searchsorted(grid, values[close]), last)
        reached: Array = np.cumsum(np.bincount(cells, np.outer(self.first[1], self.second[1]).ravel(), len(grid)))
        return np.asarray(reached / reached[-1])


Mixture = list[tuple[float, Outcomes]]
"""Laws of the bound, each with its weight."""


def _mixture(law: Law, thresholds: Array, target: Target) -> Mixture:
    """Return the law of one canary's bound at the drawn thresholds, gathered, by how often each was drawn."""
    ordered = np.sort(thresholds)
    # The outermost hundredth of the thresholds are each taken as they are, and those between are gathered.
    outer = min(max(1, round(0.01 * len(ordered))), len(ordered) // 2)
    inner = np.array_split(ordered[outer : len(ordered) - outer], 48)
    middles = [np.full(len(group), group[len(group) // 2]) for group in inner if len(group)]
    gathered = np.concatenate([ordered[:outer], *middles, ordered[len(ordered) - outer :]])
    kinds, times = np.unique(gathered, return_counts=True)
    fpr, tpr = (rate.tolist() for rate in law.point(kinds))
    outcomes = Outcomes.of_each(target, [[pair] for pair in zip(tpr, fpr, strict=True)])
    return list(zip((times / len(ordered)).tolist(), outcomes, strict=True))


def _together(laws: Sequence[Law], drawn: Sequence[Array], target: Target) -> Mixture:
    """Return the law of the pooled bound at drawn thresholds of all canaries, which calibrate independently."""
    # A pooled bound is of summed counts, so rare thresholds of one canary hardly move it, and a few sets of them do.
    some = [thresholds[:64] for thresholds in drawn]
    rates = [law.point(kinds) for law, kinds in zip(laws, some, strict=True)]
    pairs = zip(*(zip(tpr.tolist(), fpr.tolist(), strict=True) for fpr, tpr in rates), strict=True)
    return [(1 / len(some[0]), each) for each in Outcomes.of_each(target, list(pairs))]


def _largest(laws: Sequence[Mixture]) -> tuple[Array, Array]:
    """Return values and the chance that the maximum over canaries, each of a mixture of laws, is at most these."""
    grid = np.linspace(0.0, max(law.most for mixture in laws for _, law in mixture), _VALUES)
    each = [np.sum([weight * law.at_most(grid) for weight, law in mixture], axis=0) for mixture in laws]
    return grid, np.prod(each, axis=0)
