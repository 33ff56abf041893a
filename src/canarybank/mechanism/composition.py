"""Compose the privacy losses of several rounds, with full relative accuracy at any delta.

On the axis of the user's contribution a round is z ~ N(0, 1) without the user and (1-q) N(0, 1) + q N(mu, 1) with the
user eligible, mu = 1/sigma (see ``one_round``). The loss of one round is put on a lattice so that both laws keep their
mass: a loss is split between its two neighbours, which only adds divergence ("connect the dots", Doroshenko et al.
2022, https://arxiv.org/abs/2207.04380). The sum over rounds is a power of a Fourier transform. A plain transform is
right to 1e-16 of everything, which is nothing for a delta of 1e-12; so the law is tilted exponentially to where delta
is decided, and untilted afterwards.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtri

from canarybank.mechanism.mechanism import Mechanism
from canarybank.mechanism.one_round import one_round_delta

__all__ = ["RELATIVE_ERROR", "composed_epsilon"]

RELATIVE_ERROR = 1e-6
"""How far above the exact epsilon ``composed_epsilon`` may lie, relative to it, for up to 10,000 rounds."""
AIM = RELATIVE_ERROR / 50
CUT = 1e-12  # of delta: what may lie beyond the largest loss of the lattice, and is counted as an infinite one
NEGLIGIBLE = 80.0  # exp(-80): what of the tilted law may lie outside of the window of a transform
FINEST = 2e-5  # of z: where sampling is so rare that a cell of the lattice is finer, hardly any loss is
NODES = 4  # a cell of the lattice
MOST_CELLS = 2**22

Array = NDArray[np.float64]


def composed_epsilon(mechanism: Mechanism, rounds: int) -> float:
    """Return the epsilon at the mechanism's delta of several releases, for adding or removing one user.

    But for rounding it lies above the exact epsilon, by less than ``RELATIVE_ERROR`` of it.
    """
    if rounds * one_round_delta(mechanism, 0.0) <= mechanism.delta:
        return 0.0
    return max(_Direction(mechanism, rounds, removing=removing).epsilon() for removing in (True, False))


@dataclass(frozen=True, slots=True)
class _Direction:
    """The losses of releases of which the first law, that of the event, has the user eligible or not."""

    mechanism: Mechanism
    rounds: int
    removing: bool

    def epsilon(self) -> float:
        """Return the smallest epsilon whose delta in this direction is at most the mechanism's."""
        loss, mass = self._losses(max(0.002, 0.05 * min(1.0, 4 * self.mechanism.sigma)))
        if np.ptp(loss) <= 1e-9 * float(np.abs(loss).max()):
            return max(0.0, self.rounds * float(loss.max()) + math.log1p(-self.mechanism.delta))
        tilt = self._tilt(loss, mass)
        ceiling = self.rounds * _tilted_mean(loss, mass, tilt)
        ends = self._ends(loss, mass, tilt)
        found = ceiling
        while found > 0:
            step = max(
                math.sqrt(12 * AIM * found / (self.rounds * (1 + tilt))),
                max(ends[1] - ends[0], float(np.ptp(loss))) / MOST_CELLS,
            )
            finer = self._solve(step, tilt, ceiling, ends)
            if finer >= found / 2 or finer == 0:
                return finer
            found = finer
        return 0.0

    def _losses(self, spacing: float) -> tuple[Array, Array]:
        """Return losses of one round, ascending, and the masses of the stretches of z that they stand for."""
        q, mu = self.mechanism.q, 1 / self.mechanism.sigma
        reach = -float(ndtri(max(self.mechanism.delta * CUT / self.rounds, 1e-300)))
        half = math.ceil(reach / spacing)
        around = _multiples(spacing, -half, half + 1)
        if not self.removing:
            return -_loss(-around, mu, q), spacing * _density(around)
        if 2 * reach >= mu:
            around = _multiples(spacing, -half, half + math.ceil(mu / spacing) + 1)
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

    def _solve(self, step: float, tilt: float, ceiling: float, ends: tuple[float, float]) -> float:
        loss, mass = self._losses(max(step * self.mechanism.sigma / NODES, FINEST))
        first = float(loss.min())
        cell = np.floor((loss - first) / step)
        right = np.expm1(-np.maximum(loss - first - cell * step, 0.0)) / math.expm1(-step)
        place = cell.astype(np.int64)
        lattice = np.bincount(place, mass * (1 - right), minlength=int(place.max()) + 2)
        lattice += np.bincount(place + 1, mass * right, minlength=len(lattice))
        # What lies beyond the lowest and the highest loss: moved up to the lowest, and to infinity.
        delta = self.mechanism.delta * (1 - CUT)
        return self._root(step, lattice / lattice.sum(), first, tilt, ceiling, ends, delta)

    def _root(
        self,
        step: float,
        lattice: Array,
        first: float,
        tilt: float,
        ceiling: float,
        ends: tuple[float, float],
        delta: float,
    ) -> float:
        n, steps = self.rounds, _multiples(step, 0, len(lattice))
        start = math.floor((ends[0] - n * first) / step) - n
        size = next_fast_len(math.ceil((ends[1] - ends[0]) / step) + 3 * n + 2, real=True)
        log_mass = _cumulant(steps, lattice, tilt)
        with np.errstate(divide="ignore"):
            tilted = np.exp(np.log(lattice) + tilt * steps - log_mass)
        folded = np.bincount(np.arange(len(tilted)) % size, tilted, minlength=size)
        composed = np.roll(irfft(rfft(folded) ** n, size), -(start % size))
        sums = n * first + step * (start + np.arange(size))
        height = n * (log_mass + tilt * first)

        def excess(epsilon: float) -> float:
            above = sums > epsilon
            s, w = sums[above], np.maximum(composed[above], 0.0)
            terms = w * np.exp(np.minimum(-tilt * (s - ceiling), 700.0)) * -np.expm1(epsilon - s)
            total = float(terms.sum())
            return math.log(total) + height - tilt * ceiling - math.log(delta) if total > 0 else -math.inf

        if excess(0.0) <= 0:
            return 0.0
        top = ceiling
        while excess(top) > 0:
            top += step
        return _last(excess, 0.0, top)


def _last(holds: Callable[[float], float], low: float, high: float) -> float:
    """Return a point, to 1e-14 of it, from which on a falling function is at most 0."""
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) > 0 else (low, middle)
    return high


def _multiples(step: float, start: int, stop: int) -> Array:
    return np.asarray(step * np.arange(start, stop), dtype=np.float64)


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
