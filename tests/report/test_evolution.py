import csv
import re

import pytest

from canarybank.experiment import EvolutionRun
from canarybank.report import evolution_headline, render_evolution, summarise_evolution, write_evolution


@pytest.fixture(scope="module")
def page(evolved):
    return render_evolution(evolved)


def test_the_page_draws_epsilon_in_theory_exactly_and_as_observed(evolved, page):
    figure = page[page.index('id="figure-epsilon"') :]
    for name in ("theory", "exact, of the attack", "observed bound"):
        assert name in figure
    for prefix in evolved.results.audit.prefixes:
        assert f"{prefix.theory:.3f}" in figure
        assert f"{prefix.bound.epsilon:.3f}" in figure


def test_the_page_says_what_the_claim_is_conditional_on(page):
    assert "conditional on the banks that this run realised" in page


def test_figures_of_utility_are_labelled_as_not_private(page):
    worth = page[page.index('id="worth"') : page.index('id="audit"')]
    assert "not differentially private" in worth
    assert "What auditing cost" in worth


def test_an_insecure_seed_is_stamped_on_page_and_tables(evolved, page, tmp_path):
    assert "Insecure: seeded with 3" in page
    paths = write_evolution(evolved, tmp_path)
    assert [path.name for path in paths] == ["report.html", "rounds.csv", "rounds.parquet"]
    rows = list(csv.DictReader(paths[1].read_text().splitlines()))
    assert {row["insecure_seed"] for row in rows} == {"3"}
    assert [row["round"] for row in rows] == ["1", "2"]
    assert "seeded with 3" in evolution_headline(evolved.results)


def test_text_of_models_and_commands_is_only_text(page):
    assert "<script>window" not in page
    assert page.count("<script>") == 1
    assert re.search(r"&lt; \d+ &amp; more", page)


def test_the_page_asks_for_nothing_and_is_the_same_each_time(evolved, page):
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:,)""", page)
    assert render_evolution(EvolutionRun.open(evolved.folder)) == page


def test_a_run_without_audit_and_reference_has_neither_section(evolved):
    other = EvolutionRun(evolved.folder)
    bare = {"audit": None, "utility": None, "plain": None, "cost": (), "insecure_seed": None}
    other.__dict__["results"] = evolved.results.model_copy(update=bare)
    page = render_evolution(other)
    assert 'id="audit"' not in page
    assert 'id="worth"' not in page
    assert "added up" in page
    assert "Insecure" not in page
    assert summarise_evolution(other)["audit"] is None


def test_a_stopped_run_says_why(evolved):
    other = EvolutionRun(evolved.folder)
    stopped = {"stopped": "Release 2 would pass the declared budget.", "rounds": evolved.results.rounds[:1]}
    other.__dict__["results"] = evolved.results.model_copy(update={**stopped, "audit": None})
    assert "1 of 2 rounds" in evolution_headline(other.results)
    assert "Release 2 would pass" in render_evolution(other)
