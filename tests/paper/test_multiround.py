from dataclasses import fields
from types import SimpleNamespace

import pytest

from canarybank.auditing import (
    AttackResult,
    Bound,
    CanaryResult,
    Ladder,
    Rung,
    Target,
    Threshold,
    find_method,
    frozen_spread,
)
from canarybank.config import AuditConfig, resolve
from canarybank.errors import ConfigError
from canarybank.mechanism import Mechanism, epsilon
from canarybank.paper import Cell, Span, make_piece
from canarybank.paper.pieces import cohort_shares, prefix_cell
from canarybank.run import EvolutionFacts, Results, Run
from canarybank.score import Interval

BAND = 0.0103
"""What the paper's accountant states above the exact epsilon."""
EVOLVING = {
    "generator.kind": "scripted_answers:write",
    "attack.names": "nonce-norm",
    "cohorts.canaries": 1,
    "evolve.near": 1.0,
    "evolve.share": 0.5,
    "evolve.mauve": False,
    "audit.trials": 2000,
}


@pytest.mark.usefixtures("scripted")
def test_every_prefix_is_a_cell_with_theory_exact_and_observed(order):
    asked = order(flags=EVOLVING, rounds=2)
    piece = make_piece("multiround", asked)
    assert [cell.at["rounds"] for cell in piece.cells] == [1, 2]
    assert [cell.accounted - cell.mechanism for cell in piece.cells] == pytest.approx([BAND] * 2, abs=1e-3)
    assert [round(cell.mechanism, 4) for cell in piece.cells] == [1.3347, 1.5299]
    assert all(cell.exact <= cell.mechanism + 1e-6 and cell.is_explained for cell in piece.cells)
    assert any("the paper has 8,000" in note for note in piece.notes)
    assert any("There are 2 releases" in note for note in piece.notes)
    assert "Trials are 2,000 of each hypothesis of each canary; the paper has 5,000,000." in piece.notes
    assert "The encoder is hashing; the paper's is MiniLM-L6." in piece.notes
    first, *_, last = Run.open(asked.folder / "multiround").results.evolution.utility.figures
    went = f"recall (held-out texts that lie among candidates) from {first.recall:.3f} to {last.recall:.3f}."
    assert any(f"went from {first.precision:.3f} to {last.precision:.3f}" in n and went in n for n in piece.notes)
    before = (asked.folder / "multiround.json").read_bytes()
    assert make_piece("multiround", asked) == piece
    assert (asked.folder / "multiround.json").read_bytes() == before


def test_it_needs_a_generator(order):
    with pytest.raises(ConfigError, match="generator"):
        make_piece("multiround", order())


def partly(kind, **known):
    """Return a value of which only this is known."""
    return kind(**{field.name: None for field in fields(kind)} | known)


def rung(epsilon, low=None, high=None):
    return partly(Rung, epsilon=epsilon, low=epsilon if low is None else low, high=epsilon if high is None else high)


def prefix(rounds, *, confidence=0.95):
    bound = partly(Bound, epsilon=0.85, confidence=confidence, method="paper")
    canary = partly(
        CanaryResult,
        exact=1.4,
        threshold=Threshold(3.0, "analytic", 0.1),
        absent_rate=Interval(0.0010, 0.0012),
        eligible_rate=Interval(0.0030, 0.0034),
        bound=bound,
    )
    ladder = Ladder(rung(2.3), rung(2.2), rung(1.4, 1.35, 1.45), rung(1.2), rung(0.8, 0.7, 0.9), rung(0.85))
    known = {"attack": "nonce", "headline": bound, "headline_canary": 0, "canaries": (canary,), "ladder": ladder}
    return partly(AttackResult, rounds=rounds, **known)


def evolved(mauves=(), method="paper", **mechanism):
    given = {"sigma": 1.1088, "q": 0.1, "delta": 1e-5} | mechanism
    figures = tuple(SimpleNamespace(round=after, mauve=mauve) for after, mauve in mauves)
    evolution = EvolutionFacts.model_construct(utility=SimpleNamespace(figures=figures) if mauves else None)
    audit = AuditConfig(method=method, trials=50_000, alpha=0.2, threshold="analytic")
    return Results.model_construct(mechanism=Mechanism(**given), audit=audit, epsilon=2.2, evolution=evolution)


def test_every_field_of_a_prefix_cell_is_of_its_own_place_in_the_record():
    found = prefix_cell(prefix(2), evolved([(0, 0.31), (1, 0.32), (2, 0.33), (3, 0.34)]))
    assert found == Cell(
        at={"rounds": 2},
        observed=0.85,
        exact=1.4,
        rule=1.2,
        expected=0.8,
        likely=Span(low=0.7, high=0.9),
        explained=found.explained,
        mechanism=2.2,
        accounted=1.540,
        method="paper",
        confidence=0.95,
        trials=50_000,
        canaries=1,
        threshold="analytic",
        delta=1e-5,
        more={"theory": 2.2, "mauve": 0.33, "paper theory": 1.540},
    )


def test_each_release_of_the_papers_mechanism_has_the_papers_theory():
    found = [prefix_cell(prefix(rounds), evolved()) for rounds in range(1, 8)]
    *stated, beyond = (each.more.get("paper theory") for each in found)
    exact = [epsilon(Mechanism(sigma=1.1088), rounds) for rounds in range(1, 7)]
    assert stated == pytest.approx([value + BAND for value in exact], abs=1e-3)
    assert beyond is None
    assert [each.accounted for each in found] == [*stated, 2.3]


@pytest.mark.parametrize("other", [{"sigma": 1.0}, {"q": 0.2}, {"delta": 1e-6}])
def test_another_mechanism_has_not_the_papers_theory(other):
    found = prefix_cell(prefix(2), evolved(**other))
    assert found.accounted == 2.3
    assert found.more == {"theory": 2.2}
    assert found.delta == other.get("delta", 1e-5)


@pytest.mark.parametrize("method", ["paper", "clopper-pearson"])
def test_sampling_of_a_prefix_is_at_its_own_rates_and_at_the_level_of_its_bound(method):
    found = prefix_cell(prefix(2, confidence=0.9), evolved(method=method)).explained
    direct = frozen_spread([(0.0032, 0.0011)], Target(50_000, 1e-5, 0.1, find_method(method)))
    assert (found.low, found.high) == pytest.approx((direct.lower, direct.upper), abs=1e-9)
    stricter = prefix_cell(prefix(2, confidence=0.98), evolved(method=method)).explained
    assert stricter.low < found.low - 0.01
    assert stricter.high < found.high - 0.01


def test_mauve_is_that_of_the_population_after_so_many_rounds():
    results = evolved([(0, 0.31), (1, 0.32), (2, None)])
    assert [prefix_cell(prefix(rounds), results).more.get("mauve") for rounds in (1, 2, 3)] == [
        0.32,
        None,
        None,
    ]
    assert "mauve" not in prefix_cell(prefix(1), evolved()).more


@pytest.mark.parametrize(
    ("users", "given", "shares"),
    [
        (20_000, {}, (500, 500, 8000)),
        (5044, {}, (500, 500, 3541)),
        (107, {}, (10, 23, 48)),
        (5044, {"cohorts.auxiliary": 300}, (500, 300, 3941)),
        (250, {"cohorts.auxiliary": 60, "cohorts.calibration": 60, "cohorts.evaluation": 120}, (7, 60, 120)),
    ],
)
def test_users_are_shared_out_as_the_paper_does_up_to_eight_thousand_eligible(users, given, shares):
    config = resolve(flags={"cohorts.canaries": 3, **given}).config
    reference, cohort, eligible = shares
    assert cohort_shares(config.cohorts, users) == {
        "evolve.reference": reference,
        "cohorts.auxiliary": cohort,
        "cohorts.calibration": cohort,
        "cohorts.evaluation": eligible,
    }
