"""Run tasks on this machine: one after another, on threads, or on processes.

An engine maps a function over tasks and yields ``(index, result)`` as results arrive, in any order. Whoever
collects them must not depend on that order: then the outcome is the same on every engine.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from canarybank.errors import InputError

__all__ = ["Engine", "Host", "Processes", "Serial", "Threads", "count_cores", "host_on"]

Task = TypeVar("Task")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """A place where independent tasks run."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each task with its result, in the order in which they finish."""


@runtime_checkable
class Host(Protocol):
    """A place that holds objects which take long to make, such as models, and runs tasks on them."""

    def run(self, function: Callable[[Any, Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each task with what the function gives for a held object and the task, as they finish."""


def host_on(engine: Engine, make: Callable[[], Any]) -> Host | None:
    """Return what holds, where an engine has GPUs elsewhere, the object that a factory makes; None where it has none.

    An engine offers this by a method ``host``. Without it, each worker process makes the object itself.

    Args:
        engine: Where tasks run.
        make: Makes the object, such as a model, on the worker that holds it.

    Example:
        >>> from canarybank.engine import Serial
        >>> class Cluster(Serial):
        ...     def host(self, make):
        ...         return f"a worker that holds {make()}"
        >>> host_on(Serial(), lambda: "a model") is None, host_on(Cluster(), lambda: "a model")
        (True, 'a worker that holds a model')
    """
    host = getattr(engine, "host", None)
    return None if host is None else host(make)


@dataclass(frozen=True, slots=True)
class Serial:
    """Run tasks one after another in this thread."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield results in task order."""
        for index, task in enumerate(tasks):
            yield index, function(task)


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Run tasks on a pool of workers; none given means one for each core."""

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(
                f"An engine needs at least one worker, not {self.workers}; leave workers out to use every core."
            )

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield results as they finish; an exception or an abandoned iteration cancels what has not begun."""
        pool, call = self._pool(self.workers or count_cores(), function)
        try:
            futures = {pool.submit(call, task): index for index, task in enumerate(tasks)}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()  # what was handed on is not held here
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self, workers: int, function: Callable[[Task], Result]) -> tuple[Executor, Callable[[Task], Result]]:
        """Return a pool for a function, and what to call there for each task."""
        raise NotImplementedError


class Threads(_Pooled):
    """Run tasks on threads: for numpy work, which lets go of the interpreter lock."""

    def _pool(self, workers: int, function: Callable[[Task], Result]) -> tuple[Executor, Callable[[Task], Result]]:
        return ThreadPoolExecutor(workers), function


class Processes(_Pooled):
    """Run tasks on processes: function and tasks must be picklable.

    The function goes to each process once, with all that is bound to it; a task travels by itself.
    """

    def _pool(self, workers: int, function: Callable[[Task], Result]) -> tuple[Executor, Callable[[Task], Result]]:
        context = multiprocessing.get_context("forkserver")
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_hold, initargs=(function,))
        return pool, _run_held


_held: list[Callable[[Any], Any]] = []
"""The function of this process, where it is a worker of ``Processes``."""


def _hold(function: Callable[[Any], Any]) -> None:
    _held[:] = [function]


def _run_held(task: Any) -> Any:
    return _held[0](task)


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
