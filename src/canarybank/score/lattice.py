"""Put mixture scores on a lattice and add them up: rounded outwards for certainty, split evenly for a point value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_expit, logit

from canarybank.score.cumulants import EPS
from canarybank.score.linear import mixture
from canarybank.score.rounds import RoundLaw
from canarybank.score.tails import Bounds

__all__ = ["Cells", "Lattice", "Survival", "convolve", "exceedance", "rounded_down", "rounded_up", "split"]

ESCAPE = 1e-13  # what a round may leave outside of its cells, on each side
MOST_CELLS = 2**23
NODES, GAUSS = np.polynomial.legendre.leggauss(4)
T = TypeVar("T")
Survival: TypeAlias = Callable[[RoundLaw, NDArray[np.float64]], Bounds]


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of equal width on the mixture scale of one round, the first of them at ``base``.

    ``first`` is the distance of ``base`` from the floor log(1 - q): the llr depends on it and on nothing else, so it is
    kept beside the mixture score itself. Where q is 1 there is no floor, and llr and mixture score are the same.
    """

    law: RoundLaw
    base: float
    first: float
    step: float
    count: int

    @classmethod
    def over(cls, law: RoundLaw, low: float, high: float, step: float) -> "Cells":
        """Lay cells from the mixture score of one llr to at least that of another."""
        if law.q == 1.0:
            return cls(law, low, low, step, ceil((high - low) / step))
        first, last = (float(-log_expit(-(llr + logit(law.q)))) for llr in (low, high))
        return cls(law, float(np.log1p(-law.q)) + first, first, step, ceil((last - first) / step))

    def llr(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return the llr at places counted in cells from the base."""
        above = self.first + self.step * np.asarray(places, dtype=np.float64)
        return above if self.law.q == 1.0 else above - _curve(above) - logit(self.law.q)

    def survival(self, of: Survival) -> Bounds:
        """Return ends of P(mixture score > cell end) at the ends of all cells, from a law's tails."""
        ends = self.llr(np.arange(self.count + 1))
        bounds = of(self.law, ends)
        above = np.abs(self.first) + self.step * np.arange(self.count + 1)
        curve, odds = (0.0, 0.0) if self.law.q == 1.0 else (_curve(above), abs(float(logit(self.law.q))))
        # The ends are rounded; a density is nowhere above that of the noise alone, 0.4 / noise. The floor itself, at an
        # llr of minus infinity, is not rounded.
        pad = np.where(np.isfinite(ends), 0.4 / self.law.noise * 8.0 * EPS * (1.0 + above + curve + odds), 0.0)
        return Bounds(np.maximum(bounds.lower - pad, 0.0), np.minimum(bounds.upper + pad, 1.0))

    def areas(self, of: Survival) -> NDArray[np.float64]:
        """Return point values of the integral of P(mixture score > m) over each cell."""
        places = np.arange(self.count)[:, None] + 0.5 * (NODES + 1.0)
        bounds = of(self.law, self.llr(places))
        return np.asarray(0.5 * self.step * (0.5 * (bounds.lower + bounds.upper) @ GAUSS))


def _curve(above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -log(1 - exp(-above)): how far a mixture score above its floor lies from the llr; endless at the floor."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(-np.expm1(-above)))


@dataclass(frozen=True, eq=False)
class Lattice:
    """The cells of every round that is not silent; silent ones only move the base."""

    cells: tuple[Cells, ...]
    base: float
    step: float

    @classmethod
    def over(cls, rounds: Sequence[RoundLaw], step: float) -> "Lattice":
        """Lay cells that hold all but a negligible mass of every round, wider than asked where there are too many."""
        live = {id(law): (law, *law.reach(ESCAPE)) for law in rounds if not law.silent}
        spans = {key: float(np.ptp(mixture([low, high], law.q))) for key, (law, low, high) in live.items()}
        wide = max(step, sum(spans[id(law)] for law in rounds if not law.silent) / MOST_CELLS)
        known = {key: Cells.over(law, low, high, wide) for key, (law, low, high) in live.items()}
        cells = tuple(known[id(law)] for law in rounds if not law.silent)
        still = sum(float(mixture(-law.offset, law.q)) for law in rounds if law.silent)
        return cls(cells, still + sum(c.base for c in cells), wide)

    @property
    def top(self) -> float:
        """Return the largest sum that the cells can hold."""
        return self.base + self.step * sum(c.count + 1 for c in self.cells)

    def each(self, of: Callable[[Cells], T]) -> list[T]:
        """Apply a function to every round's cells, once where rounds share a law."""
        known = {key: of(cells) for key, cells in {id(c): c for c in self.cells}.items()}
        return [known[id(c)] for c in self.cells]


def rounded_down(survival: Bounds) -> NDArray[np.float64]:
    """Return masses on the cells' left ends whose law lies stochastically below the true one.

    From lower ends of P(score > cell end). Mass below the first cell is left out, as if it were at minus infinity.
    """
    falling = np.maximum.accumulate(survival.lower[::-1])[::-1]
    return np.asarray(falling - np.append(falling[1:], 0.0))


def rounded_up(survival: Bounds) -> tuple[NDArray[np.float64], float]:
    """Return masses on the cells, each to be moved to its right end, and a mass at plus infinity.

    From upper ends of P(score > cell end); the law lies stochastically above the true one.
    """
    falling = np.minimum.accumulate(survival.upper)
    falling[0] = 1.0
    return falling[:-1] - falling[1:], float(falling[-1])


def split(areas: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return masses on the cells' ends that keep the mean: each score is split between its neighbours in proportion.

    From the integral of P(score > m) over each cell: the masses are its negative differences over the step.
    """
    share = np.concatenate(([1.0], areas / step, [0.0]))
    return np.asarray(share[:-1] - share[1:])


def convolve(masses: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the masses of the sum of independent lattice variables; the same array given twice is transformed once."""
    length = 1 + sum(len(mass) - 1 for mass in masses)
    size = next_fast_len(length, real=True)
    known = {id(mass): mass for mass in masses}
    spectra = {key: rfft(mass, size) for key, mass in known.items()}
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for mass in masses:
        spectrum *= spectra[id(mass)]
    return np.asarray(irfft(spectrum, size)[:length]) if masses else np.ones(1)


def exceedance(masses: Sequence[NDArray[np.float64]]) -> Bounds:
    """Return ends of P(N >= k) for k = 0, 1, ... of the sum N of independent lattice variables.

    A transform of size n errs by at most 2 log2(n) EPS of its Euclidean norm; spectra of sub-probabilities have modulus
    at most 1, so that the errors of factors add; and a sum of n entries is at most sqrt(n) times their norm.
    """
    if not masses:
        return Bounds(np.ones(1), np.ones(1))
    total = convolve(masses)
    above = np.cumsum(total[::-1])[::-1]
    norms = [float(np.sqrt(mass @ mass)) for mass in masses]
    depth = 2.0 * np.log2(len(total) + 2.0) + 6.0
    error = 2.0 * EPS * depth * np.sqrt(len(total)) * (sum(norms) + 2.0 * max(norms))
    error = error + EPS * (len(total) + 8.0) * np.cumsum(np.abs(total[::-1]))[::-1]
    return Bounds(np.clip(above - error, 0.0, 1.0), np.clip(above + error, 0.0, 1.0))
