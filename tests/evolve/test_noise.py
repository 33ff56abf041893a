"""Hold the two samplers to the ideal release: the rounded continuous Gaussian on whole contributions."""

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from canarybank.errors import InputError, MissingError
from canarybank.evolve import Plan, evolve, find_noise
from canarybank.evolve.noise import CELL_BITS, FLOAT_VARIATION
from canarybank.mechanism import Grid, Mechanism, delta_slack, epsilon, one_round_delta

SCALE = Grid.of(Mechanism(sigma=1.3)).scale


def laws(scale: float) -> tuple[list[Any], list[Any]]:
    """Return the discrete Gaussian's probabilities and the rounded continuous one's, on all that matters."""
    reach = range(-int(14 * scale) - 2, int(14 * scale) + 3)
    weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * mpmath.mpf(scale) ** 2)) for k in reach]
    total = mpmath.fsum(weights)
    edges = [mpmath.ncdf((k - mpmath.mpf(0.5)) / scale) for k in [*reach, reach.stop]]
    return [w / total for w in weights], [after - before for before, after in itertools.pairwise(edges)]


def variation(scale: float) -> float:
    with mpmath.workdps(40):
        discrete, rounded = laws(scale)
        return float(mpmath.fsum(abs(p - r) for p, r in zip(discrete, rounded, strict=True)) / 2)


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0, 5.0, 8.0, 40.0])
def test_the_discrete_law_is_as_near_to_the_rounded_one_as_stated_and_not_much_nearer(scale: float) -> None:
    exact = variation(scale)
    assert exact <= find_noise("discrete").per_entry(scale)
    # A bound of 1/(65 s²) would be false: the leading term is 2φ(1)/(24 s²) = 1/(49.6 s²).
    assert exact > 1 / (65 * scale**2)


def test_entries_add_up_and_the_grid_makes_the_variation_small() -> None:
    grid = Grid.of(Mechanism())
    noise = find_noise("discrete")
    assert noise.variation(grid, 2048) == 2048 * noise.per_entry(grid.scale)
    assert 6 * delta_slack(2.0, noise.variation(grid, 2048)) < 1e-8
    assert find_noise("float").variation(grid, 2048) == 2048 * FLOAT_VARIATION > noise.variation(grid, 2048)


@pytest.mark.parametrize(("name", "slack"), [("discrete", "2.0e-14"), ("float", "5.9e-06")])
def test_the_figures_of_the_documentation_are_these(name: str, slack: str) -> None:
    mechanism = Mechanism(sigma=1.1088)
    variation = 6 * find_noise(name).variation(Grid.of(mechanism), 2048)
    assert f"{delta_slack(epsilon(mechanism, 6), variation):.1e}" == slack
    page = (Path(__file__).parents[2] / "docs" / "mathematics.md").read_text()
    assert slack.replace("e-0", "e-").replace(".0e", "e") in page


def discrete_delta(scale: int, radius: int, q: float, at: float) -> float:
    """Return the exact delta of one coordinate's discrete release, a user moving it by ``radius``, either way round."""
    reach = np.arange(-16 * scale - radius, 16 * scale + radius + 1)
    without = np.exp(-(reach**2) / (2 * scale**2))
    moved = np.exp(-((reach - radius) ** 2) / (2 * scale**2))
    without, moved = without / without.sum(), moved / moved.sum()
    eligible = (1 - q) * without + q * moved
    pairs = ((eligible, without), (without, eligible))
    return max(np.maximum(p - math.exp(at) * r, 0).sum() for p, r in pairs)


@pytest.mark.parametrize("scale", [2, 3, 4, 8])
def test_the_slack_covers_what_the_discrete_law_costs_more(scale: int) -> None:
    # Scale and radius are equal, so sigma is 1. Without its slack the accountant's delta is too small somewhere.
    stated = find_noise("discrete").per_entry(float(scale))
    excess = []
    for at in np.linspace(0.05, 4, 80):
        ideal = one_round_delta(Mechanism(sigma=1.0, q=0.3), at)
        exact = discrete_delta(scale, scale, 0.3, at)
        assert exact <= ideal + delta_slack(at, stated)
        excess.append(exact - ideal)
    assert max(excess) > 1e-12


def test_the_slack_is_the_hockey_stick_of_two_moved_laws() -> None:
    # Two laws with exactly delta at epsilon, each moved by the variation in the worst direction.
    at, moved = 0.7, 1e-3
    p, q = np.array([0.6, 0.4]), np.array([0.25, 0.75])
    delta = p[0] - math.exp(at) * q[0]
    worse = (p[0] + moved) - math.exp(at) * (q[0] - moved)
    assert worse == pytest.approx(delta + delta_slack(at, moved), rel=1e-12)
    assert delta_slack(1e6, 1e-9) == 1.0
    assert delta_slack(3.0, 0.0) == 0.0


def test_drawn_discrete_noise_has_the_discrete_law() -> None:
    # Nothing here can be seeded: a false alarm once in 1e6 runs.
    drawn = find_noise("discrete").add(np.zeros(40_000, dtype=np.int64), 3.0)
    reach = np.arange(-9, 10)
    counts = np.array([(drawn == k).sum() for k in reach])
    weights = np.exp(-(reach**2) / 18)
    expected = 40_000 * weights / np.exp(-(np.arange(-60, 61) ** 2) / 18).sum()
    counts, expected = np.append(counts, 40_000 - counts.sum()), np.append(expected, 40_000 - expected.sum())
    assert stats.chisquare(counts, expected).pvalue > 1e-6


@pytest.mark.parametrize("name", ["discrete", "float"])
def test_drawn_noise_on_the_real_grid_is_gaussian(name: str) -> None:
    # As above, for the Kolmogorov-Smirnov distance, the mean and the variance.
    count = 50_000
    drawn = find_noise(name).add(np.zeros(count, dtype=np.int64), SCALE) / SCALE
    assert stats.kstest(drawn, "norm").pvalue > 1e-6
    assert abs(drawn.mean()) * math.sqrt(count) < stats.norm.isf(5e-7)
    assert 1e-6 < stats.chi2.cdf((drawn**2).sum(), count) < 1 - 1e-6


@pytest.mark.parametrize("name", ["discrete", "float"])
def test_noise_is_added_to_the_histogram(name: str) -> None:
    histogram = np.arange(200, dtype=np.int64) * 2**50
    noisy = find_noise(name).add(histogram, SCALE)
    assert noisy.dtype == np.int64
    assert np.abs(noisy - histogram).max() < 10 * SCALE
    assert not np.array_equal(noisy, histogram)


def test_float_noise_ends_on_cells_of_a_size_that_its_bound_assumes() -> None:
    for scale in (2.0**20, 1.5 * 2**20, 2.0**33 + 7):
        noisy = find_noise("float").add(np.full(500, 12345, dtype=np.int64), scale)
        cell = np.gcd.reduce(noisy)
        assert 2**CELL_BITS <= scale / cell < 2 ** (CELL_BITS + 1)


def test_the_quantile_function_is_as_exact_as_the_bound_on_float_noise_assumes() -> None:
    rng = np.random.default_rng(4)
    tails = np.concatenate([rng.random(300) / 2, 2.0 ** -rng.uniform(1, 64, 300), [0.5 - 2.0**-54, 2.0**-65]])
    worst = 0.0
    with mpmath.workdps(60):
        for tail in tails:
            exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(float(tail)) - 1)
            worst = max(worst, float(abs((mpmath.mpf(float(ndtri(tail))) - exact) / exact)))
    assert worst < 2.0**-50
    edges, tail_error, value_error = 2 * 2.0 ** (CELL_BITS + 1), 2.0**-51, 2.0**-48.5
    assert edges * (tail_error + 0.8 * value_error) + 2.0**-45 < FLOAT_VARIATION
    assert value_error > 2.0**-49 + 2.0**-53


def test_an_unknown_noise_is_refused() -> None:
    with pytest.raises(InputError, match="choose one of discrete, float"):
        Plan(Mechanism(), 1, noise="laplace", insecure_seed=0)
    with pytest.raises(InputError, match="choose one of discrete, float"):
        find_noise("laplace")


def test_missing_opendp_is_said_before_anything_is_read_or_spent(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[opendp\]'") as caught:
        evolve(*world.arguments, 1, folder=tmp_path / "run")
    assert caught.value.exit_code == 3
    assert not (tmp_path / "run").exists()
    assert len(evolve(*world.arguments, 1, keep=world.keep, noise="float").rounds) == 1
    assert len(evolve(*world.arguments, 1, keep=world.keep, insecure_seed=1).rounds) == 1


@pytest.mark.parametrize(("noise", "slack"), [("discrete", 1e-16), ("float", 1e-8)])
def test_the_ledger_of_a_real_run_states_its_slack(world: Any, noise: str, slack: float) -> None:
    spent = evolve(*world.arguments, 2, keep=world.keep, noise=noise).spent
    variation = 2 * find_noise(noise).variation(Grid.of(world.mechanism), 24)
    assert spent.slack == pytest.approx(delta_slack(spent.epsilon, variation))
    assert slack / 10 < spent.slack < 100 * slack
    assert f"at delta 1e-05 + {spent.slack:.2g} after 2" in str(spent)
    assert evolve(*world.arguments, 1, keep=world.keep, insecure_seed=1).spent.slack == 0.0
