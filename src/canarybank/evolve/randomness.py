"""Draw the randomness that privacy rests on from the operating system, and write none of it down.

Whoever knows the noise of a release has the histogram without it. So participation and noise of a real run come
straight from the operating system's cryptographic generator, value by value, with no seed that could be kept or
guessed; a statistical generator such as PCG64, even one seeded well, could be run backwards from its output.
A seeded run exists for tests and simulated audits: it is asked for as ``insecure_seed`` and every output says so.

What remains is arithmetic. The Gaussian is sampled and added in float64, and the lowest bits of such a sum are
known to betray its parts. ``snapped`` therefore rounds each release to a grid far coarser than float64's
and far finer than the noise: the result is then the rounding of an exact Gaussian release except with a
probability of the order of (bank size + users) · 1e-11 a release, which comes on top of delta. The Gaussian ends at 9.1
standard deviations. How long a release takes depends on how many records took part, and is hidden from nobody who
can time it.
"""

import math
import os
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from canarybank.seeds import stream

__all__ = ["Randomness", "SystemEntropy", "round_randomness", "snapped"]

Floats = NDArray[np.float64]

GRID_BITS = 12


class Randomness(Protocol):
    """What a release draws from; ``numpy.random.Generator`` is one, for simulations."""

    def random(self, size: Any) -> Floats:
        """Draw independent values, uniform on [0, 1)."""

    def standard_normal(self, size: Any) -> Floats:
        """Draw independent standard Gaussian values."""


class SystemEntropy:
    """Draw every value from the operating system; nothing is seeded, kept or repeatable."""

    def random(self, size: int) -> Floats:
        """Draw independent values, uniform on the multiples of 2^-53 in [0, 1)."""
        return (_words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def standard_normal(self, size: int) -> Floats:
        """Draw independent standard Gaussian values, by inversion of 63 bits and a sign.

        The value is the Gaussian quantile of a tail (k + 1/2)·2^-64 with k uniform below 2^63, on either side: tails
        are as finely resolved as the middle, up to 9.1 standard deviations.
        """
        words = _words(size)
        tails = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
        magnitudes = -np.asarray(ndtri(tails), dtype=np.float64)
        return np.where(words & np.uint64(1), magnitudes, -magnitudes)


def round_randomness(round_number: int, insecure_seed: int | None = None) -> Randomness:
    """Return what round ``round_number`` draws from: the operating system, unless a seed was asked for."""
    if insecure_seed is None:
        return SystemEntropy()
    return stream(insecure_seed, "evolve", "release", round_number)


def snapped(release: Floats, noise: float) -> Floats:
    """Round a release to the grid of the largest power of two that is at most noise · 2^-12.

    It is post-processing, so it costs no privacy; the grid is a power of two, so the rounding is exact.
    """
    step = 2.0 ** (math.floor(math.log2(noise)) - GRID_BITS)
    return np.rint(release / step) * step + 0.0


def _words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
