import operator
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import engine_tasks
import pytest

from canarybank.engine import Processes, Serial, Threads
from canarybank.errors import CanarybankError, DataError, IncompleteError


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
    with pytest.raises(IncompleteError, match=r"each of 3 worker processes ended.*fewer workers or more shards"):
        list(Processes(2).run(engine_tasks.end, range(4)))


def test_processes_serve_again_and_know_where_they_are_asked_from(tmp_path, monkeypatch):
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


def test_processes_end_with_the_one_that_asks_however_it_ends(tmp_path):
    program = (
        "import engine_tasks; from pathlib import Path; from canarybank.engine import Processes\n"
        f"work = engine_tasks.Signed(Path({str(tmp_path)!r}))\n"
        "print(len(list(Processes(2).run(work, [(0, 0.1), (1, 0.1)]))), flush=True)\n"
        "list(Processes(2).run(work, [(0, 0.5)] * 1_000))\n"
    )
    doubles = str(Path(engine_tasks.__file__).parent)
    asking = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": doubles}
    )
    assert asking.stdout.readline() == b"2\n"
    asking.kill()
    asking.wait()
    asking.stdout.close()
    workers = {int(path.name) for path in tmp_path.iterdir()}
    assert workers
    limit = time.monotonic() + 60
    while any(map(is_running, workers)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(map(is_running, workers))


def is_running(number):
    """Say whether there is a process of that number, other than one that has ended and was not yet taken note of."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
