"""Compose the privacy losses of several rounds, with full relative accuracy at any delta.

On the axis of the user's contribution a round is z ~ N(0, 1) without the user and (1-q) N(0, 1) + q N(mu, 1) with the
user eligible, mu = 1/sigma (see ``one_round``). The loss of one round is put on a lattice so that both laws keep their
mass: a loss is split between its two neighbours, which only adds divergence ("connect the dots", Doroshenko et al.
2022, https://arxiv.org/abs/2207.04380). The sum over rounds is a power of a Fourier transform. A plain transform is
right to 1e-16 of everything, which is nothing for a delta of 1e-12; so the law is tilted exponentially to where delta
is decided, and untilted afterwards.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import logsumexp, ndtri

from canarybank.mechanism.mechanism import Mechanism
from canarybank.mechanism.one_round import one_round_delta

__all__ = ["RELATIVE_ERROR", "composed_epsilon"]

RELATIVE_ERROR = 1e-6
"""How far above the exact epsilon ``composed_epsilon`` may lie, relative to it, for up to 1,000 rounds."""
AIM = RELATIVE_ERROR / 50
ROUNDING = 1e-9
"""By how much of itself a figure is raised, so that no rounding of float64 leaves it below the exact epsilon."""
CUT = 1e-12  # of delta: what may lie beyond the largest loss of the lattice, and is counted as an infinite one
NEGLIGIBLE = 80.0  # exp(-80): what of the tilted law may lie outside of the window of a transform
FINEST = 2e-5  # of z: where sampling is so rare that a cell of the lattice is finer, hardly any loss is
NODES = 4  # a cell of the lattice
FEW_CELLS, MOST_CELLS = 2**14, 2**22  # of a transform: to find epsilon roughly, and at most
SOLVES = 5

Array = NDArray[np.float64]


def composed_epsilon(mechanism: Mechanism, rounds: int) -> float:
    """Return the epsilon at the mechanism's delta of several releases, for adding or removing one user.

    But for rounding it lies above the exact epsilon, by less than ``RELATIVE_ERROR`` of it.

    The formula: the privacy loss distribution of a Poisson-subsampled Gaussian (Koskela et al., 2021,
    https://arxiv.org/abs/2102.12412).

    Args:
        mechanism: The parameters of the release.
        rounds: How many releases are composed.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> round(composed_epsilon(Mechanism(sigma=2.0), 2), 2)
        0.45
    """
    if rounds * one_round_delta(mechanism, 0.0) <= mechanism.delta:
        return 0.0
    removing = _Direction(mechanism, rounds, removing=True).epsilon()
    # Without sampling both directions are alike; with it, no release is likelier without the user by more than 1/(1-q).
    if mechanism.q == 1 or removing >= -rounds * math.log1p(-mechanism.q):
        return removing
    return max(removing, _Direction(mechanism, rounds, removing=False).epsilon())


@dataclass(frozen=True, slots=True)
class _Direction:
    """The losses of releases of which the first law, that of the event, has the user eligible or not."""

    mechanism: Mechanism
    rounds: int
    removing: bool

    def epsilon(self) -> float:
        """Return the smallest epsilon whose delta in this direction is at most the mechanism's."""
        loss, mass = self._losses(self._coarse())
        if np.ptp(loss) <= 1e-9 * float(np.abs(loss).max()):
            return max(0.0, self.rounds * float(loss.max()) + math.log1p(-self.mechanism.delta))
        tilt = self._tilt(loss, mass)
        ends = self._ends(loss, mass, tilt)
        least = max((ends[1] - ends[0]) / MOST_CELLS, 1e-16 * float(np.abs(loss).max()))
        step = max((ends[1] - ends[0]) / FEW_CELLS, least)
        for _ in range(SOLVES):
            found, bend = self._solve(step, tilt, ends)
            # A step adds about rounds · step² · (1 + bend) / 12 to epsilon.
            finer = max(math.sqrt(12 * AIM * found / (self.rounds * (1 + bend))), least)
            if found == 0 or step <= 1.5 * finer:
                break
            step = finer
        return found * (1 + ROUNDING)

    def _coarse(self) -> float:
        return max(0.002, 0.05 * min(1.0, 4 * self.mechanism.sigma))

    def _losses(self, spacing: float) -> tuple[Array, Array]:
        """Return losses of one round, ascending, and the masses of the stretches of z that they stand for."""
        q, mu = self.mechanism.q, 1 / self.mechanism.sigma
        reach = -float(ndtri(max(self.mechanism.delta * CUT / self.rounds, 1e-300)))
        half = math.ceil(reach / spacing)
        around = spacing * np.arange(-half, half + 1, dtype=np.float64)
        if not self.removing:
            return -_loss(-around, mu, q), spacing * _density(around)
        if 2 * reach >= mu:
            around = spacing * np.arange(-half, half + math.ceil(mu / spacing) + 1, dtype=np.float64)
            return _loss(around, mu, q), spacing * ((1 - q) * _density(around) + q * _density(around - mu))
        loss = np.concatenate((_loss(around, mu, q), _loss(around + mu, mu, q)))
        return loss, spacing * np.concatenate(((1 - q) * _density(around), q * _density(around)))

    def _tilt(self, loss: Array, mass: Array) -> float:
        """Return the tilt whose mean is, by Chernoff's bound, exceeded with probability at most delta."""

        def beyond(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            spent = _cumulant(loss, mass, tilt) - tilt * _tilted_mean(loss, mass, tilt)
            return self.rounds * spent - math.log(self.mechanism.delta)

        spread = math.sqrt(float(mass @ (loss - mass @ loss) ** 2)) or float(np.ptp(loss))
        low = high = -math.log(spread)
        while beyond(low) < 0:
            low -= 2
        while beyond(high) > 0 and high < -math.log(float(np.ptp(loss))) + 50:
            high += 2
        return math.exp(float(brentq(beyond, low, high, rtol=1e-4)) if beyond(high) <= 0 else high)

    def _ends(self, loss: Array, mass: Array, tilt: float) -> tuple[float, float]:
        """Return ends outside of which the tilted sum has a negligible mass, by Chernoff's bound."""
        at, n = _cumulant(loss, mass, tilt), self.rounds
        mean = _tilted_mean(loss, mass, tilt)
        weights = np.exp(np.log(np.maximum(mass, 1e-320)) + tilt * loss - at)
        sd = math.sqrt(max(float(weights @ (loss - mean) ** 2), 1e-300))
        tilts = [u / (sd * math.sqrt(n)) for u in (0.1, 0.3, 1.0, 3.0, 6.0, 9.0, 12.0)]
        high = min((n * (_cumulant(loss, mass, tilt + u) - at) + NEGLIGIBLE) / u for u in tilts)
        low = max((-n * (_cumulant(loss, mass, tilt - u) - at) - NEGLIGIBLE) / u for u in tilts)
        return max(low, n * float(loss.min())), min(high, n * float(loss.max()))

    def _solve(self, step: float, tilt: float, ends: tuple[float, float]) -> tuple[float, float]:
        """Return epsilon from losses that are split between multiples of a step, and how delta bends there."""
        loss, mass = self._losses(min(max(step * self.mechanism.sigma / NODES, FINEST), self._coarse()))
        n, first = self.rounds, float(loss.min())
        cell = np.floor((loss - first) / step)
        right = np.expm1(-np.maximum(loss - first - cell * step, 0.0)) / math.expm1(-step)
        with np.errstate(divide="ignore"):
            exponent = np.log(mass / mass.sum()) + tilt * step * cell
        largest = float(exponent.max()) + tilt * step
        size = next_fast_len(math.ceil((ends[1] - ends[0]) / step) + 3 * n + 2, real=True)
        place = cell.astype(np.int64) % size
        tilted = np.bincount(place, np.exp(exponent - largest) * (1 - right), minlength=size)
        tilted += np.bincount((place + 1) % size, np.exp(exponent + tilt * step - largest) * right, minlength=size)
        total = float(tilted.sum())
        start = math.floor((ends[0] - n * first) / step) - n
        composed = np.maximum(np.roll(irfft(rfft(tilted / total) ** n, size), -(start % size)), 0.0)
        # Untilted, in units of delta. What lies beyond the largest loss counts as infinite, and takes its share of it.
        height = n * (math.log(total) + largest + tilt * first) - math.log(self.mechanism.delta * (1 - CUT))
        sums = n * first + step * (start + np.arange(size, dtype=np.float64))
        with np.errstate(divide="ignore"):
            law = np.exp(np.minimum(np.log(composed) - tilt * sums + height, 300.0))
        return _first_covered(np.asarray(sums, np.float64), np.asarray(law, np.float64), step)


def _first_covered(sums: Array, law: Array, step: float) -> tuple[float, float]:
    """Return the smallest epsilon from 0 on at which the law's losses, a step apart, have divergence at most 1.

    At the loss before s it is (1 - exp(-step)) P(S >= s) + exp(-step) times that at s, and between two losses likewise:
    a sum of positive terms, in which nothing cancels. The second figure is the law's density there, over P(S >= s).
    """
    reached = np.cumsum(law[::-1])  # from the largest loss downwards
    before = lfilter([-math.expm1(-step)], [1.0, -math.exp(-step)], reached)
    above = np.flatnonzero(before > 1)
    if not len(above):
        return 0.0, 0.0
    place = int(above[0])
    s, mass, at = float(sums[-1 - place]), float(reached[place]), float(before[place - 1]) if place else 0.0
    around = law[::-1][max(place - 8, 0) : place + 9]
    return max(0.0, s + math.log1p(-(1 - at) / (mass - at))), float(around.mean()) / (step * mass)


def _loss(z: Array, mu: float, q: float) -> Array:
    odds = mu * z - mu * mu / 2
    if q == 1:
        return odds
    small = np.log1p(q * np.expm1(np.minimum(odds, 1.0)))
    return np.where(odds < 1.0, small, np.logaddexp(math.log1p(-q), math.log(q) + odds))


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-z * z / 2) / math.sqrt(2 * math.pi))


def _cumulant(loss: Array, mass: Array, tilt: float) -> float:
    with np.errstate(divide="ignore"):
        return float(logsumexp(np.log(mass) + tilt * loss))


def _tilted_mean(loss: Array, mass: Array, tilt: float) -> float:
    with np.errstate(divide="ignore"):
        exponent = np.log(mass) + tilt * loss
    weights = np.exp(exponent - exponent.max())
    return float(weights @ loss / weights.sum())
