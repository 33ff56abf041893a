"""Audit a system that is not ours from Python, in a folder: killed, resumed, verified, gated, and given nonsense."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from broken_systems import CANARY, CLAIM, INSPECTED, PROBES, SCORE, SameNoise, system

import canarybank
from canarybank.auditing import Settings
from canarybank.cli import main
from canarybank.errors import CanarybankError, ConfigError, InputError, StoreError
from canarybank.mechanism import Claim, Mechanism
from canarybank.systems import Hypothesis

SETTINGS = Settings(trials=60, seed=3)
DOUBLES = str(Path(__file__).parents[1] / "doubles")
FILES = ("commitment.json", "sealed.json", "results.json")


def audited(folder=None, made=None, claim=CLAIM, **options):
    given = {"name": "the zoo's", "apart": 20, "batch": 40, "settings": SETTINGS, **options}
    return canarybank.audit_system(made or system(), SCORE, claim, folder=folder, **given)


@pytest.fixture(scope="module")
def correct(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign") / "correct"
    audited(folder)
    return folder


def test_the_correct_system_stands(correct):
    found = audited(correct)
    assert (str(found.verdict), found.refuted) == ("stands", False)
    assert canarybank.verify(correct).ok
    assert main(["gate", str(correct), "--claimed-eps", "1.69"]) == 0


def test_a_broken_system_is_refuted_and_the_gate_fails(tmp_path):
    broken = system(canary=20 * CANARY, participation=1.0)
    found = audited(tmp_path / "run", broken)
    assert found.refuted
    assert canarybank.verify(tmp_path / "run").ok
    assert main(["gate", str(tmp_path / "run"), "--claimed-eps", "1.69"]) == 1


def test_the_folder_and_memory_show_the_same(correct):
    assert audited() == canarybank.open_run(correct).system_results.found


def test_everything_that_decides_is_on_disk_before_the_runs_that_it_decides_about(tmp_path):
    """The commitment comes before the first run; the rules are sealed before the first judged one."""
    folder, seen, told, inner = tmp_path / "run", [], [], system()

    class Watched:
        def play(self, trials, rng):
            there = tuple(name for name in FILES if (folder / name).exists())
            seen.append((str(trials[0].split), there, len(told)))
            arms = [trial.hypothesis is Hypothesis.ELIGIBLE for trial in trials]
            return [inner.release(each, 1, rng)[0] for each in arms]

    audited(folder, Watched(), committed=told.append)
    assert list(dict.fromkeys(seen)) == [("fit", FILES[:1], 1), ("judge", FILES[:2], 1)]
    run = canarybank.open_run(folder)
    assert told == [run.commitment_hash] == [run.sealed_rules.commitment] == [run.system_results.commitment]


def test_the_judged_runs_have_no_say_in_the_rules(correct, tmp_path):
    inner = system()

    class Turning:
        """Release as the correct system does while runs are set apart, and nonsense afterwards."""

        def play(self, trials, rng):
            released = canarybank.systems.playing(inner).play(trials, rng)
            return released if trials[0].split == "fit" else [(rng.normal(size=PROBES),) for _ in trials]

    audited(tmp_path / "run", Turning())
    assert (tmp_path / "run" / "sealed.json").read_bytes() == (correct / "sealed.json").read_bytes()


KILLED = """
import os, signal, sys
sys.path.insert(0, {doubles!r})
from broken_systems import CLAIM, SCORE, system
import canarybank
calls, inner = [0], system()
def release(eligible, size, rng):
    calls[0] += 1
    if calls[0] == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner.release(eligible, size, rng)
settings = canarybank.Settings(trials=60, seed=3)
canarybank.audit_system(
    release, SCORE, CLAIM, settings, folder={folder!r}, name="the zoo's", apart=20, batch=40
)
"""


@pytest.mark.parametrize(("at", "left", "calls"), [(1, 1, 8), (3, 2, 6), (7, 2, 2)])
def test_a_killed_audit_ends_with_the_same_bytes(at, left, calls, correct, tmp_path):
    """40 runs set apart are one batch, and 120 judged ones three; each batch is a call for each hypothesis."""
    folder, inner, made = tmp_path / "run", system(), []
    code = KILLED.format(doubles=DOUBLES, at=at, folder=str(folder))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [name for name in FILES if (folder / name).exists()] == list(FILES[:left])

    def counted(eligible, size, rng):
        made.append(size)
        return inner.release(eligible, size, rng)

    audited(folder, counted)
    assert len(made) == calls
    for name in (*FILES, *(f"releases/{path.name}" for path in (correct / "releases").iterdir())):
        assert (folder / name).read_bytes() == (correct / name).read_bytes(), name
    assert canarybank.verify(folder, canarybank.open_run(correct).commitment_hash).ok


def test_a_finished_audit_calls_the_system_no_more(correct):
    def never(*_):
        raise AssertionError

    assert audited(correct, never) == audited(correct)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda _eligible, size, _rng: np.full((size, PROBES), np.nan), "NaN or an infinite value"),
        (lambda _eligible, size, _rng: np.zeros((size - 1, PROBES)), "releases for 20"),
        (lambda _eligible, size, _rng: [["a"] * PROBES] * size, "not a number"),
        (lambda _eligible, size, _rng: np.zeros((size, 2, 2, 2)), "one vector a round"),
        (lambda _eligible, size, _rng: np.zeros((size, 0)), "the designed score reads"),
        (lambda _eligible, size, _rng: np.zeros((size, PROBES + 1)), "the designed score reads"),
        (
            lambda eligible, size, rng: [None if eligible else rng.normal(size=PROBES) for _ in range(size)],
            "0 eligible",
        ),
    ],
)
def test_nonsense_is_said_in_a_sentence(broken, said):
    with pytest.raises(CanarybankError, match=said):
        audited(None, broken)


def test_what_is_no_system_is_said():
    for given, said in ((object(), "is no system"), (dict, "give an instance")):
        with pytest.raises(InputError, match=said):
            audited(None, given, name="nothing")
    with pytest.raises(InputError, match="is not told which one"):
        audited(None, canaries=("a", "b"))
    with pytest.raises(InputError, match="Say what the system claims"):
        canarybank.audit_system(system())


def test_a_system_that_raises_midway_is_gone_on_with_after_it_was_mended(correct, tmp_path):
    folder, calls, inner = tmp_path / "run", [0], system()

    def failing(eligible, size, rng):
        calls[0] += 1
        if calls[0] == 5:
            raise RuntimeError("the database is away")
        return inner.release(eligible, size, rng)

    with pytest.raises(RuntimeError, match="the database is away"):
        audited(folder, failing)
    assert len(list((folder / "releases").iterdir())) == 2
    audited(folder)
    assert (folder / "results.json").read_bytes() == (correct / "results.json").read_bytes()


def test_rows_of_other_lengths_are_a_leak_and_no_error():
    """The canary makes a release one value longer: no noise hides that."""

    def ragged(eligible, size, rng):
        return [rng.normal(0.0, 10.0, PROBES + eligible) for _ in range(size)]

    claim = Mechanism(q=1.0, sigma=1.0)
    found = canarybank.audit_system(ragged, claim=claim, settings=SETTINGS)
    assert {str(each.score) for each in found.shown if each.refuted} == {"length"}
    assert found.leaks[0].is_certain


def test_an_audit_from_python_stops_when_the_bets_refute(tmp_path):
    broken, played = system(canary=20 * CANARY, participation=1.0), []

    def counted(eligible, size, rng):
        played.append(size)
        return broken.release(eligible, size, rng)

    settings = Settings(trials=600, seed=3)
    options = {"evidence": ("bound", "betting"), "settings": settings, "stop_when_refuted": True}
    found = audited(tmp_path / "run", counted, **options)
    assert found.refuted
    assert {str(each.evidence) for each in found.shown} == {"betting"}  # a bound from fewer runs is another claim
    assert found.judged * 2 + 40 == sum(played) < 600
    assert canarybank.verify(tmp_path / "run").ok


def test_dependent_runs_have_no_bound_and_the_gate_gives_5(tmp_path):
    table = np.random.default_rng(0).normal(size=(10, PROBES))

    def restarted(_eligible, size, _rng):
        return np.resize(table, (size, PROBES))

    found = audited(tmp_path / "run", restarted)
    assert (str(found.verdict), found.shown, found.epsilon) == ("dependent", (), None)
    assert main(["gate", str(tmp_path / "run"), "--claimed-eps", "1.69"]) == 5


def test_other_settings_are_refused(correct):
    with pytest.raises(ConfigError, match=r"system.runs: 60 -> 80"):
        audited(correct, settings=Settings(trials=80, seed=3))
    with pytest.raises(ConfigError, match=r"system.name: \"the zoo's\" -> 'another'"):
        audited(correct, name="another")
    with pytest.raises(ConfigError, match=r"audit.accounted: "):
        audited(correct, claim=Claim(1.7, CLAIM.delta, mechanism=CLAIM))


def test_a_lost_document_of_a_finished_audit_is_said(correct, tmp_path):
    for name in FILES:
        folder = shutil.copytree(correct, tmp_path / name)
        (folder / name).unlink()
        with pytest.raises(StoreError, match=name):
            audited(folder)


@pytest.mark.parametrize("name", ["mechanism", "os:getcwd"])
def test_a_foreign_system_takes_no_registered_name(name, tmp_path):
    with pytest.raises(InputError, match="choose another name"):
        audited(tmp_path / "run", name=name)
    assert not (tmp_path / "run").exists()


def test_reading_a_folder_imports_nothing_that_it_names(tmp_path):
    """The system's own module could be imported, and is not."""
    audited(tmp_path / "run", SameNoise(), name=None)
    assert canarybank.open_run(tmp_path / "run").plant.system == "broken_systems.SameNoise"
    code = (
        "import sys, canarybank\n"
        "run = canarybank.open_run(sys.argv[1])\n"
        "canarybank.verify(run.folder)\n"
        "try:\n"
        "    canarybank.gate(run, 1.69)\n"
        "except canarybank.errors.DependenceError:\n"
        "    print('its noise is the same in every run')\n"
        "canarybank.write_report(run)\n"
        "assert 'broken_systems' not in sys.modules\n"
        "import broken_systems\n"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([DOUBLES, os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True, env=path)


def test_the_documents_hold_no_release_but_what_was_inspected(correct):
    plant = json.loads((correct / "commitment.json").read_text())
    assert plant["kind"] == "system"
    assert set(plant["designed"]) == {"canary"}
    assert len(plant["designed"]["canary"][0]["canary"]) == len(CANARY[INSPECTED])
