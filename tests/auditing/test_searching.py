"""Search inside an audit: nobody but the auxiliary users decides what is planted, and what was found is kept."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from canarybank.attack import ATTACKS, simulated_nonces
from canarybank.auditing import Auditor, Settings, audit, route_cohorts, search_canary
from canarybank.mechanism import Bank, Mechanism
from canarybank.users import Calibration, Cohorts, CohortSizes, Evaluation, Users, draw_cohorts

MECHANISM = Mechanism(k=3)


def people(count, seed, name="u"):
    rng = np.random.default_rng(seed)
    return Users.from_vectors({f"{name}{i}": rng.normal(size=(4, 16)) for i in range(count)})


@pytest.fixture(scope="module")
def cohorts():
    return draw_cohorts(people(40, 0), CohortSizes(10, 10, 20, 1), attacks=[], records=4, seed=0)


@pytest.fixture(scope="module")
def bank():
    return Bank(np.random.default_rng(1).normal(size=(80, 16))).reserve(8, 0)


class Kept(dict):
    """Remember documents, and count what had to be made."""

    def document(self, stage, key, make):
        if (stage, key) not in self:
            self[stage, key] = make()
        return self[stage, key]


def found(cohorts, bank, memo=None, **changes):
    auditor = Auditor(MECHANISM, Settings(trials=100, seed=0), len(cohorts.evaluation), memo=memo)
    options = {"index": 0, "records": 4, "seed": 2, "encode": simulated_nonces(bank.vectors, 1), **changes}
    return search_canary(auditor, ATTACKS["searched"], route_cohorts(cohorts, bank, 3), **options)


def test_poisoned_evaluation_and_calibration_users_change_no_byte_of_what_is_planted(cohorts, bank):
    poisoned = replace(
        cohorts,
        evaluation=Evaluation(people(20, 7, "e")),
        calibration=Calibration(people(10, 8, "c")),
    )
    assert isinstance(poisoned, Cohorts)
    results = [audit(each, bank, MECHANISM, "searched", trials=200, canaries=1, seed=2) for each in (cohorts, poisoned)]
    one, other = (result.attacks[0].canaries[0] for result in results)
    assert (one.bank_hash, one.inspected, one.mu_eff) == (other.bank_hash, other.inspected, other.mu_eff)
    assert one.search == other.search
    assert one.exact != other.exact
    assert "simulated" in results[0].notes[0]


def test_what_was_found_is_remembered_under_all_that_decides_it(cohorts, bank):
    memo = Kept()
    first = found(cohorts, bank, memo, encoder="e1")
    again = found(cohorts, bank, memo, encoder="e1")
    assert [stage for stage, _ in memo] == ["search"]
    assert again[0].texts == first[0].texts
    assert again[1].texts == first[1].texts
    assert again[1].vectors.tobytes() == first[1].vectors.tobytes()
    assert again[1].search == first[1].search
    plain = found(cohorts, bank)
    assert (plain[0].texts, plain[1].texts, plain[1].search) == (first[0].texts, first[1].texts, first[1].search)


def test_every_argument_that_decides_is_in_the_key(cohorts, bank):
    class Keys(Kept):
        def document(self, _, key, __):
            self[key] = True
            return {"canary": ["a"] * 4, "probes": ["b"] * 8, "facts": facts}

    facts = Kept()
    found(cohorts, bank, facts, encoder="e1")
    (document,) = facts.values()
    facts, memo = document["facts"], Keys()
    for changes in ({}, {"index": 1}, {"records": 5}, {"seed": 3}, {"encoder": "e2"}, {"probes": 6}):
        found(cohorts, bank, memo, **{"encoder": "e1", **changes})
    found(cohorts, bank.reserve(8, 5), memo, encoder="e1")
    for name in ("strict", "mild"):
        found(cohorts, bank, memo, encoder="e1", screen=screen(name))
    assert len(memo) == 9
    found(cohorts, bank, memo, encoder="e1")
    assert len(memo) == 9


def screen(name, asked=None):
    """A screen that lets everything pass, and writes down what it was asked about."""

    def accept(texts, _):
        if asked is not None:
            asked.extend(texts)
        return np.ones(len(texts), dtype=bool)

    return SimpleNamespace(accept=accept, vetting=SimpleNamespace(hash=name))


def test_what_may_be_planted_is_asked_of_the_screen(cohorts, bank):
    asked = []
    _, pool = found(cohorts, bank, Kept(), encoder="e1", screen=screen("all", asked))
    assert set(pool.texts) <= set(asked)
