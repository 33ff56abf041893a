"""Remove a run's folder, or its manifest, while the run goes on: it ends with a sentence, and a command leads on."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

LIMIT = 120


@pytest.fixture
def running(own, tmp_path):
    """Start a long audit, and wait for its first shards."""
    folder = tmp_path / "runs" / "own"
    words = ["audit", str(own), "--folder", str(folder), "--audit.trials", "40000000", "--audit.threshold", "analytic"]
    with subprocess.Popen(
        [sys.executable, "-m", "canarybank.cli", *words, "--run.workers", "1"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        until(lambda: (folder / "trials.log").is_file() and (folder / "trials.log").read_text().count("\n") > 2)
        yield process, folder
        process.kill()


def until(holds):
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)


def test_a_folder_removed_while_its_audit_goes_on_ends_it_and_the_same_command_starts_anew(cli, own, running):
    process, folder = running
    shutil.rmtree(folder.rename(folder.parent.with_name("removed")))  # at once: the audit writes into it all the while
    error = process.communicate(timeout=LIMIT)[1]
    assert process.returncode == 4
    assert "was removed while its run went on" in error
    assert "Run the same command again to start anew." in error
    assert not folder.exists()
    assert cli("audit", own, "--folder", folder).code == 0
    assert cli("verify", folder).code == 0


def test_a_manifest_removed_while_its_audit_goes_on_is_put_back(cli, running):
    process, folder = running
    before = (folder / "manifest.json").read_text()
    (folder / "manifest.json").unlink()
    until((folder / "manifest.json").is_file)
    assert (folder / "manifest.json").read_text() == before
    process.send_signal(signal.SIGKILL)
    process.wait(LIMIT)
    assert cli("runs", "list", folder.parent, "--json").document["runs"][0]["state"] == "stopped"


def test_parts_of_a_run_without_its_manifest_are_refused_with_the_way_out(cli, own, copied):
    (copied / "manifest.json").unlink()
    outcome = cli("audit", own, "--folder", copied)
    assert outcome.code == 2
    assert "of a run that has lost its manifest.json" in outcome.err
    shutil.rmtree(copied)
    with contextlib.suppress(FileNotFoundError):
        copied.rmdir()
    assert cli("audit", own, "--folder", copied).code == 0
