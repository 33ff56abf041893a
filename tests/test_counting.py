"""Loops say how many cases they tried: the last lines of a test run hold their sums."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LOOPS = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_loop(count, number):
    count("files", corruptions=300, silent=0)

def test_other(count):
    count("inputs", fuzzed=7, refused=5)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_counts_of_all_tests_and_workers_are_added_up(tmp_path, workers):
    shutil.copy(TESTS / "conftest.py", tmp_path)
    shutil.copytree(TESTS / "guard", tmp_path / "guard")
    (tmp_path / "test_loops.py").write_text(LOOPS)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=dict(os.environ),
    )
    assert ended.returncode == 0, ended.stdout
    lines = ended.stdout.splitlines()
    assert "files: 1,200 corruptions, 0 silent" in lines
    assert "inputs: 7 fuzzed, 5 refused" in lines
