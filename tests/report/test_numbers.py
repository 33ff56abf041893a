import math
from dataclasses import replace

import pytest
from scipy.stats import beta

from canarybank.mechanism import Mechanism
from canarybank.report import canary_figure, summarise_run


@pytest.fixture
def row(attack):
    """Return a function that gives what the table of canaries shows of a canary with these values."""

    def show(**values):
        shown = attack["canaries"][0] | values
        figure = canary_figure([attack | {"canaries": [shown, attack["canaries"][1]]}], 1.6845)
        return dict(zip(figure.columns, figure.rows[0], strict=True))

    return show


@pytest.mark.parametrize(
    ("value", "shown"), [(1.23456, "1.235"), (0.123456, "0.1235"), (1e-5, "1.000e-05"), (0.0, "0.000"), (math.inf, "∞")]
)
def test_an_epsilon_has_three_decimals_or_four_digits(row, value, shown):
    assert row(upper=value)["upper end"] == shown


def test_an_interval_whose_ends_are_shown_alike_is_one_number(row):
    assert row(rule={"lower": 1.0, "upper": 1.00001})["exact, rule"] == "1.000"
    assert row(rule={"lower": 1.0, "upper": math.inf})["exact, rule"] == "1.000 to ∞"


@pytest.mark.parametrize(("value", "shown"), [(0.0, "0"), (0.12345, "0.123"), (1.234e-5, "1.23e-05")])
def test_a_rate_has_three_digits(row, value, shown):
    assert row(tpr=value)["exact TPR"] == shown


def test_what_nobody_computed_has_no_column(attack):
    bare = dict.fromkeys(("rule", "supremum", "tpr", "fpr"))
    figure = canary_figure([attack | {"canaries": [each | bare for each in attack["canaries"]]}], 1.6845)
    assert not {"exact, rule", "exact, attack", "exact TPR", "exact FPR"} & set(figure.columns)


def test_what_nobody_computed_of_one_canary_is_a_dash_and_never_infinite(row):
    shown = row(rule=None, supremum=None, tpr=None)
    assert {shown[name] for name in ("exact, rule", "exact, attack", "exact TPR")} == {"—"}


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
