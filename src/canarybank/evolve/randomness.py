"""Draw the randomness that privacy rests on from the operating system, and write none of it down.

Whoever knows the noise of a release has the histogram without it. So participation and noise of a real run come
straight from the operating system's cryptographic generator, value by value, with no seed that could be kept or
guessed; a statistical generator such as PCG64, even one seeded well, could be run backwards from its output.
A seeded run exists for tests and simulated audits: it is asked for as ``insecure_seed`` and every output says so.

Coins are exact: Bernoulli(q) for the very float q. ``canarybank.evolve.noise`` says how the noise is drawn, and bounds
what arithmetic adds to delta. How long a release takes depends on how many records took part, and is hidden from nobody
who can time it.
"""

import math
import os
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["Randomness", "SystemEntropy", "snapped"]

Floats = NDArray[np.float64]

GRID_BITS = 12


class Randomness(Protocol):
    """What a simulated release draws from: a ``numpy.random.Generator``, for one."""

    def random(self, size: Any) -> Floats:
        """Draw independent values, uniform on [0, 1)."""

    def standard_normal(self, size: Any) -> Floats:
        """Draw independent standard Gaussian values."""


class SystemEntropy:
    """Draw every value from the operating system; nothing is seeded, kept or repeatable."""

    def coins(self, q: float | Fraction, size: int) -> NDArray[np.bool_]:
        """Draw independent coins that are True with probability q, exactly.

        A coin is U < q for U uniform on [0, 1), of which as many bits are drawn as decide: 64, and 64 more for each
        coin whose first 64 are those of q, where q has further ones.
        """
        if q >= 1:
            return np.ones(size, dtype=np.bool_)
        first, rest = divmod(Fraction(q) * 2**64, 1)
        words = _words(size)
        coins = words < np.uint64(first)
        if rest and (open_ones := np.flatnonzero(words == np.uint64(first))).size:
            coins[open_ones] = self.coins(rest, len(open_ones))
        return coins

    def standard_normal(self, size: int) -> Floats:
        """Draw independent standard Gaussian values, by inversion of 63 bits and a sign.

        The value is the Gaussian quantile of a tail (k + 1/2)·2^-64 with k uniform below 2^63, on either side: tails
        are as finely resolved as the middle, up to 9.1 standard deviations.
        """
        words = _words(size)
        tails = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
        magnitudes = -np.asarray(ndtri(tails), dtype=np.float64)
        return np.where(words & np.uint64(1), magnitudes, -magnitudes)


def snapped(release: Floats, noise: float) -> Floats:
    """Round a simulated release to the grid of the largest power of two that is at most noise · 2^-12.

    The grid is a power of two, so the rounding is exact.
    """
    step = 2.0 ** (math.floor(math.log2(noise)) - GRID_BITS)
    return np.rint(release / step) * step + 0.0


def _words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
