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
    assert 2**24 * grid.radius + 15 * scale < 2**62  # the largest sum of 2^24 users
    assert 15 * scale < 2**53


@given(st.floats(1e-6, 1e6), st.floats(2e-3, 1e8))
def test_it_has_as_many_steps_as_fit_and_no_more_than_asked(clip: float, sigma: float) -> None:
    grid = Grid.of(Mechanism(clip=clip, sigma=sigma))
    assert min(clip, sigma * clip) / (2 * grid.step) < 2**28
    is_finest = min(clip, sigma * clip) / grid.step >= 2**28
    assert is_finest or 2 * clip / grid.step >= 2**31 - 2 or 2 * sigma * clip / grid.step >= 2**49 * (1 - 1e-12)
    assert is_finest or not 0.25 <= sigma <= 2**20


def test_values_on_the_grid_are_exact() -> None:
    grid = Grid.of(Mechanism())
    steps = np.array([0, 1, -7, 2**53 - 1], dtype=np.int64)
    assert [Fraction(float(v)) for v in grid.values(steps)] == [int(n) * Fraction(grid.step) for n in steps]


def test_a_sigma_too_small_for_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match=r"sigma 0\.0001 is too small for exact noise.*64-bit"):
        Grid.of(Mechanism(sigma=1e-4))
    Grid.of(Mechanism(sigma=1e-3))


def test_a_sigma_too_large_for_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match=r"sigma 1e\+09 is too large for exact noise"):
        Grid.of(Mechanism(sigma=1e9))
    Grid.of(Mechanism(sigma=1e8))


@pytest.mark.parametrize("clip", [1e-59, 1e59])
def test_every_clip_that_a_mechanism_may_have_has_a_grid(clip: float) -> None:
    grid = Grid.of(Mechanism(clip=clip))
    assert grid.radius == int(Fraction(clip) / Fraction(grid.step)) >= 2**28
