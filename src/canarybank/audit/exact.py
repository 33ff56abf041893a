"""Evaluate a frozen attack exactly: epsilon at its threshold, and the supremum over all thresholds."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from canarybank.audit.methods import Branch
from canarybank.audit.rates import probability
from canarybank.score import Bounds, Interval, Rates

__all__ = ["Law", "Supremum", "at_most", "epsilon_at", "supremum"]

SLACK = 1e-12  # above the rounding of two differences and two logarithms, of numbers that are not below 1e-300
TINY = 1e-300
LEAST_MASS = 1e-200  # at delta = 0 thresholds are looked at as far out as this probability
FIRST_POINTS = 257
PARTS = 8
MOST_POINTS = 2**17


class Law(Protocol):
    """The law of a score under both hypotheses: `canarybank.score`'s `RoundLaw` and `SummedLaw` are such."""

    @property
    def blind(self) -> bool:
        """Say whether both hypotheses have the same law."""

    @property
    def idle(self) -> float:
        """Return the probability that an eligible canary takes part in no round, its law then being that of H0."""

    @property
    def resolution(self) -> float:
        """Return the distance of thresholds below which the ends of the rates get no tighter."""

    def rates(self, llr: ArrayLike, /) -> Rates:
        """Return certified ends of the four rates of "score > threshold"."""

    def point(self, llr: ArrayLike, /) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return point values of the false and the true positive rate."""

    def reach(self, mass: float) -> tuple[float, float]:
        """Return thresholds outside of which at most ``mass`` lies on each side."""


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
    rates = law.rates(np.array([threshold], dtype=np.float64))
    lower = max(float(_least(*pair, delta)[0]) for pair in _pairs(rates))
    upper = max(float(_most(pair[0].upper, pair[1].lower, delta)[0]) for pair in _pairs(rates))
    return Interval(max(0.0, lower), max(0.0, upper))


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
        best = max(0.0, *(float(_least(*pair, delta).max()) for pair in _pairs(rates)))
        cells = _cells(rates, delta, law.idle)
        inner = (cells[1:-1] > best + tolerance) & np.isfinite(cells[1:-1])
        inner &= np.diff(points) > np.maximum(law.resolution, 4.0 * np.spacing(np.abs(points[1:])))
        parts = PARTS if len(points) + PARTS * int(inner.sum()) <= MOST_POINTS else 2
        if not inner.any() or len(points) + parts * int(inner.sum()) > MOST_POINTS:
            break
        points, rates = _refined(law, points, rates, inner, parts)
    return _summary(law, delta, points, rates, cells)


def _summary(law: Law, delta: float, points: NDArray[np.float64], rates: Rates, cells: NDArray[np.float64]) -> Supremum:
    above, below = (_least(*pair, delta) for pair in _pairs(rates))
    branch = Branch.FORWARD if above.max() >= below.max() else Branch.REVERSE
    ends = above if branch is Branch.FORWARD else below
    i = int(np.argmax(ends))
    best = max(0.0, float(ends[i]))
    live = np.flatnonzero(cells[1:-1] >= best)
    low, high = (points[live[0]], points[live[-1] + 1]) if live.size else (points[i], points[i])
    return Supremum(
        interval=Interval(best, max(best, float(cells.max()))),
        point=_best_point(law, delta, branch, float(low), float(high), float(points[i])) if best > 0.0 else 0.0,
        threshold=float(points[i]),
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


def _least(top: Bounds, bottom: Bounds, delta: float) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        value = np.log(np.maximum(top.lower - delta, TINY)) - np.log(np.maximum(bottom.upper, TINY)) - SLACK
    return np.where(top.lower > delta, value, -np.inf)


def _most(top: NDArray[np.float64], bottom: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        value = np.log(np.maximum(top - delta, TINY)) - np.log(bottom) + SLACK
    return np.where(top > delta, value, -np.inf)


def _cells(rates: Rates, delta: float, idle: float) -> NDArray[np.float64]:
    """Bound epsilon on every cell between neighbouring points a < b, and on the two unbounded ones.

    With k the idle chance, TPR - k FPR and FNR - k TNR are themselves chances of scores above and below a threshold,
    hence monotone. So in the cell (TPR - delta) / FPR is at most (TPR(a) - delta - k (FPR(a) - FPR(b))) / FPR(b), and
    (TNR - delta) / FNR at most (TNR(b) - delta) / (FNR(a) + k (TNR(b) - TNR(a))), wherever these exceed 1.
    """
    one, zero, k = np.ones(1), np.zeros(1), idle * (1.0 - SLACK)
    tpr, fpr = np.concatenate((one, rates.tpr.upper)), np.concatenate((one, rates.fpr.lower, zero))
    tnr, fnr = np.concatenate((zero, rates.tnr.upper, one)), np.concatenate((zero, rates.fnr.lower))
    above = _most(tpr * (1.0 + SLACK) - k * np.maximum(fpr[:-1] - fpr[1:], 0.0), fpr[1:], delta)
    below = _most(tnr[1:], fnr + k * np.maximum(tnr[1:] - tnr[:-1], 0.0), delta)
    return np.maximum(above, below)


def _refined(
    law: Law, points: NDArray[np.float64], rates: Rates, chosen: NDArray[np.bool_], parts: int
) -> tuple[NDArray[np.float64], Rates]:
    """Divide the chosen cells into equal parts, and evaluate the law at the new points only."""
    left, width = points[:-1][chosen], np.diff(points)[chosen]
    new = np.unique(left[:, None] + width[:, None] * (np.arange(1, parts) / parts))
    order = np.argsort(np.concatenate((points, new)), kind="stable")
    fresh = law.rates(new)
    merged = [
        Bounds(*(np.concatenate((a, b))[order] for a, b in zip(old, more, strict=True)))
        for old, more in zip(rates, fresh, strict=True)
    ]
    return np.concatenate((points, new))[order], Rates(*merged)
