import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlog1py, xlogy
from scipy.stats import binom, norm

from canarybank.auditing import clopper_pearson, epsilon_lower
from canarybank.auditing.methods import joint
from canarybank.auditing.methods.joint import REVERSE_SHARE, joint_epsilon, score_epsilon


def naive_statistic(tp, fp, n1, n0, epsilon, delta):
    """Return the score statistic with the restricted estimate found by plain maximisation of the likelihood."""
    ratio = math.exp(epsilon)

    def loss(p0):
        p1 = min(1.0, ratio * p0 + delta)
        return -(xlogy(tp, p1) + xlog1py(n1 - tp, -p1) + xlogy(fp, p0) + xlog1py(n0 - fp, -p0))

    found = minimize_scalar(loss, bounds=(0.0, (1 - delta) / ratio), method="bounded", options={"xatol": 1e-13})
    p0 = min((found.x, 0.0, (1 - delta) / ratio), key=loss)
    p1 = min(1.0, ratio * p0 + delta)
    variance = p1 * (1 - p1) / n1 + ratio**2 * p0 * (1 - p0) / n0
    return (tp / n1 - ratio * fp / n0 - delta) / math.sqrt(variance) if variance > 0 else math.inf


def naive_rank(tp, fp, n1, n0, delta, alpha):
    z = norm.isf(alpha)
    if tp / n1 <= delta or naive_statistic(tp, fp, n1, n0, 0.0, delta) < z:
        return -math.inf
    return brentq(lambda e: naive_statistic(tp, fp, n1, n0, e, delta) - z, 0.0, 40.0, xtol=1e-10)


@pytest.mark.parametrize(("n1", "n0", "delta"), [(12, 12, 0.02), (20, 7, 1e-3), (6, 30, 0.1)])
def test_the_rank_is_where_the_score_statistic_meets_its_quantile(n1, n0, delta):
    for tp in range(n1 + 1):
        for fp in range(0, n0 + 1, 2):
            naive, ours = (
                naive_rank(tp, fp, n1, n0, delta, 0.05),
                score_epsilon(tp, fp, n1, n0, delta=delta, alpha=0.05),
            )
            assert max(float(ours), 0.0) == pytest.approx(max(naive, 0.0), abs=1e-5)


@pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.2])
def test_the_statistic_falls_in_epsilon_as_the_ranking_needs(delta):
    for tp, fp, n1, n0 in ((12, 0, 12, 12), (11, 1, 12, 30), (5, 2, 40, 10), (40, 9, 40, 10), (7, 0, 40, 400)):
        values = [naive_statistic(tp, fp, n1, n0, e, delta) for e in np.linspace(0, 6, 61)]
        positive = [v for v in values if v > 0]
        assert np.all(np.diff(positive) < 1e-5)


@pytest.mark.parametrize(("n1", "n0", "delta"), [(14, 11, 0.02), (9, 25, 1e-4), (25, 9, 0.15)])
def test_the_set_holds_every_outcome_that_ranks_as_high(n1, n0, delta):
    grid = np.meshgrid(np.arange(n1 + 1), np.arange(n0 + 1), indexing="ij")
    ranks = score_epsilon(*grid, n1, n0, delta=delta, alpha=0.05)
    for tp, fp in zip(*np.nonzero(ranks > 0), strict=True):
        tail = joint._tail(tp, fp, n1, n0, delta, 0.05, float(ranks[tp, fp]), np.array([0.0, 1.0]))
        inside = grid[0] >= tail.cut[grid[1]]
        assert inside[ranks >= ranks[tp, fp]].all()
        assert np.all(np.diff(tail.cut) >= 0)
        # It holds little else: only outcomes that rank as high but for rounding, or were filled in to be monotone.
        assert inside.sum() <= (ranks >= ranks[tp, fp] - 1e-6).sum() + 2


def naive_joint(tp, fp, n1, n0, delta, alpha, share):
    """Return Buehler's bound by brute force: every outcome ranked, every probability summed, a dense grid of p0."""
    grid = np.meshgrid(np.arange(n1 + 1), np.arange(n0 + 1), indexing="ij")
    ranks = score_epsilon(*grid, n1, n0, delta=delta, alpha=alpha)
    as_high = ranks >= ranks[tp, fp] - 1e-9
    lower, upper = clopper_pearson(fp, n0, joint.NUISANCE_SHARE * alpha / 2)
    p0 = np.linspace(lower, upper, 1500)
    law0 = binom.pmf(np.arange(n0 + 1), n0, p0[:, None])

    def excess(epsilon):
        p1 = np.minimum(1.0, math.exp(epsilon) * p0 + delta)
        law1 = binom.pmf(np.arange(n1 + 1), n1, p1[:, None])
        return np.einsum("gi,ij,gj->g", law1, as_high, law0).max() - share * alpha

    return brentq(excess, 0.0, 20.0, xtol=1e-9) if excess(0.0) < 0 else 0.0


@pytest.mark.parametrize(
    ("tp", "fp", "n1", "n0", "delta"),
    [(12, 1, 20, 20, 0.02), (20, 0, 20, 20, 1e-5), (9, 0, 30, 12, 0.05), (30, 10, 30, 40, 1e-3), (25, 3, 60, 60, 0.01)],
)
@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_the_bound_is_buehlers_less_what_its_certificate_costs(tp, fp, n1, n0, delta, alpha):
    ours = joint_epsilon(tp, fp, n1, n0, delta=delta, alpha=alpha)
    kept = 1 - joint.NUISANCE_SHARE
    assert ours <= naive_joint(tp, fp, n1, n0, delta, alpha, kept) + 1e-6
    assert ours >= naive_joint(tp, fp, n1, n0, delta, alpha, kept - 1.1 * joint.SLACK_SHARE) - 2 * joint.STEP


@cache
def joint_table(n1, n0, delta, alpha):
    return np.array(
        [
            [epsilon_lower(tp, fp, n1, n0, delta=delta, alpha=alpha, method="joint").epsilon for fp in range(n0 + 1)]
            for tp in range(n1 + 1)
        ]
    )


def largest_miss(values, delta):
    """Return the largest P(bound > epsilon) over true rates, by summing over every outcome."""
    n1, n0 = (side - 1 for side in values.shape)
    worst = 0.0
    for p0 in (1e-6, 1e-3, *np.linspace(0.01, 0.95, 48)):
        law0 = binom.pmf(np.arange(n0 + 1), n0, p0)
        for epsilon in (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0):
            p1 = math.exp(epsilon) * p0 + delta
            if p1 <= 1 and 1 - p0 <= math.exp(epsilon) * (1 - p1) + delta + 1e-12:
                law1 = binom.pmf(np.arange(n1 + 1), n1, p1)
                worst = max(worst, float(law1 @ (values > epsilon + 1e-9) @ law0))
    return worst


@pytest.mark.parametrize(("n1", "n0", "delta"), [(14, 14, 0.02), (10, 18, 0.05)])
def test_joint_covers_by_enumeration_and_the_check_catches_mutants(n1, n0, delta):
    alpha = 0.1
    miss = largest_miss(joint_table(n1, n0, delta, alpha), delta)
    assert 0.8 * alpha < miss <= alpha
    assert largest_miss(joint_table(n1, n0, delta, 2 * alpha), delta) > alpha


def test_a_bound_that_drops_delta_is_caught():
    assert largest_miss(joint_table(12, 24, 1e-9, 0.1), 0.05) > 0.1


def test_the_rank_itself_is_no_bound_and_the_check_sees_it():
    grid = np.meshgrid(np.arange(19), np.arange(19), indexing="ij")
    assert largest_miss(score_epsilon(*grid, 18, 18, delta=0.02, alpha=0.1), 0.02) > 0.1


def test_joint_covers_with_more_trials_where_rates_are_small():
    n, delta, alpha, epsilon = 60, 0.01, 0.05, 1.0
    reach = 14
    least = [least_certifying(fp, n, delta, alpha, epsilon) for fp in range(reach)]
    for p0 in (0.002, 0.01, 0.03, 0.05, 0.07):
        p1 = math.exp(epsilon) * p0 + delta
        certified = sum(binom.pmf(fp, n, p0) * binom.sf(least[fp] - 1, n, p1) for fp in range(reach))
        assert certified + binom.sf(reach - 1, n, p0) <= alpha


def least_certifying(fp, n, delta, alpha, epsilon):
    low, high = fp, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        above = joint_epsilon(middle, fp, n, n, delta=delta, alpha=alpha) > epsilon
        low, high = (low, middle) if above else (middle, high)
    return high


def test_more_true_positives_never_lower_the_bound():
    assert np.all(np.diff(joint_table(18, 18, 0.02, 0.1), axis=0) >= -2 * joint.STEP)


def test_fewer_false_positives_do_not_lower_the_bound_at_the_size_of_an_audit():
    # With a few dozen trials they may: another set of p0 is then searched.
    values = [joint_epsilon(120, fp, 10**6, 10**6, delta=1e-5, alpha=0.01) for fp in (0, 1, 2, 10, 11, 30, 31)]
    assert np.all(np.diff(values) < 0)


@pytest.mark.parametrize(
    ("tp", "fp", "n1", "n0", "low", "high"),
    [
        (549, 137, 10**6, 10**6, 1.14, 1.15),
        (0, 0, 10**6, 10**6, 0.0, 0.0),
        (0, 5, 10**6, 10**6, 0.0, 0.0),
        (500, 0, 10**6, 10**6, 4.4, 4.8),
        (2000, 0, 2000, 2000, 5.8, 6.3),
        (2000, 2000, 2000, 2000, 0.0, 0.0),
        (1, 0, 1, 1, 0.0, 0.0),
        (16, 3, 10**6, 10**6, 0.0, 0.2),
        (1000, 40, 10**6, 10**5, 0.0, 1.0),
        (100, 40, 10**5, 10**6, 2.7, 3.2),
        (800, 150, 5 * 10**6, 5 * 10**6, 1.38, 1.42),
    ],
)
def test_edges_are_finite_and_plausible(tp, fp, n1, n0, low, high):
    assert low <= joint_epsilon(tp, fp, n1, n0, delta=1e-5, alpha=0.01) <= high


def test_joint_beats_separate_ends_and_pays_little_for_the_reverse_branch():
    given = (549, 137, 10**6, 10**6)
    ours = epsilon_lower(*given, delta=1e-5, alpha=0.01, method="joint").epsilon
    assert ours > epsilon_lower(*given, delta=1e-5, alpha=0.01, method="clopper-pearson").epsilon + 0.1
    assert ours == joint_epsilon(*given, delta=1e-5, alpha=0.01 * (1 - REVERSE_SHARE))
    assert ours > joint_epsilon(*given, delta=1e-5, alpha=0.01) - 0.005
