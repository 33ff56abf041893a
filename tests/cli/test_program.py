import os
import signal
import subprocess
import sys

import pytest

from canarybank.errors import GenerationError
from canarybank.store import lock_folder

COMMAND = [sys.executable, "-m", "canarybank.cli"]


def test_fine_is_0(cli):
    assert cli("--version").code == 0


def test_no_command_shows_the_help(cli):
    outcome = cli()
    assert outcome.code == 0
    assert "canarybank demo" in outcome.out


@pytest.mark.parametrize(
    "words",
    [
        ("adit",),
        ("audit", "--audit.trils", "3"),
        ("audit", "--audit.trials", "many"),
        ("audit", "nowhere.toml"),
        ("gate",),
        ("epsilon", "--sigma", "0"),
        ("config", "show", "--preset", "nobody"),
    ],
)
def test_bad_usage_or_configuration_is_2(cli, words):
    outcome = cli(*words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("Error: ")
    assert "Traceback" not in outcome.err


def test_something_missing_is_3_and_says_what_to_install(cli, own):
    outcome = cli("audit", own, "--attack.names", "paraphrase", "--quiet")
    assert outcome.code == 3
    assert "pip install" in outcome.err


def test_a_missing_package_is_3(broken):
    cli = broken(ModuleNotFoundError("No module named 'polars'", name="polars"))
    outcome = cli("runs", "list")
    assert outcome.code == 3
    assert "pip install polars" in outcome.err


def test_a_folder_in_use_is_4(cli, own, tmp_path):
    with lock_folder(tmp_path / "busy", "a test"):
        outcome = cli("audit", own, "--folder", tmp_path / "busy", "--quiet")
    assert outcome.code == 4
    assert "is in use by" in outcome.err


def test_a_folder_that_cannot_be_made_is_2(cli, own, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = cli("audit", own, "--folder", tmp_path / "file" / "run", "--quiet")
    assert outcome.code == 2
    assert "--folder" in outcome.err
    assert "bug" not in outcome.err


@pytest.mark.parametrize("words", [("report",), ("gate", "--claimed-eps", "1"), ("verify",)])
def test_an_incomplete_run_is_4(cli, unfinished, words):
    outcome = cli(*words, unfinished)
    assert outcome.code == 4
    assert "run the same command again" in outcome.err


def test_a_failed_generator_is_4(broken):
    cli = broken(GenerationError("The server went away."))
    assert cli("audit").code == 4


def test_a_bug_is_never_taken_for_a_failed_gate(broken):
    cli = broken(RuntimeError("boom"))
    outcome = cli("gate")
    assert outcome.code == 70
    assert "--traceback" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_traceback_is_shown_when_asked_for(broken):
    cli = broken(RuntimeError("boom"))
    assert "Traceback (most recent call last)" in cli("--traceback", "gate").err


@pytest.mark.parametrize("command", ["audit", "bank", "demo", "evolve", "reproduce", "score", "sweep"])
def test_an_interruption_is_130_and_says_how_to_resume(broken, command):
    cli = broken(KeyboardInterrupt())
    outcome = cli(command, "my file.toml", "--audit.trials", "7")
    assert outcome.code == 130
    assert f"Resume with: canarybank {command} 'my file.toml' --audit.trials 7" in outcome.err


def test_an_interruption_of_something_short_just_says_so(broken):
    cli = broken(KeyboardInterrupt())
    outcome = cli("epsilon")
    assert (outcome.code, outcome.err) == (130, "Interrupted.\n")


def test_flags_of_every_command_may_stand_first(cli):
    outcome = cli("--json", "--quiet", "runs", "list")
    assert outcome.code == 0
    assert outcome.document["command"] == "runs list"


def test_a_reader_who_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "config", "schema"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stderr == b""


def test_control_c_leaves_a_run_that_the_same_command_finishes(own, tmp_path):
    words = [*COMMAND, "audit", str(own), "--folder", str(tmp_path / "run"), "--audit.trials", "4e6"]
    words += ["--attack.names", "nonce-norm", "--audit.threshold", "analytic"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        seen = []
        for line in process.stderr:
            seen.append(line)
            if line.startswith("commitment: sha256"):
                process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 130, seen
    assert "Resume with: canarybank audit" in seen[-1]
    assert (tmp_path / "run" / "commitment.json").exists()
    assert not (tmp_path / "run" / "results.json").exists()
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    assert (tmp_path / "run" / "report.html").exists()
