"""An audit on a Ray cluster that the command starts: private, interrupted, resumed, and equal to a local one."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="it looks into /proc"),
]
SERVERS = (b"/gcs_server", b"/raylet")
COMMAND = [sys.executable, "-m", "canarybank.cli"]


def members_of(session):
    """Return the folders in /proc of all processes of a session that still run."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(place)
    return found


def sockets_of(places):
    """Return the local addresses, in hexadecimal, on which processes listen."""
    links = set()
    for file in (file for place in places for file in (place / "fd").glob("*")):
        with contextlib.suppress(OSError):
            links.add(str(file.readlink()))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in links}


def listen():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(words):
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        preexec_fn=listen,  # noqa: PLW1509, no other thread runs
    )


@pytest.mark.slow
def test_an_audit_on_ray_stops_at_control_c_and_goes_on_elsewhere_to_the_bytes_of_a_local_one(cli, own, tmp_path):
    words = ["audit", str(own), "--audit.trials", "3e5", "--attack.names", "nonce-norm,ordinary"]
    words += ["--audit.threshold", "analytic", "--run.workers", "2"]
    with start([*COMMAND, *words, "--run.engine", "ray", "--folder", str(tmp_path / "there")]) as process:
        deadline, log = time.monotonic() + 120, tmp_path / "there" / "trials.log"
        while not (log.exists() and log.read_bytes().count(b"\n") > 1) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert_private(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all of them
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert "Resume with: canarybank audit" in err.splitlines()[-1]
    assert not (tmp_path / "there" / "results.json").exists()
    assert_nothing_left(process.pid)
    for folder in ("there", "local"):
        assert cli(*words, "--folder", tmp_path / folder).code == 0
    assert (tmp_path / "there" / "results.json").read_bytes() == (tmp_path / "local" / "results.json").read_bytes()


def assert_private(pid):
    """Nobody else can reach the cluster or read its files, and it tells nobody of its use."""
    places = members_of(pid)
    assert sockets_of(places) == {"0100007F", "0000000000000000FFFF00000100007F"}  # 127.0.0.1
    servers = [place for place in places if (place / "cmdline").read_bytes().partition(b"\0")[0].endswith(SERVERS)]
    assert len(servers) == len(SERVERS)
    for place in servers:
        assert b"RAY_USAGE_STATS_ENABLED=0" in (place / "environ").read_bytes().split(b"\0")
    (folder,) = Path(tempfile.gettempdir()).glob(f"canarybank-ray-{pid}-*")
    assert folder.stat().st_mode & 0o777 == 0o700


def assert_nothing_left(pid):
    deadline = time.monotonic() + 20
    while (left := members_of(pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert not list(Path(tempfile.gettempdir()).glob(f"canarybank-ray-{pid}-*"))
