"""Turn rates into epsilon: rates that counts bound, one-sided, and the exact rates of a frozen attack's law.

Counts have binomial laws, which are tabulated here. A law gives epsilon at its threshold, and the supremum over all.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom

from canarybank.errors import InputError
from canarybank.score import Bounds, Interval, Rates, RoundLaw, SummedLaw

__all__ = [
    "CUT",
    "IMPOSSIBLE",
    "Array",
    "Branch",
    "Law",
    "Supremum",
    "Window",
    "at_most",
    "binomial_rows",
    "chance_between",
    "clopper_pearson",
    "count_epsilons",
    "ends",
    "epsilon_at",
    "probability",
    "rate_epsilon",
    "supremum",
    "whole_counts",
]

IMPOSSIBLE = 1e-12
"""Counts that are less likely than this under a rate were not drawn from it."""

Array: TypeAlias = NDArray[np.float64]

CUT = 1e-13
"""At most this much of a law lies outside its stretch."""
MOST_ENTRIES = 2**20
SLACK = 1e-12  # above the rounding of two differences and two logarithms, of numbers that are not below 1e-300
TINY = 1e-300
LEAST_MASS = 1e-200  # at delta = 0 thresholds are looked at as far out as this probability
FIRST_POINTS, PARTS, MOST_POINTS = 257, 8, 2**17
Law: TypeAlias = RoundLaw | SummedLaw
"""The law of a score under both hypotheses, over one round or several."""


class Branch(StrEnum):
    """Which direction of the definition gave the bound."""

    FORWARD = "forward"
    REVERSE = "reverse"
    NONE = "none"


@overload
def clopper_pearson(successes: int, trials: int, gamma: float) -> tuple[float, float]: ...
@overload
def clopper_pearson(successes: ArrayLike, trials: ArrayLike, gamma: float) -> tuple[Array, Array]: ...
def clopper_pearson(successes: Any, trials: Any, gamma: float) -> Any:
    """Return the two one-sided Clopper–Pearson bounds of a rate, each at its own gamma.

    For X ~ Bin(trials, p) and every p: P(lower(X) > p) <= gamma, and P(upper(X) < p) <= gamma. Together they hold
    with probability at least 1 - 2 gamma. Arrays broadcast, and give arrays.
    """
    probability("gamma", gamma)
    x, n = np.broadcast_arrays(whole_counts("successes", successes), whole_counts("trials", trials))
    if np.any(n < 1):
        raise InputError(
            f"There must be at least one trial, not {_first(n, n < 1)}; without trials no rate is bounded."
        )
    if np.any(x > n):
        raise InputError(
            f"{_first(x, x > n)} successes cannot come from {_first(n, x > n)} trials; check which is which."
        )
    lower, upper = ends(x, n, gamma)
    return (float(lower), float(upper)) if lower.ndim == 0 else (lower, upper)


def ends(x: ArrayLike, n: ArrayLike, gamma: float) -> tuple[Array, Array]:
    """Return what ``clopper_pearson`` returns, unchecked, and for expected counts too, which need not be whole."""
    return lower_end(x, n, gamma), upper_end(x, n, gamma)


def lower_end(x: ArrayLike, n: ArrayLike, gamma: ArrayLike) -> Array:
    """Return the lower one of the ends."""
    x, n = np.asarray(x, np.float64), np.asarray(n, np.float64)
    return np.where(x > 0, betaincinv(np.where(x > 0, x, 1.0), n - x + 1, np.asarray(gamma, np.float64)), 0.0)


def upper_end(x: ArrayLike, n: ArrayLike, gamma: ArrayLike) -> Array:
    """Return the upper one of the ends."""
    x, n = np.asarray(x, np.float64), np.asarray(n, np.float64)
    return np.where(x < n, betainccinv(x + 1, np.where(x < n, n - x, 1.0), np.asarray(gamma, np.float64)), 1.0)


def rate_epsilon(above: ArrayLike, below: ArrayLike, delta: float) -> Array:
    """Return log((above - delta) / below), the epsilon forced by above <= exp(epsilon) below + delta; -inf for none."""
    excess = np.asarray(above, np.float64) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(excess > 0, np.log(excess) - np.log(np.asarray(below, np.float64)), -np.inf)


def count_epsilons(
    tp: ArrayLike,
    fp: ArrayLike,
    n1: ArrayLike,
    n0: ArrayLike,
    *,
    delta: float,
    gamma: float,
    each: Callable[[ArrayLike, ArrayLike, float], tuple[Array, Array]] = ends,
) -> tuple[Array, Array]:
    """Return what counts force on epsilon forward, log((TPR_L - delta)/FPR_U), and reverse, log((TNR_L - delta)/FNR_U).

    Every end is one-sided at gamma. TNR_L and FNR_U come from the counts of negatives, which is 1 - FPR_U and
    1 - TPR_L without their rounding; so only two events can make either of the two fail, each of probability gamma.
    """
    tp, fp, n1, n0 = (np.asarray(v, np.float64) for v in (tp, fp, n1, n0))
    return (
        rate_epsilon(each(tp, n1, gamma)[0], each(fp, n0, gamma)[1], delta),
        rate_epsilon(each(n0 - fp, n0, gamma)[0], each(n1 - tp, n1, gamma)[1], delta),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """Counts from ``low`` to ``high``: every law of a family has its stretch, ``half`` to either side, inside."""

    n: int
    low: int
    high: int
    half: int

    @classmethod
    def around(cls, n: int, p: Array) -> Self:
        """Return the window of Bin(n, p') for all p' between the smallest and the largest p.

        By Bernstein's inequality a binomial leaves mean ± (8 sd + 40) with probability below 3e-14.
        """
        least, most = float(p.min()), float(p.max())
        widest = min(max(0.5, least), most)
        half = math.ceil(8 * math.sqrt(n * (widest * (1 - widest))) + 40)
        return cls(n, max(0, math.floor(n * least) - half), min(n, math.ceil(n * most) + half), half)


def binomial_rows(window: Window, p: Array) -> Iterator[tuple[slice, NDArray[np.int64], Array]]:
    """Yield the laws Bin(n, p) in parts: which of p, where each stretch starts, and its probabilities, summing to 1."""
    n = window.n
    width = min(2 * window.half + 2, window.high - window.low + 1)
    step = max(1, MOST_ENTRIES // width)
    for begin in range(0, len(p), step):
        part = slice(begin, min(begin + step, len(p)))
        rate = np.clip(p[part], 1e-300, 1.0)
        start = np.clip(np.floor(n * rate).astype(np.int64) - window.half, window.low, window.high - width + 1)
        log_odds, x = np.log(rate / np.maximum(1 - rate, 1e-300)), start[:, None] + np.arange(width - 1)
        log_mass = np.zeros((len(rate), width))
        # The ratio of neighbouring probabilities, summed in logarithms: no factorial, so no cancellation at large n.
        np.cumsum(np.log((n - x) / (x + 1.0)) + log_odds[:, None], axis=1, out=log_mass[:, 1:])
        mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
        yield part, start, mass / mass.sum(axis=1, keepdims=True)


def probability(name: str, value: float, *, or_zero: bool = False) -> float:
    """Return a number strictly between 0 and 1, or 0 where that is allowed; refuse any other."""
    if not (isinstance(value, int | float | np.number) and (0 < value < 1 or (or_zero and value == 0))):
        allowed = "be at least 0 and below 1" if or_zero else "lie strictly between 0 and 1"
        raise InputError(f"{name} must {allowed}, not be {value!r}.")
    return float(value)


def whole_counts(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return counts as integers, or say which of them is no count."""
    given = np.asarray(values)
    if given.dtype == np.bool_ or given.dtype.kind not in "iuf":
        raise InputError(f"{name} must be whole numbers, not {values!r}.")
    wrong = ~((given >= 0) & (given == np.floor(given)) & (given < 2**63))
    if np.any(wrong):
        raise InputError(
            f"{name} must be whole numbers of at least 0, not {_first(given, wrong)}; give counts, not rates."
        )
    return given.astype(np.int64)


def _first(values: NDArray[Any], where: NDArray[np.bool_]) -> Any:
    return values[where].flat[0].item() if values.ndim else values.item()


def chance_between(seen: int, trials: int, low: float, high: float) -> float:
    """Return the largest chance of a count at least as far out as this, for a rate from ``low`` to ``high``.

    Below ``IMPOSSIBLE`` the count was not drawn from such a rate.
    """
    return min(float(binom.sf(seen - 1, trials, high)), float(binom.cdf(seen, trials, low)))


@dataclass(frozen=True, slots=True)
class Supremum:
    """The supremum of epsilon over all thresholds.

    ``interval`` holds it for certain, ``point`` is its point value; ``threshold`` attains the interval's lower end,
    forward by a score above it, in reverse by its complement.
    """

    interval: Interval
    point: float
    threshold: float
    branch: Branch


def at_most(interval: Interval, exact: float) -> Interval:
    """Return the interval, cut off at the exact epsilon of the releases: no attack on them exceeds it.

    Where a rate underflows, the law alone gives no upper end.
    """
    return Interval(interval.lower, max(interval.lower, min(interval.upper, exact)))


def epsilon_at(law: Law, threshold: float, delta: float) -> Interval:
    """Return ends of max(0, log((TPR - delta) / FPR), log((TNR - delta) / FNR)) for the rule "score > threshold"."""
    probability("delta", delta, or_zero=True)
    pairs = _pairs(law.rates(np.array([threshold], dtype=np.float64)))
    return Interval(
        max(0.0, *(float(_least(top, bottom, delta)[0]) for top, bottom in pairs)),
        max(0.0, *(float(_most(top.upper, bottom.lower, delta)[0]) for top, bottom in pairs)),
    )


def supremum(law: Law, delta: float, *, tolerance: float = 5e-7) -> Supremum:
    """Return the supremum of `epsilon_at` over all real thresholds, certified over the continuum.

    Between two neighbouring thresholds the rates are monotone, so that the rates of the two bound epsilon from above.
    Cells whose bound exceeds the best lower end by more than the tolerance are divided until there are none, until the
    law's own ends get no tighter, or until there are too many: a weak score at a large q, whose epsilon hardly changes
    with the threshold, is then known to about 1e-4, still for certain.
    """
    probability("delta", delta, or_zero=True)
    if law.blind:
        return Supremum(Interval(0.0, 0.0), 0.0, law.reach(max(delta, LEAST_MASS))[1], Branch.NONE)
    points = np.linspace(*law.reach(max(0.5 * delta, LEAST_MASS)), FIRST_POINTS)
    rates = law.rates(points)
    while True:
        ends = np.stack([_least(*pair, delta) for pair in _pairs(rates)])
        best, cells = max(0.0, float(ends.max())), _cells(rates, delta, law.idle)
        inner = (cells[1:-1] > best + tolerance) & np.isfinite(cells[1:-1])
        inner &= np.diff(points) > np.maximum(law.resolution, 4.0 * np.spacing(np.abs(points[1:])))
        parts = PARTS if len(points) + PARTS * int(inner.sum()) <= MOST_POINTS else 2
        if not inner.any() or len(points) + parts * int(inner.sum()) > MOST_POINTS:
            break
        points, rates = _refined(law, points, rates, inner, parts)
    side, at = np.unravel_index(int(ends.argmax()), ends.shape)
    branch, start = (Branch.REVERSE if side else Branch.FORWARD), float(points[at])
    live = np.flatnonzero(cells[1:-1] >= best)
    low, high = (float(points[live[0]]), float(points[live[-1] + 1])) if live.size else (start, start)
    return Supremum(
        interval=Interval(best, max(best, float(cells.max()))),
        point=_best_point(law, delta, branch, low, high, start) if best > 0.0 else 0.0,
        threshold=start,
        branch=branch if best > 0.0 else Branch.NONE,
    )


def _best_point(law: Law, delta: float, branch: Branch, low: float, high: float, start: float) -> float:
    def loss(threshold: float) -> float:
        fpr, tpr = (float(rate) for rate in law.point(threshold))
        top, bottom = (tpr, fpr) if branch is Branch.FORWARD else (1.0 - fpr, 1.0 - tpr)
        return float(np.log(bottom) - np.log(top - delta)) if top > delta and bottom > 0.0 else 0.0

    found = [-loss(start), 0.0]
    if high > low:
        found.append(-float(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-5}).fun))
    return max(found)


def _pairs(rates: Rates) -> tuple[tuple[Bounds, Bounds], tuple[Bounds, Bounds]]:
    """Return numerator and denominator of both branches: above, below."""
    return (rates.tpr, rates.fpr), (rates.tnr, rates.fnr)


def _least(top: Bounds, bottom: Bounds, delta: float) -> Array:
    return _most(top.lower, np.maximum(bottom.upper, TINY), delta, -SLACK)


def _most(top: Array, bottom: Array, delta: float, slack: float = SLACK) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(top > delta, np.log(np.maximum(top - delta, TINY)) - np.log(bottom) + slack, -np.inf)


def _cells(rates: Rates, delta: float, idle: float) -> Array:
    """Bound epsilon on every cell between neighbouring points a < b, and on the two unbounded ones.

    With k the idle chance, TPR - k FPR and FNR - k TNR are themselves chances of scores above and below a threshold,
    hence monotone. So in the cell (TPR - delta) / FPR is at most (TPR(a) - delta - k (FPR(a) - FPR(b))) / FPR(b), and
    (TNR - delta) / FNR at most (TNR(b) - delta) / (FNR(a) + k (TNR(b) - TNR(a))), wherever these exceed 1.
    """
    one, zero, k = np.ones(1), np.zeros(1), idle * (1.0 - SLACK)
    tpr, fpr = np.concatenate((one, rates.tpr.upper)), np.concatenate((one, rates.fpr.lower, zero))
    tnr, fnr = np.concatenate((zero, rates.tnr.upper, one)), np.concatenate((zero, rates.fnr.lower))
    return np.maximum(
        _most(tpr * (1.0 + SLACK) - k * np.maximum(fpr[:-1] - fpr[1:], 0.0), fpr[1:], delta),
        _most(tnr[1:], fnr + k * np.maximum(tnr[1:] - tnr[:-1], 0.0), delta),
    )


def _refined(law: Law, points: Array, rates: Rates, chosen: NDArray[np.bool_], parts: int) -> tuple[Array, Rates]:
    """Divide the chosen cells into equal parts, and evaluate the law at the new points only."""
    left, width = points[:-1][chosen], np.diff(points)[chosen]
    new = np.unique(left[:, None] + width[:, None] * (np.arange(1, parts) / parts))
    merged = np.concatenate((points, new))
    order = np.argsort(merged, kind="stable")
    ends = (
        Bounds(*(np.concatenate((a, b))[order] for a, b in zip(old, more, strict=True)))
        for old, more in zip(rates, law.rates(new), strict=True)
    )
    return merged[order], Rates(*ends)
