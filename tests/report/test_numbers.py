import math
from dataclasses import replace

import pytest
from scipy.stats import beta

from canarybank.mechanism import Mechanism
from canarybank.report import summarise_run
from canarybank.report.text import confidence, decimal, epsilon, interval_text, percent, rate


def test_numbers_as_people_read_them():
    assert (epsilon(1.23456), epsilon(math.inf)) == ("1.235", "∞")
    assert interval_text({"low": 1.0, "high": 1.00001}) == "1.000"
    assert interval_text({"low": 1.0, "high": math.inf}) == "1.000 to ∞"
    assert (rate(0.0), rate(0.12345), rate(1.234e-5)) == ("0", "0.123", "1.23e-05")
    assert (percent(0.0), percent(1.0), percent(0.123), percent(0.00123)) == ("0%", "100%", "12.3%", "0.12%")
    assert confidence(1 - 0.05 / 3) == "98.3333%"


def test_what_nobody_computed_is_a_dash_and_never_infinite():
    assert {epsilon(None), interval_text(None), rate(None), decimal(None)} == {"—"}


def naive_upper(tp, fp, n1, n0, gamma, delta):
    tpr = beta.ppf(1 - gamma, tp + 1, n1 - tp) if tp < n1 else 1.0
    fpr = beta.ppf(gamma, fp, n0 - fp + 1) if fp else 0.0
    forward = math.log((tpr - delta) / fpr) if fpr else math.inf
    return max(0.0, forward, math.log((1 - fpr - delta) / (1 - tpr)) if tpr < 1 else math.inf)


@pytest.fixture
def first_canary(run, changed):
    """Return a function that gives the summary of the first canary, changed, under a mechanism."""

    def show(mechanism, **told):
        first, *others = run.results.attacks
        canary = replace(first.canaries[0], **told)
        attack = replace(first, canaries=(canary, *first.canaries[1:]))
        summary = summarise_run(changed(attacks=(attack, *others), mechanism=mechanism))
        return summary["attacks"][0]["canaries"][0]

    return show


@pytest.mark.parametrize(("tp", "fp"), [(300, 100), (50, 40), (900, 990), (10, 0), (1000, 5), (0, 0)])
def test_the_upper_end_is_that_of_a_naive_twin(run, first_canary, tp, fp):
    canary = run.results.attacks[0].canaries[0]
    counts = replace(canary.counts, tp=tp, fp=fp, n1=1000, n0=1000)
    gamma = (1 - canary.bound.confidence) / 4
    expected = naive_upper(tp, fp, 1000, 1000, gamma, 1e-5)
    assert first_canary(Mechanism(), counts=counts)["upper"] == pytest.approx(expected)


def test_the_upper_end_lies_above_the_bound_and_the_exact_rule(run, summary):
    # Six intervals, each wrong at most as often as its share of alpha says; the seed is fixed.
    for attack, shown in zip(run.results.attacks, summary["attacks"], strict=True):
        for canary, read in zip(attack.canaries, shown["canaries"], strict=True):
            assert canary.bound.epsilon <= canary.rule.upper
            assert read["upper"] >= canary.rule.lower


def test_a_stratified_canary_is_blended_to_an_eligible_one(run, first_canary):
    canary = run.results.attacks[0].canaries[0]
    told = {"bound": replace(canary.bound, method="stratified")}
    plain, sure, rare = (
        first_canary(Mechanism()),
        first_canary(Mechanism(q=1.0), **told),
        first_canary(Mechanism(), **told),
    )
    assert sure["upper"] == plain["upper"]
    assert rare["upper"] < plain["upper"]
    (_, fpr, _), (low, tpr, high) = rare["counted"]["fpr"], rare["counted"]["tpr"]
    assert low < tpr < high
    assert tpr == pytest.approx(0.9 * fpr + 0.1 * canary.counts.tp / canary.counts.n1)
    assert plain["counted"]["tpr"][1] == canary.counts.tp / canary.counts.n1
