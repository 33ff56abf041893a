import math
from dataclasses import replace

import pytest
from shown_pages import table_of

from canarybank.mechanism import Claim
from canarybank.report import Tone, latex_tables, render_summary, summarise_run, summary_markdown, verdict
from canarybank.run import compare, gate
from canarybank.run.power import FrozenPower


def epsilon(value):
    return f"{value:.3f}" if value >= 1 else f"{value:#.4g}"


CLAIMS = ("is private", "is safe", "passed the audit", "guarantees privacy", "passed")


def test_no_violation_comes_with_its_power(run):
    found = verdict(run)
    outcome = gate(run, 1.695)
    assert found.tone is Tone.STANDS
    assert found.sentence.startswith("No violation detected at this power: ")
    assert f"{epsilon(outcome.epsilon)} ({outcome.attack})" in found.sentence
    assert "over 3 attacks" in found.sentence
    assert "95% confidence" in found.sentence
    assert "20,000 trials" in found.beside[1]
    assert f"{epsilon(outcome.power.epsilon)} or more" in found.beside[1]


def test_a_bound_above_the_claim_is_a_violation(counted):
    found = verdict(counted(18_000, 100))
    assert found.tone is Tone.REFUTED
    assert found.sentence.startswith("Violation detected: the attack ordinary shows an epsilon of at least ")


def test_a_claim_below_the_exact_epsilon_is_too_small(changed, run):
    found = verdict(changed(audit=run.results.audit.model_copy(update={"accounted": 1.0})))
    assert found.tone is Tone.REFUTED
    assert "exact epsilon of this mechanism is 1.685, above the accounted 1.000" in found.sentence


def test_without_an_accountant_the_exact_epsilon_is_the_claim(changed, run):
    found = verdict(changed(audit=run.results.audit.model_copy(update={"accounted": None})))
    assert found.tone is Tone.STANDS
    assert "against the exact 1.685" in found.sentence


def test_the_strongest_attack_has_the_largest_exact_epsilon(run, summary):
    exact = [attack.ladder.attack.epsilon for attack in run.results.attacks]
    assert summary["strongest"] == exact.index(max(exact))


def with_reach(attack, epsilon, bound):
    ladder = replace(attack.ladder, attack=replace(attack.ladder.attack, epsilon=epsilon))
    headline = replace(attack.headline, epsilon=bound)
    return replace(attack, ladder=ladder, headline=headline)


def test_among_equals_as_shown_the_larger_bound_is_stronger(run, changed):
    one, other, third = run.results.attacks
    close = (with_reach(one, 1.6822, 0.9), with_reach(other, 1.6819, 1.0), with_reach(third, 1.5, 1.2))
    assert summarise_run(changed(attacks=close))["strongest"] == 1


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


def test_the_verdict_is_in_numbers_first_each_with_its_word(run, changed):
    ordinary, exact, nonce = run.results.attacks
    mixed = changed(attacks=(with_reach(ordinary, 0.4, 0.1), with_reach(exact, 0.5, 0.1), with_reach(nonce, 1.6, 0.1)))
    found = verdict(mixed)
    claimed, strong, people, certified = found.numbers
    assert (claimed.words, claimed.value) == ("budget claimed", "1.695")
    assert (strong.words, strong.value) == ("reachable by the strongest attack", "1.600")
    assert "nonce-norm, on made-up texts" in strong.note
    assert (people.words, people.value) == ("reachable on real people", "0.5000")
    assert certified.words == "certified by trials"
    assert certified.value == f"at least {epsilon(found.outcome.epsilon)}"
    assert "95% confidence over 3 attacks, 20,000 trials" in certified.note
    html = render_summary(summarise_run(mixed))
    places = [html.index(part) for part in ("The claim stands", 'class="numbers"', "<h1>", 'id="next"', 'id="audited"')]
    assert places == sorted(places)
    assert all(f"<b>{each.value}</b>" in html for each in found.numbers)


def test_a_page_says_what_was_audited_and_what_a_server_learns(run, changed):
    ordinary, exact, nonce = run.results.attacks
    mixed = changed(attacks=(with_reach(ordinary, 0.4, 0.1), with_reach(exact, 0.5, 0.1), with_reach(nonce, 1.6, 0.1)))
    asked, reached, _ = summarise_run(mixed)["verdict"]["beside"]
    setup = run.results.setup
    assert f"the votes of {setup.evaluation} users (users.csv) over a bank of {setup.bank} texts" in asked
    assert asked.endswith("tell whether one user took part?")
    # Even odds that change by exp(1.6) are 83%, and by exp(0.5) 62%.
    assert "about 83% sure of a made-up person, and 62% sure of a real user" in reached
    people = verdict(changed(attacks=mixed.results.attacks[:2])).beside[0]
    assert people.endswith("about 62% sure of one of these users.")
    nothing = changed(attacks=(with_reach(ordinary, 0.0, 0.0),))
    assert "even odds" not in verdict(nothing).beside[0]


def test_the_ladder_says_where_the_headline_is_made(run, changed):
    found = summarise_run(run)
    assert f"the headline, <strong>{epsilon(found['joint']['epsilon'])}</strong>, is made in" in render_summary(found)
    assert "is made in" not in render_summary(summarise_run(changed(attacks=run.results.attacks[:1])))


def test_without_an_attack_on_people_nothing_is_said_to_reach_them(run, changed):
    people = verdict(changed(attacks=run.results.attacks[2:])).numbers[2]
    assert (people.value, people.note) == ("—", "no attack on real people was run")


def test_a_claim_that_no_trials_could_refute_was_not_tested(run, changed):
    """Far above all that so many trials can show, no violation of any size would be seen."""
    found = verdict(changed(audit=run.results.audit.model_copy(update={"accounted": 40.0})))
    assert (found.tone, found.outcome.power) == (Tone.UNTESTED, None)
    assert found.sentence.startswith("The claim could not be tested at this power: ")
    assert "It is not refuted" in found.sentence


def test_a_claim_that_only_other_thresholds_could_refute_was_not_tested(run, monkeypatch):
    """What thresholds that this run did not have would show is said beside the verdict, and does not make it."""
    found = compare(run, run.results.claim)
    assert found.power is not None
    assert found.is_tested
    blind = found.model_copy(update={"frozen_power": FrozenPower(noise=None, contribution=None)})
    monkeypatch.setattr("canarybank.report.verdicts.compare", lambda *_: blind)
    shown = verdict(run)
    assert shown.tone is Tone.UNTESTED
    assert "neither too little noise nor a contribution above the clip would typically have been seen" in shown.sentence
    assert "Thresholds set for too little noise would typically show" in shown.beside[1]


def test_over_several_releases_that_show_nothing_no_size_of_violation_is_named(run, monkeypatch):
    blind = compare(run, run.results.claim).model_copy(update={"frozen_power": None, "epsilon": 0.0})
    monkeypatch.setattr("canarybank.report.verdicts.compare", lambda *_: blind)
    sentence = verdict(run).sentence
    assert sentence.startswith(
        "The claim could not be tested at this power: the trials show nothing. It is not refuted"
    )


def test_the_headline_stands_in_the_table_below_what_it_is_made_of(run, summary, printed):
    found, html, text = verdict(run), render_summary(summary), summary_markdown(summary)
    _, (*attacks, joint) = table_of(html, "attacks")
    alone, shares = ([row[index] for row in attacks] for index in (1, 2))
    assert joint[0] == "all 3 together"
    assert "The headline is the row of all 3 together. " in html
    assert joint[2] == epsilon(found.outcome.epsilon) == max(shares, key=float)
    assert all(float(share) <= float(bound) for share, bound in zip(shares, alone, strict=True))
    assert joint[2] in found.sentence
    split = f"at alpha 0.05. All 3 attacks were looked at, so each gets a share of {0.05 / 3:.4g}"
    assert all(split in shown and "all 3 together" in shown for shown in (html, text))
    assert [cells[-1] for cells in printed(run) if cells[0] == "all 3 together"] == [joint[2]]


def test_one_attack_alone_has_all_of_alpha_and_no_row_for_all(run, changed):
    summary = summarise_run(changed(attacks=run.results.attacks[:1]))
    html = render_summary(summary)
    assert [row[0] for row in table_of(html, "attacks")[1]] == ["ordinary"]
    assert not any("were looked at" in shown for shown in (html, summary_markdown(summary)))
