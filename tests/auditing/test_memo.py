"""What a memo keeps is what would be made again, to the bit, and only for the inputs that it was made from."""

from dataclasses import replace

import numpy as np
import pytest

from canarybank.attack import ATTACKS, Canary, nonce_canary, nonce_pool
from canarybank.auditing import Auditor, Case, Claims, Settings, route_cohorts
from canarybank.encode import HashingEncoder
from canarybank.engine import Serial
from canarybank.mechanism import Bank, Mechanism, RouteTable
from canarybank.store import StageCache
from canarybank.systems import BankSystem
from canarybank.users import CohortSizes, Users, draw_cohorts

ENCODER, MECHANISM = HashingEncoder(16), Mechanism(k=3)
SETTINGS = Settings(trials=2000)
ROLES = ("auxiliary", "calibration", "evaluation")


class LoudSystem(BankSystem):
    """Somebody else's system: our own mechanism with less noise than it says."""

    def __init__(self, contributions, canary, mechanism):
        super().__init__(contributions, canary, replace(mechanism, sigma=mechanism.sigma / 2))


@pytest.fixture(scope="module")
def cohorts():
    rng = np.random.default_rng(0)
    users = Users.from_vectors({f"u{i:02d}": rng.normal(size=(4, 16)) for i in range(40)})
    return draw_cohorts(users, CohortSizes(12, 12, 14, 2), attacks=["ordinary"], records=4, seed=0)


@pytest.fixture(scope="module")
def bank():
    texts = tuple(f"entry {i} {i * i}" for i in range(80))
    return Bank(ENCODER.encode(texts), texts).reserve(6, 0)


def auditor(cache, **changes):
    given = {"mechanism": MECHANISM, "settings": SETTINGS, "eligible": 14, "memo": cache, "engine": Serial()}
    return Auditor(**given | changes)


def frozen(cohorts, bank, room, kind="nonce-mueff"):
    """Design and freeze one case on what the auditor's memo holds."""
    routes = route_cohorts(cohorts, bank, room.mechanism.k, room.memo)
    if kind == "ordinary":
        canary, pool = Canary.of(cohorts.canaries["ordinary"], 1), None
    else:
        canary = nonce_canary(4, ENCODER.encode, 0, 0)
        pool = nonce_pool(ENCODER.encode)(canary, 20, 0)
    designed = room.design(ATTACKS[kind], canary, pool, routes, 0)
    named = cohorts.calibration.users.hash
    return room.freeze([Case.of(0, designed)], room.calibration([routes]), calibration=named)[0]


def same(one, other):
    (a,), (b,) = one.designs, other.designs
    assert (a.bank.hash, a.selected, one.thresholds) == (b.bank.hash, b.selected, other.thresholds)
    assert np.array_equal(a.inspected, b.inspected)
    assert np.array_equal(a.contribution, b.contribution)
    assert np.array_equal(a.score.weights, b.score.weights)
    assert a.score.offset == b.score.offset


def test_kept_routes_are_the_routes(cohorts, bank, tmp_path):
    cache, plain = StageCache(tmp_path), route_cohorts(cohorts, bank, MECHANISM.k)
    for _ in range(2):
        made = route_cohorts(cohorts, bank, MECHANISM.k, cache)
        for role in ROLES:
            one, other = (getattr(each, role).contributions(bank, MECHANISM) for each in (made, plain))
            assert (one != other).nnz == 0
    assert cache.made == {"routes": 3}
    assert cache.found == {"routes": 3}


@pytest.mark.parametrize("kind", ["ordinary", "nonce-mueff"])
def test_what_was_designed_and_frozen_is_not_asked_for_again(cohorts, bank, tmp_path, kind):
    cache = StageCache(tmp_path)
    first = frozen(cohorts, bank, auditor(cache), kind)
    made = dict(cache.made)
    assert (made["design"], made["threshold"]) == (1, 1)
    second = frozen(cohorts, bank, auditor(cache), kind)
    assert cache.made == made
    same(first, second)
    same(second, frozen(cohorts, bank, auditor(None), kind))


@pytest.mark.parametrize("change", ["k", "base", "reserved", "size"])
def test_routes_that_another_bank_or_k_left_are_not_taken(cohorts, bank, tmp_path, change):
    cache = StageCache(tmp_path)
    frozen(cohorts, bank, auditor(cache))
    mechanism = replace(MECHANISM, k=MECHANISM.k + 1) if change == "k" else MECHANISM
    texts = tuple(f"other {text}" for text in bank.texts)
    other = {
        "k": bank,
        "base": Bank(ENCODER.encode(texts), texts, bank.reserved),
        "reserved": Bank(bank.vectors, bank.texts).reserve(6, 1),
        "size": Bank(bank.vectors[:-5], bank.texts[:-5]).reserve(6, 0),
    }[change]
    warm, plain = (route_cohorts(cohorts, other, mechanism.k, memo) for memo in (cache, None))
    for role in ROLES:
        one, two = getattr(warm, role).table, getattr(plain, role).table
        assert np.array_equal(one.positions, two.positions)
        assert np.array_equal(one.distances, two.distances)
    (again,) = frozen(cohorts, other, auditor(cache, mechanism=mechanism)).designs
    own = RouteTable.build(again.canary.vectors, other, mechanism.k)
    assert np.array_equal(again.table.positions, own.positions)
    assert again.table.k == mechanism.k


def test_a_bank_with_other_texts_of_the_same_vectors_is_routed_once(cohorts, bank, tmp_path):
    cache = StageCache(tmp_path)
    route_cohorts(cohorts, bank, MECHANISM.k, cache)
    route_cohorts(cohorts, replace(bank, texts=None), MECHANISM.k, cache)
    assert cache.made == {"routes": 3}


CHANGES = {
    "trials": {"settings": Settings(trials=2001)},
    "alpha": {"settings": Settings(trials=2000, alpha=0.01)},
    "method": {"settings": Settings(trials=2000, method="joint")},
    "engine": {"settings": Settings(trials=2000, engine="literal")},
    "mode": {"settings": Settings(trials=2000, threshold="analytic")},
    "seed": {"settings": Settings(trials=2000, seed=1)},
    "claims": {"claims": Claims.TOGETHER},
    "system": {"system": LoudSystem},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_decides_a_threshold_and_no_design_makes_it_anew(cohorts, bank, tmp_path, change):
    cache = StageCache(tmp_path)
    frozen(cohorts, bank, auditor(cache))
    kept = frozen(cohorts, bank, auditor(cache, **change))
    assert (cache.made["design"], cache.made["threshold"], cache.found["design"]) == (1, 2, 1)
    same(kept, frozen(cohorts, bank, auditor(None, **change)))


@pytest.mark.parametrize("change", [{"mechanism": replace(MECHANISM, sigma=2.0)}, {"eligible": 13}], ids=["sigma", "N"])
def test_the_mechanism_and_the_number_of_users_decide_both(cohorts, bank, tmp_path, change):
    cache = StageCache(tmp_path)
    frozen(cohorts, bank, auditor(cache))
    frozen(cohorts, bank, auditor(cache, **change))
    assert (cache.made["design"], cache.made["threshold"]) == (2, 2)


def test_another_bank_changes_both(cohorts, bank, tmp_path):
    cache = StageCache(tmp_path)
    frozen(cohorts, bank, auditor(cache))
    frozen(cohorts, replace(bank, reserved=()).reserve(6, 1), auditor(cache))
    assert (cache.made["design"], cache.made["threshold"]) == (2, 2)


def test_probes_that_only_the_calibration_users_can_tell_apart_have_thresholds_of_their_own(cohorts, bank, tmp_path):
    cache = StageCache(tmp_path)
    room, routes = auditor(cache), route_cohorts(cohorts, bank, MECHANISM.k)
    (case,) = (frozen(cohorts, bank, auditor(None)),)
    (designed,) = case.designs
    moved = bank.with_probes(bank.vectors[bank.base[:6]], [f"probe {i}" for i in range(6)])
    cases = [Case.of(0, designed), Case.of(0, replace(designed, bank=moved))]
    for each in cases:
        room.freeze([each], room.calibration([routes]), calibration="the same users")
    assert cache.made["threshold"] == 2
