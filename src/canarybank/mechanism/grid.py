"""Put a release on a grid, so that contributions are whole numbers and their sum is exact."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import Mechanism

__all__ = ["Grid"]

FINENESS = 20
LARGEST_RADIUS = 1 << 31
LARGEST_SCALE = 2.0**52


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a mechanism's releases: multiples of ``step``, a power of two.

    A contribution on the grid is a vector of whole numbers whose sum of squares is at most ``radius``². ``scale`` is
    the standard deviation of the noise in steps. Both are at least 2^20, and ``scale >= sigma·radius`` holds exactly,
    so that the noise is at least sigma times what one user can move.
    """

    step: float
    radius: int
    scale: float

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Grid":
        """Return the coarsest grid on which noise and clip are each at least 2^20 steps.

        It refuses a sigma so small, below about 2^-10, or so large, above about 2^31, that 64 bits would not do.
        """
        smaller = min(mechanism.noise, mechanism.clip)
        step = math.ldexp(1.0, math.frexp(smaller)[1] - 1 - FINENESS) if smaller > 0 else 0.0
        if step < np.finfo(np.float64).tiny:
            raise InputError(
                f"clip {mechanism.clip:g} with sigma {mechanism.sigma:g} is too small for exact noise: its grid is "
                "below what float64 can hold. Use a larger clip."
            )
        radius = math.floor(mechanism.clip / step)
        if radius >= LARGEST_RADIUS:
            raise InputError(
                f"sigma {mechanism.sigma:g} is too small for exact noise: a contribution on its grid would not fit "
                "into 64-bit whole numbers. Use a sigma of at least 0.001; below that there is next to no privacy."
            )
        if mechanism.noise / step > LARGEST_SCALE:
            raise InputError(
                f"sigma {mechanism.sigma:g} is too large for exact noise: a noisy sum would not fit into 64-bit whole "
                "numbers. Use a sigma of at most 1e9."
            )
        # One step of float64 upwards makes up for the rounding of sigma·clip.
        return cls(step, radius, math.nextafter(mechanism.noise / step, math.inf))

    def values(self, whole: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of whole numbers of steps: exact below 2^53 steps."""
        return whole.astype(np.float64) * self.step
