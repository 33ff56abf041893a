"""Check single fields on records made by hand, each value different, so that none can stand in another's place."""

import csv
import json
from types import SimpleNamespace

import pytest

from canarybank.audit import Target
from canarybank.audit.spread import frozen_spread
from canarybank.experiment import resolve
from canarybank.experiment.admitted import admit_users
from canarybank.experiment.config import AuditConfig, MechanismConfig
from canarybank.experiment.evolution_results import (
    EvolutionResults,
    FiguresRecord,
    MultiRoundRecord,
    PrefixRecord,
    UtilityRecord,
)
from canarybank.experiment.reproduce import Order, PaperValue, Scale
from canarybank.experiment.reproduce.ablations import _base
from canarybank.experiment.reproduce.multiround import _cell, _cohorts, _explained, _mauve
from canarybank.experiment.reproduce.piece import Cell, Span, cell
from canarybank.experiment.reproduce.recipe import arm_b
from canarybank.experiment.reproduce.tables import _published_name
from canarybank.experiment.results import (
    AttackRecord,
    BoundRecord,
    CanaryRecord,
    IntervalRecord,
    LadderRecord,
    Results,
    RungRecord,
    ThresholdRecord,
)
from canarybank.experiment.roles import chosen_attacks, draw_roles
from canarybank.experiment.stage_cache import StageCache
from canarybank.score import Interval

THEORY = (1.345, 1.540, 1.682, 1.800, 1.905, 2.000)


def rung(epsilon, low, high):
    return RungRecord(name="a step", epsilon=epsilon, low=low, high=high, source="by hand")


def bound(epsilon, confidence):
    return BoundRecord(
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
    return AttackRecord.model_construct(
        attack="nonce",
        headline=bound(0.77, 0.93),
        canaries=(CanaryRecord.model_construct(),) * 3,
        ladder=LadderRecord(
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
        mechanism=MechanismConfig(delta=2e-6),
        audit=AuditConfig(trials=4321, accounted=1.95, threshold="analytic", method="paper"),
        epsilon=1.85,
    )


def test_every_field_of_a_cell_is_of_its_own_place_in_the_record(record, results):
    paper = (PaperValue(dataset="yelp", table="main table", value=1.049),)
    found = cell(record, results, {"arm": "B", "attack": "nonce"}, paper=paper, explained=Interval(0.6, 0.9))
    assert found == Cell(
        at={"arm": "B", "attack": "nonce"},
        paper=paper,
        observed=0.77,
        exact=1.71,
        rule=1.61,
        expected=1.51,
        likely=Span(low=1.41, high=1.55),
        explained=Span(low=0.6, high=0.9),
        mechanism=1.85,
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
    found = cell(record, results, {"attack": "nonce"})
    assert (found.paper, found.explained, found.is_explained, found.explains(1.0)) == ((), None, None, None)


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("minilm", "minilm"),
        ("all-MiniLM-L6-v2", "minilm"),
        ("minilm-l12", "minilm-l12"),
        ("all-MiniLM-L12-v2", "minilm-l12"),
        ("mpnet", "mpnet"),
        ("all-mpnet-base-v2", "mpnet"),
        ("wordllama", "wordllama"),
    ],
)
def test_an_encoder_stands_beside_the_papers_encoder_of_its_name(short, name):
    assert _published_name(short) == name


def prefix(rounds, *, confidence=0.95):
    return PrefixRecord.model_construct(
        rounds=rounds,
        theory=2.2,
        accounted=2.3,
        exact=1.4,
        exact_interval=IntervalRecord(lower=1.35, upper=1.45),
        threshold=ThresholdRecord(value=3.0, mode="analytic", expected=0.1),
        rule=IntervalRecord(lower=1.2, upper=1.25),
        absent_rate=IntervalRecord(lower=0.0010, upper=0.0012),
        eligible_rate=IntervalRecord(lower=0.0030, upper=0.0034),
        expected=0.8,
        expected_low=0.7,
        expected_high=0.9,
        bound=bound(0.85, confidence),
    )


def multi(method="paper"):
    return MultiRoundRecord.model_construct(method=method, trials=50_000, alpha=0.2)


def evolved(mauves=(), **mechanism):
    given = {"sigma": 1.1088, "q": 0.1, "delta": 1e-5} | mechanism
    figures = tuple(FiguresRecord.model_construct(after=after, mauve=mauve) for after, mauve in mauves)
    utility = UtilityRecord.model_construct(figures=figures) if mauves else None
    return EvolutionResults.model_construct(mechanism=MechanismConfig(**given), utility=utility)


def test_every_field_of_a_prefix_cell_is_of_its_own_place_in_the_record():
    found = _cell(prefix(2), multi(), evolved([(0, 0.31), (1, 0.32), (2, 0.33), (3, 0.34)]))
    assert found == Cell(
        at={"rounds": 2},
        observed=0.85,
        exact=1.4,
        rule=1.2,
        expected=0.8,
        likely=Span(low=0.7, high=0.9),
        explained=_explained(prefix(2), multi(), 1e-5),
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
    found = [_cell(prefix(rounds), multi(), evolved()) for rounds in range(1, 8)]
    assert [each.accounted for each in found] == [*THEORY, 2.3]
    assert [each.more.get("paper theory") for each in found] == [*THEORY, None]


@pytest.mark.parametrize("other", [{"sigma": 1.0}, {"q": 0.2}, {"delta": 1e-6}])
def test_another_mechanism_has_not_the_papers_theory(other):
    found = _cell(prefix(2), multi(), evolved(**other))
    assert found.accounted == 2.3
    assert found.more == {"theory": 2.2}
    assert found.delta == other.get("delta", 1e-5)


@pytest.mark.parametrize("method", ["paper", "clopper-pearson"])
def test_sampling_of_a_prefix_is_at_its_own_rates_and_at_the_level_of_its_bound(method):
    found = _explained(prefix(2, confidence=0.9), multi(method), 1e-5)
    direct = frozen_spread([(0.0032, 0.0011)], Target(50_000, 1e-5, 0.1, method))
    assert (found.low, found.high) == pytest.approx((direct.lower, direct.upper), abs=1e-9)
    stricter = _explained(prefix(2, confidence=0.98), multi(method), 1e-5)
    assert stricter.low < found.low - 0.01
    assert stricter.high < found.high - 0.01


def test_mauve_is_that_of_the_population_after_so_many_rounds():
    results = evolved([(0, 0.31), (1, 0.32), (2, None)])
    assert [_mauve(results, rounds) for rounds in range(4)] == [{"mauve": 0.31}, {"mauve": 0.32}, {}, {}]
    assert _mauve(evolved(), 1) == {}


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
def test_users_are_shared_out_as_the_paper_does_up_to_eight_thousand_eligible(users, given, shares, monkeypatch):
    people = SimpleNamespace(users=range(users))
    monkeypatch.setattr("canarybank.experiment.reproduce.multiround.admit_users", lambda *_: people)
    base = resolve(flags={"cohorts.canaries": 3, **given})
    reference, cohort, eligible = shares
    assert _cohorts(base, SimpleNamespace(cache=None, progress=None)) == {
        "evolve.reference": reference,
        "cohorts.auxiliary": cohort,
        "cohorts.calibration": cohort,
        "cohorts.evaluation": eligible,
    }


@pytest.fixture
def bare(tmp_path):
    """Return a function that places an order in which nothing is given but its flags."""

    def place(flags=None, **more):
        return Order(resolve(flags=flags or {}), tmp_path / "rep", **more)

    return place


def test_ablations_are_by_one_canary_and_five_million_trials_without_a_claim(bare, world):
    own = _base(bare()).config
    assert (own.audit.trials, own.cohorts.canaries, own.audit.accounted) == (5_000_000, 1, None)
    assert own.attack.names == ("ordinary", "exact", "paraphrase-mueff", "nonce-norm")
    assert (own.mechanism.sigma, own.mechanism.q, own.audit.method) == (1.0, 0.1, "paper")
    files = {"data": str(world / "users.csv"), "bank": str(world / "bank.csv")}
    assert _base(bare(**files)).config.attack.names == ("ordinary", "exact", "nonce-norm")
    written = _base(bare({"generator.kind": "smollm2"}, **files)).config
    assert written.attack.names == ("ordinary", "exact", "paraphrase-mueff", "nonce-norm")
    assert (written.audit.trials, written.cohorts.canaries) == (5_000_000, 1)


def test_small_ablations_have_fewer_trials_and_still_one_canary(bare):
    own = _base(bare(scale=Scale.SMALL)).config
    assert (own.audit.trials, own.cohorts.canaries, own.audit.accounted) == (50_000, 1, None)


def test_the_examples_of_arm_b_are_texts_of_users_who_play_no_role(bare, world, tmp_path):
    flags = {
        "generator.kind": "smollm2",
        "bank.labels": ("a day out",),
        "attack.names": ("ordinary", "exact"),
        "cohorts.auxiliary": 4,
        "cohorts.calibration": 4,
        "cohorts.evaluation": 8,
        "cohorts.canaries": 2,
    }
    config = arm_b(bare(flags, data=str(world / "users.csv"))).config
    users = admit_users(config.users, config.cohorts, StageCache()).users
    roles = draw_roles(config.cohorts, users, chosen_attacks(config)[0])
    playing = [set(each.users.ids) for each in (roles.auxiliary, roles.calibration, roles.evaluation)]
    playing += [set(each.ids) for each in roles.canaries.values()]
    assert [len(each) for each in playing] == [4, 4, 8, 2, 2]
    with (world / "users.csv").open(newline="") as file:
        owners = {row["text"]: row["user"] for row in csv.DictReader(file)}
    assert len(owners) == 240  # no text is of two users
    lines = (tmp_path / "rep" / "examples.jsonl").read_text().splitlines()
    shown = [owners[json.loads(line)["text"]] for line in lines]
    assert sorted(shown) == sorted(set(users.ids).difference(*playing))
    assert len(shown) == 10
