"""Report the audit of somebody else's system: what its runs showed, and nothing more."""

import csv
import re
from dataclasses import replace

import polars as pl
import pytest
from shown_pages import text_of

from canarybank.auditing import Evidence, claimed_curve
from canarybank.auditing.declaration import Scoring
from canarybank.mechanism import attained_epsilon
from canarybank.report import PAGE, render_html, summarise_system, system_markdown, write_report
from canarybank.report.system import _judged
from canarybank.store import hash_file

STATED = ("violated", "other", "stands", "several", "rounds", "early", "leak", "false", "replace")


def epsilon(value):
    return f"{value:.3f}" if value >= 1 else f"{value:#.4g}"


def rules_of(run, folder):
    """Return a row of the table for each rule that was counted."""
    return pl.read_parquet(write_report(run, folder)[3]).to_dicts()


@pytest.mark.parametrize("name", STATED)
def test_a_report_has_page_summary_and_tables_the_same_to_the_byte(systems, tmp_path, name):
    first, second = (write_report(systems[name], tmp_path / place) for place in "ab")
    assert [path.name for path in first] == [PAGE, "summary.md", "results.csv", "results.parquet"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("name", "tone", "begins"),
    [
        ("violated", "refuted", "Violation detected: "),
        ("other", "refuted", "The claim is refuted: "),
        ("stands", "stands", "No violation detected at this power: "),
        ("several", "stands", "No violation detected at this power: "),
        ("rounds", "stands", "No violation detected at this power: "),
        ("replace", "untested", "The claim could not be tested at this power: "),
        ("early", "refuted", "Violation detected: "),
        ("false", "refuted", "The claim is too small: "),
        ("dependent", "untested", "No bound is stated: "),
    ],
)
def test_the_verdict_comes_first_and_names_the_claim(systems, name, tone, begins):
    summary = summarise_system(systems[name])
    verdict, claim = summary["verdict"], systems[name].system_results.found.claim
    assert (verdict["tone"], verdict["sentence"][: len(begins)]) == (tone, begins)
    assert str(claim) in " ".join(verdict["beside"])
    page = render_html(systems[name])
    assert page.index("<h1>") < page.index("<h2")
    assert text_of(page).count(str(claim)) >= 2


def test_a_violation_is_stated_in_the_numbers_of_the_results(systems):
    found = systems["violated"].system_results.found
    sentence = summarise_system(systems["violated"])["verdict"]["sentence"]
    assert f"an epsilon of at least {epsilon(found.epsilon)} (" in sentence
    assert f"above the claimed {epsilon(found.claim.epsilon)}, with 95% confidence over all evidence" in sentence
    assert found.epsilon > found.claim.epsilon


def test_a_curve_that_is_left_refutes_the_mechanism_and_no_epsilon(systems):
    """Nothing is named a fault that the evidence does not carry."""
    found, verdict = systems["other"].system_results.found, summarise_system(systems["other"])["verdict"]
    test = next(each.curve for each in found.shown if each.curve is not None)
    assert "is not the mechanism that is claimed" in verdict["sentence"]
    assert f"at most {test.allowed:.1%}" in verdict["sentence"]
    assert "That is no bound on epsilon" in " ".join(verdict["beside"])
    assert found.epsilon < found.claim.epsilon
    assert "Violation detected" not in system_markdown(summarise_system(systems["other"]))


def test_the_page_takes_the_test_that_the_terminal_takes_and_names_its_score(systems):
    found, plant = systems["other"].system_results.found, systems["other"].plant
    shown = next(each for each in found.shown if each.curve is not None)
    weak = replace(shown, curve=replace(shown.curve, p_value=0.01, rate=0.123))
    strong = replace(shown, score=Scoring.LENGTH, curve=replace(shown.curve, p_value=1e-9, rate=0.987))
    for order in ((weak, strong), (strong, weak)):
        several = replace(found, shown=order)
        assert several.strongest is strong
        sentence = _judged(several, "It", plant)[1]
        assert f'By the {strong.score} score a rule says "present" in at least 98.7% of runs' in sentence


def test_bets_that_refute_the_claimed_epsilon_itself_are_a_verdict_of_their_own(systems):
    found, plant = systems["other"].system_results.found, systems["other"].plant
    bet = next(each for each in found.shown if each.betting is not None)
    alone = replace(found, shown=(replace(bet, refuted=True, epsilon=found.claim.epsilon),))
    _, sentence, beside = _judged(alone, "It", plant)
    assert sentence.startswith(f"The claim is refuted: the {bet.score} score and its betting refute that epsilon is")
    assert "no bound" not in " ".join(beside)


def test_where_runs_depend_on_each_other_no_form_states_a_bound(systems, tmp_path):
    run = systems["dependent"]
    paths = write_report(run, tmp_path)
    assert [path.name for path in paths] == [PAGE, "summary.md"]
    page, text = text_of(paths[0].read_text().partition('<section id="glossary"')[0]), paths[1].read_text()
    for shown in (page, text):
        assert "No bound is stated" in shown
        assert "The system restarts its generator" in shown
        assert not re.search(r"epsilon (>=|\\>=|at least)|lower bound|TPR|wealth", shown)
    html = paths[0].read_text()
    assert "<svg" not in html
    assert all(f'id="{part}"' not in html for part in ("ladder", "evidence", "betting"))
    assert "No bound is stated" in page[: page.index("What was audited")]


@pytest.mark.parametrize("name", STATED)
def test_every_kind_of_evidence_is_shown_with_all_that_it_says(systems, name):
    run = systems[name]
    shown, page, markdown = run.system_results.found.shown, text_of(render_html(run)), write_markdown(run)
    assert shown
    for each in shown:
        assert each.assumption in page
        assert each.power in page
        assert f"{each.score} score, {each.evidence}" in page
        cells = [str(each.score), str(each.evidence), each.refutes, "refuted" if each.refuted else "not refuted"]
        cells += ["—" if each.epsilon is None else epsilon(each.epsilon), f"{each.alpha:.4g}"]
        assert " ".join(cells) in page or " ".join(cell for cell in cells if cell != "—") in page
        assert f"| {each.score} | {each.evidence} |" in markdown


def write_markdown(run):
    return system_markdown(summarise_system(run))


@pytest.mark.parametrize("name", ["other", "stands", "several", "rounds", "leak"])
def test_the_curve_refutes_where_the_lower_right_corner_of_a_box_lies_above_it(systems, tmp_path, name):
    run = systems[name]
    curve, rules = claimed_curve(run.system_results.found.claim), rules_of(run, tmp_path)
    for shown in run.system_results.found.shown:
        if shown.evidence is Evidence.CURVE:
            own = [each for each in rules if (each["score"], each["evidence"]) == (shown.score, shown.evidence)]
            corners = [(each["fpr_upper"], each["tpr_lower"]) for each in own]
            assert corners
            assert shown.refuted == any(tpr > curve.allowed(fpr) for fpr, tpr in corners)


@pytest.mark.parametrize("name", STATED)
def test_each_rule_is_a_box_in_both_figures(systems, tmp_path, name):
    run = systems[name]
    page, rules = render_html(run), rules_of(run, tmp_path)
    assert all(each["fpr_lower"] <= each["fp"] / each["n0"] <= each["fpr_upper"] for each in rules)
    assert all(each["tpr_lower"] <= each["tp"] / each["n1"] <= each["tpr_upper"] for each in rules)
    for key in ("rates", "small"):
        figure = page[page.index(f'id="figure-{key}"') :]
        figure = figure[: figure.index("</svg>")]
        named = run.system_results.found.claim.mechanism is not None and name != "replace"
        assert (">claimed curve<" in figure) == named
        assert ">claimed epsilon<" in figure


@pytest.mark.parametrize("name", STATED)
def test_the_ladder_goes_from_the_claim_over_its_mechanism_to_each_bound(systems, name):
    found, rungs = systems[name].system_results.found, summarise_system(systems[name])["rungs"]
    claim = found.claim
    known = claim.mechanism is not None and claim.neighbours == "add-remove"
    exact = [attained_epsilon(claim.mechanism, claim.rounds)] if known else []
    bounds = [each.epsilon for each in found.shown if each.epsilon is not None]
    assert [rung["epsilon"] for rung in rungs] == [claim.epsilon, *exact, *bounds]


def test_betting_shows_its_wealth_and_the_pair_at_which_it_crossed(systems):
    run = systems["early"]
    (bet,) = [each.betting for each in run.system_results.found.shown if each.betting]
    (row,) = summarise_system(run)["betting"]
    assert row[4] == f"{bet.pair:,}"
    assert row[5] == f"{bet.pairs:,}"
    assert float(row[2]) >= float(row[3]) * 0.99  # as rounded
    page = text_of(render_html(run))
    assert "Wealth at the end" in page
    (row,) = summarise_system(systems["other"])["betting"]
    assert row[4] == "—"


def test_what_was_stopped_early_or_lost_is_said(systems):
    run = systems["early"]
    found, page = run.system_results.found, text_of(render_html(run))
    assert found.judged < run.plant.trials
    assert f"Stopped early: {found.judged:,} of 1,000 declared runs" in page
    assert "Bound would need all declared runs, so nothing is said by them" in page
    assert found.lost
    assert f"{found.lost:,} of {found.runs:,} runs were lost" in page
    assert {str(each.evidence) for each in found.shown} == {"betting"}
    assert "Stopped early" not in render_html(systems["stands"])


def test_leaks_of_the_length_are_said_where_there_are_any(systems):
    leaks = systems["leak"].system_results.found.leaks
    assert leaks
    page = text_of(render_html(systems["leak"]))
    assert all(leak.statement in page for leak in leaks)
    assert 'id="leaks"' not in render_html(systems["stands"])


@pytest.mark.parametrize("name", [*STATED, "dependent"])
def test_provenance_holds_the_hash_of_every_document(systems, name):
    run = systems[name]
    page, results = text_of(render_html(run)), run.system_results
    for digest in (results.commitment, results.releases, results.sealed, hash_file(run.folder / "results.json")):
        assert digest in page
        assert digest in write_markdown(run)
    assert run.manifest.canarybank in page


@pytest.mark.parametrize("name", STATED)
def test_the_tables_hold_every_count(systems, tmp_path, name):
    run = systems[name]
    _, _, flat, parquet = write_report(run, tmp_path)
    rows, frame = list(csv.DictReader(flat.read_text().splitlines())), pl.read_parquet(parquet)
    shown = run.system_results.found.shown
    counts = [each for one in shown for each in one.counts]
    assert [(int(row["tp"]), int(row["fp"]), int(row["n1"]), int(row["n0"])) for row in rows] == [
        (each.tp, each.fp, each.n1, each.n0) for each in counts
    ]
    assert frame.height == len(rows)
    assert frame["claimed"].to_list() == [run.system_results.found.claim.epsilon] * len(rows)
    assert frame["refuted"].to_list() == [each.refuted for each in shown for _ in each.counts]
    assert (frame["tpr_lower"] <= frame["tp"] / frame["n1"]).all()


@pytest.mark.parametrize("name", [*STATED, "dependent"])
def test_no_name_breaks_out_of_the_page_or_the_summary(systems, name, hostile):
    page, text = render_html(systems[name]), write_markdown(systems[name])
    assert hostile not in page
    assert page.count("<script") == 1
    assert "<img" not in page
    assert "\u202e" not in page
    assert not re.search(r"(?<!\\)<", text)
