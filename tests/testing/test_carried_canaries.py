"""The neighbour test of a run with its own canaries: with releases and their coins fixed, nothing else leaves."""

import json
from unittest.mock import patch

import numpy as np
import pytest

from canarybank.evolution import Voters
from canarybank.testing import compare_worlds
from canarybank.testing.neighbours import uniform_of, voter_names

CARRYING = {"evolve.audit_one_run": True, "one_run.canaries": 8, "evolve.keep": 3, "audit.alpha": 0.05}


def probe_texts(world):
    return [json.loads(line)["text"] for line in world.files["evolution/rounds/000/probes.jsonl"].splitlines()]


@pytest.fixture(scope="module")
def alone(lab):
    world = lab.world(lab.file("csv"), settings=CARRYING)
    assert world.performance.code == 0, world.performance.err
    return world


def test_the_world_has_canaries_and_a_certificate(alone):
    voters = alone.releases.voters
    assert len(voter_names(voters)) == 8 + 8
    found = json.loads(alone.files["results.json"])
    assert found["evolution"]["certificate"]["canaries"] == 8
    assert found["evolution"]["voters"] is None
    assert found["commitment"] in alone.performance.out
    assert {"evolution/rounds/000/coins.json", "evolution/rounds/001/coins.json", "commitment.json"} <= set(alone.files)
    assert any(name.startswith("canary") for draw in alone.releases.draws for name in draw.chosen)


@pytest.mark.parametrize("position", ["first", "middle", "last"])
@pytest.mark.parametrize(
    "who", ["a plain user", "a canary's id", "a canary's text", "a canary's id and text", "all probes", "a flood"]
)
def test_whoever_the_newcomer_is_nothing_changes_but_the_release(who, position, lab, alone, count):
    texts = probe_texts(alone)
    rows = {
        "a plain user": [("new", "the cat and the dog", "a")],
        "a canary's id": [("canary-1", "the cat", "a")],
        "a canary's text": [("new", texts[0], "a")],
        "a canary's id and text": [("canary-1", text, "a") for text in texts[:3]],
        "all probes": [("new", text, "b") for text in texts],
        "a flood": [("new", f"{texts[1]} {i}", "b") for i in range(300)],
    }[who]
    joined = lab.world(lab.file("csv", lab.joined(rows, position)), settings=CARRYING)
    assert joined.has_run
    assert len(joined.releases.voters.users) == len(alone.releases.voters.users) + 1
    assert compare_worlds(alone, joined) == ()
    count("neighbours of a run with canaries", worlds=1, leaks=0)


def test_cold_and_warm_caches_tell_nothing(lab, alone):
    joined = lab.joined([("canary-2", text, "a") for text in probe_texts(alone)[:4]], "first")
    assert lab.check_all(lab.file("csv"), lab.file("csv", joined), settings=CARRYING) == ()


@pytest.mark.parametrize(("flags", "terminal"), [((), False), ((), True), (("--json",), False)])
def test_the_command_line_shows_nothing_but_the_release(flags, terminal, lab, alone):
    rows = [("canary-1", text, "HIV clinic") for text in probe_texts(alone)[:3]]
    perform = lab.cli(*flags, terminal=terminal)
    files = (lab.file("csv"), lab.file("csv", lab.joined(rows, "middle")))
    worlds = [lab.world(users, settings=CARRYING, perform=perform) for users in files]
    assert [world.performance.code for world in worlds] == [0, 0]
    assert "report.html" in worlds[0].files
    assert compare_worlds(*worlds) == ()
    if flags == ("--json",):
        assert json.loads(worlds[0].performance.out)["certificate"]["canaries"] == 8


def test_a_run_that_is_stopped_and_resumed_shows_nothing_but_the_release(lab, alone):
    rows = [("canary-1", text, "b") for text in probe_texts(alone)[:9]]
    users = [lab.file("csv"), lab.file("csv", lab.joined(rows, "first"))]
    settings = CARRYING | {"evolve.new": 26}  # the generator fails in the first round
    worlds = [
        lab.world(users[a], settings=settings, perform=lab.resumed(users[b])) for a, b in ((0, 0), (0, 1), (1, 1))
    ]
    assert {world.performance.code for world in worlds} == {0}
    for other in worlds[1:]:
        assert compare_worlds(worlds[0], other) == ()


def test_a_newcomer_who_is_never_sampled_changes_no_byte_of_a_run_that_draws(lab):
    names = map("canary-{}".format, range(99))
    unsampled = next(name for name in names if all(uniform_of(t, f"user {name}") >= 0.5 for t in range(2)))
    joined = lab.joined([(unsampled, f"dog {i}", "b") for i in range(9)], "first")
    files = (lab.file("csv"), lab.file("csv", joined))
    worlds = [lab.world(users, settings=CARRYING, perform=lab.drawing) for users in files]
    assert worlds[0].performance.code == 0
    coins = json.loads(worlds[0].files["evolution/rounds/000/coins.json"])
    assert coins["took"] == [i for i in range(8) if uniform_of(0, f"canary {i}") < 0.5]
    assert compare_worlds(*worlds) == ()


# --- mutants: each of these must be found -----------------------------------------------------------------------------


def mutant_findings(mutant, lab):
    joined = lab.joined([("new", f"the cat {i}", "a") for i in range(9)], "first")
    with mutant:
        return lab.check(lab.file("csv"), lab.file("csv", joined), settings=CARRYING)


def test_coins_of_users_in_the_place_of_canaries_are_found(lab):
    mutant = patch.object(Voters, "_took", lambda self, coins: coins[: len(self.canaries)])
    assert any("its coins are not the canaries' own" in each for each in mutant_findings(mutant, lab))


def test_a_canary_who_steps_back_for_a_newcomer_is_found(lab):
    histogram = Voters.histogram

    def stepping(self, participants, *given):
        chosen = np.asarray(participants)
        crowded = len(self.users) > len(lab.rows) // 4 and len(chosen)
        return histogram(self, chosen[:-1] if crowded else chosen, *given)

    assert mutant_findings(patch.object(Voters, "histogram", stepping), lab)


def test_canaries_that_are_left_out_of_the_sum_are_found(lab):
    histogram = Voters.histogram

    def release(self, bank, mechanism, noise="discrete"):
        alone = patch.object(
            Voters,
            "histogram",
            lambda self, chosen, *m: histogram(self, [i for i in chosen if i < len(self.users)], *m),
        )
        with alone:
            return draw(self, bank, mechanism, noise)

    draw = Voters.release
    findings = mutant_findings(patch.object(Voters, "release", release), lab)
    assert any("not the sum over the sampled voters" in each for each in findings)
