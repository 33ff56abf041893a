"""Run tasks in this process: one after another, or on threads.

An engine maps a function over tasks and yields ``(index, result)`` as results arrive, in any order. Whoever
collects them must not depend on that order: then the outcome is the same on every engine.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from canarybank.errors import InputError

__all__ = ["Engine", "Host", "Pooled", "Result", "Serial", "Task", "Threads", "check_workers", "count_cores", "host_on"]

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
class Pooled:
    """What engines with several workers have in common; no number of workers means one for each core."""

    workers: int | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)

    @property
    def number(self) -> int:
        """Return the number of workers."""
        return self.workers or count_cores()


class Threads(Pooled):
    """Run tasks on threads: for numpy work, which lets go of the interpreter lock."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield results as they finish; an exception or an abandoned iteration cancels what has not begun."""
        pool = ThreadPoolExecutor(self.number)
        try:
            futures = {pool.submit(function, task): index for index, task in enumerate(tasks)}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()  # what was handed on is not held here
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def check_workers(workers: int | None) -> None:
    """Refuse a number of workers below one; None means one for each core."""
    if workers is not None and workers < 1:
        raise InputError(f"An engine needs at least one worker, not {workers}; leave workers out to use every core.")


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
