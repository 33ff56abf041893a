"""Forecast the bound that trials will give, from an attack's true rates: not one number but its law.

``expected_bound`` is about rates; `canarybank.auditing.spread` says where a bound falls by sampling alone.

A perfect attack sees the canary's whole contribution on coordinates that nobody else touches. Its score, whitened,
is N(0, 1) without the canary and N(1/sigma, 1) when the canary takes part; no attack on one release does better.
``ceiling`` says what it would show with so many trials, and ``trials_needed`` how many trials a given epsilon needs.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import ndtr

from canarybank.auditing.methods import Method, find_method
from canarybank.auditing.rates import Array, Window, binomial_rows
from canarybank.auditing.settings import AttackRates, Target, best_threshold
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.score import unmix

__all__ = [
    "Ceiling",
    "ExpectedBound",
    "bound_law",
    "bound_values",
    "ceiling",
    "chance_at_most",
    "count_law",
    "expected_bound",
    "perfect_rates",
    "trials_needed",
    "trials_needed_for",
]

MOST_TRIALS = 10**15
_POINTS = 256
_WIDE, _DEVIATIONS = 2**16, 8.0


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
    first = count_law(n, [float(target.first_rate(tpr, fpr)) for tpr, fpr in pairs])
    second = count_law(n, [fpr for _, fpr in pairs])
    values, mass = bound_values(target, first, second, n * len(pairs)).ravel(), np.outer(first[1], second[1]).ravel()
    order = np.argsort(values, kind="stable")
    return values[order], mass[order]


def bound_values(target: Target, first: tuple[Array, Array], second: tuple[Array, Array], n: int) -> Array:
    """Return the bound at each pair of counts, which come with their chances."""
    values = target.at_counts(first[0][:, None], second[0], n)
    if not target.method.exact:
        values = values + _correction(target, first[0], second[0], first[1], second[1], n)
    return np.maximum(values, 0.0)


def count_law(n: int, rates: Sequence[float]) -> tuple[Array, Array]:
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
