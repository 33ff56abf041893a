"""Look at the page of an evolution, audited or not: one page, whose headline states the audit where there is one."""

import csv
import re

import pytest

from canarybank.config import EvolveConfig
from canarybank.report import evolution_headline, render_html, summarise_run, summary_markdown, write_report
from canarybank.run import Run

BARE = {"attacks": (), "commitment": None, "setup": None}


@pytest.fixture(scope="module")
def page(evolved):
    return render_html(evolved)


@pytest.fixture
def other(evolved):
    """Return a function that gives the evolution with other results and other facts, as if its files said so."""

    def change(facts, **update):
        run = Run(evolved.folder)
        evolution = evolved.results.evolution.model_copy(update=facts)
        run.__dict__["results"] = evolved.results.model_copy(update={"evolution": evolution, **update})
        return run

    return change


def headings(page):
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", page)


def test_the_headline_of_an_audited_evolution_states_the_audit_and_then_what_was_spent(evolved, page):
    heading = re.search(r"<h1>(.*?)</h1>", page)[1]
    assert heading == summarise_run(evolved)["verdict"]["sentence"]
    assert "by the one attack tried on 2 releases is" in heading
    assert evolution_headline(evolved.results) in page[: page.index('id="audited"')]


def test_the_page_draws_epsilon_in_theory_exactly_and_as_observed(evolved, page):
    figure = page[page.index('id="figure-rounds"') : page.index('id="worth"')]
    for name in ("theory", "exact, of the attack", "observed bound"):
        assert name in figure
    for prefix in evolved.results.attacks:
        assert f"{prefix.ladder.mechanism.epsilon:.3f}" in figure
        assert f"{prefix.headline.epsilon:.3f}" in figure


@pytest.mark.parametrize(
    ("told", "rounds", "selection"),
    [
        ({}, "2 of 2; 5% of the entries stay after each", "keeper top, parents even"),
        ({"share": (0.5, 0.25)}, "2 of 2; 50%, 25% of the entries stay after each", "keeper top, parents even"),
        ({"keep": 1200, "keeper": "votes"}, "2 of 2; 1,200 stay after each", "keeper votes, parents even"),
        (
            {"carry": False, "share": 0.1, "parents": "votes"},
            "2 of 2; 10% of the entries become parents after each, and none stays",
            "keeper top, parents votes",
        ),
    ],
)
def test_facts_say_who_stays_and_by_which_rules(other, told, rounds, selection):
    shown = dict(summarise_run(other({"evolve": EvolveConfig(rounds=2, **told)}, **BARE))["facts"])
    assert (shown["Rounds"], shown["Selection"]) == (rounds, selection)


def test_the_page_says_what_the_claim_is_conditional_on(page):
    assert "conditional on the banks that this run realised" in page


def test_figures_of_utility_are_labelled_as_not_private(page):
    worth = page[page.index('id="worth"') : page.index('id="standing"')]
    assert "not differentially private" in worth
    assert "What auditing cost" in worth


def test_an_insecure_seed_is_stamped_on_page_and_tables(evolved, page, tmp_path):
    assert "Insecure: seeded with 3" in page
    paths = {path.name: path for path in write_report(evolved, tmp_path)}
    assert list(paths) == [
        "report.html",
        "summary.md",
        "results.tex",
        "results.csv",
        "results.parquet",
        "rounds.csv",
        "rounds.parquet",
    ]
    rows = list(csv.DictReader(paths["rounds.csv"].read_text().splitlines()))
    assert {row["insecure_seed"] for row in rows} == {"3"}
    assert [row["round"] for row in rows] == ["1", "2"]
    assert "seeded with 3" in evolution_headline(evolved.results)
    assert "seeded with 3" in paths["summary.md"].read_text()


def test_every_prefix_of_every_attack_has_its_rows(evolved, tmp_path):
    paths = {path.name: path for path in write_report(evolved, tmp_path)}
    rows = list(csv.DictReader(paths["results.csv"].read_text().splitlines()))
    assert [(row["attack"], row["rounds"]) for row in rows] == [
        (attack.attack, str(attack.rounds)) for attack in evolved.results.attacks for _ in attack.canaries
    ]


def test_text_of_models_and_commands_is_only_text(page):
    assert "<script>window" not in page
    assert page.count("<script>") == 1
    assert re.search(r"&lt; \d+ &amp; more", page)


def test_the_page_asks_for_nothing_and_is_the_same_each_time(evolved, page):
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:,)""", page)
    assert render_html(Run.open(evolved.folder)) == page


def test_no_sentence_stands_twice_on_the_page(page):
    """Candidates may: one stands in the lists of several rounds, and in the lineage of several others."""
    own = re.sub(r"<section id=\"(text|lineage)\".*?</section>", "", page, flags=re.DOTALL)
    own = re.sub(r"<p class=\"swipe\" hidden>.*?</p>", "", own)  # shown where a frame is wider than the screen
    said = re.findall(r"<(?:p|li|h1)[^>]*>(.*?)</(?:p|li|h1)>", own)
    assert [each for each in set(said) if said.count(each) > 1] == []


def test_a_run_without_audit_and_reference_has_neither_section(other, tmp_path):
    run = other({"utility": None, "plain": None, "cost": (), "insecure_seed": None}, **BARE)
    page = render_html(run)
    assert headings(page) == ["What was done", "Epsilon, round by round", "The newest text", "Provenance", "Glossary"]
    assert "added up" in page
    assert "Insecure" not in page
    assert [path.name for path in write_report(run, tmp_path)] == ["report.html", "rounds.csv", "rounds.parquet"]


def test_the_page_shows_the_text_of_every_round_and_the_lineage_of_some(evolved, page):
    text = page[page.index('id="text"') : page.index('id="lineage"')]
    lineage = page[page.index('id="lineage"') : page.index('id="standing"')]
    for made in evolved.results.evolution.rounds:
        dropped = made.entries - made.probes - made.kept
        assert f"Round {made.round}: of {made.entries - made.probes} candidates {made.kept} stayed" in text
        assert f"{dropped} were dropped; {made.born} were written" in text
    assert text.count("<li>") == 12 + 2 * 3 * 5
    assert lineage.count('<div class="tree">') == 6
    assert re.search(r"r2-\d{5} · written in round 2 by the prompt continue, showing 6 candidates", lineage)
    assert re.search(r"round 1: votes [+−]\d\.\d{3}, (stayed|dropped)", lineage)


def test_the_map_holds_real_records_in_a_simulation_alone(evolved, other, page):
    drawn = page[page.index('id="clouds"') : page.index('id="text"')]
    assert drawn.count("<svg") == 1
    assert [drawn.count(f">{name}<") for name in ("first population", "after round 1", "after round 2")] == [2, 2, 2]
    assert ">held-out, real<" in drawn
    assert "Not private." in drawn
    assert "To real centre" in drawn
    stripped = other({"insecure_seed": None, "utility": None, "plain": None, "cost": ()}, **BARE)
    assert evolved.results.evolution.clouds is not None
    assert stripped.results.evolution.clouds is not None
    assert "held-out, real" not in render_html(stripped)


def test_a_stopped_run_says_why(other, evolved):
    stopped = {"stopped": "Release 2 would pass the declared budget.", "rounds": evolved.results.evolution.rounds[:1]}
    run = other(stopped, **BARE)
    assert "1 of 2 rounds" in evolution_headline(run.results)
    assert "Release 2 would pass" in render_html(run)


def test_the_summary_of_an_audited_evolution_tells_both(evolved):
    text = summary_markdown(summarise_run(evolved))
    assert evolution_headline(evolved.results) in text.replace("\\", "")
