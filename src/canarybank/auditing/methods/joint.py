"""Bound epsilon from true and false positives together: Buehler's bound in the order of the score statistic.

Two separate intervals pay for the worst case of both counts at once; the pair is seldom that unlucky. Outcomes
are ranked by T(x1, x0), the epsilon at which the score statistic of p1 <= exp(epsilon) p0 + delta equals its normal
quantile. T ranks, nothing more: the probability that T reaches the observed value is computed exactly from the
binomial laws, and maximised over the unknown p0. The bound is the largest epsilon at which that maximum stays
within alpha. The statistic falls when epsilon rises, because the restricted estimates then approach the observed
rates; so T is well defined, and {T >= t} is one set {x1 >= c(x0)}.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from canarybank.auditing.methods.base import FROZEN, Method
from canarybank.auditing.rates import CUT, Array, Window, binomial_rows, count_epsilons, ends

__all__ = ["JOINT", "joint_epsilon", "score_epsilon"]

REVERSE_SHARE = 0.05
"""The part of alpha that the reverse branch gets, by Clopper–Pearson ends."""

NUISANCE_SHARE = 0.01
"""The part of alpha for p0 lying outside the set over which the maximum is taken (1e-4 at alpha 0.01)."""
SLACK_SHARE = 0.01
"""The part of alpha that the gap between the grid of p0 and the continuum may cost."""
EFFECTIVE_SHARE = 1 - NUISANCE_SHARE - SLACK_SHARE / 2
"""About the part of alpha that is left, for forecasts."""
STEP = 1e-5
"""How far below the exact bound the returned one may lie."""
HALVINGS = 64
FIRST_CELLS, MOST_CELLS = 32, 2**17
ROUNDING = 1e-9


def score_epsilon(tp: ArrayLike, fp: ArrayLike, n1: float, n0: float, *, delta: float, alpha: float) -> Array:
    """Return T: the epsilon at which the score statistic equals the (1 - alpha) normal quantile; -inf for none.

    As a bound it holds only asymptotically, P(T > epsilon) -> alpha: it ranks outcomes and forecasts, never claims.
    Counts may be expected ones. On the curve of such outcomes p1 runs from its Wilson bound to the observed rate;
    then p0 is the Wilson bound for what is left of z², and one equation of the restricted estimate remains.
    """
    z2 = float(ndtri(alpha)) ** 2
    r1, r0 = (np.asarray(x, np.float64) / n for x, n in ((tp, n1), (fp, n0)))
    low, high = np.maximum(1 - _wilson_upper(1 - r1, n1, z2), delta), np.array(r1)
    reachable = (high > low) & (_pull(low, r1, r0, n1, n0, z2, delta)[0] < 0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = _pull(middle, r1, r0, n1, n0, z2, delta)[0] < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    _, ratio = _pull(high, r1, r0, n1, n0, z2, delta)
    return np.where(reachable, np.log(np.where(reachable, ratio, 1.0)), -np.inf)


def _pull(p1: Array, r1: Array, r0: Array, n1: float, n0: float, z2: float, delta: float) -> tuple[Array, Array]:
    # The derivative of the log-likelihood along p1 = ratio p0 + delta, which the restricted estimate makes zero.
    p0 = _wilson_upper(r0, n0, np.maximum(z2 - n1 * (r1 - p1) ** 2 / np.maximum(p1 * (1 - p1), 1e-200), 0.0))
    ratio = (p1 - delta) / np.maximum(p0, 1e-200)
    up = n1 * (r1 / np.maximum(p1, 1e-200) - (1 - r1) / np.maximum(1 - p1, 1e-200))
    return n0 * (p0 - r0) / np.maximum(p0 * (1 - p0), 1e-200) - ratio * up, ratio


def _wilson_upper(rate: Array, n: float, z2: ArrayLike) -> Array:
    rate, k = np.clip(rate, 0.0, 1.0), np.asarray(z2) / n  # a rate that is 1 may come as 1 + 2^-52
    return (rate + k / 2 + np.sqrt(k * (rate * (1 - rate) + k / 4))) / (1 + k)


@dataclass(frozen=True, slots=True)
class _Tail:
    """The set {T >= t}, as the least x1 that is in it for each x0 of a window, and what its probability needs."""

    n1: int
    n0: int
    delta: float
    window: Window
    cut: NDArray[np.int64]

    def probability(self, p0: Array, p1: Array) -> Array:
        """Return P(X1 >= cut(X0)) for independent binomials, one pair of rates an entry."""
        out = np.empty(len(p0))
        for part, start0, mass0 in binomial_rows(self.window, p0):
            for inner, start1, mass1 in binomial_rows(Window.around(self.n1, p1[part]), p1[part]):
                above = np.zeros((mass1.shape[0], mass1.shape[1] + 1))
                above[:, :-1] = mass1[:, ::-1].cumsum(axis=1)[:, ::-1]
                cut = self.cut[start0[inner][:, None] - self.window.low + np.arange(mass0.shape[1])]
                place = np.clip(cut - start1[:, None], 0, mass1.shape[1])
                out[part][inner] = np.einsum("ij,ij->i", mass0[inner], np.take_along_axis(above, place, axis=1))
        return out

    def at(self, p0: Array, epsilon: float) -> Array:
        """Return the largest probability of the set that epsilon allows at each p0."""
        return self.probability(p0, self.eligible(p0, epsilon))

    def eligible(self, p0: Array, epsilon: float) -> Array:
        """Return the largest p1 that epsilon allows at each p0."""
        return np.minimum(1.0, math.exp(epsilon) * p0 + self.delta)

    def curvature(self, p0: Array, epsilon: float) -> tuple[Array, Array]:
        """Return bounds on half of the second derivative along p0: the part of p0 itself, and that of p1."""
        p1 = self.eligible(p0, epsilon)
        with np.errstate(divide="ignore"):
            return self.n0 / (p0 * (1 - p0)), math.exp(2 * epsilon) * self.n1 / (p1 * (1 - p1))


def joint_epsilon(tp: int, fp: int, n1: int, n0: int, *, delta: float, alpha: float) -> float:
    """Return a lower bound L on epsilon from independent counts, in the forward direction.

    For X1 ~ Bin(n1, p1) and X0 ~ Bin(n0, p0) independent, and every p0 and epsilon with p1 <= exp(epsilon) p0 + delta:
    P(L(X1, X0) > epsilon) <= alpha.
    """
    rank = float(score_epsilon(tp, fp, n1, n0, delta=delta, alpha=alpha))
    if rank <= 0:
        return 0.0
    lowest, highest = (float(end) for end in ends(fp, n0, NUISANCE_SHARE * alpha / 2))
    tail = _tail(tp, fp, n1, n0, delta, alpha, rank, np.array([lowest, highest]))
    nodes = np.sin(np.linspace(math.asin(math.sqrt(lowest)), math.asin(math.sqrt(highest)), FIRST_CELLS + 1)) ** 2
    limit = alpha * (1 - NUISANCE_SHARE - ROUNDING) - 2 * CUT
    return _largest(
        lambda epsilon: bool(tail.at(nodes, epsilon).max() <= limit),
        lambda epsilon: _certify(tail, nodes, epsilon, limit, SLACK_SHARE * alpha),
        rank,
    )


def _tail(tp: int, fp: int, n1: int, n0: int, delta: float, alpha: float, rank: float, p0: Array) -> _Tail:
    window = Window.around(n0, p0)
    cut = _least_in(np.arange(window.low, window.high + 1), n1, n0, math.exp(rank), delta, float(ndtri(alpha)) ** 2)
    cut[fp - window.low] = min(tp, cut[fp - window.low])
    return _Tail(n1, n0, delta, window, np.minimum.accumulate(cut[::-1])[::-1])


def _least_in(x0: NDArray[np.int64], n1: int, n0: int, ratio: float, delta: float, z2: float) -> NDArray[np.int64]:
    # Along the outcomes with this x0 the restricted estimate p0 grows with x1, and tells x1 and the statistic.
    high = np.full(len(x0), (1 - delta) / ratio)
    low, inside = np.minimum(x0 / n0, high), x0 / n0 < high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        x1, square = _on_curve(middle, x0, n1, n0, ratio, delta)
        there = (square >= z2) | (x1 > n1)
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    x1, square = _on_curve(high, x0, n1, n0, ratio, delta)
    if x0[0] == 0 and (n0 / ratio) ** 2 * delta * (1 - delta) / n1 >= z2:
        # The restricted estimate is p0 = 0 itself, off the curve.
        x1[0], square[0] = n1 * delta + math.sqrt(z2 * n1 * delta * (1 - delta)), z2
    reached = inside & (square >= z2 * (1 - ROUNDING))
    whole = np.ceil(np.where(reached, np.minimum(x1, n1), 0.0) - 1e-6).astype(np.int64)
    return np.where(reached & (x1 <= n1 + 1e-6), whole, n1 + 1)


def _on_curve(p0: Array, x0: NDArray[np.int64], n1: int, n0: int, ratio: float, delta: float) -> tuple[Array, Array]:
    p1 = ratio * p0 + delta
    spread1, spread0 = p1 * (1 - p1), p0 * (1 - p0)
    slope = (n0 * p0 - x0) / (ratio * spread0)
    return n1 * p1 + slope * spread1, slope**2 * (spread1 / n1 + ratio**2 * spread0 / n0)


def _certify(tail: _Tail, nodes: Array, epsilon: float, limit: float, slack: float) -> bool:
    """Say whether P(T >= t) stays within the limit at every p0 between the nodes, when epsilon holds.

    Cells between nodes are halved until a bound on each is within the limit, or comes to a bound that is within the
    slack of a node and still is not.
    """
    value, seen = tail.at(nodes, epsilon), len(nodes)
    left, right, at_left, at_right = nodes[:-1], nodes[1:], value[:-1], value[1:]
    while max(at_left.max(), at_right.max()) <= limit:
        most = _most_within(tail, left, right, at_left, at_right, epsilon, limit)
        doubtful = most > limit
        if not doubtful.any():
            return True
        left, right, at_left, at_right, most = (v[doubtful] for v in (left, right, at_left, at_right, most))
        seen += len(left)
        if seen > MOST_CELLS or np.any(most - np.maximum(at_left, at_right) <= slack):
            return False
        middle = ((np.sqrt(left) + np.sqrt(right)) / 2) ** 2
        value = tail.at(middle, epsilon)
        left, right, at_left, at_right = np.hstack([[left, middle, at_left, value], [middle, right, value, at_right]])
    return False


def _most_within(
    tail: _Tail, left: Array, right: Array, at_left: Array, at_right: Array, epsilon: float, limit: float
) -> Array:
    """Return a bound on P(T >= t) in each cell of p0, not always the best where that is within the limit.

    A function whose second derivative is at most 2 I exceeds the larger of its values at two points a distance D
    apart by at most I D²/4 between them. Here I = n0/(p0(1-p0)) + exp(2 epsilon) n1/(p1(1-p1)), largest at an end
    of the cell. Where the second term is the larger one, take p1 at its right end first: more true positives only help,
    and I loses that term. Where p0 or p1 reaches 0 or 1, take p0 at its left end as well.
    """
    by0, by1 = (
        np.maximum(a, b) * ((right - left) ** 2 / 4)
        for a, b in zip(tail.curvature(left, epsilon), tail.curvature(right, epsilon), strict=True)
    )
    most = np.maximum(at_left, at_right) + by0 + by1
    again = (most > limit) & ((by1 > 4 * by0) | ~np.isfinite(most))
    if again.any():
        shifted = tail.probability(left[again], tail.eligible(right[again], epsilon))
        smooth = np.where(np.isfinite(by0[again]), np.maximum(shifted, at_right[again]) + by0[again], shifted)
        most[again] = np.minimum(most[again], smooth)
    return most


def _largest(possible: Callable[[float], bool], certified: Callable[[float], bool], guess: float) -> float:
    """Return an epsilon that is certified and at most STEP below one that is not; 0 if even 0 is not.

    ``possible`` is cheap and necessary: it brings the search close to where ``certified`` must decide.
    """
    low, high = 0.0, guess
    while possible(high):
        low, high = high, high + max(guess, 0.25)
    low, high = _bisect(possible, low, high)
    step = STEP
    while not certified(low):
        if low == 0:
            return 0.0
        low, high, step = max(0.0, low - step), low, 2 * step
    return _bisect(certified, low, high)[0]


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    while high - low > STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


class _Joint(Method):
    def branches(
        self,
        tp: ArrayLike,
        fp: ArrayLike,
        n1: float,
        n0: float,
        *,
        delta: float,
        alpha: float,
        q: float | None,  # noqa: ARG002, as in the base
    ) -> tuple[Array, Array]:
        return (
            score_epsilon(tp, fp, n1, n0, delta=delta, alpha=(1 - REVERSE_SHARE) * EFFECTIVE_SHARE * alpha),
            count_epsilons(tp, fp, n1, n0, delta=delta, gamma=REVERSE_SHARE * alpha / 2)[1],
        )

    def claim(
        self,
        tp: int,
        fp: int,
        n1: int,
        n0: int,
        *,
        delta: float,
        alpha: float,
        q: float | None,  # noqa: ARG002, as in the base
    ) -> tuple[float, float]:
        return (
            joint_epsilon(tp, fp, n1, n0, delta=delta, alpha=(1 - REVERSE_SHARE) * alpha),
            float(count_epsilons(tp, fp, n1, n0, delta=delta, gamma=REVERSE_SHARE * alpha / 2)[1]),
        )


JOINT = _Joint(
    "joint",
    f"{FROZEN}, and the hypotheses independent of each other (no common random numbers); forward by Buehler's "
    f"ordering at {1 - REVERSE_SHARE:g} alpha, reverse by Clopper–Pearson at {REVERSE_SHARE:g} alpha",
)
