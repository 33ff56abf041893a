import operator
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import engine_tasks
import pytest

from canarybank.engine import Processes, Serial, Threads
from canarybank.errors import CanarybankError, DataError, IncompleteError, InputError


@pytest.mark.parametrize("engine", [Serial(), Threads(1), Threads(3), Processes(2)], ids=repr)
def test_every_engine_gives_every_result_once(engine):
    results = sorted(engine.run(partial(operator.mul, 3), list(range(20))))
    assert results == [(i, 3 * i) for i in range(20)]


@pytest.mark.parametrize("engine", [Serial(), Threads(2), Processes(1)], ids=repr)
def test_a_task_that_fails_raises_its_own_error(engine):
    with pytest.raises(ZeroDivisionError):
        list(engine.run(partial(operator.truediv, 1), [1, 0]))


def test_an_abandoned_run_cancels_what_has_not_begun():
    begun = []

    def work(task):
        begun.append(task)
        time.sleep(0.001)
        return task

    results = Threads(1).run(work, range(2_000))
    next(results)
    results.close()
    assert len(begun) < 2_000


def test_a_process_is_given_the_function_once_and_tasks_by_themselves():
    found = [result for _, result in Processes(2).run(engine_tasks.Heavy(), range(30))]
    assert sorted(value for _, _, value in found) == list(range(30))
    assert {times for _, times, _ in found} == {1}


def test_no_workers_are_refused():
    with pytest.raises(CanarybankError, match="at least one worker, not 0"):
        Threads(0)


def test_the_task_of_a_process_that_dies_is_run_again(tmp_path):
    work = partial(engine_tasks.die_at_first, tmp_path)
    assert sorted(Processes(2).run(work, range(12))) == [(i, 10 * i) for i in range(12)]
    assert len(list(tmp_path.iterdir())) == 4, "every third task is to kill its process once"


def test_a_process_that_died_while_it_had_nothing_to_do_is_replaced():
    engine = Processes(2)
    for number in {result for _, result in engine.run(engine_tasks.process_number, range(20))}:
        os.kill(number, signal.SIGKILL)
    assert sorted(engine.run(partial(operator.mul, 3), range(20))) == [(i, 3 * i) for i in range(20)]


def test_a_task_that_kills_every_process_is_given_up():
    with pytest.raises(IncompleteError, match=r"it ended 3 worker processes.*fewer workers or more shards"):
        list(Processes(2).run(engine_tasks.end, range(4)))


def test_processes_serve_again_and_know_where_they_are_asked_from(tmp_path, monkeypatch):
    list(Processes(3).run(engine_tasks.process_number, range(6)))  # more processes than the next run needs
    engine = Processes(1)
    ((_, first),) = engine.run(engine_tasks.process_number, [0])
    monkeypatch.setenv("CANARYBANK_CACHE", "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert list(engine.run(engine_tasks.surroundings, [0])) == [(0, ("elsewhere", str(tmp_path)))]
    ((_, again),) = engine.run(engine_tasks.process_number, [0])
    assert again == first


def test_an_interruption_in_a_process_is_one_here():
    with pytest.raises(KeyboardInterrupt):
        list(Processes(1).run(engine_tasks.interrupt, [0]))


def test_an_error_of_a_process_says_where_it_was_raised():
    with pytest.raises(DataError, match="Row 3 holds no text") as found:
        list(Processes(1).run(engine_tasks.refuse, [3]))
    assert "At a worker process:" in "".join(found.value.__notes__)


def test_an_abandoned_run_ends_the_processes_at_work(tmp_path):
    results = Processes(2).run(engine_tasks.Signed(tmp_path), [(0, 0.0), (1, 60.0), (2, 60.0)])
    next(results)
    while len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.01)
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 30
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.5, 600.0])
def test_processes_end_with_the_one_that_asks_however_it_ends(tmp_path, by, seconds):
    asking = started(
        f"work = engine_tasks.Signed(Path({str(tmp_path)!r}))\nlist(Processes(2).run(work, [(0, {seconds})] * 1_000))\n"
    )
    while len(list(tmp_path.iterdir())) < 2:  # both are in the midst of a task
        assert asking.poll() is None
        time.sleep(0.05)
    asking.send_signal(by)
    asking.wait()
    asking.stdout.close()
    workers = {int(path.name) for path in tmp_path.iterdir()}
    assert workers
    limit = time.monotonic() + 60
    while any(map(is_running, workers)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(map(is_running, workers))


def test_a_forked_process_leaves_the_workers_to_its_parent():
    asking = started(
        "import os; from functools import partial\n"
        "list(Processes(2).run(engine_tasks.process_number, range(4)))\n"
        "child = os.fork()\n"
        "work = partial(engine_tasks.added, 1_000 if child else 2_000)\n"
        "found = []\n"
        "for _ in range(30):\n"
        "    try: found += [result for _, result in sorted(Processes(2).run(work, range(10)))]\n"
        "    except ChildProcessError: os._exit(0)  # Python's fork server serves its own parent alone\n"
        "print(found == [*range(1_000, 1_010)] * 30 if child else found == [*range(2_000, 2_010)] * 30, flush=True)\n"
        "if child: os.waitpid(child, 0)\n"
    )
    said, _ = asking.communicate(timeout=120)
    assert set(said.split()) == {b"True"}
    assert asking.returncode == 0


def test_a_task_may_start_processes_of_its_own():
    assert list(Processes(1).run(engine_tasks.nested, [3])) == [(0, [0, 1, 2])]


def test_a_result_that_cannot_be_read_is_no_death():
    with pytest.raises(OSError, match="cannot be read here"):
        list(Processes(1).run(engine_tasks.unreadable, [0]))


@pytest.mark.parametrize(("function", "task"), [(partial(print, threading.Lock()), 0), (print, threading.Lock())])
def test_what_cannot_be_sent_to_a_process_is_refused(function, task):
    with pytest.raises(InputError, match="cannot be sent to workers"):
        list(Processes(1).run(function, [task]))


def started(program):
    """Start a Python that knows the tasks of tests and the engine, and return its process."""
    before = "import engine_tasks; from pathlib import Path; from canarybank.engine import Processes\n"
    paths = os.pathsep.join([str(Path(engine_tasks.__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", before + program], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}
    )


def is_running(number):
    """Say whether there is a process of that number, other than one that has ended and was not yet taken note of."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
