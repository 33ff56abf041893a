import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from canarybank.attack import ATTACKS, Canary, Pool, design
from canarybank.auditing import Auditor, Case, Settings, evidence, route_cohorts
from canarybank.auditing.evidence import density_evidence, map_evidence, roc_evidence, vote_evidence
from canarybank.mechanism import Bank, Mechanism, Routed, route
from canarybank.score import RoundLaw
from canarybank.users import Auxiliary, Calibration, Cohorts, Evaluation, Users

DIMENSION, RECORDS = 16, 10
MECHANISM = Mechanism(k=3)
LONG = "x" * 10_000


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def people(rng, name, count):
    vectors = unit(rng.normal(size=(count * RECORDS, DIMENSION)) + 0.8)
    owners = np.repeat(np.arange(count), RECORDS)
    return Users(tuple(f"{name}-{i}" for i in range(count)), owners, vectors=vectors)


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(7)
    vectors = unit(rng.normal(size=(150, DIMENSION)) + 0.8)
    texts = tuple(LONG if i % 2 else f"entry {i} \ud800" for i in range(150))
    bank = Bank(vectors, texts).reserve(RECORDS, seed=2)
    cohorts = Cohorts(
        Auxiliary(people(rng, "aux", 12)), Calibration(people(rng, "cal", 12)), Evaluation(people(rng, "eva", 20)), {}
    )
    canary = Canary(
        unit(rng.normal(size=(RECORDS, DIMENSION)) + 0.8), tuple(f"record {i}" for i in range(RECORDS)), id="canary"
    )
    return route_cohorts(cohorts, bank, MECHANISM.k), canary


def frozen_of(world, name):
    """One frozen case, and the law of its score on the evaluation users."""
    routes, canary = world
    auditor = Auditor(MECHANISM, Settings(trials=100_000, threshold="analytic"), 20)
    (case,) = auditor.freeze(
        [Case.of(0, auditor.design(ATTACKS[name], canary, None, routes, 1))], auditor.calibration([routes])
    )
    return case, auditor.law(case, auditor.evaluation([routes])(case))


@pytest.fixture(scope="module")
def exact(world):
    return frozen_of(world, "exact")


@pytest.fixture(scope="module")
def whole(world, exact):
    return evidence(*exact, world[0].auxiliary, MECHANISM, seed=3)


def test_the_same_case_gives_the_same_json(world, exact, whole):
    again = evidence(*exact, world[0].auxiliary, MECHANISM, seed=3)
    assert json.dumps(again) == json.dumps(whole) == json.dumps(json.loads(json.dumps(whole)))


def test_json_holds_no_infinity_and_stays_small(whole):
    assert len(json.dumps(whole, allow_nan=False)) < 60_000


def test_roc_of_a_perfect_attack_is_the_gaussian_one():
    law = RoundLaw.perfect(MECHANISM)
    roc = roc_evidence(law, 2.0)
    thresholds = np.array(roc["threshold"])
    absent, included = norm.sf(thresholds + 0.5), norm.sf(thresholds - 0.5)
    np.testing.assert_allclose(roc["fpr"], absent, rtol=1e-4)
    np.testing.assert_allclose(roc["tpr"], 0.9 * absent + 0.1 * included, rtol=1e-4)


def test_roc_holds_the_frozen_threshold_in_its_place(exact, whole):
    case, law = exact
    roc, value = whole["roc"], case.thresholds[-1].value
    assert roc["threshold"][roc["frozen"]] == pytest.approx(value, rel=1e-5)
    assert roc["threshold"] == sorted(roc["threshold"])
    assert roc["fpr"] == sorted(roc["fpr"], reverse=True)
    assert roc["fpr"][roc["frozen"]] == pytest.approx(law.point(value)[0], rel=1e-5)
    assert roc["fpr"][-1] < 1e-6


def test_a_threshold_outside_the_reach_is_still_on_the_grid():
    roc = roc_evidence(RoundLaw.perfect(MECHANISM), 50.0)
    assert roc["threshold"][roc["frozen"]] == max(roc["threshold"]) == 50.0


def test_densities_of_a_perfect_attack_are_gaussian_and_sum_to_one():
    dense = density_evidence(RoundLaw.perfect(MECHANISM), 1.0)
    score = np.array(dense["score"])
    np.testing.assert_allclose(dense["absent"], norm.pdf(score, -0.5), rtol=0.02, atol=1e-5)
    np.testing.assert_allclose(dense["participating"], norm.pdf(score, 0.5), rtol=0.02, atol=1e-5)
    width = score[1] - score[0]
    assert math.fsum(dense["absent"]) * width == pytest.approx(1.0, abs=3e-4)


def test_votes_match_a_naive_count(world, exact, whole):
    routes, canary = world
    made = exact[0].designs[0]
    own = np.bincount(route(canary.vectors, made.bank, MECHANISM.k).ravel(), minlength=made.bank.size)
    users = routes.auxiliary.cohort.users
    votes = whole["votes"]
    for entry in votes["entries"]:
        position = entry["position"]
        shares = [
            (route(users.require_vectors()[users.owners == u], made.bank, MECHANISM.k) == position).mean()
            for u in range(len(users))
        ]
        assert entry["share"] == pytest.approx(own[position] / (RECORDS * MECHANISM.k), rel=1e-5)
        assert entry["traffic"] == pytest.approx(np.mean(shares), rel=1e-5)
        assert entry["voters"] == pytest.approx(np.count_nonzero(shares) / len(users), rel=1e-5)
    assert votes["inspected"] == RECORDS
    assert votes["share"] == pytest.approx(own[made.inspected].sum() / own.sum(), rel=1e-5)
    assert [e["share"] for e in votes["entries"]] == sorted((e["share"] for e in votes["entries"]), reverse=True)


def test_excerpts_are_short_and_always_utf8(world):
    (made,) = frozen_of(world, "ordinary")[0].designs
    votes = vote_evidence(made, world[0].auxiliary, MECHANISM)
    texts = [entry["text"] for entry in votes["entries"]]
    assert max(map(len, texts)) < max(map(len, made.bank.texts))
    assert any(text.endswith(" ?") for text in texts)
    "".join(texts).encode()


def test_a_bank_without_texts_has_no_excerpts(world):
    routes, canary = world
    bare = Bank(routes.bank.vectors, reserved=routes.bank.reserved)
    auxiliary = Routed.build(routes.auxiliary.cohort, bare, MECHANISM.k)
    made = design(ATTACKS["exact"], canary, bare, auxiliary, MECHANISM, eligible=20, seed=1)
    votes = vote_evidence(made, auxiliary, MECHANISM)
    assert {entry["text"] for entry in votes["entries"]} == {None}


def test_the_map_is_the_principal_plane_of_the_bank(exact):
    made = exact[0].designs[0]
    plane = map_evidence(made, seed=3)
    base = made.bank.vectors[made.bank.base].astype(np.float64)
    centred = base - base.mean(axis=0)
    _, strength, rows = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(plane["bank"]), np.abs(centred @ rows[:2].T), atol=1e-5)
    np.testing.assert_allclose(plane["explained"], (strength**2 / (strength**2).sum())[:2], rtol=1e-4)
    # The probes of this attack are the canary's own records.
    assert plane["probes"] == plane["canary"]


def test_the_map_of_a_passive_attack_has_no_probes_and_the_same_axes(world, exact):
    (made,) = frozen_of(world, "ordinary")[0].designs
    plane = map_evidence(made, seed=3)
    assert plane["probes"] == []
    assert plane["bank"] == map_evidence(exact[0].designs[0], seed=3)["bank"]


def test_the_map_of_vectors_on_a_line_has_no_second_axis():
    line = Bank(np.linspace(1, 2, 20, dtype=np.float32)[:, None]).reserve(2, seed=0)
    routed = Routed.build(Auxiliary(Users.from_vectors([np.full((2, 1), 1.5)] * 3)), line, MECHANISM.k)
    canary, pool = Canary(np.array([[1.5]])), Pool(np.array([[1.4], [1.6]], dtype=np.float32))
    made = design(ATTACKS["paraphrase-norm"], canary, line, routed, MECHANISM, eligible=3, pool=pool, seed=0)
    assert {point[1] for point in map_evidence(made, seed=0)["bank"]} == {0.0}


def test_a_silent_score_has_evidence_too():
    law = RoundLaw(np.empty(0), 0.0, 0.0, 0.0, 0.1)
    assert set(roc_evidence(law, 0.0)["fpr"]) <= {0.0, 1.0}
    assert len(density_evidence(law, 0.0)["absent"]) == 160
