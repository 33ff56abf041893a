import math
from dataclasses import replace

import numpy as np
import pytest

from canarybank.audit import Counts, Method, ceiling, epsilon_lower
from canarybank.errors import ConfigError, IncompleteError, StoreError
from canarybank.experiment import Run, gate, resolve, run_audit
from canarybank.experiment.gating import separation
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
    seen = replace(mechanism, sigma=1 / power.separation)
    assert ceiling(seen, 300_000, alpha=0.0125).expected == pytest.approx(claimed, abs=1e-4)
    assert power.sigma == pytest.approx(mechanism.sigma / power.ratio)
    assert power.epsilon == one_round_epsilon(replace(mechanism, sigma=power.sigma))


def test_more_violation_is_needed_for_a_larger_claim_and_none_is_seen_for_a_huge_one(strong):
    powers = [gate(strong, claimed).power.epsilon for claimed in (0.2, 1.0, 2.0)]
    assert powers == sorted(powers)
    huge = gate(strong, 50.0)
    assert huge.ok
    assert huge.power is None
    assert "no size of violation can be named" in huge.statement


def naive_separation(contribution, votes, design_noise, noise):
    """Return the separation under some noise of the score that was designed for another."""
    weights = np.linalg.solve(votes + design_noise**2 * np.eye(len(votes)), contribution)
    deviation = math.sqrt(weights @ (votes + noise**2 * np.eye(len(votes))) @ weights)
    return float(weights @ contribution) / deviation


@pytest.mark.parametrize("seed", range(20))
def test_the_separation_under_less_noise_is_never_said_larger_than_it_is(finished, seed):
    rng, mechanism = np.random.default_rng(seed), Mechanism()
    root = 0.1 * rng.normal(size=(6, 6)) * rng.exponential(size=6)
    contribution, votes = rng.uniform(0, 0.05, size=6), root @ root.T
    declared = naive_separation(contribution, votes, mechanism.noise, mechanism.noise)
    canary = (
        finished.results.attacks[0]
        .canaries[0]
        .model_copy(update={"mu_eff": declared, "probe_norm": float(np.linalg.norm(contribution))})
    )
    assert separation(canary, mechanism, 1.0) == pytest.approx(declared)
    for ratio in (0.1, 0.5, 0.9, 1.1, 2.0, 10.0, 1e4):
        said = separation(canary, mechanism, ratio)
        assert said <= naive_separation(contribution, votes, mechanism.noise, mechanism.noise / ratio) * (1 + 1e-9)
    assert separation(canary, mechanism, 2.0) < 2 * declared


def test_a_background_that_hides_the_canary_names_no_size_of_violation(strong):
    """Less noise does not silence other users: an attack that they hide sees no violation, however large."""
    hidden = [
        record.model_copy(
            update={"canaries": tuple(c.model_copy(update={"mu_eff": 0.1 * c.mu_eff}) for c in record.canaries)}
        )
        for record in strong.results.attacks
    ]
    run = Run(strong.folder)
    run.__dict__["results"] = strong.results.model_copy(update={"attacks": tuple(hidden)})
    assert gate(strong, 1.695).power is not None
    assert gate(run, 1.695).power is None


def test_a_claim_below_the_exact_epsilon_is_called_too_small_even_if_trials_do_not_show_it(strong):
    exact = strong.results.epsilon
    outcome = gate(strong, exact - 0.01)
    assert outcome.ok
    assert outcome.exact == exact
    assert outcome.statement.endswith(
        f"The claim is too small all the same: this mechanism's exact epsilon, computed without trials, is {exact:.3f}."
    )
    assert "too small" not in gate(strong, exact).statement
    assert "too small" not in gate(strong, 0.1).statement


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
