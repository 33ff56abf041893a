import operator
import time
from functools import partial

import engine_tasks
import pytest

from canarybank.engine import Processes, Serial, Threads
from canarybank.errors import CanarybankError


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
