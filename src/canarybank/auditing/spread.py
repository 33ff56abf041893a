"""Say where a bound falls by sampling alone: over its trials, and over those that its threshold was calibrated by."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.auditing.exact import Law
from canarybank.auditing.forecast import at_most, bound_law
from canarybank.auditing.rates import Array, ends, probability
from canarybank.auditing.threshold import Target, aimed
from canarybank.errors import InputError
from canarybank.score import Interval
from canarybank.seeds import stream

__all__ = ["Canary", "calibrated_spread", "drawn_thresholds", "frozen_spread"]

LEVEL = 0.999
_CELLS = 512
_REPLICATES = 8000
"""Calibrations that are drawn over all canaries: the fewer canaries, the more hangs on a rare threshold of one."""
_AT_ONCE = 500
_OUTER = 0.01
_INNER = 48
"""Of drawn thresholds the outermost are each taken as they are, and those between are gathered in so many groups."""
_COUNTED = 4096
_RATIO = 1.002
_VALUES = 4001
_POOLED = 64
"""Sets of thresholds that a pooled bound is taken at: its counts are sums, so rare thresholds of one hardly move it."""


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
    if not pairs or not all(0 <= rate <= 1 for pair in pairs for rate in pair):
        raise InputError(f"A spread needs the rates of at least one canary, each between 0 and 1, not {pairs!r}.")
    values, mass = bound_law(target, pairs)
    tail, last = (1.0 - level) / 2, len(values) - 1
    low, high = (min(int(np.searchsorted(np.cumsum(mass), share)), last) for share in (tail, 1.0 - tail))
    return Interval(float(values[low]), float(values[high]))


def calibrated_spread(
    canaries: Sequence[Canary],
    target: Target,
    *,
    number: int,
    seed: int,
    level: float = LEVEL,
    replicates: int = _REPLICATES,
) -> Interval:
    """Return where the bound falls with probability ``level`` when thresholds are calibrated anew by trials.

    Calibrations with ``number`` trials of each hypothesis are simulated, ``replicates`` over all canaries, which gives
    the law of each threshold; given a threshold, the law of the bound is that of its binomial counts, with no
    simulation. Each end is put where the chance of missing it, and the standard error of that chance by so many
    calibrations, come to (1 - level) / 2 together. A low end that hangs on rare thresholds still moves by a few
    hundredths from one seed to another.
    """
    probability("level", level)
    if not canaries or replicates < len(canaries):
        raise InputError(
            f"A spread needs a canary and a calibration for each, not {len(canaries)} canaries and {replicates}."
        )
    share = replicates // len(canaries)
    streams = [stream(seed, "spread", index) for index in range(len(canaries))]
    drawn = drawn_thresholds([each.calibration for each in canaries], target, number, share, streams)
    grid, reached = _largest(
        [_together(canaries, drawn, target)]
        if target.method.pools
        else [_mixture(each.evaluation, kinds, target) for each, kinds in zip(canaries, drawn, strict=True)]
    )
    # The chance that comes to (1 - level) / 2 together with the standard error of its share in so many draws.
    draws = share * len(canaries)
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
        branches = _branches(target, true, false, number)
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
    chance = np.flatnonzero(lucky >= np.max(target.bound(tpr, fpr)))
    return np.linspace(points[max(chance[0] - 1, 0)], points[min(chance[-1] + 1, len(points) - 1)], _CELLS)


def _positives(rates: Array, number: int, replicates: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return, for each replicate, how many of its trials exceed each of the points."""
    falling = np.minimum.accumulate(np.clip(rates, 0.0, 1.0))
    cells = np.concatenate([-np.diff(falling, prepend=1.0), falling[-1:]])
    counts = rng.multinomial(number, cells / cells.sum(), size=replicates)
    return np.asarray(number - np.cumsum(counts[:, :-1], axis=1))


def _branches(target: Target, true: NDArray[np.int64], false: NDArray[np.int64], number: int) -> tuple[Array, Array]:
    """Return what ``target.branches`` gives at these counts, by a table where the ends are those of one rate alone."""
    if not target.method.separate or target.trials != number:
        return target.branches(true / number, false / number)
    gamma = target.alpha / target.method.tails
    steps = np.arange(_COUNTED, dtype=np.float64)
    above = np.geomspace(_COUNTED, max(number, _COUNTED), 2 + int(np.log(max(number / _COUNTED, 1)) / np.log(_RATIO)))
    counts = np.unique(np.minimum(np.concatenate([steps, above]), number))
    lower, upper = ends(counts, number, gamma)
    least = np.log(np.maximum(lower - target.delta, 1e-300))
    most = np.log(upper)
    forward = np.interp(true, counts, least) - np.interp(false, counts, most)
    reverse = np.interp(number - false, counts, least) - np.interp(number - true, counts, most)
    return forward, reverse


Mixture = list[tuple[float, tuple[Array, Array]]]
"""Laws of the bound, as values and their mass, each with its weight."""


def _mixture(law: Law, thresholds: Array, target: Target) -> Mixture:
    """Return the law of one canary's bound at the drawn thresholds, gathered, by how often each was drawn."""
    ordered = np.sort(thresholds)
    outer = min(max(1, round(_OUTER * len(ordered))), len(ordered) // 2)
    groups = np.array_split(ordered[outer : len(ordered) - outer], _INNER)
    middles = [np.full(len(group), group[len(group) // 2]) for group in groups if len(group)]
    all_of_them = np.concatenate([ordered[:outer], *middles, ordered[len(ordered) - outer :]])
    kinds, times = np.unique(all_of_them, return_counts=True)
    fpr, tpr = law.point(kinds)
    cases = zip((times / len(ordered)).tolist(), tpr.tolist(), fpr.tolist(), strict=True)
    return [(weight, bound_law(target, [(one, other)])) for weight, one, other in cases]


def _together(canaries: Sequence[Canary], drawn: Sequence[Array], target: Target) -> Mixture:
    """Return the law of the pooled bound at drawn thresholds of all canaries, which calibrate independently."""
    some = [thresholds[:_POOLED] for thresholds in drawn]
    rates = [each.evaluation.point(kinds) for each, kinds in zip(canaries, some, strict=True)]
    pairs = zip(*(zip(tpr.tolist(), fpr.tolist(), strict=True) for fpr, tpr in rates), strict=True)
    laws = [bound_law(target, list(each)) for each in pairs]
    return [(1 / len(laws), law) for law in laws]


def _largest(laws: Sequence[Mixture]) -> tuple[Array, Array]:
    """Return values and the chance that the maximum over canaries, each of a mixture of laws, is at most these."""
    high = max(float(values[-1]) for mixture in laws for _, (values, _) in mixture)
    grid = np.linspace(0.0, high, _VALUES)
    reached = np.ones(_VALUES)
    for mixture in laws:
        reached *= np.sum([weight * at_most(*law, grid) for weight, law in mixture], axis=0)
    return grid, reached
