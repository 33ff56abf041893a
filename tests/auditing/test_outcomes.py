import numpy as np
import pytest

from canarybank.auditing import Target, find_method
from canarybank.auditing.forecast import bound_law, chance_at_most
from canarybank.auditing.spread import Outcomes, count_branches

RATES = [(0.06, 0.01), (3e-3, 1e-4), (0.9999, 0.99), (0.02, 0.02), (1.0, 0.0)]
METHODS = ["paper", "clopper-pearson"]
NEAR = 1e-5
"""How far a bound may be from its method's own value; cells are more than ten times as wide."""


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("pair", RATES)
def test_cells_hold_what_sorted_outcomes_give(pair: tuple[float, float], name: str) -> None:
    target = Target(20_000, 1e-5, 0.01, find_method(name))
    found, (values, mass) = Outcomes.of_each(target, [[pair]])[0], bound_law(target, [pair])
    assert found.most == values[-1]
    for top in (found.most, found.most + 0.7):
        grid = np.linspace(0.0, top, 4001)
        reached = found.at_most(grid)
        assert (reached >= chance_at_most(values, mass, grid - NEAR) - 1e-9).all()
        assert (reached[:-1] <= chance_at_most(values, mass, grid + NEAR)[:-1] + 1e-9).all()
        assert reached[-1] == pytest.approx(1.0)


def test_a_method_that_searches_gives_its_own_values() -> None:
    target = Target(300, 1e-5, 0.05, find_method("joint"))
    found, (values, mass) = Outcomes.of_each(target, [[(0.2, 0.05)]])[0], bound_law(target, [(0.2, 0.05)])
    grid = np.linspace(0.0, values[-1], 501)
    np.testing.assert_allclose(found.at_most(grid), chance_at_most(values, mass, grid), rtol=0, atol=1e-9)


def test_pooled_outcomes_are_those_of_summed_counts() -> None:
    target = Target(5_000, 1e-5, 0.05, find_method("pooled"), canaries=2)
    pairs = [(0.06, 0.01), (0.08, 0.02)]
    found, (values, mass) = Outcomes.of_each(target, [pairs])[0], bound_law(target, pairs)
    grid = np.linspace(0.0, values[-1], 501)
    assert found.most == values[-1]
    np.testing.assert_allclose(found.at_most(grid), chance_at_most(values, mass, grid), rtol=0, atol=1e-9)


def test_rates_next_to_a_large_delta_have_their_own_quantiles() -> None:
    # The lower end crosses delta between two counts of the table.
    target = Target(10**9, 1e-3, 0.01, find_method("paper"))
    found = Outcomes.of_each(target, [[(1e-3, 1e-9)]])[0]
    plain = np.maximum(target.at_counts(found.first[0][:, None], found.second[0], 10**9), 0.0)
    order, mass = np.argsort(plain, axis=None), np.outer(found.first[1], found.second[1]).ravel()
    highest = plain.ravel()[order][np.searchsorted(np.cumsum(mass[order]), 0.9995)]
    assert highest > 4
    grid = np.linspace(0.0, found.most, 4001)
    assert grid[np.searchsorted(found.at_most(grid), 0.9995)] == pytest.approx(highest, abs=0.01)


def test_a_value_on_the_grid_counts_at_its_own_place() -> None:
    grid = np.linspace(0.0, 0.7, 8)
    even = (np.arange(8.0), np.full(8, 1 / 8))
    found = Outcomes(even, (np.zeros(1), np.ones(1)), grid[:, None], 0.7)
    np.testing.assert_allclose(found.at_most(grid), np.arange(1, 9) / 8, rtol=0, atol=1e-15)


@pytest.mark.parametrize("trials", [20_000, 1_000_000])
@pytest.mark.parametrize("name", [*METHODS, "stratified"])
def test_outcomes_of_many_cases_are_those_of_each_alone(name: str, trials: int) -> None:
    target = Target(trials, 1e-5, 0.01, find_method(name), q=0.5)
    together = Outcomes.of_each(target, [[pair] for pair in RATES])
    for pair, found in zip(RATES, together, strict=True):
        alone = Outcomes.of_each(target, [[pair]])[0]
        assert found.most == alone.most
        np.testing.assert_array_equal(found.values, alone.values)
        plain = np.maximum(target.at_counts(found.first[0][:, None], found.second[0], trials), 0.0)
        np.testing.assert_allclose(found.values, plain, rtol=0, atol=NEAR)
        assert found.most == plain.max()


@pytest.mark.parametrize("trials", [5_000, 20_000, 1_000_000])
@pytest.mark.parametrize("name", METHODS)
def test_both_branches_at_counts_are_the_methods_own(name: str, trials: int) -> None:
    target, rng = Target(trials, 1e-5, 0.01, find_method(name)), np.random.default_rng(trials)
    true, false = (np.sort(rng.integers(trials // 20, trials - trials // 20, size=200)) for _ in range(2))
    found = count_branches(target, true, false, trials)
    for branch, own in zip(found, target.branches(true / trials, false / trials), strict=True):
        np.testing.assert_allclose(branch, own, rtol=0, atol=NEAR)


@pytest.mark.parametrize("name", METHODS)
def test_bounds_at_few_counts_are_exact(name: str) -> None:
    trials = 1_000_000
    target, counts = Target(trials, 1e-5, 0.01, find_method(name)), np.arange(60, 4_096)
    found = count_branches(target, counts, counts[::-1].copy(), trials)[0]
    np.testing.assert_allclose(found, target.branches(counts / trials, counts[::-1] / trials)[0], rtol=0, atol=1e-7)
