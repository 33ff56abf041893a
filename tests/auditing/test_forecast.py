import math

import numpy as np
import pytest
from scipy.stats import binom

from canarybank.auditing import Target, epsilon_lower, expected_bound, forecast, pooled, stratified
from canarybank.errors import ConfigError, InputError


def naive_law(bound, n, p1, p0):
    """Return every value of a bound with its probability, one outcome at a time."""
    law = {}
    for tp in range(n + 1):
        for fp in range(n + 1):
            value = bound(tp, fp)
            law[value] = law.get(value, 0.0) + binom.pmf(tp, n, p1) * binom.pmf(fp, n, p0)
    values = np.array(sorted(law))
    return values, np.array([law[v] for v in values])


def naive_maximum(laws):
    values = np.unique(np.concatenate([v for v, _ in laws]))
    below = np.prod([[mass[v <= x + 1e-12].sum() for x in values] for v, mass in laws], axis=0)
    return values, np.diff(below, prepend=0.0)


def moments(law):
    values, mass = law
    mean = values @ mass
    quantiles = [values[np.searchsorted(np.cumsum(mass), level - 1e-9)] for level in (0.05, 0.5, 0.95)]
    return [mean, math.sqrt((values - mean) ** 2 @ mass), *quantiles]


def of(law):
    return [law.mean, law.sd, law.q05, law.median, law.q95]


def paper(n):
    return lambda tp, fp: epsilon_lower(tp, fp, n, n, delta=0.01, alpha=0.05).epsilon


def test_the_law_of_one_canary_is_enumerated():
    law = expected_bound(0.7, 0.1, 30, delta=0.01, alpha=0.05)
    assert of(law) == pytest.approx(moments(naive_law(paper(30), 30, 0.7, 0.1)), abs=1e-9)


def test_the_law_of_the_best_of_unequal_canaries_is_enumerated():
    tpr, fpr = (0.7, 0.5, 0.7), (0.1, 0.05, 0.1)
    law = expected_bound(tpr, fpr, 20, delta=0.01, alpha=0.05)
    laws = [naive_law(paper(20), 20, p1, p0) for p1, p0 in zip(tpr, fpr, strict=True)]
    assert of(law) == pytest.approx(moments(naive_maximum(laws)), abs=1e-9)
    assert law.canaries == 3


def test_equal_canaries_may_be_counted_instead_of_listed():
    listed = expected_bound([0.3] * 4, [0.1] * 4, 100, delta=0.01, alpha=0.05)
    assert expected_bound(0.3, 0.1, 100, delta=0.01, alpha=0.05, canaries=4) == listed


def test_the_law_of_the_pool_sums_unequal_canaries():
    n, tpr, fpr = 10, (0.9, 0.3), (0.2, 0.01)
    laws = [np.convolve(*(binom.pmf(np.arange(n + 1), n, p) for p in pair)) for pair in (tpr, fpr)]
    values = np.array(
        [[pooled([tp], [fp], 20, 20, delta=0.01, alpha=0.05).epsilon for fp in range(21)] for tp in range(21)]
    )
    order = np.argsort(values.ravel())
    naive = values.ravel()[order], np.outer(*laws).ravel()[order]
    law = expected_bound(tpr, fpr, n, delta=0.01, alpha=0.05, method="pooled")
    assert of(law) == pytest.approx(moments(naive), abs=1e-9)
    assert law.expected == pytest.approx(values[12, 2], abs=0.03)


def test_the_law_of_stratified_counts_trials_in_which_the_canary_takes_part():
    n, q, included, fpr = 30, 0.5, 0.9, 0.05
    naive = naive_law(lambda tp, fp: stratified(tp, fp, n, n, q=q, delta=0.01, alpha=0.05).epsilon, n, included, fpr)
    tpr = (1 - q) * fpr + q * included
    law = expected_bound(tpr, fpr, n, delta=0.01, alpha=0.05, method="stratified", q=q)
    assert of(law) == pytest.approx(moments(naive), abs=1e-9)


def test_large_counts_are_gathered_without_harm():
    # The bound at large counts is nearly normal around its expected value, with the spread of the log ratio.
    n, tpr, fpr = 10**9, 0.02, 0.004
    law = expected_bound(tpr, fpr, n, delta=1e-5, alpha=0.01)
    sd = math.sqrt(1 / (n * tpr) + 1 / (n * fpr))
    assert law.sd == pytest.approx(sd, rel=5e-3)
    assert law.median == pytest.approx(law.expected, abs=0.05 * sd)
    assert (law.q95 - law.q05) / (2 * 1.645) == pytest.approx(sd, rel=2e-2)


def test_the_law_of_joint_is_interpolated_closely():
    n = 10**4
    target = Target(n, 1e-4, 0.05, "joint")
    tp, mass1 = forecast.count_law(n, [0.012])
    fp, mass0 = forecast.count_law(n, [0.003])
    values = target.at_counts(tp[:, None], fp[None, :], n) + forecast._correction(target, tp, fp, mass1, mass0, n)
    for one, other in ((105, 35), (133, 28), (120, 22), (99, 19), (140, 41)):
        stated = epsilon_lower(one, other, n, n, delta=1e-4, alpha=0.05, method="joint").epsilon
        assert values[tp == one, fp == other] == pytest.approx(stated, abs=2e-3)


def test_joint_at_expected_counts_is_the_bound_itself():
    law = expected_bound(0.0121, 0.0031, 1000, delta=1e-4, alpha=0.05, method="joint")
    assert law.expected == epsilon_lower(12, 3, 1000, 1000, delta=1e-4, alpha=0.05, method="joint").epsilon


def test_endless_trials_leave_no_spread():
    law = expected_bound([0.5, 0.4], [0.1, 0.1], math.inf, delta=0.01, alpha=0.05)
    assert of(law) == pytest.approx([math.log(4.9), 0.0, math.log(4.9), math.log(4.9), math.log(4.9)])


def test_rates_at_the_ends_of_their_range_are_fine():
    assert expected_bound(1.0, 0.0, 1000, delta=1e-5, alpha=0.01).sd == 0
    assert expected_bound(0.0, 1.0, 1000, delta=1e-5, alpha=0.01).q95 == 0


def test_a_forecast_reads_as_one_line():
    text = str(expected_bound(0.7, 0.1, 30_000, delta=0.01, alpha=0.05, canaries=2))
    for part in ("median", "5% to 95%", "paper", "alpha 0.05", "30,000 trials", "2 canaries"):
        assert part in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("tpr", "fpr", "canaries", "said"),
    [
        ([0.1, 0.2], [0.1], 1, "one entry a canary"),
        ([], [], 1, "one entry a canary"),
        (1.2, 0.1, 1, "tpr must lie"),
        (0.5, -0.1, 1, "fpr must lie"),
        (math.nan, 0.1, 1, "tpr must lie"),
        ([0.1, 0.2], [0.1, 0.2], 3, "rates of 2 canaries"),
    ],
)
def test_bad_rates_are_named(tpr, fpr, canaries, said):
    with pytest.raises(InputError, match=said):
        expected_bound(tpr, fpr, 100, delta=0.01, alpha=0.05, canaries=canaries)


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match="mu-gdp"):
        expected_bound(0.5, 0.1, 100, delta=0.01, alpha=0.05, method="mu-gdp")
    assert expected_bound(0.5, 0.1, 100, delta=0.01, alpha=0.05).method == "paper"
