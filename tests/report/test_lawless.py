"""Show an attack on a system that states no law: nothing is computed exactly, and every form says so."""

import math
from dataclasses import replace

import pytest

from canarybank.cli.runner import attack_rows
from canarybank.report import (
    gate_markdown,
    junit,
    latex_tables,
    render_html,
    summarise_run,
    summary_markdown,
    verdict,
    write_report,
)
from canarybank.run import compare

UNKNOWN_COLUMNS = ("Exact, attack", "Exact, rule", "Exact TPR", "5% to 95%")


@pytest.fixture
def lawless(run, changed):
    """Return the run as an audit of a system without a law would leave it: all exact figures are None."""
    nothing = dict.fromkeys(("supremum", "rule", "absent_rate", "eligible_rate", "exact"))

    def bare(attack):
        ladder = replace(attack.ladder, attack=None, rule=None, expected=None)
        canaries = tuple(replace(canary, **nothing) for canary in attack.canaries)
        return replace(attack, ladder=ladder, canaries=canaries, evidence={})

    audit = run.results.audit.model_copy(update={"system": "somebody:system"})
    return changed(attacks=tuple(map(bare, run.results.attacks)), audit=audit)


def test_the_verdict_says_that_nothing_is_computed_exactly(lawless):
    found = verdict(lawless)
    assert found.sentence.startswith("No violation detected at this power: ")
    assert found.beside[0].startswith("Nothing is computed exactly, because the audited system states no law")


def test_the_ladder_has_three_rungs_and_no_form_shows_what_nobody_computed(lawless, tmp_path):
    summary = summarise_run(lawless)
    assert [list(attack["rungs"]) for attack in summary["attacks"]] == [["accounted", "mechanism", "observed"]] * 3
    page, text, tables = render_html(lawless), summary_markdown(summary), latex_tables(summary)
    for column in UNKNOWN_COLUMNS:
        assert column not in text
        assert column not in tables
    for name in ("attacks", "data-overview", "data-canaries", "data-ladder"):
        table = page[page.index(f'<table id="{name}"') :]
        head = table[: table.index("</thead>")]
        assert not any(column in head for column in UNKNOWN_COLUMNS), name
    assert "∞" not in text
    assert 'id="evidence"' not in page
    assert "what attack and trials do not show" in page
    assert "The releases are made by the system somebody:system" in page
    assert all(path.stat().st_size for path in write_report(lawless, tmp_path))


def test_the_terminal_shows_a_dash_for_it(lawless):
    assert {cell for row in attack_rows(lawless.results, compare(lawless, 50.0)) for cell in row[1:4]} == {"-"}


def test_the_terminal_says_what_is_known_from_below_alone(run):
    first, *others = run.results.attacks
    least = {"epsilon": math.inf, "low": 1.25, "high": math.inf}
    rungs = {name: replace(getattr(first.ladder, name), **least) for name in ("attack", "rule")}
    attack = replace(first, ladder=replace(first.ladder, **rungs))
    results = run.results.model_copy(update={"attacks": (attack, *others)})
    assert attack_rows(results, compare(run, 50.0))[0][1:3] == ["at least 1.250"] * 2


def test_a_gate_shows_a_dash_for_it_and_never_zero(lawless):
    outcome = compare(lawless, 50.0)
    assert [each.is_exact_known for each in outcome.attacks] == [False] * 3
    assert gate_markdown(outcome).count("| - |") == 3
    assert "exact epsilon of the attack not known" in junit(outcome)
    assert "at least 0.000" not in gate_markdown(outcome) + junit(outcome)
