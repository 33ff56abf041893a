"""Check each field of a cell, each note, and what intervals are computed from: which law, at which level, over whom."""

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

from canarybank.auditing import (
    AttackResult,
    Bound,
    CanaryResult,
    Ladder,
    Rung,
    Target,
    best_threshold,
    calibrated_spread,
    find_method,
    frozen_spread,
)
from canarybank.config import AuditConfig, resolve
from canarybank.flow import Point
from canarybank.flow.audit import one_release
from canarybank.mechanism import Mechanism
from canarybank.paper import Cell, PaperValue, Span
from canarybank.paper.runs import attack_cell, kept_spreads, paper_notes
from canarybank.run import Results
from canarybank.score import Interval, RoundLaw

PERFECT = RoundLaw.perfect(Mechanism())
POINTS = np.linspace(-2.0, 4.0, 25)


def partly(kind, **known):
    """Return a value of which only this is known."""
    return kind(**{field.name: None for field in fields(kind)} | known)


def around(tpr, fpr):
    """Return a canary whose true rates lie in the middle of these intervals."""
    rates = {"eligible_rate": Interval(tpr - 1e-6, tpr + 1e-6), "absent_rate": Interval(fpr - 2e-7, fpr + 2e-7)}
    return partly(CanaryResult, **rates)


def run_of(commitment, *attacks):
    records = tuple(
        partly(AttackResult, attack=name, canaries=tuple(around(*pair) for pair in pairs)) for name, pairs in attacks
    )
    return SimpleNamespace(results=Results.model_construct(commitment=commitment, attacks=records))


ANALYTIC = {"audit.threshold": "analytic", "audit.trials": 40_000, "audit.alpha": 0.04, "mechanism.delta": 1e-6}
FAINT, PLAIN = (0.004, 0.002), (0.02, 0.004)


def test_frozen_intervals_are_over_all_canaries_each_at_its_share_of_alpha(tmp_path):
    settings = resolve(flags=ANALYTIC)
    run = run_of("one", ("nonce", [FAINT, PLAIN]), ("exact", [FAINT]))
    found = kept_spreads(run, settings, tmp_path / "kept.json")
    assert list(found) == ["nonce", "exact"]
    both = frozen_spread([FAINT, PLAIN], Target(40_000, 1e-6, 0.02))
    alone = frozen_spread([FAINT], Target(40_000, 1e-6, 0.04))
    for name, direct in (("nonce", both), ("exact", alone)):
        assert (found[name].lower, found[name].upper) == pytest.approx((direct.lower, direct.upper), abs=1e-6)
    unsplit = frozen_spread([FAINT, PLAIN], Target(40_000, 1e-6, 0.04))
    assert unsplit.lower > both.lower + 0.01
    assert both.lower > alone.upper


def test_an_interval_kept_of_another_run_is_computed_again_and_of_the_same_is_not(tmp_path):
    settings, kept = resolve(flags=ANALYTIC), tmp_path / "kept.json"
    first = kept_spreads(run_of("one", ("nonce", [PLAIN])), settings, kept)
    assert kept_spreads(run_of("one", ("nonce", [FAINT])), settings, kept) == first
    other = kept_spreads(run_of("two", ("nonce", [FAINT])), settings, kept)
    assert other["nonce"].upper < first["nonce"].lower
    assert kept_spreads(run_of("two", ("nonce", [PLAIN])), settings, kept) == other


def laws(case, work):
    """Return the naive twins of a case's two laws: calibration users repeated one by one, evaluation users as is."""
    (design,), (routes,), mechanism = case.designs, work.routes, work.designs.mechanism
    copies, rest = divmod(work.auditor.eligible, len(routes.calibration))
    assert rest == 0, "choose cohorts so that no remainder is drawn"
    calibrating = routes.calibration.contributions(design.bank, mechanism).toarray()[:, design.inspected]
    evaluated = routes.evaluation.contributions(design.bank, mechanism).toarray()[:, design.inspected]
    return [
        RoundLaw.of(design.score, rows, design.contribution, mechanism)
        for rows in (np.concatenate([calibrating] * copies), evaluated)
    ]


def test_calibrated_intervals_calibrate_by_the_calibration_users_and_evaluate_by_the_evaluation_users(flags, tmp_path):
    cohorts = {"cohorts.auxiliary": 6, "cohorts.calibration": 5, "cohorts.evaluation": 10}
    settings = resolve(flags=flags | cohorts | {"audit.alpha": 0.04, "audit.trials": 2500, "run.seed": 5})
    names, ready = ("ordinary", "nonce-norm"), one_release(settings.config)
    found = kept_spreads(run_of("one", *((name, []) for name in names)), settings, tmp_path / "kept.json")
    target = Target(2500, 1e-5, 0.02, find_method("paper"), 2, 0.1)
    for name in names:
        twins = [laws(case, ready) for case in ready.cases if case.attack.name == name]
        calibrating, evaluating = zip(*twins, strict=True)
        direct = calibrated_spread(calibrating, evaluating, target, number=2500, seed=5)
        assert (found[name].lower, found[name].upper) == pytest.approx((direct.lower, direct.upper), abs=1e-3)
        if name == "ordinary":
            exchanged = calibrated_spread(evaluating, calibrating, target, number=2500, seed=5)
            assert abs(exchanged.upper - direct.upper) > 5e-3


def test_thresholds_are_drawn_by_the_law_that_calibrates_and_rated_by_the_law_that_evaluates():
    # By so many calibration trials a threshold is nearly the best one, so its interval is that of a frozen threshold,
    # but for what the few draws add to both ends.
    target = Target(200_000, 1e-5, 0.02)
    moved = RoundLaw(np.empty(0), PERFECT.noise, PERFECT.shift, PERFECT.offset + 0.5, PERFECT.q)
    found = {}
    for name, (by, on) in {"moved": (moved, PERFECT), "back": (PERFECT, moved)}.items():
        found[name] = calibrated_spread([by], [on], target, number=10**9, seed=0, level=0.9, replicates=120)
        threshold, _ = best_threshold(by.point, target)
        fpr, tpr = on.point(np.array([threshold]))
        direct = frozen_spread([(float(tpr[0]), float(fpr[0]))], target, level=0.9)
        assert found[name].lower == pytest.approx(direct.lower, abs=0.07)
        assert found[name].upper == pytest.approx(direct.upper, abs=0.07)
    assert abs(found["moved"].upper - found["back"].upper) > 0.2


def test_an_altered_interval_is_computed_again_and_a_broken_file_fails_no_run(tmp_path):
    settings, kept = resolve(flags=ANALYTIC), tmp_path / "kept.json"
    run = run_of("one", ("nonce", [PLAIN]))
    first = kept_spreads(run, settings, kept)
    whole = kept.read_text()
    digit = next(at for at, sign in enumerate(whole) if sign == "." and whole[at + 1].isdigit()) + 1
    other = whole[:digit] + str((int(whole[digit]) + 1) % 10) + whole[digit + 1 :]
    for broken in (other, whole[:-9], "", "[]", "{}", "\x00" * 50):
        kept.write_text(broken)
        assert kept_spreads(run, settings, kept) == first
        assert kept.read_text() == whole


def rung(epsilon, low, high):
    return Rung(name="a step", epsilon=epsilon, low=low, high=high, source="by hand")


def bound(epsilon, confidence):
    return Bound(
        epsilon=epsilon,
        method="joint",
        assumption="none",
        confidence=confidence,
        delta=0.5,
        trials=(11, 12),
        counts=(3, 4),
        branch="forward",
    )


@pytest.fixture
def record():
    """Return an attack in whose ladder no two numbers are alike."""
    return partly(
        AttackResult,
        attack="nonce",
        headline=bound(0.77, 0.93),
        canaries=(partly(CanaryResult),) * 3,
        ladder=Ladder(
            accounted=rung(1.91, 1.92, 1.93),
            mechanism=rung(1.81, 1.82, 1.83),
            attack=rung(1.71, 1.7098, 1.7102),
            rule=rung(1.61, 1.6098, 1.6102),
            expected=rung(1.51, 1.41, 1.55),
            observed=rung(1.31, 1.32, 1.33),
        ),
    )


@pytest.fixture
def results():
    return Results.model_construct(
        mechanism=Mechanism(delta=2e-6),
        audit=AuditConfig(trials=4321, accounted=1.95, threshold="analytic", method="paper"),
        epsilon=1.85,
    )


def test_every_field_of_a_cell_is_of_its_own_place_in_the_record(record, results):
    paper = (PaperValue(dataset="yelp", table="main table", value=1.049),)
    found = attack_cell(record, results, {"arm": "B"}, paper=paper, explained=Interval(0.6, 0.9))
    assert found == Cell(
        at={"arm": "B", "attack": "nonce"},
        paper=paper,
        observed=0.77,
        exact=1.71,
        rule=1.61,
        expected=1.51,
        likely=Span(low=1.41, high=1.55),
        explained=Span(low=0.6, high=0.9),
        mechanism=1.81,
        accounted=1.95,
        method="joint",
        confidence=0.93,
        trials=4321,
        canaries=3,
        threshold="analytic",
        delta=2e-6,
        more={},
    )


def test_a_cell_without_paper_or_interval_says_nothing_of_them(record, results):
    found = attack_cell(record, results, {})
    assert (found.paper, found.explained, found.is_explained, found.explains(1.0)) == ((), None, None, None)


@pytest.fixture
def noted(finished):
    """Return a function that gives the notes on the run as if it had these settings, this setup and these trials."""

    def notes(flags, trials=1_000_000, by_encoder=False, **setup):
        found = finished.results.setup.model_copy(update=setup)
        run = SimpleNamespace(results=finished.results.model_copy(update={"setup": found}))
        return paper_notes(Point("run", resolve(flags=flags), run=run), trials=trials, by_encoder=by_encoder)

    return notes


@pytest.mark.parametrize(
    ("names", "is_told"),
    [(("ordinary", "nonce-norm"), False), (("nonce", "nonce-norm"), True), (("all",), True), (("ordinary",), False)],
)
def test_notes_tell_that_nonce_attacks_share_their_canaries(noted, names, is_told):
    assert any("same nonce canaries" in note for note in noted({"attack.names": names})) is is_told


def test_notes_tell_trials_and_encoder_that_are_not_the_papers(noted):
    flags = {"audit.trials": 50_000}
    told = noted(flags)
    assert "Trials are 50,000 of each hypothesis of each canary; the paper has 1,000,000." in told
    assert "The encoder is hashing; the paper's is MiniLM-L6." in told
    assert any("5,000,000" in note for note in noted(flags, trials=5_000_000))
    for name in ("minilm", "/models/all-MiniLM-L6-v2"):
        same = noted(flags, trials=50_000, encoder=name)
        assert not any("encoder" in note or "Trials" in note for note in same)
    assert any("minilm-l12" in note for note in noted(flags, encoder="minilm-l12"))
    assert not any("minilm-l12" in note for note in noted(flags, encoder="minilm-l12", by_encoder=True))
