import numpy as np
import pytest
from scipy.stats import binom

from canarybank.auditing import Method, Target, epsilon_lower, pooled, stratified
from canarybank.engine import Serial
from canarybank.flow import selftest
from canarybank.flow.selftests import end_level, miss_probability
from canarybank.mechanism import Mechanism
from canarybank.registry import METHODS


def naive(method, n, alpha, tpr, fpr, q=0.3, canaries=1):
    """Sum the probability of every single outcome whose bound exceeds the truth."""
    delta, total = 0.01, 0.0
    included = (tpr - (1 - q) * fpr) / q if method == "stratified" else tpr
    truth = max(0.0, np.log((tpr - delta) / fpr), np.log((1 - fpr - delta) / (1 - tpr)))
    size = n * canaries
    for tp in range(size + 1):
        for fp in range(size + 1):
            if method == "stratified":
                bound = stratified(tp, fp, n, n, q=q, delta=delta, alpha=alpha)
            elif method == "pooled":
                bound = pooled([tp], [fp], size, size, delta=delta, alpha=alpha)
            else:
                bound = epsilon_lower(tp, fp, n, n, delta=delta, alpha=alpha, method=method)
            if bound.epsilon > truth + 1e-12:
                total += binom.pmf(tp, size, included) * binom.pmf(fp, size, fpr)
    return total


@pytest.mark.parametrize("method", METHODS.places)
@pytest.mark.parametrize(("tpr", "fpr"), [(0.4, 0.35), (0.3, 0.05), (0.2, 0.2)])
def test_the_search_finds_what_enumeration_of_all_outcomes_finds(method, tpr, fpr):
    n, canaries = (10, 1) if method == "joint" else (10, 2) if method == "pooled" else (20, 1)
    target = Target(n, 0.01, 0.2, method, canaries, 0.3)
    assert miss_probability(target, tpr, fpr) == pytest.approx(
        naive(method, n, 0.2, tpr, fpr, canaries=canaries), abs=1e-9
    )


@pytest.mark.parametrize("method", ["paper", "clopper-pearson", "joint", "pooled", "stratified"])
def test_all_holds_for_the_papers_setting_at_fewer_trials(method):
    found = selftest(Mechanism(), 20_000, method=method, engine=Serial())
    assert found.ok, [check for check in found.checks if not check.ok]


@pytest.mark.parametrize(
    "mechanism", [Mechanism(sigma=0.6, q=1.0), Mechanism(sigma=3.0, q=0.02, delta=1e-3), Mechanism(sigma=0.5, q=0.5)]
)
def test_all_holds_elsewhere_too(mechanism):
    assert selftest(mechanism, 1000, 0.1, canaries=1, engine=Serial()).ok


def test_very_few_trials_are_no_trouble():
    assert selftest(Mechanism(), 2, engine=Serial()).ok


def test_each_end_fails_just_as_often_as_it_may_at_its_worst_rate():
    assert end_level(1000, 7, 0.01) == pytest.approx((0.01, 0.01))
    assert end_level(1000, 7, 0.01, declared=0.02) == pytest.approx((0.02, 0.02))
    assert end_level(1000, 0, 0.01)[0] == 0


class TooLarge(Method):
    """The paper's rule, and 0.4 more than it proves."""

    def branches(self, *counts, **level):
        return tuple(each + 0.4 for each in super().branches(*counts, **level))


def test_a_bound_that_is_too_large_fails_the_self_test():
    found = selftest(Mechanism(), 20_000, method=TooLarge("too-large", "nothing", tails=4), engine=Serial())
    assert not found.ok
    assert any(check.name.startswith("coverage") and not check.ok for check in found.checks)


class CountsTwice(Serial):
    """An engine that reports twice as many positives as there were."""

    def run(self, work, items):
        for index, positives in super().run(work, items):
            yield index, tuple(2 * each for each in positives)


def test_trials_that_do_not_follow_their_law_fail_the_self_test():
    found = selftest(Mechanism(), 20_000, engine=CountsTwice())
    assert [check.ok for check in found.checks if "trials" in check.name] == [False, False, False, True]
