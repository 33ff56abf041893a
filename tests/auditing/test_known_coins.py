"""Known coins: naive twins, exact and simulated coverage with mutants that fail, invariants, forecasts, figures."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, chi, chi2, f, nct, norm, t

from canarybank.auditing import (
    Expected,
    clopper_pearson,
    expected_known_coins,
    family_epsilon,
    rate_lower,
    shift_between,
    shift_within,
)
from canarybank.auditing.known_coins import (
    declared_ways,
    expected_shift,
    noncentral_exceeds,
    noncentral_lower,
    typically_exceeds,
    ways,
)
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, attained_epsilon, epsilon

GAMMA, DELTA = 0.05, 1e-5
RUNS = 2000
MOST = int(binom.isf(1e-3, RUNS, GAMMA))
"""Misses of 2,000 runs that a bound with a miss rate of 5% exceeds once in a thousand tests: 133, 6.7%."""


def run(rng, m, rounds, q, shift, *, noise=1.0, background=0.0, fair=False):
    """Draw one run of the family: scores and coins. ``shift`` is in deviations of the noise."""
    took = np.repeat(rng.random((m, 1)) < 0.5, rounds, axis=1) if fair else rng.random((m, rounds)) < q
    own = background * rng.standard_normal((m, 1))
    return noise * (rng.standard_normal((m, rounds)) + shift * took) + own, took


def chance_above(statistic, df, noncentrality):
    """Return P(T >= t) by adaptive integration over the deviation, told where the integrand turns."""
    ends = chi.ppf(1e-16, df) / math.sqrt(df), chi.isf(1e-16, df) / math.sqrt(df)
    turn = [noncentrality / statistic + k / statistic for k in (-9, -3, 0, 3, 9)]
    bulk = [chi.ppf(level, df) / math.sqrt(df) for level in (1e-9, 1e-3, 0.5, 0.999, 1 - 1e-9)]
    places = sorted({*ends, *(min(max(each, ends[0]), ends[1]) for each in [*turn, *bulk])})

    def part(r):
        return norm.cdf(noncentrality - statistic * r) * chi.pdf(r * math.sqrt(df), df) * math.sqrt(df)

    return sum(quad(part, a, b, epsabs=1e-14, limit=200)[0] for a, b in itertools.pairwise(places))


@pytest.mark.parametrize("df", [1, 2, 7, 60, 900, 12_000])
@pytest.mark.parametrize("statistic", [2.5, 9.0, 70.0, 3000.0])
def test_the_noncentrality_solves_its_equation_as_integrated_directly(df, statistic):
    for gamma in (0.2, GAMMA, 0.001):
        lower = float(noncentral_lower(statistic, df, gamma))
        if lower:
            assert chance_above(statistic, df, lower) == pytest.approx(gamma, rel=1e-6)
        else:
            assert statistic <= t.isf(gamma, df) + 1e-12


def test_the_noncentrality_has_its_limits_where_scipy_has_none():
    with np.errstate(all="ignore"):
        lower = float(noncentral_lower(1e8, 40, GAMMA))
    assert lower == pytest.approx(1e8 * math.sqrt(chi2.ppf(GAMMA, 40) / 40), rel=1e-6)  # the deviation decides alone
    assert noncentral_lower(7.0, 1e9, GAMMA) == pytest.approx(7.0 - norm.isf(GAMMA), rel=1e-6)  # the normal law alone
    assert noncentral_lower(math.inf, 5, GAMMA) == math.inf
    assert noncentral_lower([-3.0, 0.0, t.isf(GAMMA, 5) - 1e-9], 5, GAMMA).tolist() == [0.0, 0.0, 0.0]
    statistics = np.geomspace(2.5, 1e5, 400)
    assert np.all(np.diff(noncentral_lower(statistics, 30, GAMMA)) > 0)


def test_a_bound_exceeds_a_limit_as_if_it_had_been_solved_for():
    statistic = np.array([-3.0, 0.0, 1.0, 2.5, 9.0, 70.0, 3000.0, math.inf])
    for df in (0, 1, 7, 900):
        degrees = np.full(len(statistic), df)
        lower = noncentral_lower(statistic, degrees, GAMMA)
        for limit in (
            0.0,
            0.3,
            2.0,
            50.0,
            *(each * side for each in lower[(lower > 0) & (lower < 1e9)] for side in (0.999, 1.001)),
        ):
            found = noncentral_exceeds(statistic, degrees, GAMMA, np.full(len(statistic), limit))
            assert found.tolist() == (lower > limit).tolist(), (df, limit)


@pytest.mark.parametrize(("df", "truth"), [(3, 0.7), (40, 5.0), (400, 12.0), (1500, 30.0)])
def test_the_bound_exceeds_the_truth_with_probability_gamma_exactly_and_twice_gamma_does_not(df, truth):
    # The bound grows with the statistic, so it exceeds the truth from one statistic on: the miss rate is a tail.
    def miss(gamma):
        first = brentq(lambda s: float(noncentral_lower(s, df, gamma)) - truth, t.isf(gamma, df) + 1e-9, 1e3)
        return nct.sf(first, df, truth)

    assert miss(GAMMA) == pytest.approx(GAMMA, rel=1e-6)
    assert miss(2 * GAMMA) == pytest.approx(2 * GAMMA, rel=1e-6)


def naive_lower(difference, deviation, df, size):
    if difference <= 0:
        return 0.0
    statistic = difference / deviation * math.sqrt(size)
    if nct.sf(statistic, df, 0.0) >= GAMMA:
        return 0.0
    return brentq(lambda n: nct.sf(statistic, df, n) - GAMMA, 0, 3 * statistic + 10) / math.sqrt(size)


def naive_deviation(inside, out, df1, df0):
    s1, s0 = (math.sqrt(sum(each) / df) if df else 0.0 for each, df in ((inside, df1), (out, df0)))
    return s1 if df1 and df0 and s1**2 > s0**2 * f.ppf(0.95, df1, df0) else s0


def naive_between(x, took):
    """The rounds take the canaries' place: inside a round, canaries are compared with each other."""
    return naive_within(np.transpose(x), np.transpose(took))


def plain_two_samples(x, took):
    inside = [x[i][j] for i in range(len(x)) for j in range(len(x[i])) if took[i][j]]
    out = [x[i][j] for i in range(len(x)) for j in range(len(x[i])) if not took[i][j]]
    mean1, mean0 = sum(inside) / len(inside), sum(out) / len(out)
    squares = [(v - mean1) ** 2 for v in inside], [(v - mean0) ** 2 for v in out]
    deviation = naive_deviation(*squares, len(inside) - 1, len(out) - 1)
    return naive_lower(mean1 - mean0, deviation, len(out) - 1, 1 / (1 / len(inside) + 1 / len(out)))


def naive_within(x, took):
    top = bottom = df1 = df0 = 0.0
    inside, out = [], []
    for row, labels in zip(x, took, strict=True):
        one = [v for v, label in zip(row, labels, strict=True) if label]
        none = [v for v, label in zip(row, labels, strict=True) if not label]
        if one and none:
            weight = len(one) * len(none) / (len(one) + len(none))
            top, bottom = top + weight * (np.mean(one) - np.mean(none)), bottom + weight
        for values, kept in ((one, inside), (none, out)):
            kept += [(v - np.mean(values)) ** 2 for v in values]
        df1, df0 = df1 + max(len(one) - 1, 0), df0 + max(len(none) - 1, 0)
    return naive_lower(top / bottom, naive_deviation(inside, out, df1, df0), df0, bottom)


@pytest.mark.parametrize("seed", range(12))
def test_both_bounds_agree_with_loops(seed):
    rng = np.random.default_rng(seed)
    m, rounds, q = int(rng.integers(8, 60)), int(rng.integers(2, 7)), rng.choice([0.2, 0.5])
    x, took = run(rng, m, rounds, q, rng.choice([0.3, 1.0, 2.5]), noise=rng.choice([0.3, 1.0]), background=seed % 3)
    if seed % 4 == 0:
        x = x + 2 * took * rng.standard_normal(x.shape)  # canaries that differ: the guard acts
    assert shift_between(x, took, GAMMA).lower == pytest.approx(naive_between(x, took), abs=1e-7)
    first = x[:, :1], took[:, :1]
    if 0 < first[1].sum() < m:
        assert shift_between(*first, GAMMA).lower == pytest.approx(plain_two_samples(*first), abs=1e-7)
    assert shift_within(x, took, GAMMA).lower == pytest.approx(naive_within(x, took), abs=1e-7)


def test_noise_that_all_canaries_share_in_a_round_is_seen_between_them_and_noise_that_rounds_share_within():
    rng = np.random.default_rng(3)
    took = rng.random((409, 6)) < 0.1
    canaries, rounds = rng.standard_normal((409, 1)), rng.standard_normal((1, 6))
    assert shift_between(took + rounds + 1e-3 * rng.standard_normal(took.shape), took, GAMMA).lower == 30.0
    assert shift_within(took + rounds + 1e-3 * rng.standard_normal(took.shape), took, GAMMA).lower < 10
    assert shift_within(took + canaries + 1e-3 * rng.standard_normal(took.shape), took, GAMMA).lower == 30.0
    assert shift_between(took + canaries + 1e-3 * rng.standard_normal(took.shape), took, GAMMA).lower < 10


SETTINGS = {
    "one round": (shift_between, {"m": 81, "rounds": 1, "q": 0.5, "shift": 1.0}),
    "rare": (shift_between, {"m": 81, "rounds": 6, "q": 0.1, "shift": 1.0, "noise": 1.25}),
    "fair": (shift_between, {"m": 41, "rounds": 6, "q": 1.0, "shift": 0.5, "fair": True, "noise": 0.5}),
    "within, own backgrounds": (shift_within, {"m": 81, "rounds": 6, "q": 0.1, "shift": 1.0, "background": 3.0}),
    "within, few": (shift_within, {"m": 9, "rounds": 2, "q": 0.5, "shift": 2.0, "noise": 2.0, "background": 1.0}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_coverage_holds_over_2000_runs_and_a_doubled_gamma_fails(name):
    way, setting = SETTINGS[name]
    rng = np.random.default_rng(15)
    missed = np.zeros(2)
    for _ in range(RUNS):
        x, took = run(rng, **setting)
        missed += [way(x, took, gamma).lower > setting["shift"] for gamma in (GAMMA, 2 * GAMMA)]
    assert missed[0] <= MOST < missed[1]


def test_canaries_that_differ_have_their_mean_bounded():
    rng = np.random.default_rng(26)
    missed = 0
    for _ in range(RUNS):
        shifts = np.where(rng.random((81, 1)) < 0.5, 1.0, 0.4)
        x, took = run(rng, 81, 6, 0.1, shifts)
        missed += shift_between(x, took, GAMMA).lower > (shifts * took).sum() / took.sum()
    assert missed <= MOST


def test_without_an_effect_the_bound_is_0_in_95_percent_of_runs_at_least():
    rng = np.random.default_rng(16)
    for way in (shift_between, shift_within):
        above = sum(way(*run(rng, 30, 3, 0.4, 0.0, noise=3.0), GAMMA).lower > 0 for _ in range(RUNS))
        assert above <= MOST


def test_claimed_noise_instead_of_the_estimate_overstates_too_large_noise():
    # Mutant: noise is 1.25 times what is claimed, so the shift is 0.8 deviations of it.
    rng = np.random.default_rng(17)
    claimed = ours = 0
    for _ in range(500):
        x, took = run(rng, 409, 1, 0.5, 0.8, noise=1.25)
        found = shift_between(x, took, GAMMA)
        error = math.sqrt(1 / found.included + 1 / found.left_out)
        claimed += found.difference - norm.isf(GAMMA) * error > 0.8
        ours += found.lower > 0.8
    assert claimed > 250
    assert ours <= binom.isf(1e-3, 500, GAMMA)


def test_claimed_noise_is_blind_to_halved_noise_and_the_estimate_is_not():
    x, took = run(np.random.default_rng(18), 409, 6, 0.1, 2.0, noise=0.5)  # claimed: noise 1, shift 1
    found = shift_between(x, took, GAMMA)
    assert found.difference - norm.isf(GAMMA) * math.sqrt(1 / found.included + 1 / found.left_out) < 1
    assert found.lower > 1.5


def test_noise_that_rounds_share_is_seen_within_canaries_alone():
    rng = np.random.default_rng(19)
    took = rng.random((409, 6)) < 0.1
    x = np.repeat(rng.standard_normal((409, 1)), 6, axis=1)
    assert shift_within(x + took, took, GAMMA).lower == 30.0  # the most that is ever said
    assert shift_between(x + took, took, GAMMA).lower < 1
    assert shift_within(x, took, GAMMA).lower == 0
    nearly = x + took + 1e-3 * rng.standard_normal(x.shape)
    assert shift_within(nearly, took, GAMMA).lower == 30.0


def test_wide_scores_of_included_canaries_lower_the_bound():
    # Nothing took effect; one canary in twenty has a huge background of its own, and the coin put all of these in.
    rng = np.random.default_rng(20)
    guarded = unguarded = 0
    for _ in range(500):
        took = np.repeat(rng.random((81, 1)) < 0.5, 3, axis=1)
        x = rng.standard_normal((81, 3)) + 40.0 * took * (rng.random((81, 1)) < 0.05)
        found = shift_between(x, took, GAMMA)
        deviation = x.mean(axis=1)[~took[:, 0]].std(ddof=1)
        size = found.included * found.left_out / 81
        plain = noncentral_lower(found.difference / deviation * math.sqrt(size), found.degrees, GAMMA)
        assert found.lower <= plain
        guarded, unguarded = guarded + (found.lower > 0), unguarded + (plain > 0)
    assert guarded < 50
    assert unguarded > 400


def test_bounds_do_not_depend_on_units_places_or_order():
    rng = np.random.default_rng(21)
    x, took = run(rng, 50, 4, 0.4, 1.2)
    for way in (shift_between, shift_within):
        lower = way(x, took, GAMMA).lower
        assert lower > 0
        assert way(7 * x - 3, took, GAMMA).lower == pytest.approx(lower, rel=1e-9)
        order, turn = rng.permutation(50), rng.permutation(4)
        assert way(x[order][:, turn], took[order][:, turn], GAMMA).lower == pytest.approx(lower, rel=1e-9)
        assert way(-x, ~took, GAMMA).lower > 0
        assert way(-x, took, GAMMA).lower == 0
        assert way(x, took, 0.01).lower < lower
    own = 100 * rng.standard_normal((50, 1))
    assert shift_within(x + own, took, GAMMA).lower == pytest.approx(shift_within(x, took, GAMMA).lower, rel=1e-9)


def test_canaries_that_keep_their_coin_are_compared_by_their_means():
    rng = np.random.default_rng(22)
    x, took = run(rng, 60, 6, 1.0, 1.0, fair=True)
    found, means = shift_between(x, took, GAMMA), shift_between(x.mean(axis=1), took[:, 0], GAMMA)
    assert (found.included, found.left_out) == (int(took[:, 0].sum()), int((~took[:, 0]).sum()))
    assert found.lower == pytest.approx(means.lower / math.sqrt(6), rel=1e-12)


def test_one_round_is_not_compared_within_canaries():
    with pytest.raises(InputError, match="a round with it and one without"):
        shift_within([[1.0], [2.0]], [[True], [False]], GAMMA)


@pytest.mark.parametrize("way", [shift_between, shift_within])
@pytest.mark.parametrize("everywhere", [True, False])
def test_all_in_or_all_out_shows_nothing(way, everywhere):
    x = np.random.default_rng(23).standard_normal((5, 3)) + 9
    found = way(x, np.full((5, 3), everywhere), GAMMA)
    assert (found.lower, found.degrees) == (0.0, 0)


def test_too_little_to_estimate_a_deviation_shows_nothing():
    assert shift_between([9.0, 0.0], [True, False], GAMMA).lower == 0
    assert shift_within([[9.0, 0.0]], [[True, False]], GAMMA).lower == 0


def test_scores_and_coins_are_checked():
    with pytest.raises(InputError, match="canaries by rounds"):
        shift_between([[1.0, 2.0]], [[True]], GAMMA)
    with pytest.raises(InputError, match="not finite"):
        shift_between([1.0, math.nan], [True, False], GAMMA)
    with pytest.raises(InputError, match="gamma"):
        shift_between([1.0, 2.0], [True, False], 1.5)


def test_ways_follow_from_the_coins_and_are_declared_before_them():
    mixed = np.array([[1, 0, 0], [0, 0, 1]], bool)
    assert ways(3, mixed) == ("between", "within")
    assert ways(3, np.repeat([[True], [False], [False]], 3, axis=1)) == ("between",)
    assert ways(1, [[True], [False], [False]]) == ("between",)
    assert ways(3, np.ones((4, 3), bool)) == ()
    assert [declared_ways(*each) for each in ((6, 0.1), (1, 0.1), (6, 1.0))] == [
        ("between", "within"),
        ("between",),
        ("between",),
    ]


@pytest.mark.parametrize("q", [0.1, 0.5])
def test_the_rate_is_bounded_with_exact_coverage_and_a_doubled_gamma_fails(q):
    n = 60
    took = np.arange(n)[None, :] < np.arange(n + 1)[:, None]  # every count once
    bounds = {
        gamma: np.array([rate_lower(row.reshape(20, 3), np.ones(20, bool), gamma) for row in took])
        for gamma in (GAMMA, 2 * GAMMA)
    }
    assert bounds[GAMMA].tolist() == [clopper_pearson(x, n, GAMMA)[0] for x in range(n + 1)]
    rates = np.linspace(q, q + 0.1, 101)
    law = binom.pmf(np.arange(n + 1), n, rates[:, None])
    missed = {gamma: (law * (lower > rates[:, None])).sum(axis=1).max() for gamma, lower in bounds.items()}
    assert missed[GAMMA] <= GAMMA < missed[2 * GAMMA]


def test_the_rate_is_about_eligible_canaries():
    took = np.array([[1, 1], [0, 1], [0, 0]], bool)
    assert rate_lower(took, [True, True, False], GAMMA) == clopper_pearson(3, 4, GAMMA)[0]
    assert rate_lower(took & False, [False] * 3, GAMMA) == 0
    with pytest.raises(InputError, match="not eligible"):
        rate_lower(took, [False, True, False], GAMMA)
    with pytest.raises(InputError, match="one of each"):
        rate_lower(took, [True], GAMMA)


@pytest.mark.parametrize(("q", "sigma", "rounds"), [(0.1, 1.0, 1), (0.1, 1.1088, 6), (0.5, 2.0, 3), (1.0, 1.0, 6)])
def test_the_family_has_the_mechanisms_epsilon_from_below(q, sigma, rounds):
    mechanism = Mechanism(q=q, sigma=sigma, delta=DELTA)
    found = family_epsilon(q, 1 / sigma, rounds, DELTA)
    assert found == pytest.approx(attained_epsilon(mechanism, rounds), rel=4e-6)
    assert found < epsilon(mechanism, rounds)


def test_the_familys_epsilon_grows_and_has_its_ends():
    assert family_epsilon(0.1, 0.0, 6, DELTA) == family_epsilon(0.0, 1.0, 6, DELTA) == 0
    shifts = [family_epsilon(0.1, shift, 3, DELTA) for shift in (0.01, 0.5, 1.0, 3.0, 900.0, 1e9, math.inf)]
    assert shifts == sorted(shifts)
    assert math.isfinite(shifts[-1])
    assert [family_epsilon(q, 1.0, 3, DELTA) for q in (0.1, 0.11, 0.5, 1.0)] == sorted(
        family_epsilon(q, 1.0, 3, DELTA) for q in (0.1, 0.11, 0.5, 1.0)
    )
    with pytest.raises(InputError, match="at least 0"):
        family_epsilon(0.1, -1.0, 1, DELTA)


def test_plain_gaussian_inversion_exceeds_the_truth_for_sampled_releases():
    # Mutant: the shift's bound inverted as if everybody took part, as other libraries do.
    rng = np.random.default_rng(24)
    truth = family_epsilon(0.1, 1.0, 1, DELTA)
    plain = sampled = 0
    for _ in range(200):
        lower = shift_between(*run(rng, 1638, 1, 0.1, 1.0), GAMMA).lower
        plain += family_epsilon(1.0, lower, 1, DELTA) > truth
        sampled += family_epsilon(0.1, lower, 1, DELTA) > truth
    assert plain == 200
    assert sampled <= binom.isf(1e-3, 200, GAMMA)


@pytest.mark.parametrize(
    ("m", "rounds", "q", "fair"), [(128, 1, 0.5, False), (81, 6, 0.1, False), (409, 6, 0.1, False), (81, 6, 1.0, True)]
)
def test_forecasts_agree_with_whole_runs(m, rounds, q, fair):
    within = 0.025 if rounds > 1 and q < 1 else None
    forecast = expected_shift(m, q=q, shift=1.0, rounds=rounds, between=0.025, within=within)
    rng = np.random.default_rng(25)
    found = []
    for _ in range(600):
        x, took = run(rng, m, rounds, q, 1.0, fair=fair)
        lowers = [shift_between(x, took, 0.025).lower, *([shift_within(x, took, 0.025).lower] if within else [])]
        found.append(max(lowers))
    # Of 600 runs, between 5 standard errors, for the forecast's own noise is smaller than theirs.
    for value, level in ((forecast.median, 0.5), (forecast.q05, 0.05), (forecast.q95, 0.95)):
        below = np.mean(np.array(found) <= value + 1e-12)
        assert abs(below - level) < 5 * math.sqrt(level * (1 - level) / 600) or value == 0


@pytest.mark.parametrize(("q", "within"), [(0.1, 0.02), (0.1, None), (1.0, None)])
def test_a_run_typically_exceeds_a_limit_where_the_median_of_its_forecast_does(q, within):
    setting = {"q": q, "shift": 1.0, "rounds": 6, "between": 0.02, "within": within}
    median = expected_shift(81, **setting).median
    assert typically_exceeds(median * (1 - 1e-9), 81, **setting)
    assert not typically_exceeds(median * (1 + 1e-9), 81, **setting)


def test_a_forecast_of_epsilon_pays_for_the_samplers_share():
    setting = {"q": 0.1, "shift": 1.0, "rounds": 6, "delta": DELTA}
    named = expected_known_coins(409, between=0.02, within=0.02, **setting)
    tested = expected_known_coins(409, between=0.02, within=0.02, sampler=0.01, **setting)
    one = expected_known_coins(409, between=0.02, within=0.02, sampler=0.01, releases=1, **setting)
    assert isinstance(named, Expected)
    assert one.median < tested.median < named.median < family_epsilon(0.1, 1.0, 6, DELTA)
    assert tested.q05 < tested.median < tested.q95
    nothing = expected_known_coins(409, between=0.02, q=0.1, shift=0.0, rounds=1, delta=DELTA)
    assert (nothing.median, nothing.q05) == (0.0, 0.0)


# The listed figures are those of the two-sample bound with the claimed noise taken as known, all of alpha, q named as
# an assumption, at the expected counts. The noncentral t bound, which estimates the noise, is what may be stated. It is
# lower by what the estimate costs.
FIGURES = [
    (128, 0.5, 1, 2.20, 2.04),
    (128, 0.5, 6, 2.97, 2.90),
    (128, 0.1, 1, 0.4, 0.37),
    (128, 0.1, 6, 1.0, 1.01),
    (1638, 0.5, 1, 3.2, 3.10),
    (1638, 0.5, 6, 3.4, 3.36),
    (1638, 0.1, 1, 1.21, 1.20),
    (1638, 0.1, 6, 1.48, 1.48),
]


@pytest.mark.parametrize(("m", "q", "rounds", "listed", "ours"), FIGURES)
def test_the_expected_figures_come_out(m, q, rounds, listed, ours):
    n1, n0 = m * rounds * q, m * rounds * (1 - q)
    error = math.sqrt(1 / n1 + 1 / n0)
    known = family_epsilon(q, 1 - norm.isf(GAMMA) * error, 1, DELTA)
    estimated = family_epsilon(q, float(noncentral_lower(1 / error, n0 - 1, GAMMA)) * error, 1, DELTA)
    assert known == pytest.approx(listed, abs=0.06)
    assert estimated == pytest.approx(ours, abs=0.006)
    forecast = expected_known_coins(m, q=q, shift=1.0, rounds=rounds, delta=DELTA, between=GAMMA, releases=1)
    assert forecast.median == pytest.approx(estimated, abs=0.06)
