"""Compute the exact epsilon that a score's law forces: at one threshold, and the supremum over all of them.

Ends are certified over the continuum of thresholds. A search that compares thousands of laws uses ``quick_epsilon``,
a point value that is certified by nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from canarybank.errors import InputError
from canarybank.score.interval import Interval
from canarybank.score.rounds import Rates, RoundLaw
from canarybank.score.summed import SummedLaw
from canarybank.score.tails import Bounds

__all__ = [
    "Branch",
    "Law",
    "Supremum",
    "at_most",
    "epsilon_at",
    "probability",
    "quick_epsilon",
    "rate_epsilon",
    "supremum",
]

Array: TypeAlias = NDArray[np.float64]
Law: TypeAlias = RoundLaw | SummedLaw
"""The law of a score under both hypotheses, over one round or several."""

SLACK = 1e-12  # above the rounding of two differences and two logarithms, of numbers that are not below 1e-300
TINY = 1e-300
LEAST_MASS = 1e-200  # at delta = 0 thresholds are looked at as far out as this probability
FIRST_POINTS, PARTS, MOST_POINTS = 257, 8, 2**17
_QUICK_REACH, _QUICK_POINTS, _QUICK_LEAST = 8.5, 129, 1e-10


class Branch(StrEnum):
    """Which direction of the definition gave the bound."""

    FORWARD = "forward"
    REVERSE = "reverse"
    NONE = "none"


def rate_epsilon(above: ArrayLike, below: ArrayLike, delta: float) -> Array:
    """Return log((above - delta) / below), the epsilon forced by above <= exp(epsilon) below + delta; -inf for none.

    The formula: the region of error rates that (epsilon, delta) allows (Kairouz, Oh and Viswanath, 2015,
    https://arxiv.org/abs/1311.0776).

    Args:
        above: The rate that is larger.
        below: The rate that is smaller.
        delta: The delta of epsilon.

    Example:
        >>> float(rate_epsilon(0.5, 0.25, 0.0).round(4))
        0.6931
    """
    excess = np.asarray(above, np.float64) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(excess > 0, np.log(excess) - np.log(np.asarray(below, np.float64)), -np.inf)


def probability(name: str, value: float, *, or_zero: bool = False) -> float:
    """Return a number strictly between 0 and 1, or 0 where that is allowed; refuse any other."""
    if not (isinstance(value, int | float | np.number) and (0 < value < 1 or (or_zero and value == 0))):
        allowed = "be at least 0 and below 1" if or_zero else "lie strictly between 0 and 1"
        raise InputError(f"{name} must {allowed}, not be {value!r}.")
    return float(value)


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

    Args:
        interval: Ends of an attack's exact epsilon.
        exact: The exact epsilon of the releases.

    Example:
        >>> at_most(Interval(1.0, 9.0), 1.7)
        Interval(lower=1.0, upper=1.7)
    """
    return Interval(interval.lower, max(interval.lower, min(interval.upper, exact)))


def epsilon_at(law: Law, threshold: float, delta: float) -> Interval:
    """Return ends of max(0, log((TPR - delta) / FPR), log((TNR - delta) / FNR)) for the rule "score > threshold".

    The formula: the region of error rates that (epsilon, delta) allows (Kairouz, Oh and Viswanath, 2015,
    https://arxiv.org/abs/1311.0776).

    Args:
        law: The law of the score under both hypotheses.
        threshold: The threshold of the rule.
        delta: The delta of epsilon.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> found = epsilon_at(RoundLaw.perfect(Mechanism()), 2.0, 1e-5)
        >>> 0 < found.lower <= found.upper < 1.6846
        True
    """
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

    The formula: the region of error rates that (epsilon, delta) allows (Kairouz, Oh and Viswanath, 2015,
    https://arxiv.org/abs/1311.0776).

    Args:
        law: The law of the score under both hypotheses.
        delta: The delta of epsilon.
        tolerance: How tight the ends shall be.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> found = supremum(RoundLaw.perfect(Mechanism()), 1e-5)
        >>> round(found.interval.lower, 5), round(found.interval.upper, 5)
        (1.68454, 1.68454)
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


def quick_epsilon(law: RoundLaw, delta: float) -> float:
    """Return a point value of the supremum of `epsilon_at` over all thresholds, about a hundred times as fast.

    Tails come from a plain inversion, whose accuracy is absolute, and thresholds from two grids. Nothing is certified:
    use it to compare laws, and `supremum` to state a figure. False positive rates below 1e-10 are not looked at.

    Args:
        law: The law of the score under both hypotheses.
        delta: The delta of epsilon.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> round(quick_epsilon(RoundLaw.perfect(Mechanism()), 1e-5), 3)
        1.685
    """
    probability("delta", delta, or_zero=True)
    if law.blind or law.silent:
        return 0.0
    weights = law.weights[law.weights != 0.0]
    mean, shift = law.q * float(weights.sum()), law.shift
    spread = float(np.sqrt(law.noise**2 + law.q * (1.0 - law.q) * float(weights @ weights)))
    reach = _QUICK_REACH * spread + float(np.abs(weights).max(initial=0.0))
    # Frequencies are summed until the noise damps them away; aliases lie twice the reach apart.
    step = np.pi / (reach + 0.5 * abs(shift))
    frequency = step * (np.arange(max(4, int(np.ceil(_QUICK_REACH / (law.noise * step))))) + 0.5)
    values, copies = np.unique(weights, return_counts=True)
    coins = np.log1p(law.q * np.expm1(1j * np.outer(values, frequency)))
    damped = (copies[:, None] * coins).sum(axis=0) - 0.5 * (law.noise * frequency) ** 2
    factor = np.exp(damped) * step / (np.pi * frequency)

    def above(places: Array) -> Array:
        # A sum and no product of matrices: on a busy machine BLAS threads cost more to wake than they save.
        return np.asarray(0.5 + (np.exp(-1j * np.outer(places, frequency)) * factor).sum(axis=1).imag)

    def epsilons(places: Array) -> Array:
        fpr = above(places)
        tpr = (1.0 - law.q) * fpr + law.q * above(places - shift)
        forward = np.where(fpr > _QUICK_LEAST, rate_epsilon(tpr, np.maximum(fpr, _QUICK_LEAST), delta), -np.inf)
        return np.maximum(forward, rate_epsilon(1.0 - fpr, np.maximum(1.0 - tpr, _QUICK_LEAST), delta))

    places = np.linspace(mean - 0.75 * reach + min(0.0, shift), mean + 0.75 * reach + max(0.0, shift), _QUICK_POINTS)
    for _ in range(2):
        found = epsilons(places)
        best, width = int(np.argmax(found)), places[1] - places[0]
        places = np.linspace(places[best] - width, places[best] + width, _QUICK_POINTS // 4)
    return max(0.0, float(found.max()), float(epsilons(places).max()))


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
