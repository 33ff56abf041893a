"""An audit on a Ray cluster that the command starts: interrupted, resumed, and equal to the local one to the byte."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(240)
COMMAND = [sys.executable, "-m", "canarybank.cli"]


def members_of(session):
    """Return the commands of all processes of a session that still run."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(command)
    return found


def listen():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(words):
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listen,  # noqa: PLW1509, no other thread runs
    )


def test_an_audit_on_ray_stops_at_control_c_and_goes_on_to_the_bytes_of_a_local_one(own, tmp_path):
    words = [*COMMAND, "audit", str(own), "--audit.trials", "6e5", "--attack.names", "nonce-norm,ordinary"]
    words += ["--audit.threshold", "analytic", "--run.workers", "2"]
    on_ray = [*words, "--run.engine", "ray", "--folder", str(tmp_path / "there")]
    with start(on_ray) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "there" / "trials.log").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all of them
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Resume with: canarybank audit" in err.splitlines()[-1]
    assert not (tmp_path / "there" / "results.json").exists()
    assert_nothing_left(process.pid)
    with start(on_ray) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert_nothing_left(process.pid)
    local = subprocess.run([*words, "--folder", str(tmp_path / "local")], capture_output=True, text=True, check=True)
    assert (tmp_path / "there" / "results.json").read_bytes() == (tmp_path / "local" / "results.json").read_bytes()
    assert out.replace("there", "local") == local.stdout  # names of one length, for lines are filled up


def assert_nothing_left(pid):
    deadline = time.monotonic() + 20
    while (left := members_of(pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert not list(Path(tempfile.gettempdir()).glob(f"canarybank-ray-{pid}-*"))
