"""Audit a system that is not ours in a folder: commitment, seal, trials, results; killed, resumed, verified, gated."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from broken_systems import CLAIM, PROBES, SCORE, ZOO, system

import canarybank
from canarybank.auditing import Settings
from canarybank.cli import main
from canarybank.errors import CanarybankError, ConfigError, InputError, StoreError
from canarybank.mechanism import Claim
from canarybank.systems import CallableSystem

# A true claim fails in fewer than 1 of 100,000 runs; what is broken is far enough off to be caught all the same.
SETTINGS = Settings(trials=20_000, alpha=1e-5, method="clopper-pearson", seed=3)
DOUBLES = str(Path(__file__).parents[1] / "doubles")
FILES = ("commitment.json", "sealed.json", "trials.log", "results.json")


def audited(folder, made=None, claim=CLAIM, **options):
    given = {"name": "the zoo's", **options}
    return canarybank.audit_system(made or system(), SCORE, claim, SETTINGS, folder=folder, **given)


@pytest.fixture(scope="module")
def correct(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign") / "correct"
    audited(folder)
    return folder


def altered(folder, name, change):
    """Change a document and enter its new hash wherever the folder could, as a forger without the trials would."""
    path = folder / name
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def copied(folder, to):
    to.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (to / path.name).write_bytes(path.read_bytes())
    return to


def test_the_correct_system_stands(correct):
    result = audited(correct)
    assert not result.violation
    assert 0.0 < result.bound.epsilon < 1.68
    assert canarybank.verify(correct).ok
    assert main(["gate", str(correct), "--claimed-eps", "1.69"]) == 0


@pytest.mark.parametrize("broken", ZOO.values(), ids=ZOO.keys())
def test_a_broken_system_is_caught_and_the_gate_fails(broken, tmp_path, capsys):
    # Half the noise is the smallest violation here, and takes more trials than the others.
    trials = 120_000
    done = canarybank.audit_system(broken, SCORE, CLAIM, replace(SETTINGS, trials=trials), folder=tmp_path / "run")
    assert done.violation
    assert canarybank.verify(tmp_path / "run").ok
    assert main(["gate", str(tmp_path / "run"), "--claimed-eps", "1.69"]) == 1
    assert "Violation: the bound" in capsys.readouterr().out


def test_the_folder_and_memory_show_the_same(correct):
    memory = canarybank.audit_system(system(), SCORE, CLAIM, SETTINGS)
    kept = canarybank.open_run(correct).results
    assert (memory.canaries, memory.headline) == (kept.attacks[0].canaries, kept.attacks[0].headline)


def test_everything_that_decides_is_on_disk_before_the_system_is_called(tmp_path):
    """The commitment comes before the first call; the seal comes after calibration and before the first trial."""
    folder, seen, told = tmp_path / "run", [], []
    inner = system()

    def watched(eligible, size, rng):
        seen.append((tuple(name for name in FILES if (folder / name).exists()), len(told)))
        return inner.release(eligible, size, rng)

    audited(folder, CallableSystem(watched, PROBES), committed=told.append)
    assert list(dict.fromkeys(seen)) == [(("commitment.json",), 1), (FILES[:3], 1)]
    run = canarybank.open_run(folder)
    assert told == [run.commitment_hash]
    assert run.commitment.recipe.startswith("threshold calibrated: play 20,000 trials")
    assert run.commitment.attacks[0].canaries[0].threshold is None
    assert run.sealed.commitment == run.commitment_hash
    assert run.sealed.thresholds["system"][0][0] == run.results.attacks[0].canaries[0].threshold


KILLED = """
import os, signal, sys
sys.path.insert(0, {doubles!r})
from broken_systems import CLAIM, PROBES, SCORE, system
import canarybank
from canarybank.systems import CallableSystem
calls, inner = [0], system()
def release(eligible, size, rng):
    calls[0] += 1
    if calls[0] == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner.release(eligible, size, rng)
settings = canarybank.Settings(trials=20_000, alpha=1e-5, method="clopper-pearson", seed=3)
canarybank.audit_system(CallableSystem(release, PROBES), SCORE, CLAIM, settings, folder={folder!r}, name="the zoo's")
"""


@pytest.mark.parametrize(
    ("at", "left"),
    # 20,000 trials are 5 calls a hypothesis: 10 calls calibrate, then 10 calls count.
    [(1, FILES[:1]), (7, FILES[:1]), (11, FILES[:3]), (18, FILES[:3])],
)
def test_a_killed_audit_ends_with_the_same_bytes(at, left, correct, tmp_path):
    folder = tmp_path / "run"
    code = KILLED.format(doubles=DOUBLES, at=at, folder=str(folder))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert tuple(name for name in FILES if (folder / name).exists()) == left
    calls = []
    inner = system()

    def counted(eligible, size, rng):
        calls.append(size)
        return inner.release(eligible, size, rng)

    audited(folder, CallableSystem(counted, PROBES))
    assert len(calls) == {1: 20, 7: 20, 11: 10, 18: 5}[at]  # a sealed threshold is not fitted again, nor a shard played
    for name in FILES:
        assert (folder / name).read_bytes() == (correct / name).read_bytes(), name
    assert canarybank.verify(folder, canarybank.open_run(correct).commitment_hash).ok


def test_a_finished_audit_calls_the_system_no_more(correct):
    def never(*_):
        raise AssertionError

    assert audited(correct, CallableSystem(never, PROBES)).bound == audited(correct).bound


@pytest.mark.parametrize(
    ("name", "change", "finding"),
    [
        ("sealed.json", lambda v: v["thresholds"]["system"][0][0].update(value=1.0), "thresholds of system are not"),
        ("sealed.json", lambda v: v.update(commitment="0" * 64), "written under the commitment 000"),
        ("sealed.json", lambda v: v["thresholds"].clear(), "holds no threshold of system"),
        ("commitment.json", lambda v: v.update(recipe="as I like"), "names the commitment"),
        ("results.json", lambda v: v["attacks"][0]["canaries"][0]["threshold"].update(value=9.0), "thresholds of sys"),
    ],
)
def test_what_was_altered_is_found(name, change, finding, correct, tmp_path):
    folder = copied(correct, tmp_path / "run")
    altered(folder, name, change)
    found = canarybank.verify(folder)
    assert not found.ok
    assert any(finding in each for each in found.findings), found.findings
    with pytest.raises(StoreError, match="does not verify"):
        canarybank.gate(canarybank.open_run(folder), 1.69)


def test_trials_belong_to_the_threshold_that_was_sealed(correct, tmp_path):
    """Another threshold, entered consistently everywhere, still contradicts the hash that begins the trials."""
    folder = copied(correct, tmp_path / "run")
    altered(folder, "sealed.json", lambda v: v["thresholds"]["system"][0][0].update(value=1.0))
    altered(folder, "results.json", lambda v: v["attacks"][0]["canaries"][0]["threshold"].update(value=1.0))
    assert any("trials.log were played under" in each for each in canarybank.verify(folder).findings)


def test_a_lost_seal_is_not_fitted_again_over_trials(tmp_path):
    folder, calls = tmp_path / "run", [0]
    inner = system()

    def stopping(eligible, size, rng):
        calls[0] += 1
        if calls[0] == 18:
            raise KeyboardInterrupt
        return inner.release(eligible, size, rng)

    with pytest.raises(KeyboardInterrupt):
        audited(folder, CallableSystem(stopping, PROBES))
    (folder / "sealed.json").unlink()
    with pytest.raises(StoreError, match="its threshold is lost, and it is not fitted again"):
        audited(folder)


@pytest.mark.parametrize("lost", ["commitment.json", "results.json"])
def test_a_lost_document_is_made_again_the_same_to_the_byte(lost, correct, tmp_path):
    folder = copied(correct, tmp_path / "run")
    (folder / lost).unlink()
    audited(folder)
    assert (folder / lost).read_bytes() == (correct / lost).read_bytes()


def test_a_lost_seal_of_a_finished_run_is_not_made_again(correct, tmp_path):
    folder = copied(correct, tmp_path / "run")
    (folder / "sealed.json").unlink()
    with pytest.raises(StoreError, match=r"its sealed.json is missing.*restored from a copy"):
        audited(folder)


def test_other_settings_or_another_score_are_refused(correct):
    with pytest.raises(ConfigError, match=r"audit.trials: 20000 -> 30000"):
        canarybank.audit_system(
            system(), SCORE, CLAIM, replace(SETTINGS, trials=30_000), folder=correct, name="the zoo's"
        )
    with pytest.raises(ConfigError, match=r"audit.system: \"the zoo's\" -> 'another'"):
        audited(correct, name="another")
    with pytest.raises(ConfigError, match=r"audit.accounted: left out -> 1.5"):
        audited(correct, claim=Claim(1.5, CLAIM.delta, mechanism=CLAIM))


@pytest.mark.parametrize("name", ["mechanism", "os:getcwd"])
def test_a_foreign_system_takes_no_registered_name(name, tmp_path):
    with pytest.raises(InputError, match="choose another name"):
        audited(tmp_path / "run", name=name)
    assert not (tmp_path / "run").exists()


def test_a_claim_is_committed_to_and_a_false_one_fails_the_gate(tmp_path):
    folder = tmp_path / "run"
    audited(folder, claim=Claim(1.5, CLAIM.delta, mechanism=CLAIM))
    run = canarybank.open_run(folder)
    assert run.commitment.claimed == run.results.claim == 1.5
    assert main(["gate", str(folder), "--claimed-eps", "1.5"]) == 1


def test_a_page_says_that_the_system_is_not_ours_and_computes_nothing_exactly(correct, tmp_path):
    assert main(["report", str(correct), "--out", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "report.html").read_text()
    for said in (
        "the system states no law of its releases",
        "the zoo&#39;s",
        "sealed.json",
        "not canarybank&#39;s own",
    ):
        assert said in page
    assert "simulated by this program" not in page
    assert "0 eligible" not in page


def test_reading_a_folder_imports_nothing_that_it_names(tmp_path):
    """The system's own module could be imported, and is not."""
    audited(tmp_path / "run", ZOO["the same noise in every trial"], name=None)
    assert canarybank.open_run(tmp_path / "run").results.audit.system == "broken_systems.SameNoise"
    code = (
        "import sys, canarybank\n"
        "run = canarybank.open_run(sys.argv[1])\n"
        "canarybank.verify(run.folder)\n"
        "canarybank.gate(run, 1.69)\n"
        "canarybank.write_report(run)\n"
        "assert 'broken_systems' not in sys.modules\n"
        "import broken_systems\n"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([DOUBLES, os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True, env=path)


def test_a_system_that_releases_nonsense_leaves_a_folder_that_the_mended_one_goes_on_with(tmp_path):
    broken = CallableSystem(lambda _eligible, size, _rng: [[float("nan")] * PROBES] * size, PROBES)
    with pytest.raises(CanarybankError, match="NaN or infinite"):
        audited(tmp_path / "run", broken)
    assert not audited(tmp_path / "run").violation
