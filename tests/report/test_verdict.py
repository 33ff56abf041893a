import math
from dataclasses import replace

import pytest

from canarybank.cli.runner import attack_rows
from canarybank.mechanism import Claim
from canarybank.report import Tone, latex_tables, render_summary, summarise_run, summary_markdown, verdict
from canarybank.report.text import epsilon
from canarybank.report.verdicts import strongest
from canarybank.run import compare, gate

CLAIMS = ("is private", "is safe", "passed the audit", "guarantees privacy", "passed")


def test_no_violation_comes_with_its_power(run):
    found = verdict(run)
    outcome = gate(run, 1.695)
    assert found.tone is Tone.QUIET
    assert found.sentence.startswith("No violation detected at this power: ")
    assert f"{epsilon(outcome.epsilon)} ({outcome.attack})" in found.sentence
    assert "over 3 attacks" in found.sentence
    assert "95% confidence" in found.sentence
    assert "20,000 trials" in found.beside[1]
    assert f"{epsilon(outcome.power.epsilon)} or more" in found.beside[1]


def test_a_bound_above_the_claim_is_a_violation(counted):
    found = verdict(counted(18_000, 100))
    assert found.tone is Tone.VIOLATION
    assert found.sentence.startswith("Violation detected: the attack ordinary shows an epsilon of at least ")


def test_a_claim_below_the_exact_epsilon_is_too_small(changed, run):
    found = verdict(changed(audit=run.results.audit.model_copy(update={"accounted": 1.0})))
    assert found.tone is Tone.CLAIM
    assert "exact epsilon of this mechanism is 1.685, above the accounted 1.000" in found.sentence


def test_without_an_accountant_the_exact_epsilon_is_the_claim(changed, run):
    found = verdict(changed(audit=run.results.audit.model_copy(update={"accounted": None})))
    assert found.tone is Tone.QUIET
    assert "against the exact 1.685" in found.sentence


def test_the_strongest_attack_has_the_largest_exact_epsilon(run):
    exact = [attack.ladder.attack.epsilon for attack in run.results.attacks]
    assert strongest(run.results) == exact.index(max(exact))


def with_reach(attack, epsilon, bound):
    ladder = replace(attack.ladder, attack=replace(attack.ladder.attack, epsilon=epsilon))
    headline = replace(attack.headline, epsilon=bound)
    return replace(attack, ladder=ladder, headline=headline)


def test_among_equals_as_shown_the_larger_bound_is_stronger(run, changed):
    one, other, third = run.results.attacks
    close = (with_reach(one, 1.6822, 0.9), with_reach(other, 1.6819, 1.0), with_reach(third, 1.5, 1.2))
    assert strongest(changed(attacks=close).results) == 1


def without_upper_end(attack):
    """Return an attack whose rates underflow: its exact epsilon is certified from below alone."""
    ladder = attack.ladder
    rungs = {
        name: replace(getattr(ladder, name), epsilon=math.inf, low=1.25, high=math.inf) for name in ("attack", "rule")
    }
    canaries = [replace(each, supremum=replace(each.supremum, upper=math.inf)) for each in attack.canaries]
    return replace(attack, ladder=replace(ladder, **rungs), canaries=tuple(canaries))


def test_no_attack_is_shown_above_its_mechanism(run, changed):
    other = changed(attacks=tuple(map(without_upper_end, run.results.attacks)))
    said = verdict(other).beside[0]
    assert "reaches epsilon at least 1.250 of 1.685 on these users: at least 74.2% of the budget" in said
    summary = summarise_run(other)
    for text in (summary_markdown(summary), render_summary(summary), latex_tables(summary)):
        assert "inf%" not in text
        assert "∞" not in text.replace('"∞"', "")  # which the page's script knows
    assert "| at least 1.250 | at least 1.250 |" in summary_markdown(summary)
    for attack in summary["attacks"]:
        assert [attack["rungs"][name]["high"] for name in ("attack", "rule")] == [run.results.epsilon] * 2
    assert attack_rows(other.results)[0][1:3] == ["at least 1.250"] * 2


def test_an_interval_with_two_ends_is_shown_by_its_middle_and_never_above_the_mechanism(run):
    ladder = run.results.attacks[0].ladder
    above = replace(ladder.attack, epsilon=1.6850, low=1.6845, high=1.6855)
    assert replace(ladder, attack=above).reached("attack") == (run.results.epsilon, False)


def test_a_nonce_is_not_taken_for_a_person(run, changed):
    ordinary, exact, nonce = run.results.attacks
    mixed = changed(attacks=(with_reach(ordinary, 0.4, 0.1), with_reach(exact, 0.5, 0.1), with_reach(nonce, 1.6, 0.1)))
    assert "on real users as canaries the strongest (exact) reaches 0.5000" in verdict(mixed).beside[0]
    assert "real users" not in verdict(changed(attacks=(nonce,))).beside[0]


def test_what_the_server_did_is_said_as_it_was(run, changed):
    one = next(attack for attack in run.results.attacks if attack.attack == "ordinary")
    other = next(attack for attack in run.results.attacks if attack.attack == "exact")
    assert "changes nothing in the bank" in verdict(changed(attacks=(one,))).beside[0]
    assert "only shapes the bank" in verdict(changed(attacks=(other,))).beside[0]
    assert "by the one attack tried" in verdict(changed(attacks=(one,))).sentence


@pytest.mark.parametrize("counts", [(18_000, 100), (5, 5)])
def test_no_verdict_claims_privacy(counted, counts):
    found = verdict(counted(*counts))
    said = " ".join([found.sentence, *found.beside]).lower()
    assert not any(claim in said for claim in CLAIMS)


def test_page_summary_and_tables_speak_of_the_claim_in_its_own_words(run):
    claim = str(Claim(1.695, 1e-5, mechanism=run.results.mechanism))
    assert claim == "epsilon 1.695 at delta 1e-05 for adding or removing one user, over 1 release"
    summary = summarise_run(run)
    assert dict(summary["facts"])["Claim"] == claim
    assert f"From what was claimed, {claim}, to what was measured" in render_summary(summary)
    assert f"The claim is {claim}." in summary_markdown(summary)
    assert f"The claim: {claim}." in compare(run, 1.695).statement
    assert f"The claim: {claim.replace('1.695', '0.1')}." in compare(run, 0.1).statement
