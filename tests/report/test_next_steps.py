import re
from dataclasses import replace

import pytest

from canarybank.auditing import trials_needed
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.report import Tone, verdict
from canarybank.report.next_steps import audit_steps, halving_sigma, one_run_steps, system_steps, trials_to_certify


def steps_of(run):
    found = verdict(run)
    return list(audit_steps(run.results, found.outcome, found.tone))


@pytest.mark.parametrize("mechanism", [Mechanism(), Mechanism(sigma=3.0, q=0.5), Mechanism(sigma=0.4, q=0.02)])
def test_the_advised_noise_halves_the_budget(mechanism):
    sigma = halving_sigma(mechanism)
    assert one_round_epsilon(replace(mechanism, sigma=sigma)) == pytest.approx(
        one_round_epsilon(mechanism) / 2, rel=1e-3
    )


def test_no_noise_halves_a_budget_that_is_not_finite():
    assert halving_sigma(Mechanism(delta=0.0)) is None


def test_the_advised_trials_are_those_of_a_perfect_attack_and_more_for_a_weaker_one():
    mechanism = Mechanism()
    exact = trials_needed(mechanism, 0.9 * one_round_epsilon(mechanism), method="paper", alpha=0.01, canaries=5)
    perfect = trials_to_certify(mechanism, 1 / mechanism.sigma, "paper", 0.01, 5)
    assert exact <= perfect <= 1.1 * exact
    assert trials_to_certify(mechanism, 0.5, "paper", 0.01, 5) > perfect
    assert trials_to_certify(mechanism, 0.0, "paper", 0.01, 5) is None


def test_what_to_do_is_said_in_the_values_of_the_run(run):
    steps = steps_of(run)
    trials, noise, share, vet = steps
    assert re.match(r"To certify 90% .* play about [\d,]+ trials instead of 20,000", trials)
    sigma = halving_sigma(run.results.mechanism)
    assert f"from 1 to {sigma:.3g}" in noise
    assert f"from 0.1 to {0.1 / sigma:.3g}" in noise
    assert "mechanism.share" in share
    assert "canarybank vet" in vet


def test_an_attack_that_plants_nothing_asks_for_no_vetting(run, changed):
    passive = [each for each in run.results.attacks if not each.plants]
    assert not any("vet" in step for step in steps_of(changed(attacks=tuple(passive))))


def test_a_refuted_claim_comes_first(counted, changed, run):
    shown = steps_of(counted(18_000, 100))
    assert shown[0].startswith("Do not deploy under this claim. Something spends more")
    computed = steps_of(changed(audit=run.results.audit.model_copy(update={"accounted": 1.0})))
    assert computed[0].startswith("Do not deploy under this claim. State at least epsilon 1.685")


def test_every_standing_of_a_system_and_of_one_run_has_a_step_of_its_own():
    of_system = [
        *(list(system_steps(tone, dependent=False)) for tone in Tone),
        list(system_steps(Tone.UNTESTED, dependent=True)),
    ]
    assert all(of_system)
    assert len({each[0] for each in of_system}) == 4
    assert list(one_run_steps(Tone.REFUTED)) != list(one_run_steps(Tone.STANDS))
