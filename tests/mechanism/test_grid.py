from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.mechanism import Grid, Mechanism


@given(st.floats(1e-6, 1e6), st.floats(2e-3, 1e6))
def test_the_grid_is_fine_and_its_noise_is_never_too_small(clip: float, sigma: float) -> None:
    grid = Grid.of(Mechanism(clip=clip, sigma=sigma))
    step, scale = Fraction(grid.step), Fraction(grid.scale)
    assert np.frexp(grid.step)[0] == 0.5  # a power of two
    assert grid.radius == int(Fraction(clip) / step)
    assert min(Fraction(clip) / step, scale) >= 2**20
    assert scale >= Fraction(sigma) * grid.radius
    assert scale <= Fraction(sigma) * Fraction(clip) / step * (1 + Fraction(1, 2**51))
    assert 0 < grid.radius**2 < 2**62


@given(st.floats(1e-6, 1e6), st.floats(2e-3, 1e6))
def test_a_coarser_grid_would_break_the_rule(clip: float, sigma: float) -> None:
    grid = Grid.of(Mechanism(clip=clip, sigma=sigma))
    assert min(clip, sigma * clip) / (2 * grid.step) < 2**20


def test_values_on_the_grid_are_exact() -> None:
    grid = Grid.of(Mechanism())
    steps = np.array([0, 1, -7, 2**53 - 1], dtype=np.int64)
    assert [Fraction(float(v)) for v in grid.values(steps)] == [int(n) * Fraction(grid.step) for n in steps]


def test_a_sigma_too_small_for_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match=r"sigma 0\.0001 is too small for exact noise.*64-bit"):
        Grid.of(Mechanism(sigma=1e-4))
    Grid.of(Mechanism(sigma=1e-3))


def test_a_sigma_too_large_for_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match=r"sigma 1e\+10 is too large for exact noise"):
        Grid.of(Mechanism(sigma=1e10))
    Grid.of(Mechanism(sigma=1e9))


@pytest.mark.parametrize("clip", [1e-60, 1e60])
def test_the_smallest_and_the_largest_clip_have_a_grid(clip: float) -> None:
    grid = Grid.of(Mechanism(clip=clip))
    assert grid.radius * grid.step <= clip < (grid.radius + 1) * grid.step
