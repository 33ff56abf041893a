"""Hold the two samplers to the ideal release: the rounded continuous Gaussian on whole contributions."""

import itertools
import math
import os
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from canarybank.errors import InputError, MissingError
from canarybank.evolution import EvolutionPlan, SystemEntropy, Voters, evolve, find_noise, snapped
from canarybank.evolution.draw import CELL_BITS
from canarybank.mechanism import (
    Bank,
    Grid,
    Mechanism,
    delta_slack,
    epsilon,
    one_round_delta,
    route_within,
    whole_contributions,
)
from canarybank.users import Users

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
    assert (
        find_noise("float").variation(grid, 2048)
        == 2048 * find_noise("float").per_entry(1.0)
        > noise.variation(grid, 2048)
    )


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
    assert edges * (tail_error + 0.8 * value_error) + 2.0**-45 < find_noise("float").per_entry(1.0)
    assert value_error > 2.0**-49 + 2.0**-53


def test_an_unknown_noise_is_refused() -> None:
    with pytest.raises(InputError, match="choose one of discrete, float"):
        EvolutionPlan(Mechanism(), 1, noise="laplace", insecure_seed=0)
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


def test_system_values_have_their_laws() -> None:
    # Nothing here can be seeded, so each threshold is set for a false alarm once in 1e9 runs.
    entropy = SystemEntropy()
    for q in (0.1, 0.5, 0.999):
        assert stats.binomtest(int(entropy.coins(q, 200_000).sum()), 200_000, q).pvalue > 1e-9
    assert stats.kstest(entropy.standard_normal(200_000), "norm").pvalue > 1e-9


def test_system_gaussians_are_independent_of_their_neighbours() -> None:
    values = SystemEntropy().standard_normal(100_000)
    assert stats.pearsonr(values[1:], values[:-1]).pvalue > 1e-9
    assert stats.pearsonr(np.abs(values[1:]), np.abs(values[:-1])).pvalue > 1e-9


def test_secret_sets_are_independent_coins_and_new_each_time() -> None:
    sets = [SystemEntropy().shares(0.25, np.arange(40), 500) for _ in range(2)]
    assert [each.shape for each in sets] == [(40, 500)] * 2
    drawn = np.concatenate(sets)
    # 40,000 coins: five standard deviations miss once in a million.
    assert abs(drawn.mean() - 0.25) < 5 * (0.25 * 0.75 / drawn.size) ** 0.5
    # Two sets have each entry in common by chance alone: between rounds, and between voters.
    for one, other in ((sets[0], sets[1]), (drawn[::2], drawn[1::2])):
        assert abs((one & other).mean() - 0.0625) < 5 * (0.0625 / one.size) ** 0.5


def test_no_two_draws_are_alike() -> None:
    assert not np.array_equal(SystemEntropy().standard_normal(8), SystemEntropy().standard_normal(8))


@pytest.mark.parametrize(("word", "expected"), [(0, -9.1553), (1, 9.1553), (2**64 - 1, 0.0), (2**63, -0.6745)])
def test_extreme_words_give_finite_gaussians(monkeypatch: pytest.MonkeyPatch, word: int, expected: float) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: word.to_bytes(8, "little") * (count // 8))
    value = SystemEntropy().standard_normal(1)[0]
    assert value == pytest.approx(expected, abs=1e-3)


def scripted(monkeypatch: pytest.MonkeyPatch, *words: int) -> list[int]:
    """Let the operating system give these 64-bit words, and return a list that fills with how many were asked for."""
    left, asked = list(words), []

    def urandom(count: int) -> bytes:
        asked.append(count // 8)
        return b"".join(left.pop(0).to_bytes(8, "little") for _ in range(count // 8))

    monkeypatch.setattr(os, "urandom", urandom)
    return asked


@pytest.mark.parametrize("q", [0.1, 0.3, 2.0**-11, 1 - 2.0**-53, 0.5])
def test_a_coin_of_64_bits_is_exactly_q(monkeypatch: pytest.MonkeyPatch, q: float) -> None:
    # The float q is a multiple of 2^-64 here, so exactly q·2^64 of the 2^64 words must give True.
    edge = Fraction(q) * 2**64
    assert edge.denominator == 1
    scripted(monkeypatch, 0, int(edge) - 1, int(edge), 2**64 - 1)
    assert SystemEntropy().coins(q, 4).tolist() == [True, True, False, False]


def test_a_coin_with_further_bits_draws_them_only_where_they_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    # q = 2^-64 + 2^-66: the first word decides unless it is 1; then 1/4 of the second words give True.
    q, quarter = 2.0**-64 + 2.0**-66, 2**62
    asked = scripted(monkeypatch, 0, 1, 1, 2, quarter - 1, quarter)
    assert SystemEntropy().coins(q, 4).tolist() == [True, True, False, False]
    assert asked == [4, 2]


def test_a_sure_coin_is_sure() -> None:
    assert SystemEntropy().coins(1.0, 5).all()


def test_voters_of_a_secret_share_vote_within_their_own_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    people = Users.from_vectors([rng.normal(size=(4, 5)) for _ in range(9)])
    voters, bank = Voters(people), Bank(rng.normal(size=(60, 5))).bar([3, 4])
    mechanism = Mechanism(k=3, clip=0.3, share=0.4, entry_cap=0.2)
    sets = rng.random((9, 60)) < 0.4
    grid = Grid.of(mechanism)
    expected = np.zeros(60, dtype=np.int64)
    for user in (1, 2, 7):
        records = people.take([user]).require_vectors()
        routes = route_within(records, np.zeros(4, int), bank, 3, sets[[user]])
        expected += whole_contributions(routes, [0] * 4, 1, 60, grid, entry_cap=0.2).toarray()[0]
    asked = []

    def shares(share: float, chosen: NDArray[np.int64], entries: int) -> NDArray[np.bool_]:
        asked.append((share, chosen.tolist(), entries))
        return sets[chosen]

    for most in (10**9, 60):  # all at once, and one voter at a time
        monkeypatch.setattr("canarybank.evolution.ballots.MOST_SHARES", most)
        assert np.array_equal(voters.histogram([1, 2, 7], bank, mechanism, shares), expected)
    assert asked == [(0.4, [1, 2, 7], 60), *((0.4, [user], 60) for user in (1, 2, 7))]
    assert not expected[[3, 4]].any()
    # A simulation has the same law: over many draws both have the same mean, within five deviations of it.
    q1 = replace(mechanism, q=1.0, sigma=1e-3)
    fine = Grid.of(q1)
    simulated = np.array([voters.simulate(bank, q1, np.random.default_rng(i)).histogram for i in range(60)])
    real = np.array([fine.values(voters.histogram(np.arange(9), bank, q1)) for _ in range(60)])
    apart = np.abs(simulated.mean(axis=0) - real.mean(axis=0))
    assert (apart < 5 * np.sqrt((simulated.var(axis=0) + real.var(axis=0)) / 60) + 1e-3).all()


def test_a_release_never_touches_a_seeded_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or real(count))
    entropy = SystemEntropy()
    entropy.coins(0.3, 10)
    entropy.standard_normal(20)
    assert asked == [80, 160]


@pytest.mark.parametrize("noise", [0.1, 1.0, 3e-5, 7e4])
def test_snapping_rounds_to_a_power_of_two_far_below_the_noise(noise: float) -> None:
    values = np.random.default_rng(1).normal(0, noise, 1000)
    rounded = snapped(values, noise)
    step = 2.0 ** math.floor(math.log2(noise / 4096))
    assert noise / 8192 < step <= noise / 4096
    assert np.array_equal(rounded / step, np.rint(rounded / step))
    assert np.abs(rounded - values).max() <= step / 2
    assert np.array_equal(snapped(rounded, noise), rounded)


def test_snapping_hides_differences_in_the_lowest_bits() -> None:
    values = np.random.default_rng(2).normal(0, 0.1, 1000)
    assert np.array_equal(snapped(values, 0.1), snapped(np.nextafter(values, 1.0), 0.1))


def test_snapping_leaves_no_signed_zero() -> None:
    assert not np.signbit(snapped(np.array([-1e-9]), 0.1))[0]
