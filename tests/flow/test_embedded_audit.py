"""Run the attacks on the embedded default through ``audit``, with ``wordllama`` and with ``minilm``."""

from dataclasses import replace

import numpy as np
import pytest

from canarybank.attack import ATTACKS, CanaryKind, PoolKind
from canarybank.auditing import audit
from canarybank.encode import CachedEncoder, VectorCache, load_encoder
from canarybank.flow import embedded_bank, embedded_canaries, embedded_pool
from canarybank.mechanism import Bank, Mechanism, epsilon
from canarybank.users import CohortSizes, Users, admit, draw_cohorts


def exact_epsilons(name, cache, users=None, entries=None, canaries=5, candidates=512, attacks=tuple(ATTACKS)):
    """Return the exact epsilon of each attack on the embedded canaries, with that many users and bank entries."""
    encoder = CachedEncoder(load_encoder(name), VectorCache(cache))
    people, names = admit("chitchat").users, embedded_canaries()[:canaries]
    others = [i for i, name in enumerate(people.ids) if name not in embedded_canaries()][:users]
    people = people.take([*others, *(people.ids.index(name) for name in names)])
    people = people.with_vectors(encoder.encode(people.require_texts()))
    cohorts = _around(people, len(others), canaries)
    texts = embedded_bank().texts[:entries]
    bank = Bank(encoder.encode(texts), texts).reserve(64, 0)
    found = {}
    for attack in map(ATTACKS.__getitem__, attacks):
        pool = embedded_pool(encoder.encode) if attack.pool is PoolKind.PARAPHRASES else None
        result = audit(
            cohorts,
            bank,
            Mechanism(),
            attack,
            trials=500,
            canaries=1 if attack.pool is PoolKind.SEARCHED else canaries,
            pool=pool,
            pool_size=candidates,
            encode=encoder.encode,
            vocabulary=encoder.vocabulary(),
        )
        assert result.notes == () or attack.canary is CanaryKind.NONCE
        assert not any("simulated" in note for note in result.notes)
        found[attack.name] = result.ladder.attack.epsilon
    return found


def _around(people: Users, others: int, canaries: int):
    sizes = CohortSizes.fit(others + canaries, canaries=canaries)
    cohorts = draw_cohorts(people.take(range(others)), sizes, attacks=[], records=64, seed=0)
    real = [attack.name for attack in ATTACKS.values() if attack.canary is CanaryKind.REAL]
    return replace(cohorts, canaries=dict.fromkeys(real, people.take(range(others, len(people)))))


def check(found, attacks=tuple(ATTACKS)):
    mechanism = epsilon(Mechanism())
    assert list(found) == list(attacks)
    # An attack can spend the budget and no more; nonces spend nearly all of it.
    assert all(0 < value <= mechanism + 1e-6 for value in found.values())
    nonces = [value for name, value in found.items() if name.startswith("nonce")]
    assert min(nonces) > 0.9 * mechanism
    assert found["paraphrase-norm"] > found["paraphrase"]
    assert found["paraphrase-mueff"] > found["paraphrase"]
    assert found["paraphrase-exact"] > found["paraphrase"]
    assert found.get("searched", mechanism) > 0.97 * mechanism


def test_all_ten_attacks_run_by_the_library(tmp_path):
    # A part of the default: tests/test_readme.py holds the whole of it to what was measured, in the light install.
    check(exact_epsilons("wordllama", tmp_path, 24, 512, canaries=1, candidates=96))


@pytest.mark.models
@pytest.mark.slow
def test_the_attacks_run_with_minilm(tmp_path):
    pytest.importorskip("sentence_transformers")
    # A part of the default, for this encoder takes minutes over the whole of it, which the next test has.
    attacks = [name for name in ATTACKS if name != "searched"]
    check(exact_epsilons("minilm", tmp_path, 24, 512, canaries=1, candidates=96, attacks=attacks), attacks)


@pytest.mark.models
@pytest.mark.slow
def test_all_ten_attacks_run_with_minilm_on_the_whole_default(tmp_path):
    pytest.importorskip("sentence_transformers")
    found = exact_epsilons("minilm", tmp_path)
    check(found)
    measured = {"ordinary": 0.967, "exact": 0.682, "paraphrase": 0.546, "paraphrase-mueff": 1.049, "nonce": 1.675}
    for name, value in measured.items():
        assert np.isclose(found[name], value, atol=5e-3), (name, found[name])
