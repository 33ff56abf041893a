"""The neighbour test can fail: each leak of the first version, put back, is found."""

import contextlib
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from canarybank.encode import HashingEncoder
from canarybank.experiment import admitted, evolution, evolution_scene, real_run
from canarybank.experiment.admitted import People, _capped

SCENE = "canarybank.experiment.evolution_scene."


@pytest.fixture
def found(lab):
    """Return all that the neighbour test finds, once it was shown that it finds nothing without the mutant."""

    def check(mutant, newcomer, settings=None, kind="csv", position="last"):
        without, joined = lab.file(kind), lab.file(kind, lab.joined(newcomer, position))
        with mutant:
            return lab.check(without, joined, kind, settings)

    return check


def test_a_cap_that_is_chosen_from_everybody_is_found(found):
    read = admitted.admit_voters

    def with_chosen_cap(config, cohorts, *more):
        return _capped(People(read(config, cohorts, *more), {}), cohorts.canaries).users

    newcomer = [("new", f"cat {i}", "a") for i in range(6)]
    assert any(
        "depends on who does not" in each for each in found(patch(f"{SCENE}admit_voters", with_chosen_cap), newcomer)
    )


def test_labels_that_are_read_from_users_are_found(found):
    gather = evolution_scene.gather_candidates

    def with_their_labels(config, users, generator, cache, **more):
        people = admitted.admit_voters(users, evolution_scene.Config().cohorts, cache)
        return gather(
            config.model_copy(update={"labels": tuple(sorted(set(people.labels)))}), users, generator, cache, **more
        )

    settings = {"bank.source": "generate", "bank.labels": ["a"], "bank.size": 12, "bank.near": 1.0}
    mutant = patch(f"{SCENE}gather_candidates", with_their_labels)
    findings = found(mutant, [("new", "the cat", "HIV clinic")], settings)
    assert any(each.startswith("In the requests") and "HIV" in each for each in findings)


def test_a_limit_on_users_is_found(found):
    mutant = patch.object(real_run, "_refusals", lambda _: iter(()))
    findings = [found(mutant, [(f"new{i}", "the cat", "a")], {"users.limit": 4, "evolve.rounds": 1}) for i in range(4)]
    assert any("drives other users out" in " ".join(each) for each in findings)


def test_a_note_about_the_largest_user_is_found(found):
    read, notes = admitted.admit_voters, {}

    def noting(*given):
        users = read(*given)
        notes["now"] = (f"The largest has {users.counts.max()}.",)
        return users

    with patch(f"{SCENE}_reading_notes", lambda _: notes["now"]):
        findings = found(patch(f"{SCENE}admit_voters", noting), [("new", f"cat {i}", "a") for i in range(7)])
    assert any(each.startswith("In results.json") and "The largest has" in each for each in findings)


def test_the_number_of_voters_is_found(found):
    findings = found(patch.object(evolution, "is_real", lambda _: False), [("new", "the cat", "a")])
    assert any(each.startswith("In results.json") and "voters" in each for each in findings)


def test_how_many_texts_were_encoded_is_found(found):
    load, shown = evolution_scene._set_real, {}

    def showing(config, cache, progress, generator):
        shown["progress"] = progress
        return load(config, cache, progress, generator)

    build = evolution_scene.cached_encoder
    with patch(f"{SCENE}cached_encoder", lambda config, *_, **__: build(config, shown["progress"])):
        findings = found(patch(f"{SCENE}_set_real", showing), [("new", "a text of their own", "a")])
    assert any("On standard error" in each for each in findings)


def test_q_from_the_number_of_users_is_found(found):
    read, plan, count = admitted.admit_voters, evolution_scene.plan_of, {}

    def counting(*given):
        users = read(*given)
        count["now"] = len(users)
        return users

    def planned(config, mechanism):
        return plan(config, replace(mechanism, q=2 / count["now"]))

    with patch(f"{SCENE}plan_of", planned):
        findings = found(patch(f"{SCENE}admit_voters", counting), [("new", "the cat", "a")])
    assert any("The plan depends on users" in each for each in findings)


@pytest.mark.parametrize("line", [b'new,"the cat,a', b"new,the cat,a,b,c"])
def test_rows_that_change_how_others_are_read_are_found(line, found):
    read = admitted.users_source
    mutant = patch.object(admitted, "users_source", lambda config, **_: read(config))
    assert found(mutant, [line], position="middle")


def test_an_error_that_speaks_of_rows_is_found(found):
    read = admitted.users_source

    @contextlib.contextmanager
    def told(name, progress):
        with progress.step(name):
            yield

    with patch.object(admitted, "hidden", told):
        mutant = patch.object(admitted, "users_source", lambda config, **_: read(config))
        findings = found(mutant, [b"new,the cat,a,b,c"], position="first")
    assert any("line 2" in each for each in findings)


def test_a_vector_that_depends_on_its_batch_is_found(lab):
    encode = HashingEncoder.encode

    def beside_others(self, texts, /):
        vectors = encode(self, texts)
        return vectors + np.float32(0.2) * vectors.mean(axis=0) if len(vectors) else vectors

    joined = lab.joined([("new", f"zebra {i}", "a") for i in range(60)], "last")
    with patch.object(HashingEncoder, "encode", beside_others):
        assert lab.check_all(lab.file("csv"), lab.file("csv", joined))


def test_a_contribution_that_is_not_clipped_is_found(found):
    from canarybank.evolve.draw import Voters

    histogram = Voters.histogram
    mutant = patch.object(Voters, "histogram", lambda self, *given: 3 * histogram(self, *given))
    assert any("longer than the clip" in each for each in found(mutant, [("new", "the cat", "a")]))
