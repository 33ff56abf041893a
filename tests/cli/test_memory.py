"""The memory that `plan` announces is the memory that `audit` takes, within 30%."""

import json
import os
import random
import subprocess
import sys

import pytest

# What getrusage tells includes the process that forked this one, whatever that had grown to.
PEAK = (
    "import re, sys; from pathlib import Path; from canarybank.cli import main; code = main(sys.argv[1:]); "
    "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024); sys.exit(code)"
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process")
@pytest.mark.parametrize("encoder", ["hashing", pytest.param("wordllama", marks=pytest.mark.slow)])
def test_the_plan_states_the_peak_within_a_third(tmp_path, encoder):
    rng = random.Random(1)  # noqa: S311, made-up texts

    def line():
        return " ".join(f"w{rng.randrange(4000)}" for _ in range(12))

    (tmp_path / "users.csv").write_text("user,text\n" + "".join(f"u{i % 700},{line()}\n" for i in range(700 * 16)))
    (tmp_path / "bank.txt").write_text("".join(f"{line()}\n" for _ in range(1000)))
    words = ["--users.source", "users.csv", "--bank.source", "bank.txt", "--encoder.name", encoder, "--users.minimum"]
    words += ["16", "--cohorts.canaries", "1", "--attack.names", "ordinary", "--audit.trials", "2000", "--run.workers"]
    words += ["1", "--quiet"]
    kept = os.environ | {"CANARYBANK_CACHE": str(tmp_path / "cache")}
    run = {"cwd": tmp_path, "env": kept, "capture_output": True, "text": True}
    planned = subprocess.run([sys.executable, "-m", "canarybank.cli", "plan", *words, "--json"], check=True, **run)
    played = subprocess.run([sys.executable, "-c", PEAK, "audit", *words], check=True, **run)
    assert json.loads(planned.stdout)["memory_mib"] == pytest.approx(int(played.stdout.split()[-1]), rel=0.3)
