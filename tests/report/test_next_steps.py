import re
from dataclasses import replace

import pytest

from canarybank.auditing import trials_needed
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.report import render_html, summarise_run, summarise_system


def steps_of(run):
    return summarise_run(run)["verdict"]["next"]


def advised_sigma(run):
    return float(re.search(r"raise mechanism.sigma from \S+ to (\S+)\. With", " ".join(steps_of(run)))[1])


def advised_trials(run):
    found = re.search(r"play about ([\d,]+) trials", " ".join(steps_of(run)))
    return None if found is None else int(found[1].replace(",", ""))


@pytest.mark.parametrize("mechanism", [Mechanism(), Mechanism(sigma=3.0, q=0.5), Mechanism(sigma=0.4, q=0.02)])
def test_the_advised_noise_halves_the_budget(changed, mechanism):
    sigma = advised_sigma(changed(mechanism=mechanism, epsilon=one_round_epsilon(mechanism)))
    assert one_round_epsilon(replace(mechanism, sigma=sigma)) == pytest.approx(
        one_round_epsilon(mechanism) / 2, rel=0.02
    )


def test_no_noise_halves_a_budget_that_is_not_finite(changed):
    steps = steps_of(changed(mechanism=Mechanism(delta=0.0)))
    assert steps
    assert not any("halve" in step for step in steps)


def test_the_advised_trials_are_those_of_a_perfect_attack_and_more_for_a_weaker_one(run, changed):
    def told(separation):
        attack = run.results.attacks[0]
        canaries = tuple(replace(canary, mu_eff=separation) for canary in attack.canaries)
        return advised_trials(changed(attacks=(replace(attack, canaries=canaries),)))

    mechanism, audit = run.results.mechanism, run.results.audit
    share = audit.alpha / len(run.results.attacks[0].canaries)
    needed = trials_needed(mechanism, 0.9 * one_round_epsilon(mechanism), method="paper", alpha=share, canaries=2)
    perfect = told(1 / mechanism.sigma)
    assert needed <= perfect <= 1.1 * needed
    assert told(0.5) > perfect
    assert told(0.0) is None


def test_what_to_do_is_said_in_the_values_of_the_run(run):
    steps = steps_of(run)
    trials, noise, share, vet = steps
    assert re.match(r"To certify 90% .* play about [\d,]+ trials instead of 20,000", trials)
    sigma = advised_sigma(run)
    assert f"from 1 to {sigma:.3g}" in noise
    clip = float(re.search(r"mechanism.clip lowered from 0.1 to (\S+)", noise)[1])
    assert clip * sigma == pytest.approx(0.1, rel=0.01)
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


def test_every_standing_of_a_system_and_of_one_run_has_a_step_of_its_own(systems, one_runs):
    names = ("violated", "stands", "replace", "dependent")
    shown = [summarise_system(systems[name])["verdict"] for name in names]
    assert len({each["next"][0] for each in shown}) == len(names)
    assert "Do not deploy" in shown[0]["next"][0]
    assert "Make the runs independent" in shown[3]["next"][0]
    refuted, standing = (
        re.search(r'<section id="next".*?</section>', render_html(one_runs[name]), re.DOTALL)[0]
        for name in ("halved", "known")
    )
    assert "Do not deploy" in refuted
    assert "Do not deploy" not in standing
    assert "one_run.share" in standing
