import math
from dataclasses import replace

import pytest

from canarybank.audit import Counts, Method, ceiling, epsilon_lower
from canarybank.errors import ConfigError, IncompleteError, StoreError
from canarybank.experiment import Run, gate, resolve, run_audit
from canarybank.mechanism import Mechanism, one_round_epsilon


@pytest.fixture(scope="module")
def strong(flags, tmp_path_factory):
    """Enough trials for a bound that is worth gating."""
    told = {**flags, "audit.trials": 300_000, "audit.threshold": "analytic"}
    return run_audit(resolve(flags=told), tmp_path_factory.mktemp("strong") / "run")


def test_a_true_claim_meets_no_violation_and_says_at_which_power(strong):
    outcome = gate(strong, 1.695)
    assert outcome.ok
    assert outcome.epsilon <= one_round_epsilon(Mechanism(k=3))
    assert outcome.statement.startswith("No violation detected at this power: the bound ")
    assert f"a true epsilon of {outcome.power.epsilon:.3f} or more" in outcome.statement
    assert outcome.power.epsilon > 1.695


def test_a_claim_below_what_was_measured_fails(strong):
    headline = max(record.headline.epsilon for record in strong.results.attacks)
    outcome = gate(strong, 0.1)
    assert not outcome.ok
    assert 0.1 < outcome.epsilon < headline
    assert outcome.statement.startswith("Violation: the bound ")
    assert gate(strong, outcome.epsilon).ok
    assert not gate(strong, math.nextafter(outcome.epsilon, 0)).ok


def test_alpha_is_split_over_attacks_and_canaries(strong):
    outcome = gate(strong, 1.0)
    for read, record in zip(outcome.attacks, strong.results.attacks, strict=True):
        assert read.alpha == 0.025
        counts = [Counts(**canary.counts.model_dump()) for canary in record.canaries]
        naive = max(
            epsilon_lower(c.tp, c.fp, c.n1, c.n0, delta=1e-5, alpha=0.05 / 2 / 2, method="paper").epsilon
            for c in counts
        )
        assert read.bound.epsilon == naive
    assert outcome.epsilon == max(read.bound.epsilon for read in outcome.attacks)
    assert outcome.confidence == 0.95


def test_the_power_is_where_the_expected_bound_meets_the_claim(strong):
    claimed = 0.5
    power = gate(strong, claimed).power
    mechanism = Mechanism(k=3)
    seen = replace(mechanism, sigma=1 / (power.mu_eff * power.ratio))
    assert ceiling(seen, 300_000, alpha=0.0125).expected == pytest.approx(claimed, abs=1e-4)
    assert power.sigma == pytest.approx(mechanism.sigma / power.ratio)
    assert power.epsilon == one_round_epsilon(replace(mechanism, sigma=power.sigma))


def test_more_violation_is_needed_for_a_larger_claim_and_none_is_seen_for_a_huge_one(strong):
    powers = [gate(strong, claimed).power.epsilon for claimed in (0.2, 1.0, 2.0)]
    assert powers == sorted(powers)
    huge = gate(strong, 50.0)
    assert huge.ok
    assert huge.power is None
    assert "no violation of any size would have been seen" in huge.statement


@pytest.mark.parametrize("method", [Method.POOLED, Method.STRATIFIED])
def test_the_gate_reads_the_method_that_was_declared(flags, tmp_path, method):
    told = {**flags, "audit.method": method.value, "audit.trials": 20_000, "audit.threshold": "analytic"}
    outcome = gate(run_audit(resolve(flags=told), tmp_path / "run"), 2.0)
    assert outcome.method == method
    assert {read.bound.method for read in outcome.attacks} == {method.value}
    assert outcome.power is not None


@pytest.mark.parametrize("claimed", [-1.0, math.inf, math.nan])
def test_a_claim_must_be_a_number(finished, claimed):
    with pytest.raises(ConfigError, match="claimed epsilon"):
        gate(finished, claimed)


def test_an_unfinished_or_altered_run_is_not_gated(copied):
    commitment = copied / "commitment.json"
    commitment.write_text(commitment.read_text().replace('"trials": 3000', '"trials": 3001'))
    with pytest.raises(StoreError, match="another commitment"):
        gate(Run.open(copied), 1.0)
    (copied / "results.json").unlink()
    with pytest.raises(IncompleteError):
        gate(Run.open(copied), 1.0)
