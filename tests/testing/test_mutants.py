"""The neighbour test can fail: each leak of the first version, put back, is found."""

import contextlib
import hashlib
import logging
import os
import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from canarybank.encode import HashingEncoder, shelf
from canarybank.errors import ConfigError, GenerationError, StoreError
from canarybank.evolution import InContext, KeepTop, ParentsEvenly, Reference, Voters, loop
from canarybank.flow import evolution, real_run
from canarybank.flow import voters as admitted
from canarybank.mechanism import route_within
from canarybank.run import folder
from canarybank.testing import compare_worlds
from canarybank.users import admission

SCENE = "canarybank.flow.evolution."


@pytest.fixture
def found(lab):
    """Return all that the neighbour test finds, once it was shown that it finds nothing without the mutant."""

    def check(mutant, newcomer, settings=None, kind="csv", position="last"):
        without, joined = lab.file(kind), lab.file(kind, lab.joined(newcomer, position))
        with mutant:
            return lab.check(without, joined, kind, settings)

    return check


def cut_to_fit(users, canaries):
    """Cut everybody to a cap that a quarter of all users reach, or as many as there are canaries."""
    return users.first_records(int(np.sort(users.counts)[-max(canaries, len(users) // 4)]))


def test_a_cap_that_is_chosen_from_everybody_is_found(found):
    read = admitted.admit_voters

    def with_chosen_cap(config, cohorts, *more):
        return cut_to_fit(read(config, cohorts, *more), cohorts.canaries)

    newcomer = [("new", f"cat {i}", "a") for i in range(6)]
    assert any(
        "depends on who does not" in each
        for each in found(patch.object(admitted, "admit_voters", with_chosen_cap), newcomer)
    )


def test_labels_that_are_read_from_users_are_found(found):
    gather = evolution.gather_candidates

    def with_their_labels(config, users, generator, cache, **more):
        people = admitted.admit_voters(users, evolution.Config().cohorts, cache)
        return gather(
            config.model_copy(update={"labels": tuple(sorted(set(people.labels)))}), users, generator, cache, **more
        )

    settings = {"bank.source": "generate", "bank.labels": ["a"], "bank.size": 12, "bank.near": 1.0}
    mutant = patch(f"{SCENE}gather_candidates", with_their_labels)
    findings = found(mutant, [("new", "the cat", "HIV clinic")], settings)
    assert any(each.startswith("In the requests") and "HIV" in each for each in findings)


def test_a_limit_on_users_is_found(found):
    mutant = patch.object(real_run, "_refusals", lambda _: [])
    findings = [found(mutant, [(f"new{i}", "the cat", "a")], {"users.limit": 4, "evolve.rounds": 1}) for i in range(4)]
    assert any("drives other users out" in " ".join(each) for each in findings)


def test_a_note_about_the_largest_user_is_found(found):
    read, notes = admitted.admit_voters, {}

    def noting(*given):
        users = read(*given)
        notes["now"] = (f"The largest has {users.counts.max()}.",)
        return users

    with patch(f"{SCENE}_notes", lambda *_: notes["now"]):
        findings = found(patch.object(admitted, "admit_voters", noting), [("new", f"cat {i}", "a") for i in range(7)])
    assert any(each.startswith("In results.json") and "The largest has" in each for each in findings)


def test_the_number_of_voters_is_found(found):
    make, seen = evolution.EvolutionFacts, []
    with acting(lambda voters, _: seen.append(voters)):
        mutant = patch.object(evolution, "EvolutionFacts", lambda **facts: make(**{**facts, "voters": seen[-1]}))
        findings = found(mutant, [("new", "the cat", "a")])
    assert any(each.startswith("In results.json") and "voters" in each for each in findings)


def test_users_on_the_map_of_a_real_run_are_found_and_its_page_does_not_draw_them(lab):
    set_scene, facts_of, make, seen = evolution.set_scene, evolution.round_facts, evolution.EvolutionFacts, {}

    def setting(*given):
        scene = set_scene(*given)
        seen["users"] = Reference(scene.voters.users.users)
        return scene

    def noting(made):
        seen["populations"] = evolution.populations_of(made)
        return facts_of(made)

    def placing(**facts):
        return make(**{**facts, "clouds": evolution.map_clouds(seen["populations"], seen["users"], insecure_seed=0)})

    files = lab.file("csv"), lab.file("csv", lab.joined([("new", "the cat", "a")] * 4, "last"))
    with (
        patch.object(evolution, "set_scene", setting),
        patch.object(evolution, "round_facts", noting),
        patch.object(evolution, "EvolutionFacts", placing),
    ):
        worlds = [lab.world(users, perform=lab.cli("--quiet")) for users in files]
    findings = compare_worlds(*worlds)
    assert any(each.startswith("In results.json") for each in findings)
    # The page names the hash of results.json, and shows nothing else of it.
    pages = [world.files["report.html"].decode() for world in worlds]
    hashes = [hashlib.sha256(world.files["results.json"]).hexdigest() for world in worlds]
    assert pages[0].replace(hashes[0], "") == pages[1].replace(hashes[1], "")


def test_how_many_texts_were_encoded_is_found(found):
    load, shown = evolution._set_real, {}

    def showing(config, cache, progress, *more):
        shown["progress"] = progress
        return load(config, cache, progress, *more)

    build = evolution.cached_encoder
    with patch(f"{SCENE}cached_encoder", lambda config, *_, **__: build(config, shown["progress"])):
        findings = found(patch(f"{SCENE}_set_real", showing), [("new", "a text of their own", "a")])
    assert any("On standard error" in each for each in findings)


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
    from canarybank.evolution import Voters

    histogram = Voters.histogram
    mutant = patch.object(Voters, "histogram", lambda self, *given: 3 * histogram(self, *given))
    assert any("longer than the clip" in each for each in found(mutant, [("new", "the cat", "a")]))


def acting(act):
    """Return a mutant that does something with the number of voters and the configuration, once they are known."""
    set_scene = evolution.set_scene

    def setting(config, *given):
        scene = set_scene(config, *given)
        act(len(scene.voters), config)
        return scene

    return patch.object(evolution, "set_scene", setting)


NEWCOMER = [("new", f"the cat {i}", "a") for i in range(9)]


@pytest.mark.parametrize("kind", [KeepTop, ParentsEvenly, InContext])
def test_a_rule_that_knows_how_many_vote_is_found(kind, found):
    voting, rule = [0], kind.__call__

    def keep(self, choice):
        return rule(self, replace(choice, size=choice.size - voting[-1] % 2))

    def draw(self, voted, slot, attempt, count, rng):
        return rule(self, voted, slot, attempt, count - voting[-1] % 2, rng)

    def ask(self, voted, slot, attempt):
        return rule(self, voted, slot, attempt + voting[-1])

    with acting(lambda voters, _: voting.append(voters)):
        mutant = patch.object(kind, "__call__", {KeepTop: keep, ParentsEvenly: draw, InContext: ask}[kind])
        findings = found(mutant, [("new", "the cat", "a")], {"evolve.rounds": 1})
    assert any("rounds/001/bank" in each or each.startswith("In the requests") for each in findings), findings


def test_q_that_is_changed_in_the_draw_is_found(found):
    draw = Voters.release

    def release(self, bank, mechanism, noise="discrete"):
        return draw(self, bank, replace(mechanism, q=min(1.0, mechanism.q * 2 / len(self.users))), noise)

    assert any("the draw asks for coins" in each for each in found(patch.object(Voters, "release", release), NEWCOMER))


def test_less_noise_in_the_draw_is_found(found):
    draw = Voters.release

    def release(self, bank, mechanism, noise="discrete"):
        return draw(self, bank, replace(mechanism, sigma=mechanism.sigma * 8 / len(self.users)), noise)

    assert any("noise of" in each for each in found(patch.object(Voters, "release", release), NEWCOMER))


DEFENDED = {"mechanism.share": 0.5, "mechanism.k": 2, "evolve.rounds": 1}


def test_a_draw_without_secret_sets_is_found(found):
    draw = Voters.release

    def release(self, bank, mechanism, *more):
        return draw(self, bank, mechanism.whole_bank, *more)

    findings = found(patch.object(Voters, "release", release), NEWCOMER, DEFENDED)
    assert any("asks for 0 secret sets" in each for each in findings)


def test_secret_sets_that_depend_on_other_voters_are_found(found):
    def joined_sets(records, owners, bank, k, chosen):
        return route_within(records, owners, bank, k, np.broadcast_to(chosen.any(axis=0), chosen.shape))

    findings = found(patch("canarybank.evolution.ballots.route_within", joined_sets), NEWCOMER, DEFENDED)
    assert any("longer than the clip" in each or "more than the clip" in each for each in findings)


def test_a_draw_over_others_than_those_whose_coin_fell_is_found(found):
    histogram = Voters.histogram

    def release(self, bank, mechanism, noise="discrete"):
        everybody = patch.object(Voters, "histogram", lambda self, _, *m: histogram(self, range(len(self.users)), *m))
        with everybody:
            return draw(self, bank, mechanism, noise)

    draw = Voters.release
    findings = found(patch.object(Voters, "release", release), NEWCOMER)
    assert any("not the sum over the sampled voters" in each for each in findings)


def test_what_the_draw_prints_is_found(found):
    draw = Voters.release

    def release(self, *given):
        sys.stderr.write(f"{len(self.users)} users\n")
        return draw(self, *given)

    findings = found(patch.object(Voters, "release", release), NEWCOMER)
    assert any("'9 users" in each for each in findings)


def test_a_resume_that_is_refused_because_users_changed_is_found(lab):
    run, mark = lab.folder / "place" / "run" / "evolution", lab.folder / "place" / "cache" / "mark"

    def refuse(voters, _):
        if run.exists() and mark.read_text() != str(voters):
            raise ConfigError(f"The users changed: {mark.read_text()} then, {voters} now.")
        mark.write_text(str(voters))

    without, joined = lab.file("csv"), lab.file("csv", lab.joined(NEWCOMER, "last"))
    with acting(refuse):
        worlds = [lab.world(without, perform=lab.resumed(users)) for users in (without, joined)]
    assert any("The exit code is 0" in each for each in compare_worlds(*worlds))


@pytest.mark.parametrize(
    ("act", "finding"),
    [
        (lambda n, place: (place / "run" / f"{n}-voters").mkdir(), "only one world has: ['run/8-voters'"),
        (lambda n, place: (place / "users.csv.count").write_text(str(n)), "In ../users.csv.count"),
        (lambda n, place: (place / "run" / "last").symlink_to(str(n)), "run/last is l"),
        (lambda n, _: os.write(2, f"{n} voters".encode()), "On descriptor 2"),
        (lambda n, _: logging.getLogger("other").warning("%d voters", n), "On descriptor 2 or in the log"),
    ],
)
def test_a_count_that_leaves_some_other_way_is_found(act, finding, found, lab):
    findings = found(acting(lambda n, _: act(n, lab.folder / "place")), NEWCOMER)
    assert any(finding in each for each in findings), findings


def test_a_mode_that_depends_on_users_is_found(found):
    count, write = {}, folder.write_atomic

    def writing(path, data):
        write(path, data)
        path.chmod(0o600 if count["now"] % 2 else 0o400)

    with patch.object(folder, "write_atomic", writing):
        findings = found(acting(lambda n, _: count.update(now=n)), NEWCOMER)
    assert any("run/results.json is -r-------- without" in each for each in findings)


def test_a_failing_generators_message_that_counts_users_is_found(lab):
    count, ask = {}, loop.offspring

    def asking(*given, **more):
        try:
            return ask(*given, **more)
        except GenerationError as error:
            raise GenerationError(f"{error} ({count['now']} users)") from error

    without, joined = lab.file("csv"), lab.file("csv", lab.joined(NEWCOMER, "last"))
    with patch.object(loop, "offspring", asking), acting(lambda n, _: count.update(now=n)):
        findings = compare_worlds(*(lab.world(users, perform=lab.resumed()) for users in (without, joined)))
    assert any("(8 users)" in each for each in findings)


def test_a_cap_that_is_chosen_from_many_users_is_found(lab):
    read = admitted.admit_voters

    def with_chosen_cap(config, cohorts, *more):
        users = read(config, cohorts, *more)
        return cut_to_fit(users, cohorts.canaries) if len(users) > 50 else users

    files = [
        lab.file("csv", lab.many_users(newcomers)) for newcomers in ((), [("new", f"dog {i}", "a") for i in range(40)])
    ]
    with patch.object(admitted, "admit_voters", with_chosen_cap):
        assert any("depends on who does not" in each for each in lab.check(*files))


def test_records_that_are_ranked_by_an_ids_spelling_are_found(lab):
    rows = [(f"{i:04d}", f"cat {n}", "a") for i in range(1, 9) for n in range(20)]
    files = [lab.file("inferred", each) for each in (rows, [*rows, ("new", "dog", "a")])]
    rank = admission.rank
    with patch.object(admission, "rank", lambda seed, _, text, label: rank(seed, spelled.pop(), text, label)):
        spelled = [str(i) for i in range(10_000)]
        assert lab.check(*files, "inferred", {"users.cap": 3, "cohorts.seed": 77})


def test_types_that_decide_what_is_read_are_found(lab):
    rows = [(i + 0.5, f"cat {i}", "a") for i in range(1, 9)]
    files = [lab.file("inferred", each) for each in (rows, [*rows, ("new", "dog", "a")])]
    with patch("canarybank.users.rows.same_text", lambda value: value):
        findings = lab.check(*files, "inferred", {"cohorts.seed": 78})
    assert any("More than one user came" in each for each in findings)


def test_a_warning_that_counts_as_told_while_muted_is_found(lab):
    without, joined = lab.file("csv"), lab.file("csv", lab.joined([("new", "a text of their own", "a")], "last"))
    told = set()

    def once(folder):
        if folder not in told:
            told.add(folder)
            logging.getLogger("canarybank").warning("The cache cannot be written.")

    def perform(settings, folder, releaser):
        told.clear()
        full = patch.object(shelf.Shelf, "_write", side_effect=StoreError("full"))
        with full, patch.object(shelf, "go_on_without", once), patch.object(shelf.Shelf, "check_writable"):
            return lab.python({**settings, "evolve.seed": 9}, folder, releaser)

    lab.world(without)  # fills the cache with all but the candidates of another seed
    findings = compare_worlds(*(lab.world(users, perform=perform) for users in (without, joined)))
    assert any("cannot be written" in each for each in findings)


def test_a_panic_that_passes_is_found(lab):
    encode = HashingEncoder.encode

    class Panic(BaseException):
        pass

    def panicking(self, texts, /):
        if any("zebra" in text for text in texts):
            raise Panic
        return encode(self, texts)

    without, joined = lab.file("csv"), lab.file("csv", lab.joined([("new", "zebra", "a")], "last"))
    with (
        patch.object(HashingEncoder, "encode", panicking),
        patch.object(real_run, "_STOPS", (BaseException,)),
        pytest.raises(Panic),
    ):
        lab.check(without, joined)
