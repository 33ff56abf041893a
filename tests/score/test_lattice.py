import numpy as np
import pytest

from canarybank.mechanism import Mechanism
from canarybank.score import Bounds, RoundLaw, mixture, unmix
from canarybank.score.lattice import Cells, Lattice, convolve, exceedance, rounded_down, rounded_up, split


@pytest.mark.parametrize("q", [0.1, 0.9, 1.0])
def test_cells_hold_the_llr_of_their_ends(q: float) -> None:
    law = RoundLaw.perfect(Mechanism(q=q))
    cells = Cells.over(law, -3.0, 4.0, 0.01)
    places = np.arange(cells.count + 1)
    assert float(cells.llr(0)) == pytest.approx(-3.0, abs=1e-12)
    assert float(cells.llr(cells.count)) >= 4.0
    assert np.allclose(cells.llr(places), unmix(cells.base + 0.01 * places, q), atol=1e-9)
    assert np.allclose(mixture(cells.llr(places), q), cells.base + 0.01 * places, atol=1e-12)


def test_rounding_brackets_the_law() -> None:
    truth = np.array([1.0, 0.7, 0.3, 0.1])
    bounds = Bounds(truth - np.array([0.01, 0.02, 0.01, 0.03]), truth + np.array([0.0, 0.01, 0.02, 0.01]))
    down = rounded_down(bounds)
    up, infinite = rounded_up(bounds)
    assert (down >= 0.0).all()
    assert (up >= 0.0).all()
    assert (np.cumsum(down[::-1])[::-1] <= truth).all()
    # A mass of cell i is moved to its right end, i + 1.
    assert (np.cumsum(up[::-1])[::-1] + infinite >= truth[:-1]).all()
    assert up.sum() + infinite == pytest.approx(1.0)
    assert down.sum() == pytest.approx(0.99)


def test_ends_that_are_not_monotone_are_made_so() -> None:
    bounds = Bounds(np.array([0.9, 0.4, 0.5]), np.array([1.0, 0.6, 0.65]))
    assert (rounded_down(bounds) >= 0.0).all()
    assert (rounded_up(bounds)[0] >= 0.0).all()
    assert rounded_down(bounds)[2] == 0.5
    assert rounded_up(bounds)[1] == 0.6


def test_the_split_keeps_mass_and_mean() -> None:
    # A score uniform on [0, 2.5] over cells of width 1: the survival is 1 - m / 2.5.
    areas = np.array([0.8, 0.4, 0.05])
    masses = split(areas, 1.0)
    assert masses.sum() == pytest.approx(1.0)
    assert masses @ np.arange(4) == pytest.approx(1.25)
    assert (masses >= 0.0).all()


def test_convolution_is_the_naive_one() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(30), rng.random(41)
    a, b = a / a.sum(), b / b.sum()
    naive = np.convolve(np.convolve(a, a), b)
    assert np.allclose(convolve([a, a, b]), naive, atol=1e-15)
    assert (convolve([]) == [1.0]).all()


def test_the_transforms_error_is_inside() -> None:
    # Binomial(20, 1/2) by twenty coins on a long lattice, against its exact tails.
    from scipy.stats import binom

    coin = np.zeros(5000)
    coin[[0, 4999]] = 0.5
    bounds = exceedance([coin] * 20)
    k = np.arange(len(bounds.lower))
    truth = binom.sf(np.ceil(k / 4999) - 1, 20, 0.5)
    assert (bounds.lower <= truth).all()
    assert (truth <= bounds.upper).all()
    assert (bounds.upper - bounds.lower).max() < 1e-9


def test_a_lattice_shares_equal_rounds_and_widens_where_it_would_get_too_long() -> None:
    law = RoundLaw.perfect(Mechanism())
    silent = RoundLaw(np.empty(0), 0.0, 0.0, 0.0, 0.1)
    lattice = Lattice.over([law, silent, law], 1e-3)
    assert len(lattice.cells) == 2
    assert lattice.cells[0] is lattice.cells[1]
    calls: list[Cells] = []
    assert len(lattice.each(calls.append)) == 2
    assert len(calls) == 1
    assert Lattice.over([law], 1e-9).step > 1e-7


def test_a_floor_that_is_reached_exactly_is_an_llr_of_minus_infinity():
    law = RoundLaw.perfect(Mechanism(sigma=0.02, q=0.5))
    cells = Cells.over(law, -5000.0, 5000.0, 1.0)
    assert cells.first == 0.0
    assert cells.llr(0) == -np.inf
    bounds = cells.survival(lambda _, ends: Bounds(np.where(ends == -np.inf, 1.0, 0.5), np.ones(len(ends))))
    assert bounds.lower[0] == bounds.upper[0] == 1.0
