import dataclasses
import json
import math
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from canarybank.auditing import Bound, Branch, clopper_pearson, epsilon_lower, pooled, rates, stratified
from canarybank.errors import CanarybankError, InputError
from canarybank.registry import METHODS

BIG = 10**9
SEPARATE = {"paper": 4, "clopper-pearson": 2}
"""The methods that bound both rates separately, and how many ends share alpha."""


def true_epsilon(p1, p0, delta):
    """Return the least epsilon at which two rates meet the definition in both directions."""
    both = ((p1, p0), (1 - p0, 1 - p1))
    return max([0.0] + [math.log((a - delta) / b) if b > 0 else math.inf for a, b in both if a > delta])


def table(bound, n1, n0):
    return np.array([[bound(tp, fp, n1, n0) for fp in range(n0 + 1)] for tp in range(n1 + 1)])


def largest_miss(bound, n1, n0, delta, excess=(0.0, 0.2, 0.7, 1.5, 3.0)):
    """Return the largest P(bound > truth) over many true rates, by summing over every outcome.

    Rates meet the definition with equality in one direction or the other; at excess 0 they are p1 = p0 + delta.
    """
    values, worst = table(bound, n1, n0), 0.0
    for rate in (1e-6, 1e-3, 0.02, 0.1, 0.3, 0.6, 0.9):
        for epsilon in excess:
            partner = min(1.0, math.exp(epsilon) * rate + delta)
            for p1, p0 in ((partner, rate), (1 - rate, 1 - partner), (rate, rate)):
                missed = values > true_epsilon(p1, p0, delta) + 1e-9
                law1, law0 = binom.pmf(np.arange(n1 + 1), n1, p1), binom.pmf(np.arange(n0 + 1), n0, p0)
                worst = max(worst, float(law1 @ missed @ law0))
    return worst


def end_misses(bound, delta, n=30):
    """Return the largest P(bound > truth) when only one rate is uncertain, for each of the two.

    The other hypothesis has so many trials that its rate is known; the uncertain rate lies next to where some
    end would put it, where that end misses most often.
    """
    x, worst = np.arange(n + 1), {"FPR_U": 0.0, "TPR_L": 0.0}
    for known in (0.02, 0.5):
        by_fp = np.array([bound(round(known * BIG), fp, BIG, n) for fp in range(n + 1)])
        by_tp = np.array([bound(tp, round(known * BIG), n, BIG) for tp in range(n + 1)])
        for gamma in (0.0025, 0.005, 0.01, 0.025):
            lower, upper = rates.ends(x, n, gamma)
            sides = [("FPR_U", by_fp, p, known, p) for p in upper[:-1] * 1.002]
            sides += [("TPR_L", by_tp, p, p, known) for p in lower[1:] * 0.998]
            for end, values, p, p1, p0 in sides:
                missed = values > true_epsilon(p1, p0, delta)
                worst[end] = max(worst[end], float(binom.pmf(x, n, p) @ missed))
    return worst


def by_method(method, alpha, delta):
    return lambda tp, fp, n1, n0: epsilon_lower(tp, fp, n1, n0, delta=delta, alpha=alpha, method=method).epsilon


def ends_swapped(alpha, delta, parts):
    def bound(tp, fp, n1, n0):
        tpr, fpr = clopper_pearson(tp, n1, alpha / parts)[1], clopper_pearson(fp, n0, alpha / parts)[0]
        return true_epsilon(tpr, max(fpr, 1e-12), delta)

    return bound


def faults(bound, alpha, delta, parts):
    """Say what is wrong with a bound that spends alpha on so many ends: what it misses, and how often."""
    found = []
    for n1, n0 in ((12, 12), (25, 9), (7, 30)):
        miss = largest_miss(bound, n1, n0, delta)
        if miss > alpha:
            found.append(f"misses the truth with probability {miss:.3g} > {alpha}, {n1} and {n0} trials")
    found += [
        f"{end} misses with probability {miss:.3g} > {alpha / parts}"
        for end, miss in end_misses(bound, delta).items()
        if miss > alpha / parts
    ]
    return found


@pytest.mark.parametrize(("method", "parts"), SEPARATE.items())
@pytest.mark.parametrize("delta", [1e-5, 0.05])
def test_separate_bounds_cover_and_each_end_spends_its_own_gamma(method, parts, delta):
    assert faults(by_method(method, 0.01, delta), 0.01, delta, parts) == []


@pytest.mark.parametrize(("method", "parts"), SEPARATE.items())
def test_each_end_spends_nearly_all_of_its_gamma(method, parts):
    for miss in end_misses(by_method(method, 0.01, 1e-5), 1e-5).values():
        assert miss > 0.9 * 0.01 / parts


@pytest.mark.parametrize(("method", "parts"), SEPARATE.items())
def test_the_check_catches_mutants(method, parts):
    alpha, delta = 0.01, 0.05
    mutants = {
        "gamma doubled": by_method(method, 2 * alpha, delta),
        "ends swapped": ends_swapped(alpha, delta, parts),
        "delta dropped": by_method(method, alpha, 1e-12),
    }
    caught = {name for name, mutant in mutants.items() if faults(mutant, alpha, delta, parts)}
    assert caught == set(mutants)


@pytest.mark.parametrize("method", SEPARATE)
@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_without_a_leak_the_bound_is_zero_at_its_confidence(method, shift):
    n, delta, alpha = 40, 0.05, 0.05
    certified = table(by_method(method, alpha, delta), n, n) > 0
    for p0 in np.linspace(0.001, 0.94, 48):
        law1, law0 = (binom.pmf(np.arange(n + 1), n, p) for p in (p0 + shift, p0))
        assert law1 @ certified @ law0 <= alpha


def test_negatives_mirror_positives():
    for tp, fp, n1, n0 in ((30, 4, 40, 50), (40, 0, 40, 50), (9, 1, 40, 50)):
        bound = epsilon_lower(tp, fp, n1, n0, delta=1e-3, alpha=0.05)
        mirrored = epsilon_lower(n0 - fp, n1 - tp, n0, n1, delta=1e-3, alpha=0.05)
        assert mirrored.epsilon == pytest.approx(bound.epsilon, rel=1e-12)
        assert {bound.branch, mirrored.branch} in ({Branch.FORWARD, Branch.REVERSE}, {Branch.NONE})


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 200), st.integers(1, 200), st.data(), st.sampled_from(list(SEPARATE)))
def test_more_true_and_fewer_false_positives_never_lower_the_bound(n1, n0, data, method):
    tp, fp = data.draw(st.integers(0, n1 - 1)), data.draw(st.integers(1, n0))
    lower = partial(epsilon_lower, n1=n1, n0=n0, delta=1e-3, alpha=0.05, method=method)
    here = lower(tp, fp).epsilon
    assert lower(tp + 1, fp).epsilon >= here - 1e-12
    assert lower(tp, fp - 1).epsilon >= here - 1e-12


def test_the_reverse_branch_can_win():
    bound = epsilon_lower(999, 500, 1000, 1000, delta=1e-5, alpha=0.05)
    assert bound.branch is Branch.REVERSE
    tnr, fnr = 1 - clopper_pearson(500, 1000, 0.0125)[1], 1 - clopper_pearson(999, 1000, 0.0125)[0]
    assert bound.epsilon == pytest.approx(math.log((tnr - 1e-5) / fnr))
    assert epsilon_lower(999, 500, 1000, 1000, delta=1e-5, alpha=0.05, method="joint").branch is Branch.REVERSE


def test_a_bound_says_what_it_stands_on_in_one_line():
    for method in ("paper", "clopper-pearson", "joint"):
        bound = epsilon_lower(560, 137, 10**6, 10**6, delta=1e-5, alpha=0.01, method=method)
        for part in (
            "epsilon >= ",
            "delta 1e-05",
            "0.99",
            method,
            "forward",
            "560",
            "137",
            "1,000,000",
            bound.assumption,
        ):
            assert part in str(bound)
        assert "\n" not in str(bound)
        assert repr(bound) == f"Bound({bound})"
    assert "common random numbers" in bound.assumption
    assert (bound.trials, bound.counts, bound.confidence) == ((10**6, 10**6), (560, 137), 0.99)


def test_a_bound_is_frozen_and_plain_enough_for_json():
    bound = epsilon_lower(560, 137, 10**6, 10**6, delta=1e-5, alpha=0.01)
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.epsilon = 2.0
    with pytest.raises(TypeError):
        float(bound)
    assert json.loads(json.dumps(dataclasses.asdict(bound)))["method"] == "paper"


def test_few_events_are_warned_of():
    assert epsilon_lower(560, 137, 10**6, 10**6, delta=1e-5, alpha=0.01).warning is None
    assert epsilon_lower(50, 10, 10**6, 10**6, delta=1e-5, alpha=0.01).warning is None
    few = epsilon_lower(500, 9, 10**6, 10**6, delta=1e-5, alpha=0.01)
    assert few.warning.startswith("only 9 false positives seen")
    assert few.warning in str(few)
    none = epsilon_lower(0, 0, 10**6, 10**6, delta=1e-5, alpha=0.01)
    assert (none.epsilon, none.branch) == (0.0, Branch.NONE)
    assert "0 true positives and 0 false positives" in none.warning
    assert "1 false negatives" in epsilon_lower(999, 500, 1000, 1000, delta=1e-5, alpha=0.05).warning


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("mu-gdp", "no method 'mu-gdp'; choose one of paper, clopper-pearson, joint"),
        ("", "choose one of paper, clopper-pearson, joint"),
        ("Paper", "did you mean 'paper'?"),
        ("clopper-pearsson", "did you mean 'clopper-pearson'?"),
        ("pooled", "one canary's eligible trials; choose one of paper, clopper-pearson, joint."),
        ("stratified", "one canary's eligible trials; choose one of paper, clopper-pearson, joint."),
        ("math:pi", "is not a method but a float"),
        (4, "is not a method but a int"),
    ],
)
def test_another_method_is_refused_with_those_there_are(method, said):
    with pytest.raises(CanarybankError, match=re.escape(said)):
        epsilon_lower(5, 1, 10, 10, delta=1e-5, alpha=0.05, method=method)
    assert "mu-gdp" not in METHODS.names()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tp": -1}, "tp .*-1"),
        ({"fp": -1}, "fp .*-1"),
        ({"tp": 11}, "tp = 11 positives cannot come from 10"),
        ({"fp": 21}, "fp = 21 positives cannot come from 20"),
        ({"n1": 0, "tp": 0}, "at least one trial of each hypothesis"),
        ({"n0": 0, "fp": 0}, "at least one trial of each hypothesis"),
        ({"tp": 2.5}, "tp .*2.5"),
        ({"tp": float("nan")}, "tp .*nan"),
        ({"tp": [1, 2]}, "`pooled` takes several"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.5}, "alpha"),
    ],
)
@pytest.mark.parametrize("method", ["paper", "clopper-pearson", "joint"])
def test_bad_input_is_named(change, said, method):
    given = {"tp": 5, "fp": 2, "n1": 10, "n0": 20, "delta": 1e-5, "alpha": 0.05} | change
    with pytest.raises(InputError, match=said):
        epsilon_lower(**given, method=method)


def pooled_miss(values, p1, p0, each, delta):
    """Return P(bound > truth) for canaries with rates of their own, by summing over the two total counts."""
    laws = []
    for canary_rates in (p1, p0):
        law = np.ones(1)
        for rate in canary_rates:
            law = np.convolve(law, binom.pmf(np.arange(each + 1), each, rate))
        laws.append(law)
    truth = max(true_epsilon(a, b, delta) for a, b in zip(p1, p0, strict=True))
    return laws[0] @ (values > truth + 1e-9) @ laws[1]


def pooled_faults(bound, alpha, delta):
    """Say where a pooled bound misses too often: on unequal canaries, or at one of its two ends."""
    each, canaries = 4, [((0.05,) * 4, (0.001,) * 4), ((0.9, 0.0, 0.0, 0.0), (0.1, 0.0, 0.0, 0.0))]
    canaries += [((0.5, 0.3, 0.02, 0.01), (0.25, 0.15, 0.01, 0.005)), ((1.0, 1.0, 0.1, 0.1), (0.4, 0.4, 0.1, 0.1))]
    values = table(bound, 4 * each, 4 * each)
    found = [rates for rates in canaries if pooled_miss(values, *rates, each, delta) > alpha]
    return found + [end for end, miss in end_misses(bound, delta, n=12).items() if miss > alpha / 2]


def as_one_canary(alpha, delta):
    return lambda tp, fp, n1, n0: pooled([tp], [fp], [n1], [n0], delta=delta, alpha=alpha).epsilon


def test_pooled_covers_with_unequal_canaries_and_the_check_catches_mutants():
    alpha, delta = 0.05, 0.05
    assert pooled_faults(as_one_canary(alpha, delta), alpha, delta) == []
    assert pooled_faults(as_one_canary(2 * alpha, delta), alpha, delta)
    assert pooled_faults(as_one_canary(alpha, 1e-12), alpha, delta)
    assert pooled_faults(ends_swapped(alpha, delta, 2), alpha, delta)


def test_pooled_ends_spend_nearly_half_of_alpha_each():
    for miss in end_misses(as_one_canary(0.01, 1e-5), 1e-5, n=12).values():
        assert miss > 0.9 * 0.005


def test_pooled_sums_the_counts_and_remembers_the_canaries():
    bound = pooled([5, 9], [1, 2], [40, 80], [20, 40], delta=1e-5, alpha=0.05)
    assert (bound.counts, bound.trials, bound.canaries) == ((14, 3), (120, 60), 2)
    assert bound.method == "pooled"
    assert bound.epsilon == epsilon_lower(14, 3, 120, 60, delta=1e-5, alpha=0.05, method="clopper-pearson").epsilon
    assert "over 2 canaries" in str(bound)


def test_pooled_refuses_unequal_shares_with_the_reason():
    with pytest.raises(InputError, match=r"Canary 0 has 40 of 120.*20 of 100.*Simpson"):
        pooled([5, 9], [1, 2], [40, 80], [20, 80], delta=1e-5, alpha=0.05)


def test_simpsons_paradox_is_real():
    # Both canaries have equal rates under both hypotheses; sums over unequal shares look like a leak all the same.
    n1, n0, rate = (1_000_000, 1000), (1000, 1_000_000), (0.5, 0.01)
    tp, fp = (round(sum(r * n for r, n in zip(rate, ns, strict=True))) for ns in (n1, n0))
    assert epsilon_lower(tp, fp, sum(n1), sum(n0), delta=1e-5, alpha=0.01).epsilon > 3


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (([1, 2], [1, 2, 3], 10, 10), "one entry a canary"),
        (([], [], [], []), "one entry a canary"),
        (([[1, 2]], 1, 10, 10), "one entry a canary"),
        (([1, 20], [1, 1], 10, 10), "20 positives cannot come from 10"),
        (([1, -2], [1, 1], 10, 10), "-2"),
    ],
)
def test_pooled_names_bad_arrays(arrays, said):
    with pytest.raises(InputError, match=said):
        pooled(*arrays, delta=1e-5, alpha=0.05)


def test_pooled_is_not_offered_beyond_its_proof():
    with pytest.raises(InputError, match=r"alpha up to 0.5, not 0.6"):
        pooled([5], [1], [10], [10], delta=1e-5, alpha=0.6)


def stratified_value(tp, fp, n1, n0, *, q, delta, alpha):
    return stratified(tp, fp, n1, n0, q=q, delta=delta, alpha=alpha).epsilon


def stratified_miss(bound, included, p0, q, delta, n1, n0):
    truth = true_epsilon((1 - q) * p0 + q * included, p0, delta)
    law1, law0 = binom.pmf(np.arange(n1 + 1), n1, included), binom.pmf(np.arange(n0 + 1), n0, p0)
    return law1 @ (table(bound, n1, n0) > truth + 1e-9) @ law0


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_stratified_covers_on_trials_in_which_the_canary_surely_takes_part(q):
    alpha, delta = 0.05, 0.01
    bound = partial(stratified_value, q=q, delta=delta, alpha=alpha)
    misses = [
        stratified_miss(bound, included, p0, actual, delta, 15, 20)
        for included in (0.2, 0.6, 0.95)
        for p0 in (1e-4, 0.03, 0.2)
        for actual in {q, min(1.0, 1.5 * q)}
    ]
    assert max(misses) <= alpha


def test_stratified_spends_half_of_alpha_on_each_end():
    # With q = 1 every trial has the canary in it, and the bound is the forward branch of clopper-pearson.
    for tp, fp in ((30, 2), (9, 0), (1, 5)):
        plain, _ = rates.count_epsilons(tp, fp, 40, 50, delta=0.01, gamma=0.025)
        ours = stratified(tp, fp, 40, 50, q=1.0, delta=0.01, alpha=0.05)
        assert ours.epsilon == pytest.approx(max(0.0, float(plain)))
    assert isinstance(ours, Bound)
    assert "blind to sampler bugs" in ours.assumption


def test_stratified_is_zero_where_delta_covers_what_the_canary_adds():
    assert stratified(40, 0, 40, 50, q=0.01, delta=0.01, alpha=0.05).epsilon == 0


@pytest.mark.parametrize("q", [0.0, 1.1, float("nan")])
def test_stratified_needs_a_probability_of_taking_part(q):
    with pytest.raises(InputError, match="needs q"):
        stratified(5, 1, 10, 10, q=q, delta=1e-5, alpha=0.05)


def test_a_level_at_which_no_end_can_be_checked_is_refused():
    assert clopper_pearson(9_453, 9_470, 1e-250)[0] < 0.99
    with pytest.raises(InputError, match="cannot be computed at a level of 1e-280"):
        clopper_pearson(9_453, 9_470, 1e-280)


@pytest.mark.parametrize("trials", [10**8, 2 * 10**8, BIG, 10**11])
@pytest.mark.parametrize("gamma", [0.0025, 0.0125, 0.05])
def test_ends_are_right_where_the_inverse_of_scipy_is_not(trials, gamma):
    """SciPy's inverse of the incomplete beta function is off at 1,000 of many trials, by twice the rate at 1e9."""
    few = np.array([1, 2, 998, 999, 1000, 1001, 50_000])
    # Near 1, float64 has too few digits for the rates of more trials.
    counts = np.concatenate([few, trials - few]) if trials <= BIG else few
    lower, upper = clopper_pearson(counts, trials, gamma)
    assert binom.sf(counts - 1, trials, lower) == pytest.approx(gamma, rel=1e-4)
    assert binom.cdf(counts, trials, upper) == pytest.approx(gamma, rel=1e-4)


@pytest.mark.parametrize("method", list(SEPARATE))
def test_one_true_positive_more_never_doubles_a_bound(method):
    found = [epsilon_lower(tp, 200, BIG, BIG, delta=0.0, alpha=0.05, method=method).epsilon for tp in range(996, 1004)]
    assert (np.diff(found) > 0).all()
    assert np.diff(found).max() < 0.0015
