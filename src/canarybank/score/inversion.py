"""Invert the characteristic function of a tilted noisy sum, with every error in the answer.

For h > 0 the function exp(h t) P(X > t) has the Fourier transform exp(K(h)) phi_h(w) / (h + i w), where phi_h is the
characteristic function of the law tilted by exp(h X). Summing it over the frequencies w = k D, k = 0..terms gives, by
Poisson's formula with R = 2 pi / D,

    P(X > t) + sum over n != 0 of exp(n h R) P(X > t + n R),

up to truncation and rounding. All aliases are positive, so they only widen the interval downwards. The formula holds
for every h > 0 and every t; one tilt therefore serves all thresholds whose best Chernoff exponent it nearly attains.
"""

from dataclasses import dataclass
from functools import cached_property
from math import factorial, pi

import numpy as np
from numpy.typing import NDArray
from scipy.special import exp1

from canarybank.score.cumulants import EPS, TINY, NoisySum

__all__ = ["DEEPEST", "Tilt"]

DEEPEST = 690.0  # tails below exp(-690), 1e-300, get no lower end

DIGITS = 40.0  # exp(-40): what aliasing and truncation may be, relative to the probability
FARTHEST = 1e5
MOST_TERMS = 2**18
MOST_WORK = 5e8
BLOCK = 2**21
ORDER = 27  # of the Taylor panels: 2^27 / 27! is 1e-20
REACH = 2.0  # half width of a panel in units of 1 / largest frequency


@dataclass(frozen=True, eq=False)
class Tilt:
    """One tilted inversion, right for any threshold, accurate for those in [start, stop].

    ``beyond`` is the further tilt whose Chernoff bound holds down the aliases on the right; ``step`` the distance of
    frequencies. The spectrum is computed when a threshold first asks for it.
    """

    law: NoisySum
    h: float
    start: float
    stop: float
    beyond: float
    cumulant: float
    beyond_cumulant: float
    step: float

    @classmethod
    def build(cls, law: NoisySum, h: float, start: float, stop: float, beyond: float) -> "Tilt":
        """Choose the step that keeps aliases negligible for thresholds in [start, stop]."""
        cumulant, further = law.cumulant(h), law.cumulant(h + beyond)
        left = (DIGITS + max(0.0, h * stop - cumulant) + 2.0) / h
        right = (DIGITS + 2.0 + further - cumulant - beyond * start) / beyond
        # A step with few digits makes every multiple of it exact.
        step = float(np.float32(2.0 * pi / max(left, right)))
        return cls(law, h, start, stop, beyond, cumulant, further, step)

    @property
    def resolved(self) -> bool:
        """Say whether the frequencies are few enough; if not, only the Chernoff bound is at hand."""
        terms = self._terms
        return terms <= MOST_TERMS and terms * len(self.law.weights) <= MOST_WORK

    @property
    def _terms(self) -> float:
        return float(np.sqrt(2.0 * DIGITS) / (self.law.noise * self.step)) if self.step > 0.0 else np.inf

    @cached_property
    def _frequencies(self) -> NDArray[np.float64]:
        return self.step * np.arange(int(self._terms) + 2, dtype=np.float64)

    @cached_property
    def _pure(self) -> NDArray[np.float64]:
        """Return the modulus that the spectrum would have if there were no users: what errors are measured against."""
        half = np.where(self._frequencies == 0.0, 0.5, 1.0) * (self.step / pi)
        return half * np.exp(-0.5 * (self.law.noise * self._frequencies) ** 2) / np.hypot(self.h, self._frequencies)

    @cached_property
    def _spectrum(self) -> NDArray[np.complex128]:
        """Return (D/pi) phi_h(w) / (h + i w) but for the factor exp(i w lag) of the tilted noise."""
        direction = self.h - 1j * self._frequencies
        return np.asarray(self._pure * direction / np.abs(direction) * _product(self.law, self.h, self._frequencies))

    @cached_property
    def _lag(self) -> float:
        return self.h * self.law.noise**2

    @cached_property
    def _cumulant_error(self) -> float:
        return self.law.cumulant_error(self.h)

    @cached_property
    def _fixed_error(self) -> float:
        """Bound truncation, and rounding as far as it does not grow with the threshold.

        Every factor has modulus at most 1, so that the errors of factors add: those of coins, of phases, of products.
        """
        law = self.law
        up, down = law.tilted_coins(self.h)
        odds = np.abs(self.h * law.weights) - np.log(law.q) - (np.log1p(-law.q) if law.q < 1.0 else 0.0)
        factors = float(law.counts @ (6.0 + 4.0 * up + 2.0 * up * down * (4.0 + 2.0 * odds)))
        phases = 3.0 * float(law.counts @ (up * np.abs(law.weights)))
        rest = 16.0 + len(self._frequencies) + 2.0 * (law.noise * self._frequencies) ** 2
        truncation = 1.0001 * float(exp1(0.5 * (law.noise * self._frequencies[-1]) ** 2)) / (2.0 * pi)
        return truncation + EPS * float(self._pure @ (factors + phases * self._frequencies + rest))

    @cached_property
    def _phase_error(self) -> float:
        """Bound the rounding error for each unit of the threshold, one rounding of the threshold itself included."""
        return 4.0 * EPS * float(self._pure @ self._frequencies)

    def upper_tail(self, thresholds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper ends of P(X > t) for finite thresholds t."""
        # Far out the ends are those of a nearer threshold, whose tail is larger and already underflows.
        thresholds = np.minimum(thresholds, (abs(self.cumulant) + FARTHEST) / self.h)
        exponent = self.cumulant - self.h * thresholds
        slack = self._cumulant_error + 4.0 * EPS * (1.0 + abs(self.cumulant) + np.abs(self.h * thresholds))
        chernoff = np.minimum(1.0, np.exp(exponent + slack) + TINY)
        if not self.resolved:
            return np.zeros_like(thresholds), chernoff
        value, error = self._sum(thresholds)
        lower = np.exp(exponent - slack) * (value - error - self._aliases(thresholds, exponent, slack))
        upper = np.exp(exponent + slack) * (value + error)
        lower = np.where(exponent > -DEEPEST, np.clip(lower, 0.0, 1.0), 0.0)
        return lower, np.minimum(np.maximum(upper, 0.0) + TINY, chernoff)

    def _aliases(
        self, thresholds: NDArray[np.float64], exponent: NDArray[np.float64], slack: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        period = 2.0 * pi / self.step
        further = slack + self.law.cumulant_error(self.h + self.beyond)
        ratio = self.beyond_cumulant - self.cumulant - self.beyond * (thresholds + period) + further
        left = np.exp(np.minimum(-self.h * period - exponent + slack, 700.0)) / -np.expm1(-self.h * period)
        right = np.exp(np.minimum(ratio, 700.0)) / -np.expm1(-self.beyond * period)
        return np.asarray(1.0001 * (left + right))

    def _sum(self, thresholds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        places = thresholds - self._lag
        error = self._fixed_error + self._phase_error * (np.abs(thresholds) + abs(self._lag))
        reach = REACH / self._frequencies[-1]
        panels = np.floor((places - places.min()) / (2.0 * reach)) if places.size else places
        if places.size <= 4.0 * (panels.max(initial=0.0) + ORDER):
            return self._direct(places), error
        extra = EPS * (2.0 * ORDER + len(self._frequencies)) * np.exp(REACH) + REACH**ORDER / factorial(ORDER)
        return self._panels(places, panels, reach), error + extra * float(np.abs(self._spectrum).sum())

    def _direct(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        value = np.empty_like(places)
        size = max(1, BLOCK // len(self._frequencies))
        for first in range(0, len(places), size):
            phases = np.multiply.outer(places[first : first + size], self._frequencies)
            value[first : first + size] = np.cos(phases) @ self._spectrum.real + np.sin(phases) @ self._spectrum.imag
        return value

    def _panels(self, places: NDArray[np.float64], panels: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
        """Evaluate many places by Taylor series about the middles of panels."""
        used, panel = np.unique(panels, return_inverse=True)
        middles = places.min() + (2.0 * used + 1.0) * reach
        orders = np.arange(ORDER)
        powers = (self._frequencies[:, None] * reach) ** orders * (-1j) ** orders
        powers /= np.array([float(factorial(n)) for n in orders])
        size = max(1, BLOCK // len(self._frequencies))
        blocks = [middles[first : first + size] for first in range(0, len(middles), size)]
        around = (self._spectrum * np.exp(-1j * np.multiply.outer(block, self._frequencies)) for block in blocks)
        series = np.concatenate([(block @ powers).real for block in around])
        offset = (places - middles[panel]) / reach
        value = series[panel, -1]
        for n in range(ORDER - 2, -1, -1):
            value = value * offset + series[panel, n]
        return np.asarray(value)


def _product(law: NoisySum, h: float, frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return prod over users of (tails + heads exp(i w a)), with the coins tilted by h, at every frequency."""
    up, down = law.tilted_coins(h)
    product = np.ones(len(frequencies), dtype=np.complex128)
    size = max(1, BLOCK // (len(frequencies) + 1))
    for first in range(0, len(law.weights), size):
        part = slice(first, first + size)
        phases = np.multiply.outer(law.weights[part], frequencies)
        factor = up[part, None] * np.cos(phases) + down[part, None] + 1j * (up[part, None] * np.sin(phases))
        product *= np.prod(_power(factor, law.counts[part]), axis=0)
    return product


def _power(base: NDArray[np.complex128], counts: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return base ** counts by repeated squaring, row by row."""
    left = counts.astype(np.int64)
    if (left == 1).all():
        return base
    result = np.ones_like(base)
    while left.any():
        odd = (left & 1).astype(bool)
        result[odd] *= base[odd]
        left >>= 1
        base = base * base
    return result
