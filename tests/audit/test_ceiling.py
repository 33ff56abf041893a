import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import norm

from canarybank.audit import (
    Ceiling,
    Target,
    ceiling,
    epsilon_lower,
    perfect_rates,
    trials_needed,
    trials_needed_for,
)
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_epsilon

PAPER = Mechanism()


@pytest.mark.parametrize(
    ("trials", "expected"),
    [(1e5, 0.555), (1e6, 0.990), (5e6, 1.255), (1e7, 1.349), (1e8, 1.556), (1e9, 1.641)],
)
def test_what_a_perfect_attack_is_expected_to_show(trials, expected):
    assert ceiling(PAPER, trials).expected == pytest.approx(expected, abs=5.1e-4)


def test_endless_trials_show_the_exact_epsilon():
    endless = ceiling(PAPER, math.inf)
    assert endless.expected == pytest.approx(1.6845438, abs=1e-7)
    assert endless.median == endless.q05 == endless.q95 == endless.expected == endless.rule
    assert endless.exact == pytest.approx(endless.expected, rel=1e-12)
    assert endless.sd == 0
    assert (endless.threshold, endless.fpr) == pytest.approx((3.804, 8.37e-6), rel=1e-3)


def test_the_best_threshold_and_the_price_of_freezing_it():
    one = ceiling(PAPER, 1_000_000)
    assert one.whitened == pytest.approx(3.639, abs=2e-3)
    assert one.threshold == pytest.approx(3.139, abs=2e-3)
    assert one.fpr == pytest.approx(1.37e-4, rel=2e-3)
    assert one.rule == pytest.approx(1.352, abs=5e-4)
    assert ceiling(PAPER, 5_000_000).rule == pytest.approx(1.548, abs=6e-4)


def test_the_ceiling_is_typical_and_no_maximum():
    one = ceiling(PAPER, 1_000_000)
    assert one.median == pytest.approx(one.expected, abs=3e-3)
    assert one.q05 < one.median < one.q95


def test_the_best_of_five_perfect_canaries():
    five = ceiling(PAPER, 1_000_000, canaries=5)
    assert five.expected == pytest.approx(0.990, abs=5e-4)
    assert (five.mean, five.sd) == pytest.approx((1.097, 0.062), abs=6e-4)
    assert (five.q05, five.q95) == pytest.approx((1.00, 1.20), abs=6e-3)


def test_the_law_is_that_of_simulated_audits():
    # 4,000 audits of five canaries, seeded: mean within 4 standard errors (false alarm 6e-5).
    five, rng = ceiling(PAPER, 1_000_000, canaries=5), np.random.default_rng(11)
    target = Target(1_000_000, PAPER.delta, 0.01)
    tp, fp = (rng.binomial(1_000_000, p, size=(4000, 5)) for p in (five.tpr, five.fpr))
    best = np.maximum(target.at_counts(tp, fp, 1_000_000), 0).max(axis=1)
    assert best.mean() == pytest.approx(five.mean, abs=4 * five.sd / math.sqrt(4000))
    # Shares of 4,000 below a quantile: 4.5 standard errors (false alarm 1e-5 each).
    assert np.mean(best <= five.q05) == pytest.approx(0.05, abs=4.5 * math.sqrt(0.05 * 0.95 / 4000))
    assert np.mean(best <= five.q95) == pytest.approx(0.95, abs=4.5 * math.sqrt(0.05 * 0.95 / 4000))


@pytest.mark.parametrize(
    ("method", "alpha", "canaries", "trials", "expected"),
    [
        ("clopper-pearson", 0.01, 1, 1e6, 1.020),
        ("clopper-pearson", 0.01, 1, 5e6, 1.279),
        ("pooled", 0.05, 5, 1e6, 1.350),
        ("pooled", 0.05, 5, 5e6, 1.510),
        ("stratified", 0.01, 1, 1e6, 1.195),
        ("stratified", 0.01, 1, 5e6, 1.397),
    ],
)
def test_the_other_methods_at_their_own_best_thresholds(method, alpha, canaries, trials, expected):
    found = ceiling(PAPER, trials, method=method, alpha=alpha, canaries=canaries)
    assert found.expected == pytest.approx(expected, abs=6e-4)


def test_joint_lies_where_it_should():
    one = ceiling(PAPER, 1_000_000, method="joint")
    assert 1.13 <= one.expected <= 1.16
    assert one.median == pytest.approx(one.expected, abs=5e-3)
    tp, fp = round(one.tpr * 5e6), round(one.fpr * 5e6)
    assert epsilon_lower(tp, fp, 5 * 10**6, 5 * 10**6, delta=1e-5, alpha=0.01, method="joint").epsilon > 1.3


@pytest.mark.parametrize(
    ("broken", "trials", "expected"),
    [
        (Mechanism(sigma=1 / 1.25), 1e6, 1.715),
        (Mechanism(sigma=0.5), 1e5, 2.90),
        (Mechanism(q=1.0), 1e5, 2.67),
        (Mechanism(q=0.2), 1e6, 1.636),
        (Mechanism(q=0.2), 5e6, 1.937),
    ],
)
def test_the_power_against_broken_mechanisms(broken, trials, expected):
    assert ceiling(broken, trials, method="clopper-pearson").expected == pytest.approx(expected, abs=1.1e-3)


def test_perfect_rates_are_those_of_a_shifted_gaussian():
    mechanism = Mechanism(sigma=0.7, q=0.3)
    mu, t = 1 / 0.7, np.array([-1.0, 0.0, 2.5])
    fpr, tpr = perfect_rates(mechanism)(t)
    assert fpr == pytest.approx(norm.sf((t + mu**2 / 2) / mu))
    assert tpr == pytest.approx(0.7 * fpr + 0.3 * norm.sf((t - mu**2 / 2) / mu))


@pytest.mark.parametrize(
    "mechanism", [Mechanism(sigma=0.1), Mechanism(sigma=20.0), Mechanism(q=1.0, sigma=3.0), Mechanism(q=1.0, sigma=0.1)]
)
@pytest.mark.parametrize("trials", [1, 100, 10**6])
def test_any_mechanism_and_any_number_of_trials_has_a_ceiling(mechanism, trials):
    found = ceiling(mechanism, trials)
    assert 0 <= found.q05 <= found.median <= found.q95 < math.inf
    assert all(math.isfinite(v) for v in dataclasses.astuple(found) if isinstance(v, float))
    assert found.expected <= found.rule + 1e-9
    assert found.rule <= found.exact + 1e-9


def test_a_ceiling_reads_as_one_line():
    found = ceiling(PAPER, 1_000_000, canaries=5)
    assert isinstance(found, Ceiling)
    assert "perfect attack" in str(found)
    assert "1,000,000 trials" in str(found)
    assert "1.6845" in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize("epsilon", [0.1, 0.99, 1.5])
@pytest.mark.parametrize("method", ["paper", "clopper-pearson"])
def test_trials_needed_inverts_the_ceiling(epsilon, method):
    trials = trials_needed(PAPER, epsilon, method=method)
    assert ceiling(PAPER, trials, method=method).expected >= epsilon
    assert ceiling(PAPER, round(trials * 0.9999), method=method).expected < epsilon


def test_trials_needed_at_the_papers_size():
    assert trials_needed(PAPER, 0.990) == pytest.approx(1e6, rel=5e-3)


def test_an_attack_needs_more_trials_than_a_perfect_one():
    weaker = perfect_rates(Mechanism(sigma=1.2))
    target = Target(1, PAPER.delta, 0.01)
    assert trials_needed_for(perfect_rates(PAPER), 0.9, target) == trials_needed(PAPER, 0.9)
    assert trials_needed_for(weaker, 0.9, target) > 2 * trials_needed(PAPER, 0.9)


@pytest.mark.parametrize("epsilon", [1.6846, 2.0, 0.0, -1.0, math.nan])
def test_no_number_of_trials_shows_more_than_the_exact_epsilon(epsilon):
    with pytest.raises(InputError, match="No number of trials"):
        trials_needed(PAPER, epsilon)
    with pytest.raises(InputError, match="No number of trials"):
        trials_needed_for(perfect_rates(PAPER), epsilon, Target(1, 1e-5, 0.01))


def test_an_epsilon_next_to_the_exact_one_is_out_of_reach():
    with pytest.raises(InputError, match="more than 1,000,000,000,000,000 trials"):
        trials_needed(PAPER, one_round_epsilon(PAPER) - 1e-7)
