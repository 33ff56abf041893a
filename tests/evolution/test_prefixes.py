from dataclasses import replace

import numpy as np
import pytest

from canarybank.auditing import Counts, Settings, ThresholdMode, epsilon_lower
from canarybank.errors import InputError, MissingError
from canarybank.evolve.multiround import DEFAULTS
from canarybank.evolve.prefixes import Claims, Prefix, freeze_prefixes, judge_prefix, judge_prefixes
from canarybank.evolve.summed_trials import SummedTrials
from canarybank.mechanism import Mechanism
from canarybank.score import RoundLaw, SummedLaw, unmix

MECHANISM = Mechanism(sigma=1.1088)
PERFECT = RoundLaw.perfect(MECHANISM)
EXACT = (1.3346819, 1.5299039, 1.6717347, 1.7901618, 1.8947278, 1.9898194)
PRV = (1.345, 1.540, 1.682, 1.800, 1.905, 2.000)
EXPECTED = (0.982, 1.156, 1.280, 1.382, 1.471, 1.551)
FEW = Settings(trials=1 << 18, alpha=0.01, threshold=ThresholdMode.ANALYTIC, seed=3)


@pytest.fixture(scope="module")
def six() -> tuple[Prefix, ...]:
    """Six rounds of a perfect canary, five million trials of each hypothesis."""
    rules = freeze_prefixes([PERFECT] * 6, MECHANISM, DEFAULTS)
    return judge_prefixes(rules, [PERFECT] * 6, MECHANISM, DEFAULTS)


def test_exact_epsilons_of_six_rounds(six: tuple[Prefix, ...]) -> None:
    for prefix, truth in zip(six, EXACT, strict=True):
        assert prefix.exact.point == pytest.approx(truth, abs=1e-5)
        # The reference has seven decimals; the interval ends at the mechanism's own epsilon.
        assert prefix.exact.interval.lower - 1e-7 <= truth <= prefix.exact.interval.upper + 1e-7
        assert prefix.exact.interval.width < 1e-3
        assert prefix.theory == pytest.approx(truth, abs=1e-5)


def test_the_accountant_of_the_paper_stands_beside_them(six: tuple[Prefix, ...]) -> None:
    assert [round(prefix.accounted, 3) for prefix in six] == pytest.approx(PRV, abs=1e-9)


def test_thresholds_promise_the_bounds_of_five_million_trials(six: tuple[Prefix, ...]) -> None:
    assert [prefix.threshold.expected for prefix in six] == pytest.approx(EXPECTED, abs=6e-4)
    assert {prefix.threshold.mode for prefix in six} == {ThresholdMode.ANALYTIC}


def test_bounds_of_five_million_trials_scatter_as_expected(six: tuple[Prefix, ...]) -> None:
    for prefix, expected in zip(six, EXPECTED, strict=True):
        assert prefix.counts.n1 == prefix.counts.n0 == 5_000_000
        assert prefix.expected.expected == pytest.approx(expected, abs=6e-4)
        # The bound's law is near a Gaussian here: beyond 5 standard deviations in less than 1e-5 of runs.
        assert abs(prefix.bound.epsilon - prefix.expected.mean) < 5 * prefix.expected.sd
        assert prefix.bound.epsilon < prefix.theory


def test_rates_are_exact_and_counts_follow_them(six: tuple[Prefix, ...]) -> None:
    for prefix in six:
        for rate, positives, number in (
            (prefix.fpr, prefix.counts.fp, prefix.counts.n0),
            (prefix.tpr, prefix.counts.tp, prefix.counts.n1),
        ):
            assert rate.width < 2e-3 * rate.midpoint
            mean = number * rate.midpoint
            # A Poisson count of such means (200 to 1300) leaves 6 standard deviations in less than 1e-6 of runs.
            assert abs(positives - mean) < 6 * np.sqrt(mean)


def test_a_bound_is_that_of_its_counts_at_its_level(six: tuple[Prefix, ...]) -> None:
    for prefix in six:
        counts = prefix.counts
        again = epsilon_lower(counts.tp, counts.fp, counts.n1, counts.n0, delta=1e-5, alpha=0.01)
        assert prefix.bound == again
        assert prefix.bound.confidence == pytest.approx(0.99)
        assert prefix.rule.lower < prefix.exact.interval.upper
        assert prefix.expected.trials == DEFAULTS.trials
        assert str(prefix).startswith(f"{'round 1' if prefix.rounds == 1 else f'rounds 1 to {prefix.rounds}'}: theory")


def test_the_first_prefix_is_the_round_itself(six: tuple[Prefix, ...]) -> None:
    at = float(unmix(six[0].threshold.value, MECHANISM.q))
    for interval, bounds in ((six[0].fpr, PERFECT.absent(at)), (six[0].tpr, PERFECT.eligible(at))):
        assert interval.lower <= bounds.lower
        assert bounds.upper <= interval.upper


def test_calibrated_thresholds_are_near_the_analytic_ones() -> None:
    settings = replace(FEW, trials=1 << 17, alpha=0.05)
    analytic = freeze_prefixes([PERFECT] * 2, MECHANISM, settings)
    drawn = freeze_prefixes([PERFECT] * 2, MECHANISM, replace(settings, threshold=ThresholdMode.CALIBRATED))
    for exact, found in zip(analytic, drawn, strict=True):
        assert found.threshold.mode is ThresholdMode.CALIBRATED
        assert abs(found.threshold.value - exact.threshold.value) < 0.5
        # The best of noisy counts promises more than the truth, and at this size never half of it less.
        assert found.threshold.expected > 0.5 * exact.threshold.expected


def test_each_prefix_has_all_of_alpha_or_all_share_it() -> None:
    laws = [PERFECT] * 3
    each = freeze_prefixes(laws, MECHANISM, FEW)
    together = freeze_prefixes(laws, MECHANISM, FEW, claims=Claims.TOGETHER, canaries=5)
    assert [rule.alpha for rule in each] == [0.01] * 3
    assert [rule.alpha for rule in together] == pytest.approx([0.01 / 15] * 3)
    assert together[2].threshold.expected < each[2].threshold.expected
    ledgers = Claims.TOGETHER.ledgers(0.01, 3)
    assert [ledger.spent for ledger in ledgers] == pytest.approx([0.01])
    assert [ledger.spent for ledger in Claims.EACH.ledgers(0.01, 3)] == pytest.approx([0.01] * 3)
    assert "not claimed" in Claims.EACH.statement
    assert "split evenly" in Claims.TOGETHER.statement


def test_a_canary_that_no_round_sees_spends_nothing() -> None:
    silent = RoundLaw(np.zeros(4), 0.0, 0.0, 0.0, MECHANISM.q)
    rules = freeze_prefixes([silent] * 2, MECHANISM, FEW)
    for prefix in judge_prefixes(rules, [silent] * 2, MECHANISM, FEW):
        assert prefix.exact.point == 0
        assert prefix.bound.epsilon == 0
        assert prefix.expected.median == 0


def test_a_round_that_does_not_see_the_canary_adds_nothing() -> None:
    silent = RoundLaw(np.zeros(4), 0.0, 0.0, 0.0, MECHANISM.q)
    rule = freeze_prefixes([PERFECT, silent], MECHANISM, FEW)[1]
    judged = judge_prefix(rule, SummedLaw([PERFECT, silent]), Counts(0, 0, 10, 10), MECHANISM, FEW)
    assert judged.exact.interval.contains(EXACT[0])
    assert judged.exact.point == pytest.approx(EXACT[0], abs=1e-5)
    assert judged.theory == pytest.approx(EXACT[1], abs=1e-5)


def test_without_opacus_its_figure_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> float:
        raise MissingError("Opacus is not installed.")

    monkeypatch.setattr("canarybank.evolve.prefixes.prv_epsilon", missing)
    rule = freeze_prefixes([PERFECT], MECHANISM, FEW)[0]
    assert judge_prefix(rule, SummedLaw([PERFECT]), Counts(1, 1, 10, 10), MECHANISM, FEW).accounted is None


def test_where_opacus_states_nothing_its_figure_is_left_out() -> None:
    little = Mechanism(sigma=0.25, q=0.5)
    law = RoundLaw.perfect(little)
    rule = freeze_prefixes([law], little, FEW)[0]
    assert judge_prefix(rule, SummedLaw([law]), Counts(1, 1, 10, 10), little, FEW).accounted is None


def test_what_cannot_be_judged_is_refused() -> None:
    for method in ("pooled", "stratified"):
        with pytest.raises(InputError, match="one canary's eligible trials"):
            freeze_prefixes([PERFECT], MECHANISM, replace(FEW, method=method))
    rules = freeze_prefixes([PERFECT], MECHANISM, FEW)
    with pytest.raises(InputError, match="1 rules, 2 laws and 2 rounds"):
        judge_prefixes(rules, [PERFECT] * 2, MECHANISM, FEW)
    with pytest.raises(InputError, match="1 rules, 1 laws and 2 rounds"):
        judge_prefixes(rules, [PERFECT], MECHANISM, FEW, trials=SummedTrials.of([PERFECT] * 2))
