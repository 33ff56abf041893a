import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from canarybank.auditing import clopper_pearson, rate_epsilon
from canarybank.auditing.rates import count_epsilons, ends
from canarybank.errors import InputError
from canarybank.registry import METHODS

POOLED, STRATIFIED = map(METHODS.find, ("pooled", "stratified"))


def naive_ends(x, n, gamma):
    """Bisect the binomial tails themselves, in forty digits."""
    with mpmath.workdps(40):

        def tail(p, counts):
            return mpmath.fsum(mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in counts)

        def bisect(short):
            low, high = mpmath.mpf(0), mpmath.mpf(1)
            for _ in range(110):
                middle = (low + high) / 2
                low, high = (middle, high) if short(middle) else (low, middle)
            return float(low)

        lower = 0.0 if x == 0 else bisect(lambda p: 1 - tail(p, range(x)) < gamma)
        upper = 1.0 if x == n else bisect(lambda p: tail(p, range(x + 1)) > gamma)
    return lower, upper


@pytest.mark.parametrize("gamma", [0.0025, 0.2, 1e-9])
@pytest.mark.parametrize(
    ("x", "n"), [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7), (1, 10**6), (12, 10**6), (0, 10**9), (4, 10**9), (49, 50)]
)
def test_ends_are_where_the_binomial_tails_equal_gamma(x, n, gamma):
    assert clopper_pearson(x, n, gamma) == pytest.approx(naive_ends(x, n, gamma), rel=2e-8)


def test_large_counts_stay_accurate():
    lower, upper = clopper_pearson(137_000, 10**9, 0.0025)
    assert binom.sf(136_999, 10**9, lower) == pytest.approx(0.0025, rel=1e-6)
    assert binom.cdf(137_000, 10**9, upper) == pytest.approx(0.0025, rel=1e-6)


def largest_end_misses(both, n, gamma):
    """Return sup over p of P(lower > p) and of P(upper < p), which are reached next to the ends themselves."""
    counts = np.arange(n + 1)
    lower, upper = (np.asarray(end) for end in both(counts, n, gamma))
    nudge = 1e-9
    rates = np.concatenate([lower * (1 - nudge), upper + nudge * (1 - upper), np.linspace(0, 1, 101)])
    mass = binom.pmf(counts, n, rates[:, None])
    above = (mass * (lower > rates[:, None])).sum(axis=1)
    below = (mass * (upper < rates[:, None])).sum(axis=1)
    return above.max(), below.max()


@pytest.mark.parametrize("n", [1, 2, 9, 60])
@pytest.mark.parametrize("gamma", [0.0025, 0.05, 0.25])
def test_each_end_misses_with_probability_gamma_and_no_more(n, gamma):
    for miss in largest_end_misses(clopper_pearson, n, gamma):
        assert 0.999 * gamma < miss <= gamma * (1 + 1e-6)


def doubled(x, n, gamma):
    return clopper_pearson(x, n, 2 * gamma)


def swapped(x, n, gamma):
    lower, upper = clopper_pearson(x, n, gamma)
    return upper, lower


@pytest.mark.parametrize("mutant", [doubled, swapped])
def test_the_check_of_the_ends_catches_mutants(mutant):
    assert max(largest_end_misses(mutant, 9, 0.05)) > 0.05 * 1.5


def test_ends_broadcast_and_scalars_stay_scalars():
    lower, upper = clopper_pearson([0, 1, 2], 10, 0.01)
    assert lower.shape == upper.shape == (3,)
    assert isinstance(clopper_pearson(1, 10, 0.01)[0], float)
    assert lower[1] == clopper_pearson(1, 10, 0.01)[0]


@pytest.mark.parametrize(
    ("x", "n", "gamma", "said"),
    [
        (-1, 10, 0.01, "-1"),
        (11, 10, 0.01, "11 successes cannot come from 10"),
        (0, 0, 0.01, "at least one trial"),
        (1.5, 10, 0.01, "1.5"),
        (float("nan"), 10, 0.01, "nan"),
        (float("inf"), 10, 0.01, "inf"),
        ([1, 2, 30], 10, 0.01, "30 successes"),
        ("3", 10, 0.01, "'3'"),
        (True, 10, 0.01, "True"),
        (1, 10, 0.0, "gamma"),
        (1, 10, 1.0, "gamma"),
        (1, 10, float("nan"), "nan"),
    ],
)
def test_bad_counts_are_named(x, n, gamma, said):
    with pytest.raises(InputError, match=said):
        clopper_pearson(x, n, gamma)


def test_the_two_hypotheses_mirror_each_other():
    x = np.arange(41)
    lower, upper = ends(x, 40, 0.0025)
    negatives_lower, negatives_upper = ends(40 - x, 40, 0.0025)
    assert negatives_lower == pytest.approx(1 - upper, abs=1e-15)
    assert negatives_upper == pytest.approx(1 - lower, abs=1e-15)


def sums_of_unequal(rates):
    law = np.ones(1)
    for rate in rates:
        law = np.convolve(law, [1 - rate, rate])
    return law


def largest_pooled_misses(both, rates, gamma):
    law, n = sums_of_unequal(rates), len(rates)
    lower, upper = both(np.arange(n + 1), n, gamma)
    return law[lower > np.mean(rates)].sum(), law[upper < np.mean(rates)].sum()


def unequal_rates(gamma):
    """The least even mixtures next to every end, from either side, and random ones that run into 0 and 1."""
    rng = np.random.default_rng(7)
    for n in (2, 5, 12):
        lower, upper = ends(np.arange(n + 1), n, gamma)
        for mean in (*lower[1:] * (1 - 1e-9), *upper[:-1] + 1e-9 * (1 - upper[:-1])):
            for sharing in range(1, n + 1):
                yield np.clip((n * mean) / sharing * (np.arange(n) < sharing), 0, 1)
                yield 1 - np.clip((n - n * mean) / sharing * (np.arange(n) < sharing), 0, 1)
        for _ in range(300):
            yield np.clip(rng.normal(rng.random(), rng.choice([0.05, 0.5, 2.0]), size=n), 0, 1)


@pytest.mark.parametrize("gamma", [0.0025, 0.025, 0.25])
def test_pooled_ends_hold_when_every_trial_has_its_own_rate(gamma):
    assert max(max(largest_pooled_misses(POOLED.ends, rates, gamma)) for rates in unequal_rates(gamma)) <= gamma


def test_plain_ends_fail_there_and_the_check_sees_it():
    assert max(max(largest_pooled_misses(ends, rates, 0.025)) for rates in unequal_rates(0.025)) > 0.025
    assert max(max(largest_pooled_misses(doubled, rates, 0.025)) for rates in unequal_rates(0.025)) > 0.025


def test_one_success_or_one_failure_costs_the_pool_almost_nothing():
    lower, upper = POOLED.ends(np.arange(11), 10, 0.025)
    plain_lower, plain_upper = ends(np.arange(11), 10, 0.025)
    assert lower[1] == 0.0025
    assert upper[9] == pytest.approx(1 - 0.0025)
    assert np.delete(lower, 1) == pytest.approx(np.delete(plain_lower, 1))
    assert np.delete(upper, 9) == pytest.approx(np.delete(plain_upper, 9))


def test_epsilon_of_rates_follows_the_definition():
    assert rate_epsilon(0.5, 0.1, 0.1) == pytest.approx(np.log(4))
    assert rate_epsilon([0.1, 0.05], 0.1, 0.1).tolist() == [-np.inf, -np.inf]
    assert rate_epsilon(0.5, 0.0, 0.1) == np.inf


def test_branches_use_the_ends_of_the_rates_they_name():
    forward, reverse = count_epsilons(30, 5, 40, 50, delta=1e-3, gamma=0.01)
    tpr, fpr = clopper_pearson(30, 40, 0.01)[0], clopper_pearson(5, 50, 0.01)[1]
    assert forward == pytest.approx(np.log((tpr - 1e-3) / fpr))
    assert reverse == pytest.approx(np.log((1 - fpr - 1e-3) / (1 - tpr)))


def test_stratified_follows_its_formula():
    tpr, fpr = clopper_pearson(30, 40, 0.01)[0], clopper_pearson(5, 50, 0.01)[1]
    value = STRATIFIED.branches(30, 5, 40, 50, q=0.3, delta=1e-3, alpha=0.02)[0]
    assert value == pytest.approx(np.log(0.7 + (0.3 * tpr - 1e-3) / fpr))
    assert STRATIFIED.branches(0, 5, 40, 50, q=1.0, delta=1e-3, alpha=0.02)[0] == -np.inf
