"""Run tasks on processes of this machine. Each has a pipe of its own, so one that dies holds up no other.

Processes are kept for the next run. They end when the process that asks does, however that ends and whatever they do.
"""

import contextlib
import multiprocessing
import os
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
from canarybank.errors import IncompleteError, InputError

__all__ = ["Processes"]

_MOST_DEATHS = 3
"""How often a task may end its process before it is given up."""
_FUNCTION, _TASK = b"function", b"task"
_WHERE = "a worker process"


class Processes(Pooled):
    """Run tasks on processes: function and tasks must be picklable.

    The function goes to each process once, with all that is bound to it; a task travels by itself. When a process dies,
    another one runs its task again.
    """

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield results as they finish; an exception or an abandoned iteration ends what has begun."""
        packed = _pack("function", (Surroundings.of_this_process(), _pack("function", function)))
        waiting, deaths = deque(range(len(tasks))), Counter[int]()
        idle = _borrow_workers(min(self.number, len(tasks)))
        busy: dict[Connection, tuple[_Worker, int]] = {}

        def keep_busy() -> None:
            while waiting and idle:
                task = _pack("task", tasks[waiting[0]])
                index, worker = waiting.popleft(), idle.pop()
                busy[worker.pipe] = worker, index
                with contextlib.suppress(OSError):  # of one that has died, which is seen below
                    worker.give(packed, task)

        try:
            keep_busy()
            while busy:
                for pipe in cast("list[Connection]", wait(list(busy))):
                    worker, index = busy.pop(pipe)
                    try:
                        answered = pipe.recv_bytes()
                    except (EOFError, OSError):
                        worker.end()
                        deaths[index] += 1
                        if deaths[index] == _MOST_DEATHS:
                            raise _gave_up() from None
                        waiting.append(index)
                        idle.append(_Worker())
                        keep_busy()
                        continue
                    idle.append(worker)
                    is_done, found = pickle.loads(answered)  # noqa: S301, of a process of ours
                    if not is_done:
                        raise found
                    keep_busy()  # before whoever takes the result goes on with it
                    yield index, found
        finally:
            for worker, _ in busy.values():
                worker.end()
            _return_workers(idle)


class _Worker:
    """A process that serves one pipe, and remembers the function that it was given last."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe, its_own = context.Pipe()
        self._process = context.Process(target=_serve_tasks, args=(its_own,), daemon=True)
        self._process.start()
        its_own.close()
        self._function = b""

    def give(self, function: bytes, task: bytes) -> None:
        """Send a task, and the function where that is another than before."""
        if self._function is not function:
            self._send(_FUNCTION, function)
            self._function = function
        self._send(_TASK, task)

    def forget(self) -> None:
        """Let go of the function, with all that is bound to it."""
        self._function = b""
        self._send(_FUNCTION, b"")

    def _send(self, kind: bytes, content: bytes) -> None:
        self.pipe.send_bytes(kind)
        self.pipe.send_bytes(content)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        if self._process.is_alive():  # the number of one that has died may be another process's by now
            self._process.kill()
        self._process.join()


_idle: list[_Worker] = []
_lock = threading.Lock()


def _borrow_workers(number: int) -> list[_Worker]:
    """Return so many processes: those that worked last, which may still hold an encoder, and new ones."""
    with _lock:
        start = max(0, len(_idle) - number)
        borrowed = _idle[start:]
        del _idle[start:]
    return [*borrowed, *(_Worker() for _ in range(number - len(borrowed)))]


def _return_workers(workers: list[_Worker]) -> None:
    for worker in workers:
        try:
            worker.forget()
        except OSError:
            worker.end()
            continue
        with _lock:
            _idle.append(worker)


def _leave_workers_to_parent() -> None:
    """Start without workers in a forked process: it and its parent would read each other's answers."""
    global _lock  # noqa: PLW0603, another thread may have held it
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_workers_to_parent)


def _pack(what: str, value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(f"The {what} cannot be sent to workers: {error}.") from error


def _gave_up() -> IncompleteError:
    return IncompleteError(
        f"A task was given up: it ended {_MOST_DEATHS} worker processes. If memory ran out, use fewer workers or more "
        "shards: set run.workers or run.shards. In a script of your own, put the call below "
        "`if __name__ == '__main__':`. What was done is kept, and the same command goes on from there."
    )


def _serve_tasks(pipe: Connection) -> None:
    """Run what comes through a pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks says what an interruption means
    # A task may start processes of its own; the process that asks still ends this one as a daemon.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function = _ReceivedFunction(b"")
    with contextlib.suppress(EOFError, OSError):
        while True:
            kind, content = pipe.recv_bytes(), pipe.recv_bytes()
            if kind == _FUNCTION:
                function = _ReceivedFunction(content)
            else:
                pipe.send_bytes(_answered(partial(function, content)))


def _end_with_parent() -> None:
    """End this process when the one that asks has ended, though a task is under way."""
    asking = multiprocessing.parent_process()
    if asking is not None:
        asking.join()
        os._exit(1)


class _ReceivedFunction:
    """The function of this process, which is unpacked when the first task comes."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def __call__(self, task: bytes) -> Any:
        return self._function(pickle.loads(task))  # noqa: S301, of the process that asks

    @cached_property
    def _function(self) -> Callable[[Any], Any]:
        surroundings, function = pickle.loads(self._packed)  # noqa: S301, as above
        surroundings.take_over()
        found: Callable[[Any], Any] = pickle.loads(function)  # noqa: S301, as above
        return found


def _answered(work: Callable[[], Any]) -> bytes:
    try:
        return answer(work, _WHERE)
    except BaseException as error:  # noqa: BLE001, whatever a task raises is raised again where it was asked for
        return pickle.dumps((False, portable(error, _WHERE)))
