import math

import numpy as np
import pytest
from scipy.stats import norm

from canarybank.audit import Target, best_threshold, epsilon_lower, pooled, stratified
from canarybank.errors import CanarybankError
from canarybank.registry import METHODS

N = 10**6


def shifted(mu, q, scale=1.0, centre=0.0):
    """The law of a perfect score, stretched and moved as an attack's own score may be."""

    def rates(thresholds):
        score = (np.asarray(thresholds) - centre) / scale
        fpr = norm.sf(score)
        return fpr, (1 - q) * fpr + q * norm.sf(score - mu)

    return rates


@pytest.mark.parametrize("method", ["paper", "clopper-pearson"])
def test_a_target_forecasts_what_the_bound_says_at_those_counts(method):
    target = Target(N, 1e-5, 0.01, method)
    stated = epsilon_lower(560, 140, N, N, delta=1e-5, alpha=0.01, method=method).epsilon
    assert target.bound(560 / N, 140 / N) == pytest.approx(stated, rel=1e-9)


def test_a_target_forecasts_joint_closely():
    stated = epsilon_lower(560, 140, N, N, delta=1e-5, alpha=0.01, method="joint").epsilon
    assert Target(N, 1e-5, 0.01, "joint").bound(560 / N, 140 / N) == pytest.approx(stated, abs=0.01)


def test_a_target_forecasts_the_reverse_branch_of_joint():
    stated = epsilon_lower(999, 500, 1000, 1000, delta=1e-5, alpha=0.05, method="joint").epsilon
    assert Target(1000, 1e-5, 0.05, "joint").bound(0.999, 0.5) == pytest.approx(stated, rel=1e-9)


def test_a_target_pools_all_canaries():
    stated = pooled([560] * 5, [140] * 5, N, N, delta=1e-5, alpha=0.05).epsilon
    assert Target(N, 1e-5, 0.05, "pooled", 5).bound(560 / N, 140 / N) == pytest.approx(stated, rel=1e-9)


def test_a_stratified_target_derives_the_rate_of_a_canary_that_takes_part():
    q, included, fpr = 0.1, 4000 / N, 130 / N
    stated = stratified(4000, 130, N, N, q=q, delta=1e-5, alpha=0.01).epsilon
    target = Target(N, 1e-5, 0.01, "stratified", q=q)
    assert target.bound((1 - q) * fpr + q * included, fpr) == pytest.approx(stated, rel=1e-9)


def test_endless_trials_leave_the_rates_themselves():
    target = Target(math.inf, 1e-5, 0.01)
    assert target.bound(5e-4, 1e-4) == pytest.approx(math.log(4.9))
    assert target.bound(0.999, 0.5) == pytest.approx(math.log((0.5 - 1e-5) / 0.001))


@pytest.mark.parametrize("method", METHODS.places)
def test_the_best_threshold_beats_a_dense_grid(method):
    rates, target = shifted(1.0, 0.1), Target(N, 1e-5, 0.01, method, 2, 0.1)
    threshold, value = best_threshold(rates, target)
    grid = np.linspace(-6, 8, 4001)
    fpr, tpr = rates(grid)
    assert value >= target.bound(tpr, fpr).max() - 1e-9
    fpr, tpr = rates(np.array([threshold]))
    assert value == pytest.approx(float(target.bound(tpr, fpr)[0]))


@pytest.mark.parametrize(("scale", "centre"), [(1e-3, 0.0), (1e4, 0.0), (1.0, 30.0), (0.5, -7.0)])
def test_the_scale_of_the_score_does_not_matter(scale, centre):
    target = Target(N, 1e-5, 0.01)
    threshold, value = best_threshold(shifted(1.0, 0.1, scale, centre), target)
    plain_threshold, plain_value = best_threshold(shifted(1.0, 0.1), target)
    assert value == pytest.approx(plain_value, abs=1e-6)
    assert (threshold - centre) / scale == pytest.approx(plain_threshold, abs=1e-2)


def test_a_rule_that_spots_absence_is_found():
    # Absent scores fall below 0 half of the time, those of an eligible canary almost never.
    def rates(thresholds):
        return norm.sf(thresholds), norm.sf(np.asarray(thresholds) - 4)

    threshold, value = best_threshold(rates, Target(10**4, 1e-5, 0.01))
    assert value > 5
    assert 0 < threshold < 4


def test_an_attack_without_signal_promises_nothing():
    assert best_threshold(shifted(0.0, 0.1), Target(1000, 1e-5, 0.01))[1] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trials": 0}, "trials"),
        ({"trials": 1.5}, "trials"),
        ({"trials": math.nan}, "trials"),
        ({"delta": -1e-9}, "delta"),
        ({"alpha": 1.0}, "alpha"),
        ({"canaries": 0}, "canary"),
        ({"method": "mu-gdp"}, "'mu-gdp'; choose one of paper, clopper-pearson, joint, pooled, stratified"),
        ({"method": "stratified"}, "needs q"),
        ({"method": "stratified", "q": 0.0}, "needs q"),
    ],
)
def test_a_target_validates_itself(change, said):
    with pytest.raises(CanarybankError, match=said):
        Target(**({"trials": 1000, "delta": 1e-5, "alpha": 0.01} | change))
