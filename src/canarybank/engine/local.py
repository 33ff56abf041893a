"""Run tasks on this machine: one after another, on threads, or on processes.

An engine maps a function over tasks and yields ``(index, result)`` as results arrive, in any order. Whoever
collects them must not depend on that order: then the outcome is the same on every engine.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from canarybank.errors import InputError

__all__ = ["Engine", "Processes", "Serial", "Threads"]

Task = TypeVar("Task")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """A place where independent tasks run."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each task with its result, in the order in which they finish."""


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
        pool = self._pool(self.workers or _cores())
        try:
            futures = {pool.submit(function, task): index for index, task in enumerate(tasks)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self, workers: int) -> Executor:
        raise NotImplementedError


class Threads(_Pooled):
    """Run tasks on threads: for numpy work, which lets go of the interpreter lock."""

    def _pool(self, workers: int) -> Executor:
        return ThreadPoolExecutor(workers)


class Processes(_Pooled):
    """Run tasks on processes: function and tasks must be picklable."""

    def _pool(self, workers: int) -> Executor:
        return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("forkserver"))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
