"""Run tasks on processes of this machine, each at a pipe of its own: one that dies holds up no other.

Processes are kept for the next run, and end when this process does, however that ends: their pipe is closed then.
"""

import contextlib
import multiprocessing
import pickle
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from canarybank.engine.local import Pooled, Result, Task
from canarybank.engine.tasks import Surroundings, answer, portable
from canarybank.errors import IncompleteError

__all__ = ["Processes"]

_TIMES = 3
"""How often a task is given to a process, where each of them ends in the midst of it."""
_WORK, _TASK = b"work", b"task"
_HERE = "a worker process"


class Processes(Pooled):
    """Run tasks on processes: function and tasks must be picklable.

    The function goes to each process once, with all that is bound to it; a task travels by itself. When a process dies,
    another one runs its task again.
    """

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield results as they finish; an exception or an abandoned iteration ends what has begun."""
        work = pickle.dumps((Surroundings.of_this_process(), pickle.dumps(function)))
        waiting, deaths = deque(range(len(tasks))), Counter[int]()
        idle = _lent(min(self.number, len(tasks)))
        busy: dict[Connection, tuple[_Worker, int]] = {}

        def keep_busy() -> None:
            while waiting and idle:
                index, worker = waiting.popleft(), idle.pop()
                task = pickle.dumps(tasks[index])
                busy[worker.pipe] = worker, index
                with contextlib.suppress(OSError):  # of one that has died, which is seen below
                    worker.give(work, task)

        try:
            keep_busy()
            while busy:
                for pipe in cast("list[Connection]", wait(list(busy))):
                    worker, index = busy.pop(pipe)
                    try:
                        is_done, found = pickle.loads(pipe.recv_bytes())  # noqa: S301, of a process of ours
                    except (EOFError, OSError):
                        worker.end()
                        deaths[index] += 1
                        if deaths[index] == _TIMES:
                            raise _given_up() from None
                        waiting.append(index)
                        idle.append(_Worker())
                        keep_busy()
                        continue
                    idle.append(worker)
                    if not is_done:
                        raise found
                    keep_busy()  # before whoever takes the result goes on with it
                    yield index, found
        finally:
            for worker, _ in busy.values():
                worker.end()
            _take_back(idle)


class _Worker:
    """A process that serves one pipe; ``work`` is what it was given last."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe, its_own = context.Pipe()
        self._process = context.Process(target=_serve, args=(its_own,), daemon=True)
        self._process.start()
        its_own.close()
        self._work = b""

    def give(self, work: bytes, task: bytes) -> None:
        """Send a task, and the function where that is another than before."""
        if self._work is not work:
            self._send(_WORK, work)
            self._work = work
        self._send(_TASK, task)

    def forget(self) -> None:
        """Let go of the function, with all that is bound to it."""
        self._work = b""
        self._send(_WORK, b"")

    def _send(self, kind: bytes, content: bytes) -> None:
        self.pipe.send_bytes(kind)
        self.pipe.send_bytes(content)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self._process.kill()
        self._process.join()


_idle: list[_Worker] = []
_lock = threading.Lock()


def _lent(number: int) -> list[_Worker]:
    """Return so many processes that do nothing, those of an earlier run first."""
    with _lock:
        taken = _idle[:number]
        del _idle[:number]
    return [*taken, *(_Worker() for _ in range(number - len(taken)))]


def _take_back(workers: list[_Worker]) -> None:
    for worker in workers:
        try:
            worker.forget()
        except OSError:
            worker.end()
            continue
        with _lock:
            _idle.append(worker)


def _given_up() -> IncompleteError:
    return IncompleteError(
        f"A task was given up, for each of {_TIMES} worker processes ended in the midst of it. If memory ran out, use "
        "fewer workers or more shards: set run.workers or run.shards. What was done is kept, and the same command goes "
        "on from there."
    )


def _serve(pipe: Connection) -> None:
    """Run what comes through a pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks says what an interruption means
    held = _Held(b"")
    with contextlib.suppress(EOFError, OSError):
        while True:
            kind, content = pipe.recv_bytes(), pipe.recv_bytes()
            if kind == _WORK:
                held = _Held(content)
            else:
                pipe.send_bytes(_answered(partial(held, content)))


class _Held:
    """The function of this process, which is unpacked when the first task comes."""

    def __init__(self, work: bytes) -> None:
        self._work = work

    def __call__(self, task: bytes) -> Any:
        return self._function(pickle.loads(task))  # noqa: S301, of the process that asks

    @cached_property
    def _function(self) -> Callable[[Any], Any]:
        surroundings, function = pickle.loads(self._work)  # noqa: S301, as above
        surroundings.take_over()
        found: Callable[[Any], Any] = pickle.loads(function)  # noqa: S301, as above
        return found


def _answered(work: Callable[[], Any]) -> bytes:
    try:
        return answer(work, _HERE)
    except BaseException as error:  # noqa: BLE001, whatever a task raises is raised again where it was asked for
        return pickle.dumps((False, portable(error, _HERE)))
