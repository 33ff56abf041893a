import dataclasses

import numpy as np
import pytest

from canarybank.attack import ATTACKS, Canary, design, nonce_canary, nonce_pool
from canarybank.auditing import Settings, freeze, prepare
from canarybank.encode import HashingEncoder
from canarybank.engine import Serial
from canarybank.config.model import CohortsConfig
from canarybank.experiment.designs import Studio, prepare_cached
from canarybank.flow.roles import draw_roles
from canarybank.store.stage_cache import StageCache
from canarybank.mechanism import Bank, Mechanism, RouteTable
from canarybank.users import Users

ENCODER, MECHANISM = HashingEncoder(16), Mechanism(k=3)
SETTINGS = Settings(trials=2000)


@pytest.fixture(scope="module")
def cohorts():
    rng = np.random.default_rng(0)
    users = Users.from_vectors({f"u{i:02d}": rng.normal(size=(4, 16)) for i in range(40)})
    return draw_roles(CohortsConfig(canaries=2), users, (ATTACKS["ordinary"],))


@pytest.fixture(scope="module")
def bank():
    texts = tuple(f"entry {i} {i * i}" for i in range(80))
    return Bank(ENCODER.encode(texts), texts).reserve(6, 0)


def studio(cohorts, bank, cache, settings=SETTINGS):
    return Studio(prepare_cached(cohorts, bank, MECHANISM, cache), settings, 0, 2, cache, Serial())


def nonce_case(room):
    canary = nonce_canary(4, ENCODER.encode, 0, 0)
    return room.case(ATTACKS["nonce-mueff"], 0, canary, nonce_pool(ENCODER.encode)(canary, 20, 0))


def same(one, other):
    a, b = one.frozen.design, other.frozen.design
    assert (a.bank.hash, a.selected, one.frozen.threshold) == (b.bank.hash, b.selected, other.frozen.threshold)
    assert np.array_equal(a.inspected, b.inspected)
    assert np.array_equal(a.contribution, b.contribution)
    assert np.array_equal(a.score.weights, b.score.weights)
    assert a.score.offset == b.score.offset


def test_cached_routes_are_the_routes(cohorts, bank, tmp_path):
    cache, plain = StageCache(tmp_path), prepare(cohorts, bank, MECHANISM)
    for _ in range(2):
        made = prepare_cached(cohorts, bank, MECHANISM, cache)
        for role in ("auxiliary", "calibration", "evaluation"):
            one, other = (getattr(each, role).contributions(bank, MECHANISM) for each in (made, plain))
            assert (one != other).nnz == 0
    assert cache.made == {"routes": 3}
    assert cache.found == {"routes": 3}


@pytest.mark.parametrize("kind", ["ordinary", "nonce-mueff"])
def test_a_cached_design_is_the_design_to_the_bit(cohorts, bank, tmp_path, kind):
    cache = StageCache(tmp_path)
    room = studio(cohorts, bank, cache)

    def case():
        if kind == "nonce-mueff":
            return nonce_case(room)
        return room.case(ATTACKS["ordinary"], 1, Canary.of(cohorts.canaries["ordinary"], 1), None)

    first, second = case(), case()
    same(first, second)
    assert (cache.made["design"], cache.found["design"], cache.found["threshold"]) == (1, 1, 1)
    canary = first.frozen.design.canary
    pool = nonce_pool(ENCODER.encode) if kind == "nonce-mueff" else None
    prepared = room.prepared
    plain = design(
        first.attack,
        canary,
        bank,
        prepared.auxiliary,
        MECHANISM,
        eligible=prepared.eligible,
        pool=pool,
        pool_size=20,
        seed=0,
    )
    frozen = freeze(
        plain,
        prepared.calibration,
        MECHANISM,
        SETTINGS,
        eligible=prepared.eligible,
        canaries=2,
        address=first.address,
        engine=Serial(),
    )
    same(second, dataclasses.replace(first, frozen=frozen))


@pytest.mark.parametrize("change", ["k", "base", "reserved", "size"])
def test_routes_that_another_bank_or_k_left_are_not_taken(cohorts, bank, tmp_path, change):
    cache = StageCache(tmp_path)
    nonce_case(studio(cohorts, bank, cache))
    mechanism = dataclasses.replace(MECHANISM, k=MECHANISM.k + 1) if change == "k" else MECHANISM
    texts = tuple(f"other {text}" for text in bank.texts)
    other = {
        "k": bank,
        "base": Bank(ENCODER.encode(texts), texts, bank.reserved),
        "reserved": Bank(bank.vectors, bank.texts).reserve(6, 1),
        "size": Bank(bank.vectors[:-5], bank.texts[:-5]).reserve(6, 0),
    }[change]
    warm, plain = prepare_cached(cohorts, other, mechanism, cache), prepare(cohorts, other, mechanism)
    for role in ("auxiliary", "calibration", "evaluation"):
        one, two = getattr(warm, role).table, getattr(plain, role).table
        assert np.array_equal(one.positions, two.positions)
        assert np.array_equal(one.distances, two.distances)
    room = Studio(warm, SETTINGS, 0, 2, cache, Serial())
    again = nonce_case(room).frozen.design
    own = RouteTable.build(again.canary.vectors, other, mechanism.k)
    assert np.array_equal(again.table.positions, own.positions)
    assert again.table.k == mechanism.k


def test_a_bank_with_other_texts_of_the_same_vectors_is_routed_once(cohorts, bank, tmp_path):
    cache = StageCache(tmp_path)
    prepare_cached(cohorts, bank, MECHANISM, cache)
    prepare_cached(cohorts, dataclasses.replace(bank, texts=None), MECHANISM, cache)
    assert cache.made == {"routes": 3}


def test_more_trials_change_the_threshold_and_not_the_design(cohorts, bank, tmp_path):
    cache = StageCache(tmp_path)
    nonce_case(studio(cohorts, bank, cache))
    nonce_case(studio(cohorts, bank, cache, Settings(trials=2001)))
    assert (cache.made["design"], cache.made["threshold"], cache.found["design"]) == (1, 2, 1)


def test_another_bank_changes_both(cohorts, bank, tmp_path):
    cache = StageCache(tmp_path)
    nonce_case(studio(cohorts, bank, cache))
    nonce_case(studio(cohorts, dataclasses.replace(bank, reserved=()).reserve(6, 1), cache))
    assert (cache.made["design"], cache.made["threshold"]) == (2, 2)
