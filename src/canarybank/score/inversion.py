"""Invert the characteristic function of a tilted noisy sum, with every error in the answer.

For h > 0 the function exp(h t) P(X > t) has the Fourier transform exp(K(h)) phi_h(w) / (h + i w), where phi_h is the
characteristic function of the law tilted by exp(h X). Summing it over the frequencies w = k D, k = 0..terms gives, by
Poisson's formula with R = 2 pi / D,

    P(X > t) + sum over n != 0 of exp(n h R) P(X > t + n R),

up to truncation and rounding. All aliases are positive, so they only widen the interval downwards. The formula holds
for every h > 0 and every t; one tilt therefore serves all thresholds whose best Chernoff exponent it nearly attains.
"""

from dataclasses import dataclass
from math import factorial, pi

import numpy as np
from numpy.typing import NDArray
from scipy.special import exp1

from canarybank.score.cumulants import EPS, TINY, NoisySum

__all__ = ["DEEPEST", "Tilt"]

DEEPEST = 690.0  # tails below exp(-690), 1e-300, get no lower end

DIGITS = 40.0  # exp(-40): what aliasing and truncation may be, relative to the probability
MOST_TERMS = 2**18
MOST_WORK = 5e7
BLOCK = 2**21
ORDER = 27  # of the Taylor panels: 2^27 / 27! is 1e-20
REACH = 2.0  # half width of a panel in units of 1 / largest frequency


@dataclass(frozen=True, eq=False)
class Tilt:
    """One tilted inversion, ready for any threshold, meant for those in [start, stop].

    ``spectrum`` holds (D/pi) phi_h(w) / (h + i w) but for the factor exp(i w lag) of the tilted noise. An empty one
    means that the frequencies needed are too many, and that only the Chernoff bound is at hand.
    """

    h: float
    start: float
    stop: float
    cumulant: float
    cumulant_error: float
    lag: float
    step: float
    beyond: float
    beyond_cumulant: float
    frequencies: NDArray[np.float64]
    spectrum: NDArray[np.complex128]
    fixed_error: float
    phase_error: float

    @classmethod
    def build(cls, law: NoisySum, h: float, start: float, stop: float, beyond: float) -> "Tilt":
        """Choose the frequencies for thresholds in [start, stop], and evaluate the tilted law on them.

        ``beyond`` is the further tilt whose Chernoff bound holds down the aliases on the right.
        """
        cumulant, further = law.cumulant(h), law.cumulant(h + beyond)
        left = (DIGITS + max(0.0, h * stop - cumulant) + 2.0) / h
        right = (DIGITS + 2.0 + further - cumulant - beyond * start) / beyond
        # A step with few digits makes every multiple of it exact.
        step = float(np.float32(2.0 * pi / max(left, right)))
        terms = np.sqrt(2.0 * DIGITS) / (law.noise * step) if step > 0.0 else np.inf
        if terms > MOST_TERMS or terms * len(law.weights) > MOST_WORK:
            frequencies = np.empty(0)
        else:
            frequencies = step * np.arange(int(terms) + 2, dtype=np.float64)
        spectrum, fixed, phase = _spectrum(law, h, frequencies, step)
        return cls(
            h=h,
            start=start,
            stop=stop,
            cumulant=cumulant,
            cumulant_error=law.cumulant_error(h) + law.cumulant_error(h + beyond),
            lag=h * law.noise**2,
            step=step,
            beyond=beyond,
            beyond_cumulant=further,
            frequencies=frequencies,
            spectrum=spectrum,
            fixed_error=fixed + _truncation(law.noise, frequencies),
            phase_error=phase,
        )

    def upper_tail(self, thresholds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper ends of P(X > t) for finite thresholds t."""
        exponent = self.cumulant - self.h * thresholds
        slack = self.cumulant_error + 4.0 * EPS * (1.0 + abs(self.cumulant) + np.abs(self.h * thresholds))
        chernoff = np.minimum(1.0, np.exp(exponent + slack) + TINY)
        if not self.frequencies.size:
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
        ratio = self.beyond_cumulant - self.cumulant - self.beyond * (thresholds + period) + slack
        left = np.exp(np.minimum(-self.h * period - exponent + slack, 700.0)) / -np.expm1(-self.h * period)
        right = np.exp(np.minimum(ratio, 700.0)) / -np.expm1(-self.beyond * period)
        return np.asarray(1.0001 * (left + right))

    def _sum(self, thresholds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        places = thresholds - self.lag
        error = self.fixed_error + self.phase_error * (np.abs(thresholds) + abs(self.lag))
        reach = REACH / self.frequencies[-1]
        panels = np.floor((places - places.min()) / (2.0 * reach)) if places.size else places
        if places.size <= 4.0 * (panels.max(initial=0.0) + ORDER):
            return self._direct(places), error
        extra = EPS * (2.0 * ORDER + len(self.frequencies)) * np.exp(REACH) + REACH**ORDER / factorial(ORDER)
        return self._panels(places, panels, reach), error + extra * float(np.abs(self.spectrum).sum())

    def _direct(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        value = np.empty_like(places)
        size = max(1, BLOCK // len(self.frequencies))
        for first in range(0, len(places), size):
            phases = np.multiply.outer(places[first : first + size], self.frequencies)
            value[first : first + size] = np.cos(phases) @ self.spectrum.real + np.sin(phases) @ self.spectrum.imag
        return value

    def _panels(self, places: NDArray[np.float64], panels: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
        """Evaluate many places by Taylor series about the middles of panels."""
        used, panel = np.unique(panels, return_inverse=True)
        middles = places.min() + (2.0 * used + 1.0) * reach
        orders = np.arange(ORDER)
        powers = (self.frequencies[:, None] * reach) ** orders * (-1j) ** orders
        powers /= np.array([float(factorial(n)) for n in orders])
        around = self.spectrum * np.exp(-1j * np.multiply.outer(middles, self.frequencies))
        series = (around @ powers).real
        offset = (places - middles[panel]) / reach
        value = series[panel, -1]
        for n in range(ORDER - 2, -1, -1):
            value = value * offset + series[panel, n]
        return np.asarray(value)


def _truncation(noise: float, frequencies: NDArray[np.float64]) -> float:
    if not frequencies.size:
        return 0.0
    return 1.0001 * float(exp1(0.5 * (noise * frequencies[-1]) ** 2)) / (2.0 * pi)


def _spectrum(
    law: NoisySum, h: float, frequencies: NDArray[np.float64], step: float
) -> tuple[NDArray[np.complex128], float, float]:
    """Return (D/pi) phi_h / (h + i w), and its rounding error apart from, and for each unit of, the threshold."""
    up, down = law.tilted_coins(h)
    half = np.where(frequencies == 0.0, 0.5, 1.0) * (step / pi)
    pure = half * np.exp(-0.5 * (law.noise * frequencies) ** 2) / np.hypot(h, frequencies)
    spectrum = half * np.exp(-0.5 * (law.noise * frequencies) ** 2) / (h + 1j * frequencies)
    spectrum = spectrum * _product(law, up, down, frequencies)
    # A factor has modulus at most 1, so that errors of factors add: those of its coins, its phase and its product.
    log_odds = np.abs(h * law.weights) - np.log(law.q) + (-np.log1p(-law.q) if law.q < 1.0 else 0.0)
    factors = float(law.counts @ (4.0 + 4.0 * up + 2.0 * up * down * (4.0 + 2.0 * log_odds)))
    phases = 3.0 * float(law.counts @ (up * np.abs(law.weights)))
    rest = 16.0 + len(frequencies) + 2.0 * (law.noise * frequencies) ** 2
    fixed = EPS * float(pure @ (factors + phases * frequencies + rest))
    return spectrum, fixed, 4.0 * EPS * float(pure @ frequencies)


def _product(
    law: NoisySum, up: NDArray[np.float64], down: NDArray[np.float64], frequencies: NDArray[np.float64]
) -> NDArray[np.complex128]:
    """Return prod over users of (tails + heads exp(i w a)) at every frequency."""
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
