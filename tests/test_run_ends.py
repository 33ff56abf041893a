"""A test that dies or hangs fails by name, and the run ends: shown on a small run with the options of `make test`."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
PYTEST = r"^test:.*\n(?:\t.*\n)*?\t\$\(BIN\)/python -m (pytest .*)$"
RECIPE = re.search(PYTEST, (HERE / "Makefile").read_text(), re.MULTILINE)[1]
SETTINGS = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
SECONDS = 60

DIES = "import os, signal\nos.kill(os.getpid(), signal.{})"
SLEEPS = "import time\ntime.sleep(1000)"
# An endless loop in C that holds the interpreter: neither a signal's handler nor a thread gets a turn.
HOLDS = "import collections, itertools\ncollections.deque(itertools.repeat(0), maxlen=0)"
PASSES = "assert True"


def run_tests(folder, bodies):
    """Run tests with these bodies; return the exit code, the numbers of those that failed and passed, the output."""
    code = [f"def test_{index:02d}():\n" + indented(body) for index, body in enumerate(bodies)]
    (folder / "test_small.py").write_text("\n\n".join(code))
    recipe = shlex.split(RECIPE.replace("$(WORKERS)", "2"))
    given = ["-c", str(HERE / "pyproject.toml"), "--rootdir", str(folder), "-p", "no:cacheprovider", "-rA"]
    # The limits of the real run are minutes; their order, their methods and all other options are what is tested.
    given += ["-o", "timeout=2", "-o", "faulthandler_timeout=5", str(folder)]
    run = [sys.executable, "-m", *recipe, *given]
    with subprocess.Popen(run, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            shown, _ = child.communicate(timeout=SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):  # a run that does not end leaves workers behind
                os.killpg(child.pid, signal.SIGKILL)
    named = {
        word: {int(number) for number in re.findall(rf"^{word} \S*::test_(\d\d)", shown, re.MULTILINE)}
        for word in ("FAILED", "PASSED")
    }
    return child.returncode, named["FAILED"], named["PASSED"], shown


def indented(body):
    return "\n".join(f"    {line}" for line in body.splitlines())


@pytest.mark.parametrize(
    ("bodies", "failing"),
    [
        # Near the end of a run, when the other worker has been told to stop, `--dist loadgroup` waited for ever.
        ([*[PASSES] * 12, DIES.format("SIGILL"), *[PASSES] * 3], {12}),
        pytest.param([DIES.format("SIGKILL"), *[PASSES] * 3, DIES.format("SIGSEGV")], {0, 4}, marks=pytest.mark.slow),
        pytest.param([DIES.format("SIGKILL")], {0}, marks=pytest.mark.slow),
        ([PASSES, SLEEPS, *[PASSES] * 3, HOLDS, PASSES], {1, 5}),
    ],
    ids=["one dies near the end", "first and last die", "the only one dies", "two hang"],
)
def test_a_test_that_dies_or_hangs_fails_by_name_and_the_run_ends(tmp_path, bodies, failing):
    code, failed, passed, shown = run_tests(tmp_path, bodies)
    assert code == 1, shown
    assert failed == failing, shown
    assert passed == set(range(len(bodies))) - failing, shown


def test_every_test_has_a_time_limit_and_a_harder_one_behind_it():
    assert 0 < SETTINGS["timeout"] < SETTINGS["faulthandler_timeout"] < 900
    assert SETTINGS["faulthandler_exit_on_timeout"] is True
