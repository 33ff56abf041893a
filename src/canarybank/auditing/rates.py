"""Bound rates by counts, one-sided, and turn them into epsilon.

Counts have binomial laws, which are tabulated here. The ends of a rate are those of `canarybank.score.counts`, and the
exact epsilon of a law that of `canarybank.score.epsilon`; their names are given on.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from canarybank.score.counts import clopper_pearson, ends, lower_end, upper_end, whole_counts
from canarybank.score.epsilon import (
    Branch,
    Law,
    Supremum,
    at_most,
    epsilon_at,
    probability,
    rate_epsilon,
    supremum,
)

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


def count_epsilons(
    tp: ArrayLike,
    fp: ArrayLike,
    n1: ArrayLike,
    n0: ArrayLike,
    *,
    delta: float,
    gamma: float,
    each: Callable[[ArrayLike, ArrayLike, float], tuple[Array, Array]] | None = None,
) -> tuple[Array, Array]:
    """Return what counts force on epsilon forward, log((TPR_L - delta)/FPR_U), and reverse, log((TNR_L - delta)/FNR_U).

    Every end is one-sided at gamma. TNR_L and FNR_U come from the counts of negatives, which is 1 - FPR_U and
    1 - TPR_L without their rounding; so only two events can make either of the two fail, each of probability gamma.
    ``each`` returns both ends of a rate, where they are not Clopper–Pearson's.
    """
    tp, fp, n1, n0 = (np.asarray(v, np.float64) for v in (tp, fp, n1, n0))

    def lower(x: Array, n: Array) -> Array:
        return lower_end(x, n, gamma) if each is None else each(x, n, gamma)[0]

    def upper(x: Array, n: Array) -> Array:
        return upper_end(x, n, gamma) if each is None else each(x, n, gamma)[1]

    return (
        rate_epsilon(lower(tp, n1), upper(fp, n0), delta),
        rate_epsilon(lower(n0 - fp, n0), upper(n1 - tp, n1), delta),
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


def chance_between(seen: int, trials: int, low: float, high: float) -> float:
    """Return the largest chance of a count at least as far out as this, for a rate from ``low`` to ``high``.

    Below ``IMPOSSIBLE`` the count was not drawn from such a rate.
    """
    return min(float(binom.sf(seen - 1, trials, high)), float(binom.cdf(seen, trials, low)))
