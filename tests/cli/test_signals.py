"""A signal ends a command with a sentence and its own exit code, whenever it comes."""

import os
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "canarybank.cli"]
SPAN = 1.2
"""Seconds from the first line of `main` in which a command reads its settings, its users and begins its work."""
SAID = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated", signal.SIGHUP: "Hung up"}


def start(words, **options):
    # Under pytest-xdist or nohup a signal may be ignored, which a child would inherit.
    def listen():
        for number in SAID:
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)

    return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=listen, **options)  # noqa: PLW1509, no other thread runs


@pytest.mark.parametrize("moments", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_control_c_at_any_moment_of_the_start_is_never_a_traceback(own, tmp_path, count, moments):
    # The interpreter itself starts first; from the first line of `main` on, every moment is ours.
    code = "import sys; from canarybank.cli import main; print('now', file=sys.stderr, flush=True); sys.exit(main())"
    words = [sys.executable, "-c", code, "audit", str(own), "--audit.trials", "4e6"]
    seen = []
    for moment in range(moments):
        with start([*words, "--folder", str(tmp_path / f"run{moment}")]) as process:
            assert process.stderr.readline() == b"now\n"
            time.sleep(0.001 + SPAN * moment / moments)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1].decode()
        seen.append((process.returncode, said))
    bad = [each for each in seen if each[0] != 130 or "Traceback" in each[1] or "Interrupted" not in each[1]]
    count("early Ctrl-C", moments=moments, tracebacks=len(bad))
    assert not bad


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_each_signal_says_how_to_resume_and_loses_nothing(own, tmp_path, number):
    words = [*COMMAND, "audit", str(own), "--folder", str(tmp_path / "run"), "--audit.trials", "1e6"]
    words += ["--attack.names", "nonce-norm", "--audit.threshold", "analytic"]
    with start(words, text=True) as process:
        seen = []
        for line in process.stderr:
            seen.append(line)
            if line.startswith("commitment: sha256"):
                process.send_signal(number)
        code = process.wait(60)
    assert code == 128 + number, seen
    assert seen[-1].startswith(f"{SAID[number]}; what was done is kept. Resume with: canarybank audit")
    assert not any("Traceback" in line for line in seen)
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_a_signal_that_was_ignored_stays_ignored(own, tmp_path):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does

    words = [*COMMAND, "audit", str(own), "--folder", str(tmp_path / "run"), "--audit.trials", "2e5"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, preexec_fn=ignore) as it:  # noqa: PLW1509
        for line in it.stderr:
            if line.startswith("commitment: sha256"):
                it.send_signal(signal.SIGHUP)
        assert it.wait(60) == 0


def test_signals_go_back_to_whom_they_belonged(cli):
    before = [signal.getsignal(number) for number in SAID]
    assert cli("--version").code == 0
    assert [signal.getsignal(number) for number in SAID] == before
    assert os.getpid() > 0


def test_a_signal_whose_exception_python_drops_still_stops_the_program():
    # What is raised in the callback of a weak reference is printed and dropped; the signal is sent again.
    code = """
import os, signal, sys, time, weakref
from canarybank.cli import interrupts
interrupts.raise_stopped()
class Thing: pass
thing = Thing()
kept = weakref.ref(thing, lambda _: (os.kill(os.getpid(), signal.SIGINT), time.sleep(0.1)))
try:
    del thing
    time.sleep(10)
except interrupts.Stopped as stopped:
    sys.exit(stopped.exit_code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


IMPORTING = """
import os, sys, time
from canarybank.cli import interrupts
interrupts._LONGEST = float(sys.argv[1])
interrupts.raise_stopped()
try:
    import interrupted
    time.sleep(30)
except interrupts.Stopped as stopped:
    print("interrupted" in sys.modules, time.monotonic() - float(os.environ["SENT"]))
    sys.exit(stopped.exit_code)
"""


@pytest.mark.parametrize(("longest", "is_whole"), [(5, True), (0.2, False)], ids=["short import", "long import"])
def test_a_signal_waits_for_an_import_but_not_for_long(tmp_path, longest, is_whole):
    lines = ["import os, signal, time", "os.environ['SENT'] = str(time.monotonic())"]
    lines += ["os.kill(os.getpid(), signal.SIGINT)", "time.sleep(1)"]
    (tmp_path / "interrupted.py").write_text("\n".join(lines))
    words = [sys.executable, "-c", IMPORTING, str(longest)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "")
    was_whole, seconds = done.stdout.split()
    assert was_whole == str(is_whole)
    assert float(seconds) < 20  # it comes, though nobody sends it again


LOADING = """
import os, signal, time
from importlib import util
from pathlib import Path
from canarybank.cli import interrupts

folder = Path(util.find_spec("matplotlib").submodule_search_locations[0])
spec = util.spec_from_file_location("ft2font", next(folder.glob("ft2font.*.so")))

def load(seconds):
    interrupts.raise_stopped()
    signal.signal(signal.SIGALRM, lambda _number, frame: interrupts._raise(signal.SIGINT, frame))
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        spec.loader.exec_module(util.module_from_spec(spec))
        time.sleep(30)
    except interrupts.Stopped:
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
    os._exit(1)

for moment in range(80):
    if not (child := os.fork()):
        load(1e-4 * (1 + moment))
    if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        print(moment, code)
"""


def test_a_signal_while_a_library_is_loaded_is_no_other_error():
    # A library in C++ calls Python while it is loaded; an exception from there is another error, or ends the process.
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
