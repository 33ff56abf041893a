"""Every prefix of rounds of a perfect canary, through the pipeline, against figures computed elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.attack import ATTACKS
from canarybank.auditing import (
    AttackResult,
    Auditor,
    Case,
    Claims,
    MemoryTally,
    Settings,
    ThresholdMode,
    epsilon_lower,
)
from canarybank.errors import IncompleteError, InputError
from canarybank.mechanism import Mechanism, epsilon, prv_epsilon
from canarybank.score import LinearScore, Moments, RoundLaw, unmix
from canarybank.systems import BankSystem

MECHANISM = Mechanism(sigma=1.1088)
PERFECT = RoundLaw.perfect(MECHANISM)
EXACT = (1.3346819, 1.5299039, 1.6717347, 1.7901618, 1.8947278, 1.9898194)
PRV = (1.345, 1.540, 1.682, 1.800, 1.905, 2.000)
EXPECTED = (0.982, 1.156, 1.280, 1.382, 1.471, 1.551)
PAPER = Settings(trials=5_000_000, alpha=0.01, threshold=ThresholdMode.ANALYTIC)
FEW = Settings(trials=1 << 18, alpha=0.01, threshold=ThresholdMode.ANALYTIC, seed=3)
NOISE = Moments(np.zeros(1), np.array([[MECHANISM.noise**2]]))
SILENT, LOUD = (BankSystem(csr_array((1, 1)), np.array([vote]), MECHANISM) for vote in (0.0, MECHANISM.clip))


def case(*systems: BankSystem, index: int = 0) -> Case:
    """One canary alone on one quiet coordinate of each round."""
    scores = tuple(LinearScore(system.canary, NOISE) for system in systems)
    return Case(ATTACKS["nonce"], index, f"c{index}", scores, address=("perfect", index), summed=True)


def frozen(auditor: Auditor, *systems: BankSystem, canaries: int = 1) -> tuple[Case, ...]:
    return auditor.freeze([case(*systems, index=index) for index in range(canaries)], lambda _: systems)


def judged(auditor: Auditor, *systems: BankSystem) -> tuple[AttackResult, ...]:
    rules, tally = frozen(auditor, *systems), MemoryTally()
    auditor.play(rules, lambda _: systems, tally)
    return auditor.judge(rules, lambda _: systems, tally, accounted=lambda t: (prv_epsilon(MECHANISM, t), "PRV"))


@pytest.fixture(scope="module")
def six() -> tuple[AttackResult, ...]:
    """Six rounds of a perfect canary, five million trials of each hypothesis."""
    return judged(Auditor(MECHANISM, PAPER, 1), *[LOUD] * 6)


def test_exact_epsilons_of_six_rounds(six: tuple[AttackResult, ...]) -> None:
    assert [found.rounds for found in six] == [1, 2, 3, 4, 5, 6]
    for found, truth in zip(six, EXACT, strict=True):
        (canary,) = found.canaries
        assert canary.exact == pytest.approx(truth, abs=1e-5)
        # The reference has seven decimals; the interval ends at the mechanism's own epsilon.
        assert canary.supremum.lower - 1e-7 <= truth <= canary.supremum.upper + 1e-7
        assert canary.supremum.width < 1e-3
        assert found.ladder.mechanism.epsilon == pytest.approx(truth, abs=1e-5)


def test_the_accountant_of_the_paper_stands_beside_them(six: tuple[AttackResult, ...]) -> None:
    assert [round(found.ladder.accounted.epsilon, 3) for found in six] == pytest.approx(PRV, abs=1e-9)


def test_thresholds_promise_the_bounds_of_five_million_trials(six: tuple[AttackResult, ...]) -> None:
    thresholds = [found.canaries[0].threshold for found in six]
    assert [threshold.expected for threshold in thresholds] == pytest.approx(EXPECTED, abs=6e-4)
    assert {threshold.mode for threshold in thresholds} == {ThresholdMode.ANALYTIC}


def test_bounds_of_five_million_trials_scatter_as_expected(six: tuple[AttackResult, ...]) -> None:
    for found, expected in zip(six, EXPECTED, strict=True):
        forecast, counts = found.ladder.expected, found.canaries[0].counts
        assert counts.n1 == counts.n0 == 5_000_000
        assert forecast.epsilon == pytest.approx(expected, abs=5e-3)
        # The bound's law is near a Gaussian here: beyond 5 standard deviations in less than 1e-5 of runs.
        assert abs(found.headline.epsilon - forecast.epsilon) < 5 * (forecast.high - forecast.low) / 3.29
        assert found.headline.epsilon < found.ladder.mechanism.epsilon


def test_rates_are_exact_and_counts_follow_them(six: tuple[AttackResult, ...]) -> None:
    for canary in (found.canaries[0] for found in six):
        counts = canary.counts
        for rate, positives, number in (
            (canary.absent_rate, counts.fp, counts.n0),
            (canary.eligible_rate, counts.tp, counts.n1),
        ):
            assert rate.width < 2e-3 * rate.midpoint
            mean = number * rate.midpoint
            # A Poisson count of such means (200 to 1300) leaves 6 standard deviations in less than 1e-6 of runs.
            assert abs(positives - mean) < 6 * np.sqrt(mean)


def test_a_bound_is_that_of_its_counts_at_its_level(six: tuple[AttackResult, ...]) -> None:
    for found in six:
        (canary,) = found.canaries
        counts = canary.counts
        assert found.headline == epsilon_lower(counts.tp, counts.fp, counts.n1, counts.n0, delta=1e-5, alpha=0.01)
        assert found.headline.confidence == pytest.approx(0.99)
        assert found.ledger.spent == pytest.approx(0.01)
        assert canary.rule.lower < canary.supremum.upper


def test_the_first_prefix_is_the_round_itself(six: tuple[AttackResult, ...]) -> None:
    (canary,) = six[0].canaries
    at = float(unmix(canary.threshold.value, MECHANISM.q))
    for interval, bounds in ((canary.absent_rate, PERFECT.absent(at)), (canary.eligible_rate, PERFECT.eligible(at))):
        assert interval.lower <= bounds.lower
        assert bounds.upper <= interval.upper


def test_calibrated_thresholds_are_near_the_analytic_ones() -> None:
    settings = replace(FEW, trials=1 << 17, alpha=0.05)
    rules = [
        frozen(Auditor(MECHANISM, replace(settings, threshold=mode), 1), LOUD, LOUD)[0].thresholds
        for mode in (ThresholdMode.ANALYTIC, ThresholdMode.CALIBRATED)
    ]
    for exact, found in zip(*rules, strict=True):
        assert found.mode is ThresholdMode.CALIBRATED
        assert abs(found.value - exact.value) < 0.5
        # The best of noisy counts promises more than the truth, and at this size never half of it less.
        assert found.expected > 0.5 * exact.expected


def test_each_prefix_has_all_of_alpha_or_all_share_it() -> None:
    auditor, systems = Auditor(MECHANISM, replace(FEW, trials=2_000), 1, step=1e-3), [LOUD] * 3
    together = replace(auditor, claims=Claims.TOGETHER)
    each, shared = judged(auditor, *systems), judged(together, *systems)
    assert [found.headline.confidence for found in each] == pytest.approx([0.99] * 3)
    assert [found.ledger.spent for found in each] == pytest.approx([0.01] * 3)
    assert [found.headline.confidence for found in shared] == pytest.approx([1 - 0.01 / 3] * 3)
    assert sum(found.ledger.spent for found in shared) == pytest.approx(0.01)
    assert "not claimed" in Claims.EACH.statement
    assert "split evenly" in Claims.TOGETHER.statement


def test_rules_are_aimed_at_the_level_that_is_claimed() -> None:
    one, three = (
        frozen(Auditor(MECHANISM, FEW, 1, claims=claims), LOUD, LOUD, canaries=canaries)[0].thresholds[1]
        for claims, canaries in ((Claims.EACH, 1), (Claims.TOGETHER, 3))
    )
    sixth = frozen(Auditor(MECHANISM, replace(FEW, alpha=0.01 / 6), 1), LOUD, LOUD)[0].thresholds[1]
    assert three == sixth
    assert three.expected < one.expected


def test_a_canary_that_no_round_sees_spends_nothing() -> None:
    for found in judged(Auditor(MECHANISM, FEW, 1), SILENT, SILENT):
        assert found.canaries[0].exact == 0
        assert found.headline.epsilon == 0
        assert found.ladder.expected.epsilon == 0


def test_a_round_that_does_not_see_the_canary_adds_nothing() -> None:
    found = judged(Auditor(MECHANISM, replace(FEW, trials=1_000), 1), LOUD, SILENT)[1]
    assert found.canaries[0].supremum.contains(EXACT[0])
    assert found.canaries[0].exact == pytest.approx(EXACT[0], abs=1e-5)
    assert found.ladder.mechanism.epsilon == pytest.approx(EXACT[1], abs=1e-5)


def test_without_an_accountant_the_mechanism_speaks_for_itself() -> None:
    auditor, tally = Auditor(MECHANISM, replace(FEW, trials=100), 1), MemoryTally()
    rules = frozen(auditor, LOUD)
    auditor.play(rules, lambda _: [LOUD], tally)
    (found,) = auditor.judge(rules, lambda _: [LOUD], tally)
    assert found.ladder.accounted.epsilon == epsilon(MECHANISM)
    assert "no accountant's figure" in found.ladder.accounted.source


def test_canaries_are_pooled_over_several_rounds_too() -> None:
    auditor, tally = Auditor(MECHANISM, replace(FEW, method="pooled", trials=30_000), 1, step=1e-3), MemoryTally()
    rules = frozen(auditor, LOUD, LOUD, canaries=2)
    auditor.play(rules, lambda _: [LOUD, LOUD], tally)
    found = auditor.judge(rules, lambda _: [LOUD, LOUD], tally)
    assert [each.headline.trials for each in found] == [(60_000, 60_000)] * 2
    assert all(each.headline.epsilon <= each.ladder.mechanism.epsilon for each in found)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(InputError, match="surely takes part, and only one round of our own system"):
        frozen(Auditor(MECHANISM, replace(FEW, method="stratified"), 1), LOUD)
    auditor = Auditor(MECHANISM, FEW, 1)
    rules, tally = frozen(auditor, LOUD), MemoryTally()
    with pytest.raises(IncompleteError, match="0 trials with it eligible and 0 without, and 262,144 of each"):
        auditor.judge(rules, lambda _: [LOUD], tally)
    with pytest.raises(InputError, match="at least one canary"):
        auditor.freeze([], lambda _: [LOUD])
    with pytest.raises(InputError, match="same attack and index"):
        auditor.freeze([case(LOUD), case(LOUD)], lambda _: [LOUD])
