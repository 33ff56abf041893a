"""Hold the law of the mixture scores' sum over several rounds: a certified interval, and a point value."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.score.cumulants import EPS
from canarybank.score.lattice import Lattice, Survival, convolve, exceedance, rounded_down, rounded_up, split
from canarybank.score.linear import unmix
from canarybank.score.rounds import Rates, RoundLaw
from canarybank.score.tails import Bounds, complement

__all__ = ["SummedLaw"]

MARGIN = 1e-6  # of a cell: more than the rounding of a threshold's place on the lattice
NEGLIGIBLE = 1e-18


@dataclass(frozen=True, eq=False)
class SummedLaw:
    """The law of the sum of T rounds' mixture scores, coins and noise fresh in every round.

    The sum is the exact log-likelihood ratio if each round's score is the true conditional one; otherwise it is still a
    valid score with less power. ``step`` is the width of the cells behind `rates`, enlarged where the lattice would get
    too long; ``point_step`` that behind `point`.
    """

    rounds: Sequence[RoundLaw]
    step: float = 1.25e-5
    point_step: float = 1e-3

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", tuple(self.rounds))
        if not self.rounds:
            raise InputError("A sum over rounds needs at least one round.")
        for name in ("step", "point_step"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise InputError(f"The {name} must be positive and finite, not {getattr(self, name)}.")

    @property
    def blind(self) -> bool:
        """Say whether no round's score depends on the canary, so that no threshold tells anything."""
        return all(law.blind for law in self.rounds)

    @property
    def idle(self) -> float:
        """Return the probability that an eligible canary takes part in no round."""
        return float(np.prod([law.idle for law in self.rounds]))

    @property
    def resolution(self) -> float:
        """Return the distance of thresholds below which the ends of the rates get no tighter."""
        return self._lattice.step

    def reach(self, mass: float) -> tuple[float, float]:
        """Return thresholds lo < hi outside of which the certified rates are constant, whatever the mass asked for."""
        del mass
        return self._lattice.base - self._lattice.step, self._lattice.top + self._lattice.step

    def rates(self, thresholds: ArrayLike) -> Rates:
        """Return ends of the four rates of "sum > threshold", the canary absent against eligible in every round."""
        given = np.asarray(thresholds, dtype=np.float64)
        if np.isnan(given).any():
            raise InputError("A threshold is NaN; thresholds must be numbers, infinities allowed.")
        fpr, tpr = self._absent.at(given), self._eligible.at(given)
        return Rates(fpr, tpr, complement(fpr), complement(tpr))

    def point(self, thresholds: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return point values of the false and the true positive rate.

        All rounds but the last are split onto a lattice so that their means stay, the last is exact: the error falls
        with the square of ``point_step``.
        """
        given = np.asarray(thresholds, dtype=np.float64)
        fpr, tpr = (np.array([curve(float(t)) for t in given.ravel()]) for curve in self._curves)
        return fpr.reshape(given.shape), tpr.reshape(given.shape)

    @cached_property
    def _lattice(self) -> Lattice:
        return Lattice.over(self.rounds, self.step)

    @cached_property
    def _absent(self) -> "_Ends":
        return _Ends.of(self._lattice, RoundLaw.absent)

    @cached_property
    def _eligible(self) -> "_Ends":
        return _Ends.of(self._lattice, RoundLaw.eligible)

    @cached_property
    def _curves(self) -> tuple["_Curve", "_Curve"]:
        lattice, last = Lattice.over(self.rounds[:-1], self.point_step), self.rounds[-1]
        return _Curve.of(lattice, last, RoundLaw.absent), _Curve.of(lattice, last, RoundLaw.eligible)


@dataclass(frozen=True, eq=False)
class _Ends:
    """P(N >= k) of the sum of cell numbers: ``below`` from all rounds rounded down, ``above`` from all rounded up.

    Rounding up moves every round by one cell more; ``infinite`` is the mass that some round put at plus infinity.
    """

    below: NDArray[np.float64]
    above: NDArray[np.float64]
    infinite: float
    lattice: Lattice

    @classmethod
    def of(cls, lattice: Lattice, survival: Survival) -> "_Ends":
        bounds = lattice.each(lambda cells: cells.survival(survival))
        known = {id(b): (rounded_down(b), rounded_up(b)) for b in bounds}
        below = exceedance([known[id(b)][0] for b in bounds]).lower
        above = exceedance([known[id(b)][1][0] for b in bounds]).upper
        infinite = min(1.0, (1.0 + EPS * len(bounds)) * sum(known[id(b)][1][1] for b in bounds))
        return cls(below, np.minimum(above + infinite, 1.0), infinite, lattice)

    def at(self, thresholds: NDArray[np.float64]) -> Bounds:
        rounds, size = len(self.lattice.cells), len(self.below)
        place = np.clip((thresholds - self.lattice.base) / self.lattice.step, -2.0, size + rounds + 2.0)
        low = np.floor(place + MARGIN).astype(np.int64) + 1
        high = np.floor(place - rounds - MARGIN).astype(np.int64) + 1
        lower = np.where(low < size, self.below[np.clip(low, 0, size - 1)], 0.0)
        upper = np.where(high < len(self.above), self.above[np.clip(high, 0, len(self.above) - 1)], self.infinite)
        return Bounds(lower, np.where(high <= 0, 1.0, upper))


@dataclass(frozen=True, eq=False)
class _Curve:
    """Point values of P(sum > t): all rounds but the last on a lattice, the last exact."""

    masses: NDArray[np.float64]
    places: NDArray[np.float64]
    last: RoundLaw
    reach: tuple[float, float]
    survival: Survival

    @classmethod
    def of(cls, lattice: Lattice, last: RoundLaw, survival: Survival) -> "_Curve":
        masses = convolve(lattice.each(lambda cells: split(cells.areas(survival), cells.step)))
        places = lattice.base + lattice.step * np.arange(len(masses), dtype=np.float64)
        return cls(masses, places, last, last.reach(NEGLIGIBLE), survival)

    def __call__(self, threshold: float) -> float:
        llr = unmix(threshold - self.places, self.last.q)
        inside = (llr > self.reach[0]) & (llr < self.reach[1])
        bounds = self.survival(self.last, llr[inside])
        sure = self.masses[llr <= self.reach[0]].sum()
        return float(sure + self.masses[inside] @ (0.5 * (bounds.lower + bounds.upper)))
