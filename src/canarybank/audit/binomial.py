"""Tabulate many binomial laws at once, each on the stretch of counts that carries it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from canarybank.audit.rates import Array

__all__ = ["CUT", "Window", "rows"]

CUT = 1e-13
"""At most this much of a law lies outside its stretch."""
MOST_ENTRIES = 2**20


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
        spread = widest * (1 - widest)
        half = math.ceil(8 * math.sqrt(n * spread) + 40)
        return cls(n, max(0, math.floor(n * least) - half), min(n, math.ceil(n * most) + half), half)


def rows(window: Window, p: Array) -> Iterator[tuple[slice, NDArray[np.int64], Array]]:
    """Yield the laws Bin(n, p) in parts: which of p, where each stretch starts, and its probabilities, summing to 1."""
    n = window.n
    width = min(2 * window.half + 2, window.high - window.low + 1)
    step = max(1, MOST_ENTRIES // width)
    for begin in range(0, len(p), step):
        part = slice(begin, min(begin + step, len(p)))
        rate = np.clip(p[part], 1e-300, 1.0)
        start = np.clip(np.floor(n * rate).astype(np.int64) - window.half, window.low, window.high - width + 1)
        odds = rate / np.maximum(1 - rate, 1e-300)
        x = start[:, None] + np.arange(width - 1)
        log_mass = np.zeros((len(rate), width))
        # The ratio of neighbouring probabilities, summed in logarithms: no factorial, so no cancellation at large n.
        np.cumsum(np.log((n - x) / (x + 1.0)) + np.log(odds)[:, None], axis=1, out=log_mass[:, 1:])
        mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
        yield part, start, mass / mass.sum(axis=1, keepdims=True)
