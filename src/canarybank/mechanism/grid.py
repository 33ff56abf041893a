"""Put a release on a grid, so that contributions are whole numbers and their sum is exact."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import Mechanism

__all__ = ["Grid"]

FINEST, COARSEST = 28, 20
LARGEST_RADIUS = 2.0**31  # the square, and the sum over 2^31 users, stay below 2^62
LARGEST_SCALE = 2.0**49  # 15 standard deviations stay below 2^53, where float64 holds every whole number


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a mechanism's releases: multiples of ``step``, a power of two.

    A contribution on the grid is a vector of whole numbers whose sum of squares is at most ``radius``². ``scale`` is
    the standard deviation of the noise in steps. Both are at least 2^28, or as large as 64 bits allow and at least
    2^20; and ``scale >= sigma·radius`` holds exactly, so that the noise is at least sigma times what one user can move.
    """

    step: float
    radius: int
    scale: float

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Grid":
        """Return the coarsest grid on which noise and clip are each at least 2^28 steps, or a coarser one that fits.

        A sigma from 1/4 to 2^20 has 2^28 steps. One so small, below about 2^-10, or so large, above about 2^28, that
        even 2^20 steps would not fit is refused.
        """
        grids = [cls._with(mechanism, fineness) for fineness in range(FINEST, COARSEST - 1, -1)]
        grid = next(filter(_fits, grids), grids[-1])
        if grid.radius >= LARGEST_RADIUS:
            raise InputError(
                f"sigma {mechanism.sigma:g} is too small for exact noise: a contribution on its grid would not fit "
                "into 64-bit whole numbers. Use a sigma of at least 0.001; below that there is next to no privacy."
            )
        if grid.scale > LARGEST_SCALE:
            raise InputError(
                f"sigma {mechanism.sigma:g} is too large for exact noise: a noisy sum would not fit into 64-bit whole "
                "numbers. Use a sigma of at most 1e8."
            )
        return grid

    @classmethod
    def _with(cls, mechanism: Mechanism, fineness: int) -> "Grid":
        """Return the grid on which the smaller of noise and clip is from 2^fineness to 2^(fineness + 1) steps."""
        smaller = min(mechanism.noise, mechanism.clip)
        step = math.ldexp(1.0, math.frexp(smaller)[1] - 1 - fineness)
        # One step of float64 upwards makes up for the rounding of sigma·clip.
        return cls(step, math.floor(mechanism.clip / step), math.nextafter(mechanism.noise / step, math.inf))

    def values(self, whole: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of whole numbers of steps: exact below 2^53 steps, and rounded beyond them."""
        return whole.astype(np.float64) * self.step


def _fits(grid: Grid) -> bool:
    return grid.radius < LARGEST_RADIUS and grid.scale <= LARGEST_SCALE
