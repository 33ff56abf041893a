"""Forecast the bound that trials will give, from an attack's true rates: not one number but its law.

``expected_bound`` is about rates. ``frozen_spread`` and ``calibrated_spread`` say where the bound falls by sampling
alone: over its trials, and over those that its threshold was calibrated by.

A perfect attack sees the canary's whole contribution on coordinates that nobody else touches. Its score, whitened,
is N(0, 1) without the canary and N(1/sigma, 1) when the canary takes part; no attack on one release does better.
``ceiling`` says what it would show with so many trials, and ``trials_needed`` how many trials a given epsilon needs.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import ndtr

from canarybank.auditing.methods import Method, find_method
from canarybank.auditing.rates import Array, Law, Window, binomial_rows, ends, probability, rate_epsilon
from canarybank.auditing.settings import AttackRates, Target, aimed, best_threshold
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.score import Interval, unmix
from canarybank.score.counts import lower_end, upper_end
from canarybank.seeds import stream

__all__ = [
    "LEVEL",
    "Ceiling",
    "ExpectedBound",
    "bound_law",
    "calibrated_spread",
    "ceiling",
    "chance_at_most",
    "drawn_thresholds",
    "expected_bound",
    "frozen_spread",
    "perfect_rates",
    "trials_needed",
    "trials_needed_for",
]

Whole: TypeAlias = NDArray[np.int64]

MOST_TRIALS = 10**15
_POINTS = 256
_WIDE, _DEVIATIONS = 2**16, 8.0
LEVEL = 0.999
_CELLS = 512
_AT_ONCE = 500
_COUNTED, _RATIO = 4096, 1.002
_LISTED = 2**22  # trials up to which a figure of every count is kept, 32 MiB for each
_VALUES = 4001


@dataclass(frozen=True, slots=True)
class ExpectedBound:
    """The law of a bound that is still to be measured: of the maximum over canaries, or of the pooled bound.

    It is computed from the binomial laws of the counts, with no randomness; ``joint``, whose bound is a search, is
    interpolated between outcomes, to about 0.002.
    """

    expected: float
    """The bound at the expected counts: a typical value, not a mean and not a maximum."""
    median: float
    q05: float
    q95: float
    mean: float
    sd: float
    trials: float
    """Trials of each hypothesis of each canary."""
    canaries: int
    method: str
    alpha: float
    """The level of each bound: a canary's share, or all of it for ``pooled``."""
    delta: float

    def __str__(self) -> str:
        over = f", {self.canaries} canaries" if self.canaries > 1 else ""
        return (
            f"median bound {self.median:.3f}, 5% to 95% {self.q05:.3f} to {self.q95:.3f} ({self.method} at alpha "
            f"{self.alpha:g}, delta {self.delta:g}, {self.trials:,.0f} trials a hypothesis{over})"
        )


def expected_bound(
    tpr: ArrayLike,
    fpr: ArrayLike,
    trials: float,
    *,
    delta: float,
    alpha: float,
    method: Method | str = "paper",
    canaries: int = 1,
    q: float | None = None,
) -> ExpectedBound:
    """Return the law of the bound that true rates give with so many trials of each hypothesis of each canary.

    Rates are those of an eligible canary and of its absence: one pair for all canaries, or one entry a canary.
    ``alpha`` is the level of each bound: a canary's share, or all of it for ``pooled``.

    The formula: Clopper–Pearson ends in the definition of differential privacy, as in Jagielski, Ullman and Oprea
    (2020, https://arxiv.org/abs/2006.07709).

    Args:
        tpr: The true rate of hits, one or one a canary.
        fpr: The true rate of false alarms, one or one a canary.
        trials: The trials of each hypothesis of each canary.
        delta: The delta of epsilon.
        alpha: The level of each bound.
        method: The method of the bound.
        canaries: How many canaries, where one pair of rates is given.
        q: The probability that a canary takes part, which ``stratified`` needs.

    Example:
        >>> found = expected_bound(0.06, 0.01, 10_000, delta=1e-5, alpha=0.05)
        >>> found.q05 <= found.median <= found.q95 < 1.8
        True
    """
    pairs = _pairs(tpr, fpr, canaries)
    return ExpectedBound(**_summary(Target(trials, delta, alpha, find_method(method), len(pairs), q), pairs))


def _summary(target: Target, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Return the fields of an ``ExpectedBound``."""
    values, mass = bound_law(target, pairs)
    median, q05, q95 = (float(values[np.searchsorted(np.cumsum(mass), level)]) for level in (0.5, 0.05, 0.95))
    mean = float(values @ mass)
    found = {
        "method": target.method.name,
        "expected": _at_expected(target, pairs),
        "median": median,
        "q05": q05,
        "q95": q95,
        "mean": mean,
        "sd": math.sqrt(float((values - mean) ** 2 @ mass)) if len(values) > 1 else 0.0,
    }
    return found | {f.name: getattr(target, f.name) for f in fields(ExpectedBound) if f.name not in found}


def _pairs(tpr: ArrayLike, fpr: ArrayLike, canaries: int) -> list[tuple[float, float]]:
    first, second = np.atleast_1d(np.asarray(tpr, np.float64)), np.atleast_1d(np.asarray(fpr, np.float64))
    if first.ndim != 1 or first.shape != second.shape or len(first) == 0:
        raise InputError(f"Rates need one entry a canary in both, but the shapes are {first.shape} and {second.shape}.")
    for name, rate in (("tpr", first), ("fpr", second)):
        if not np.all((rate >= 0) & (rate <= 1)):
            raise InputError(f"{name} must lie in [0, 1], not be {rate[~((rate >= 0) & (rate <= 1))][0]}.")
    if len(first) > 1 and canaries not in {1, len(first)}:
        raise InputError(f"There are rates of {len(first)} canaries, but canaries = {canaries!r}; leave that out.")
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    return pairs if len(pairs) > 1 else pairs * canaries


def _at_expected(target: Target, pairs: Sequence[tuple[float, float]]) -> float:
    n = target.trials
    if n == math.inf:
        return max(0.0, *(float(target.bound(tpr, fpr)) for tpr, fpr in pairs))
    best = 0.0
    for group in [pairs] if target.method.pools else [[pair] for pair in pairs]:
        tp = n * sum(float(target.first_rate(tpr, fpr)) for tpr, fpr in group)
        fp, total = n * sum(fpr for _, fpr in group), n * len(group)
        forecast = target.at_counts(tp, fp, total) if target.method.exact else target.claim(round(tp), round(fp), total)
        best = max(best, float(forecast))
    return best


def bound_law(target: Target, pairs: Sequence[tuple[float, float]]) -> tuple[Array, Array]:
    """Return the values of the bound that true rates (TPR, FPR) give, ascending, and their probabilities."""
    if target.trials == math.inf:
        return np.array([_at_expected(target, pairs)]), np.ones(1)
    if target.method.pools:
        return _one(target, pairs)
    laws = [(_one(target, [pair]), times) for pair, times in Counter(pairs).items()]
    if len(laws) == 1:  # values are in order already, and of equal ones the last has the chance of all
        ((found, mass), times), *_ = laws
        last = np.append(found[1:] != found[:-1], True)
        values, below = found[last], np.cumsum(mass)[last] ** times
    else:
        values = np.unique(np.concatenate([law[0] for law, _ in laws]))
        below = np.prod([chance_at_most(*law, values) ** times for law, times in laws], axis=0)
    return values, np.diff(below / below[-1], prepend=0.0)


def chance_at_most(values: Array, mass: Array, grid: Array) -> Array:
    """Return the chance that a bound of this law is at most each of the grid's values."""
    return np.concatenate([[0.0], np.cumsum(mass)])[np.searchsorted(values, grid, side="right")]


def _one(target: Target, pairs: Sequence[tuple[float, float]]) -> tuple[Array, Array]:
    """Return the law of one bound, from the counts of one canary or the summed counts of several."""
    n = int(target.trials)
    first = _counts(n, [float(target.first_rate(tpr, fpr)) for tpr, fpr in pairs])
    second = _counts(n, [fpr for _, fpr in pairs])
    values, mass = _values(target, first, second, n * len(pairs)).ravel(), np.outer(first[1], second[1]).ravel()
    order = np.argsort(values, kind="stable")
    return values[order], mass[order]


def _values(target: Target, first: tuple[Array, Array], second: tuple[Array, Array], n: int) -> Array:
    """Return the bound at each pair of counts, which come with their chances."""
    values = target.at_counts(first[0][:, None], second[0], n)
    if not target.method.exact:
        values = values + _correction(target, first[0], second[0], first[1], second[1], n)
    return np.maximum(values, 0.0)


def _counts(n: int, rates: Sequence[float]) -> tuple[Array, Array]:
    """Return counts and their probabilities, for a sum of binomials, gathered into at most so many blocks.

    Counts that spread over more than memory should hold are normal, to about 1e-5 of probability.
    """
    mean, sd = n * sum(rates), math.sqrt(n * sum(rate * (1 - rate) for rate in rates))
    if sd > _WIDE:
        limits = np.clip(mean + sd * np.linspace(-_DEVIATIONS, _DEVIATIONS, _POINTS + 1), 0.0, n * len(rates))
        return (limits[1:] + limits[:-1]) / 2, np.diff(ndtr((limits - mean) / sd))
    stretches = [next(iter(binomial_rows(Window.around(n, rate), rate))) for rate in np.array(rates)[:, None]]
    mass: NDArray[np.float64] = np.maximum(reduce(fftconvolve, [law[0] for _, _, law in stretches]), 0.0)
    mass[mass < 1e-18] = 0.0  # noqa: PLR2004, below what the convolution resolves
    kept = np.flatnonzero(mass)
    mass = mass[kept[0] : kept[-1] + 1]
    count = float(sum(int(first[0]) for _, first, _ in stretches) + kept[0]) + np.arange(len(mass))
    edges = np.arange(0, len(mass), -(-len(mass) // _POINTS))
    blocks = np.add.reduceat(mass, edges)
    middle = np.add.reduceat(count * mass, edges) / np.where(blocks > 0, blocks, 1.0)
    return np.where(blocks > 0, middle, count[edges]), blocks / blocks.sum()


def _correction(target: Target, tp: Array, fp: Array, mass1: Array, mass0: Array, n: int) -> Array:
    """Return what the bound itself adds to its forecast, a parabola through three outcomes a side."""
    nodes1, nodes0 = _nodes(tp, mass1, n), _nodes(fp, mass0, n)
    exact = np.array([[target.claim(one, other, n) for other in nodes0] for one in nodes1])
    added = exact - np.maximum(target.at_counts(nodes1[:, None], nodes0[None, :], n), 0.0)
    return np.asarray(_lagrange(nodes1, tp) @ added @ _lagrange(nodes0, fp).T)


def _nodes(counts: Array, mass: Array, trials: float) -> Array:
    mean = float(counts @ mass)
    sd = math.sqrt(float((counts - mean) ** 2 @ mass))
    return np.unique(np.clip(np.rint(mean + np.array([-2.0, 0.0, 2.0]) * sd), 0, trials))


def _lagrange(nodes: Array, at: Array) -> Array:
    at = np.clip(at, nodes[0], nodes[-1])
    return np.stack(
        [
            np.prod([(at - other) / (node - other) for other in nodes if other != node], axis=0) * np.ones(len(at))
            for node in nodes
        ],
        axis=1,
    )


@dataclass(frozen=True, slots=True)
class Ceiling(ExpectedBound):
    """The law of a perfect attack's bound at its best threshold.

    It is what a perfect attack typically shows, not a maximum: one perfect canary exceeds its median half of the time.
    """

    threshold: float
    """The best threshold for so many trials, on the log-likelihood ratio of a canary that takes part."""
    whitened: float
    """The same threshold on the score in units of its noise."""
    fpr: float
    tpr: float
    rule: float
    """The exact epsilon of that frozen rule, which endless trials at it would show."""
    exact: float
    """The exact epsilon of one release, which endless trials at their own best threshold would show."""

    def __str__(self) -> str:
        return f"perfect attack: {ExpectedBound.__str__(self)}; exact epsilon {self.exact:.4f}"


def perfect_rates(mechanism: Mechanism) -> AttackRates:
    """Return FPR and TPR of a perfect attack as functions of the threshold on its log-likelihood ratio.

    Args:
        mechanism: The parameters of the release.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> fpr, tpr = perfect_rates(Mechanism())(2.0)
        >>> bool(fpr < tpr)
        True
    """
    mu, q = 1 / mechanism.sigma, mechanism.q

    def rates(thresholds: Array) -> tuple[Array, Array]:
        score = np.asarray(thresholds, np.float64) / mu + mu / 2
        fpr, included = ndtr(-score), ndtr(mu - score)
        return fpr, (1 - q) * fpr + q * included

    return rates


def ceiling(
    mechanism: Mechanism,
    trials: float,
    *,
    method: Method | str = "paper",
    alpha: float = 0.01,
    canaries: int = 1,
) -> Ceiling:
    """Return the law of the bound that perfect canaries give with so many trials of each hypothesis of each.

    ``alpha`` is the level of each bound: one canary's share, or all of it for ``pooled``. ``trials`` may be infinite.

    The formula: Clopper–Pearson ends in the definition of differential privacy, as in Jagielski, Ullman and Oprea
    (2020, https://arxiv.org/abs/2006.07709).

    Args:
        mechanism: The parameters of the release.
        trials: The trials of each hypothesis of each canary; may be infinite.
        method: The method of the bound.
        alpha: The level of each bound.
        canaries: How many canaries; the largest of their bounds counts.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> found = ceiling(Mechanism(), 1_000_000)
        >>> round(found.median, 2)
        0.99
    """
    target = Target(trials, mechanism.delta, alpha, find_method(method), canaries, mechanism.q)
    rates, exact, mu = perfect_rates(mechanism), one_round_epsilon(mechanism), 1 / mechanism.sigma
    # The best event of one release is where its mixture score exceeds epsilon.
    threshold = float(unmix(exact, mechanism.q)) if trials == math.inf else best_threshold(rates, target)[0]
    fpr, tpr = (float(rate[0]) for rate in rates(np.array([threshold])))
    law = _summary(target, [(tpr, fpr)] * canaries)
    if trials == math.inf:  # the exact epsilon, always
        law |= dict.fromkeys(("expected", "median", "q05", "q95", "mean"), exact)
    # A rate that underflows says nothing; no rule on one release shows more than the exact epsilon.
    return Ceiling(
        **law,
        threshold=threshold,
        whitened=threshold / mu + mu / 2,
        fpr=fpr,
        tpr=tpr,
        rule=min(exact, max(0.0, float(replace(target, trials=math.inf).bound(tpr, fpr)))),
        exact=exact,
    )


def trials_needed(
    mechanism: Mechanism,
    epsilon: float,
    *,
    method: Method | str = "paper",
    alpha: float = 0.01,
    canaries: int = 1,
    precision: float = 1e-7,
) -> int:
    """Return how many trials of each hypothesis a perfect attack needs for an expected bound of epsilon.

    That many are enough, and at most about a share of ``precision`` too many.

    Args:
        mechanism: The parameters of the release.
        epsilon: The expected bound that is wanted.
        method: The method of the bound.
        alpha: The level of each bound.
        canaries: How many canaries; the largest of their bounds counts.
        precision: The share of trials that may be too many.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> trials_needed(Mechanism(), 0.5) < trials_needed(Mechanism(), 0.9)
        True
    """
    target = Target(1, mechanism.delta, alpha, find_method(method), canaries, mechanism.q)
    return trials_needed_for(
        perfect_rates(mechanism), epsilon, target, one_round_epsilon(mechanism), precision=precision
    )


def trials_needed_for(
    rates: AttackRates, epsilon: float, target: Target, exact: float | None = None, *, precision: float = 1e-7
) -> int:
    """Return how many trials of each hypothesis an attack with these rates needs for an expected bound of epsilon.

    For each number of trials the threshold is the best one; ``target.trials`` plays no part. ``exact`` is the attack's
    exact epsilon, where it is known.

    Args:
        rates: The true rates of an attack, as functions of the threshold.
        epsilon: The expected bound that is wanted.
        target: What the bound will be made with: method and level.
        exact: The attack's exact epsilon, where it is known.
        precision: The share of trials that may be too many.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> target = Target(trials=1, delta=1e-5, alpha=0.01)
        >>> 10_000 < trials_needed_for(perfect_rates(Mechanism()), 0.5, target) < 1_000_000
        True
    """
    if exact is None:
        exact = best_threshold(rates, replace(target, trials=math.inf))[1]
    if not 0 < epsilon < exact:
        raise InputError(
            f"No number of trials is expected to show epsilon {epsilon:g}: it must be positive and below the attack's "
            f"exact epsilon, which is {f'{exact:.6g}' if exact < math.inf else 'infinite'}."
        )

    def lacking(log_trials: float) -> float:
        return epsilon - best_threshold(rates, replace(target, trials=math.ceil(math.exp(log_trials))))[1]

    low, high = 0.0, math.log(16)
    while lacking(high) > 0:
        low, high = high, high + math.log(16)
        if high > math.log(MOST_TRIALS):
            raise InputError(
                f"Epsilon {epsilon:g} of the exact {exact:.6g} needs more than {MOST_TRIALS:,} trials: it is "
                "too close, or its events are too rare; ask for less."
            )
    log_trials = brentq(lacking, low, high, xtol=precision, rtol=1e-12) if lacking(low) > 0 else low
    while lacking(log_trials) > 0:
        log_trials += precision + math.log1p(math.exp(-log_trials))
    return math.ceil(math.exp(log_trials))


def frozen_spread(pairs: Sequence[tuple[float, float]], target: Target, *, level: float = LEVEL) -> Interval:
    """Return where the bound falls with probability ``level``, given each canary's true rates (TPR, FPR).

    The bound is the maximum over the canaries, or the pooled one. It falls below the interval, and above it, with
    probability at most (1 - level) / 2 each: the law is that of the binomial counts.

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


def _positives(rates: Array, number: int, replicates: int, rng: np.random.Generator) -> Whole:
    """Return, for each replicate, how many of its trials exceed each of the points."""
    falling = np.minimum.accumulate(np.clip(rates, 0.0, 1.0))
    cells = np.concatenate([-np.diff(falling, prepend=1.0), falling[-1:]])
    return np.asarray(number - np.cumsum(rng.multinomial(number, cells / cells.sum(), replicates)[:, :-1], axis=1))


def _branches(target: Target, true: Whole, false: Whole, number: int) -> tuple[Array, Array]:
    """Return what ``target.branches`` gives at these counts, by a table where the ends are those of one rate alone."""
    if not target.method.separate or target.trials != number:
        return target.branches(true / number, false / number)
    least, most = _log_ends(number, target.alpha / target.method.tails, target.delta)
    return least(true) - most(false), least(number - false) - most(number - true)


@lru_cache(maxsize=8)
def _log_ends(number: int, gamma: float, delta: float) -> tuple[Callable[[Whole], Array], Callable[[Whole], Array]]:
    """Return the logarithms of a rate's lower end less delta, and of its upper end, as functions of a whole count."""
    above = np.geomspace(_COUNTED, max(number, _COUNTED), 2 + int(np.log(max(number / _COUNTED, 1)) / np.log(_RATIO)))
    counts = np.unique(np.minimum(np.concatenate([np.arange(_COUNTED, dtype=np.float64), above]), number))
    lower, upper = ends(counts, number, gamma)
    least, most = np.log(np.maximum(lower - delta, 1e-300)), np.log(upper)
    return _looked_up(counts, least, number), _looked_up(counts, most, number)


def _looked_up(counts: Array, values: Array, number: int) -> Callable[[Whole], Array]:
    """Return the values between those of some counts, as a function of counts up to ``number``."""
    if number > _LISTED:
        return lambda at: np.interp(at, counts, values)
    every = np.interp(np.arange(number + 1), counts, values)
    return every.take


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of one bound: counts of true and of false positives, the chance of each, the bound at each pair.

    ``values`` may be off by the rounding of ``1 - rate``: they are sorted into cells, and shown nowhere.
    """

    first: tuple[Array, Array]
    second: tuple[Array, Array]
    values: Array
    most: float
    """The largest value, as the method itself gives it."""

    @classmethod
    def of(cls, target: Target, pairs: Sequence[tuple[float, float]]) -> "Outcomes":
        """Return the outcomes of the counts of one canary, or of the summed counts of several."""
        n, total = int(target.trials), int(target.trials) * len(pairs)
        first = _counts(n, [float(target.first_rate(tpr, fpr)) for tpr, fpr in pairs])
        second = _counts(n, [fpr for _, fpr in pairs])
        if not target.method.separate:
            values = _values(target, first, second, total)
            return cls(first, second, values, float(values.max()))
        gamma = target.alpha / target.method.tails
        least, most = lower_end(first[0], total, gamma)[:, None], upper_end(second[0], total, gamma)
        # By symmetry the ends of the negatives' rates are one minus these.
        better = np.maximum(rate_epsilon(least, most, target.delta), rate_epsilon(1 - most, 1 - least, target.delta))
        values = np.maximum(better, 0.0)
        row, column = np.unravel_index(np.argmax(values), values.shape)
        return cls(first, second, values, max(0.0, float(target.at_counts(first[0][row], second[0][column], total))))

    def at_most(self, grid: Array) -> Array:
        """Return the chance that the bound is at most each value of an even grid from 0 to no less than ``most``."""
        values, last = self.values.ravel(), len(grid) - 1
        cells = np.minimum(np.ceil(values * (last / grid[-1] if grid[-1] > 0 else 0.0)).astype(np.int64), last)
        cells -= (cells > 0) & (grid[cells - 1] >= values)  # what rounding put into a neighbouring cell
        cells += (cells < last) & (grid[cells] < values)
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
    cases = zip((times / len(ordered)).tolist(), *(rate.tolist() for rate in law.point(kinds)), strict=True)
    return [(weight, Outcomes.of(target, [(tpr, fpr)])) for weight, fpr, tpr in cases]


def _together(laws: Sequence[Law], drawn: Sequence[Array], target: Target) -> Mixture:
    """Return the law of the pooled bound at drawn thresholds of all canaries, which calibrate independently."""
    # A pooled bound is of summed counts, so rare thresholds of one canary hardly move it, and a few sets of them do.
    some = [thresholds[:64] for thresholds in drawn]
    rates = [law.point(kinds) for law, kinds in zip(laws, some, strict=True)]
    pairs = zip(*(zip(tpr.tolist(), fpr.tolist(), strict=True) for fpr, tpr in rates), strict=True)
    return [(1 / len(some[0]), Outcomes.of(target, list(each))) for each in pairs]


def _largest(laws: Sequence[Mixture]) -> tuple[Array, Array]:
    """Return values and the chance that the maximum over canaries, each of a mixture of laws, is at most these."""
    grid = np.linspace(0.0, max(law.most for mixture in laws for _, law in mixture), _VALUES)
    each = [np.sum([weight * law.at_most(grid) for weight, law in mixture], axis=0) for mixture in laws]
    return grid, np.prod(each, axis=0)
