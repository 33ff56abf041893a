import math
from dataclasses import replace

import numpy as np
import pytest

from canarybank.auditing import Target, best_threshold, ceiling, epsilon_lower, perfect_rates
from canarybank.config import resolve
from canarybank.flow.audit import one_release
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.run import Run, compare
from canarybank.run.power import frozen_rates, separation, unclipped_rates

REPEATS = 400


def test_the_power_is_where_the_expected_bound_meets_the_claim(strong):
    claimed = 0.5
    power = compare(strong, claimed).power
    mechanism = Mechanism(k=3)
    seen = replace(mechanism, sigma=1 / power.separation)
    assert ceiling(seen, 300_000, alpha=0.0125).expected == pytest.approx(claimed, abs=1e-4)
    assert power.sigma == pytest.approx(mechanism.sigma / power.ratio)
    assert power.epsilon == one_round_epsilon(replace(mechanism, sigma=power.sigma))


def test_more_violation_is_needed_for_a_larger_claim_and_none_is_seen_for_a_huge_one(strong):
    powers = [compare(strong, claimed).power.epsilon for claimed in (0.2, 1.0, 2.0)]
    assert powers == sorted(powers)
    huge = compare(strong, 50.0)
    assert huge.ok
    assert huge.power is None
    assert "No size of violation can be named" in huge.statement


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
    canary = replace(
        finished.results.attacks[0].canaries[0], mu_eff=declared, probe_norm=float(np.linalg.norm(contribution))
    )
    assert separation(canary, mechanism, 1.0) == pytest.approx(declared)
    for ratio in (0.1, 0.5, 0.9, 1.1, 2.0, 10.0, 1e4):
        said = separation(canary, mechanism, ratio)
        assert said <= naive_separation(contribution, votes, mechanism.noise, mechanism.noise / ratio) * (1 + 1e-9)
    assert separation(canary, mechanism, 2.0) < 2 * declared


def test_a_background_that_hides_the_canary_names_no_size_of_violation(strong):
    """Less noise does not silence other users: an attack that they hide sees no violation, however large."""
    hidden = [
        replace(record, canaries=tuple(replace(c, mu_eff=0.1 * c.mu_eff) for c in record.canaries))
        for record in strong.results.attacks
    ]
    run = Run(strong.folder)
    run.__dict__["results"] = strong.results.model_copy(update={"attacks": tuple(hidden)})
    assert compare(strong, 1.695).power is not None
    assert compare(run, 1.695).power is None


@pytest.fixture(scope="module")
def frozen(flags):
    """Return the frozen rules of the strong run, to be tried on systems that break its mechanism."""
    told = {**flags, "audit.trials": 300_000, "audit.threshold": "analytic"}
    return one_release(resolve(flags=told).config)


def simulated(rates, claimed, *, trials=300_000, alpha=0.0125, seed=7):
    """Return the share of audits with these rates of a rule whose bound exceeds a claim."""
    rng = np.random.default_rng(seed)
    fpr, tpr = rates
    counts = zip(rng.binomial(trials, tpr, REPEATS), rng.binomial(trials, fpr, REPEATS), strict=True)
    bounds = [epsilon_lower(int(tp), int(fp), trials, trials, delta=1e-5, alpha=alpha).epsilon for tp, fp in counts]
    return float(np.mean(np.array(bounds) > claimed))


def true_rates(frozen, index, *, attack="nonce-norm", noise=1.0, contribution=1.0):
    """Return the exact rates of a frozen rule on the evaluation users, the mechanism broken."""
    case = next(case for case in frozen.cases if case.place == (attack, index))
    auditor = replace(frozen.auditor, mechanism=replace(Mechanism(k=3), sigma=1 / noise))
    law = auditor.law(case, auditor.evaluation(frozen.routes)(case))
    threshold = np.array([case.thresholds[0].value])
    fpr, tpr = (float(rate[0]) for rate in law.point(threshold))
    included = replace(law, shift=law.shift * contribution).point(threshold)[1]
    return (fpr, float(included[0])) if contribution != 1 else (fpr, tpr)


def test_the_rates_of_a_frozen_rule_under_a_violation_are_those_of_its_exact_law(strong, frozen):
    canary = strong.results.attack("nonce-norm").canaries[0]
    for ratio in (1.0, 1.1, 1.3, 1.5):
        said = [float(rate[0]) for rate in frozen_rates(canary, Mechanism(k=3), np.array([ratio]))]
        assert said == pytest.approx(true_rates(frozen, 0, noise=ratio), rel=0.05, abs=1e-7)
        said = [float(rate[0]) for rate in unclipped_rates(canary, Mechanism(k=3), np.array([ratio]))]
        assert said == pytest.approx(true_rates(frozen, 0, contribution=ratio), rel=0.05)


def test_a_contribution_of_the_size_that_is_named_is_shown_in_half_of_simulated_audits(strong, frozen):
    """The share of 400 audits is off by 0.1 with a probability below 1e-4."""
    shown = compare(strong, 1.695).frozen_power.contribution
    assert shown.epsilon > 1.695
    assert shown.amount == pytest.approx(0.1 * shown.ratio, rel=1e-6)

    def share(ratio):
        rates = [true_rates(frozen, index, attack=shown.attack, contribution=ratio) for index in (0, 1)]
        return max(simulated(each, 1.695) for each in rates)

    assert share(shown.ratio / 1.1) < 0.3
    assert 0.3 < share(shown.ratio) < 0.7
    assert share(shown.ratio * 1.1) > 0.7


def test_a_frozen_threshold_does_not_show_the_noise_that_a_fresh_one_would(strong, frozen):
    """This is what the power of fresh thresholds hides: less noise leaves the canary below a threshold above it."""
    outcome = compare(strong, 1.695)
    assert outcome.frozen_power.noise is None
    assert "no violation by too little noise" in outcome.statement
    ratio = outcome.power.ratio
    assert simulated(true_rates(frozen, 0, noise=1.05 * ratio), 1.695) < 0.02
    broken = replace(Mechanism(k=3), sigma=1 / (1.05 * ratio))
    target = Target(300_000, 1e-5, 0.0125)
    threshold, _ = best_threshold(perfect_rates(broken), target)
    fpr, tpr = (float(rate[0]) for rate in perfect_rates(broken)(np.array([threshold])))
    assert simulated((fpr, tpr), 1.695) > 0.5


def test_noise_is_shown_up_to_where_the_rule_is_blind_to_it(strong):
    """At a claim just above what the rule is expected to give, a little less noise is shown and much less is not."""
    canaries = [canary for record in strong.results.attacks for canary in record.canaries]
    target = Target(300_000, 1e-5, 0.0125)

    def expected(ratio):
        rates = [frozen_rates(canary, Mechanism(k=3), np.array([ratio])) for canary in canaries]
        return max(float(target.bound(tpr, fpr)[0]) for fpr, tpr in rates)

    claimed = expected(1.0) + 0.05
    shown = compare(strong, claimed).frozen_power.noise
    assert one_round_epsilon(Mechanism(k=3)) < shown.epsilon < shown.largest_epsilon < 5
    assert expected(shown.ratio + 0.01) > claimed > expected(2.0)
