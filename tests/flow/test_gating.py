import math
import random
from dataclasses import replace

import pytest

from canarybank.auditing import epsilon_lower
from canarybank.config import resolve
from canarybank.errors import ConfigError, IncompleteError, StoreError
from canarybank.flow import run_audit
from canarybank.mechanism import Mechanism, attained_epsilon, one_round_epsilon
from canarybank.run import Run, compare, gate
from canarybank.run.gating import as_printed
from canarybank.wording import shown_epsilon


def test_a_true_claim_meets_no_violation_and_says_at_which_power(strong):
    outcome = gate(strong, 1.695)
    assert outcome.ok
    assert outcome.epsilon <= one_round_epsilon(Mechanism(k=3))
    assert outcome.statement.startswith("No violation detected at this power: the bound ")
    assert f"set for too little noise would typically show a true epsilon of {outcome.power.epsilon:.3f} or more" in (
        outcome.statement
    )
    assert "This run's own thresholds" in outcome.statement
    assert outcome.power.epsilon > 1.695


def test_a_claim_below_what_was_measured_fails(strong):
    headline = max(record.headline.epsilon for record in strong.results.attacks)
    outcome = gate(strong, 0.1)
    assert not outcome.ok
    assert 0.1 < outcome.epsilon < headline
    assert outcome.statement.startswith("Violation: the bound ")
    assert "trials" not in {cause.kind for cause in gate(strong, outcome.epsilon).causes}
    assert "trials" in {cause.kind for cause in gate(strong, math.nextafter(outcome.epsilon, 0)).causes}


def test_alpha_is_split_over_attacks_and_canaries(strong):
    outcome = gate(strong, 1.0)
    for read, record in zip(outcome.attacks, strong.results.attacks, strict=True):
        assert read.alpha == 0.025
        counts = [canary.counts for canary in record.canaries]
        naive = max(
            epsilon_lower(c.tp, c.fp, c.n1, c.n0, delta=1e-5, alpha=0.05 / 2 / 2, method="paper").epsilon
            for c in counts
        )
        assert read.bound.epsilon == naive
    assert outcome.epsilon == max(read.bound.epsilon for read in outcome.attacks)
    assert outcome.confidence == 0.95


def test_a_claim_below_the_exact_epsilon_fails_even_if_trials_do_not_show_it(strong):
    outcome = gate(strong, strong.results.epsilon - 0.01)
    assert not outcome.ok
    assert "mechanism" in {cause.kind for cause in outcome.causes}
    assert "trials" not in {cause.kind for cause in outcome.causes}
    assert outcome.statement.startswith(
        "The claim is too small: this mechanism's exact epsilon, computed without trials, is 1.685 at delta 1e-05"
    )


CLAIMS = [0.0, 0.2, 0.5, 0.8, 1.0, 1.3, 1.6, 1.684, 1.6844, 1.6845, 1.684544, 1.685, 1.695, 2.0, 5.0]


@pytest.mark.parametrize("claimed", CLAIMS)
def test_a_claim_stands_only_if_nothing_computed_or_measured_exceeds_it(strong, claimed):
    """Every exact figure counts as it is printed, so by at most half a unit of its third decimal less."""
    outcome = gate(strong, claimed)
    exact = one_round_epsilon(Mechanism(k=3))
    reached = [canary.supremum.lower for record in strong.results.attacks for canary in record.canaries]
    bounds = [each.bound.epsilon for each in outcome.attacks]
    holds = claimed >= exact - 5e-4 and all(claimed >= end - 5e-4 for end in reached) and claimed >= max(bounds)
    assert holds or not outcome.ok
    assert outcome.ok == (claimed >= 1.6845)
    assert outcome.ok == (not outcome.causes)
    kinds = {cause.kind for cause in outcome.causes}
    assert ("trials" in kinds) == (max(bounds) > claimed)
    assert ("mechanism" in kinds) == (claimed < 1.6845)
    assert ("attack" in kinds) == (max(reached) > claimed + 1e-3)
    for cause in outcome.causes:
        assert cause.epsilon > claimed
        assert (cause.attack is None) == (cause.kind == "mechanism")


@pytest.mark.parametrize("digits", [3, 4, 5, 6])
@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0, 1.1088, 1.7, 3.0, 1e3])
def test_the_exact_epsilon_as_it_is_printed_never_fails(sigma, digits):
    exact = attained_epsilon(Mechanism(sigma=sigma))
    assert as_printed(exact) <= float(shown_epsilon(exact, digits))
    assert as_printed(exact) <= exact


def test_a_claim_a_thousandth_below_the_exact_epsilon_always_fails():
    rng = random.Random(12)  # noqa: S311, reproducible on purpose
    for exact in [*(10 ** rng.uniform(-9, 30) for _ in range(3000)), 0.4999999, 0.9999999, 1.0, 2.72e-4, 0.0005]:
        assert as_printed(exact) > exact * (1 - 1e-3)
        assert float(shown_epsilon(exact)) > 0
    assert (as_printed(0.0), as_printed(math.inf)) == (0.0, math.inf)


def test_a_huge_epsilon_is_shown_by_its_size():
    shown = [shown_epsilon(each) for each in (5000000000000372526001684480.0, 1e12, 999999999999.0, 5e6, 1.25, 0.5)]
    assert shown == ["5.000e27", "1.000e12", "999999999999.000", "5000000.000", "1.250", "0.5000"]


def test_a_clip_that_votes_never_reach_does_not_count():
    """Votes of 1/k have norm k^-1/2 at most: with a larger clip the noise is larger against them."""
    assert attained_epsilon(Mechanism(clip=0.1)) == pytest.approx(one_round_epsilon(Mechanism()), rel=1e-8)
    wide = Mechanism(k=4, clip=1.0, sigma=0.5)
    assert attained_epsilon(wide) == pytest.approx(one_round_epsilon(replace(wide, sigma=1.0)), rel=1e-8)


def test_an_attack_above_the_claim_is_a_cause_of_its_own(strong):
    record = strong.results.attacks[1]
    ladder = replace(record.ladder, attack=replace(record.ladder.attack, low=1.9))
    run = Run(strong.folder)
    raised = (strong.results.attacks[0], replace(record, ladder=ladder))
    run.__dict__["results"] = strong.results.model_copy(update={"attacks": raised})
    (cause,) = compare(run, 1.7).causes
    assert (cause.kind, cause.attack, cause.epsilon) == ("attack", "nonce-norm", 1.9)
    assert "nonce-norm at least 1.900" in compare(run, 1.7).statement
    with pytest.raises(StoreError, match="does not verify"):
        gate(run, 1.7)


@pytest.mark.parametrize("method", ["pooled", "stratified"])
def test_the_gate_reads_the_method_that_was_declared(flags, tmp_path, method):
    told = {**flags, "audit.method": method, "audit.trials": 20_000, "audit.threshold": "analytic"}
    outcome = gate(run_audit(resolve(flags=told), tmp_path / "run"), 2.0)
    assert outcome.method == method
    assert {read.bound.method for read in outcome.attacks} == {method}
    assert outcome.power is not None


@pytest.mark.parametrize("claimed", [-1.0, math.inf, math.nan])
def test_a_claim_must_be_a_number(finished, claimed):
    with pytest.raises(ConfigError, match="claimed epsilon"):
        gate(finished, claimed)


def test_an_unfinished_or_altered_run_is_not_gated(copied):
    commitment = copied / "commitment.json"
    commitment.write_text(commitment.read_text().replace('"trials": 3000', '"trials": 3001'))
    with pytest.raises(StoreError, match=r"does not verify.*commitment\.json is altered since the run was sealed"):
        gate(Run.open(copied), 1.0)
    with pytest.raises(StoreError, match="another commitment"):
        compare(Run.open(copied), 1.0)
    alter = copied / "manifest.json"
    alter.write_text(alter.read_text().replace('"state": "finished"', '"state": "started"'))
    (copied / "results.json").unlink()
    with pytest.raises(IncompleteError):
        gate(Run.open(copied), 1.0)
