"""Call a function with many pieces of work on all cores, where each call multiplies matrices on one thread.

A BLAS shares one product among all cores, and then they wait while one of them looks through what came out. Here a core
that has its product goes on with it alone, and meanwhile the BLAS uses one thread.

That is a setting of the whole process, and the last bits of what other threads multiply can depend on it. So only the
main thread does this, and only in a process that is no worker: those of an engine stand beside others already. It needs
a BLAS that is known to follow the setting, that of numpy's own wheels; with another one, one call follows the other.
"""

import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

__all__ = ["free_cores", "over_cores"]

T = TypeVar("T")
R = TypeVar("R")

MOST_CORES = 16
"""More would mostly take memory."""


def free_cores() -> int:
    """Return how many cores this thread may use: as many as the BLAS would, so that OMP_NUM_THREADS holds."""
    if threading.current_thread() is not threading.main_thread() or parent_process() is not None:
        return 1
    return min(MOST_CORES, max((each["num_threads"] for each in _blas().info()), default=1))


def over_cores(work: Callable[[T], R], pieces: Sequence[T], done: Callable[[R], object] = lambda _: None) -> list[R]:
    """Return what a function gives for each piece, in order; on all cores that are free.

    Args:
        work: The function; several threads call it at once.
        pieces: What to call it with.
        done: Called in this thread with each result, in any order.

    Example:
        >>> over_cores(abs, [-3, 2])
        [3, 2]
    """
    found: dict[int, R] = {}

    def tell(number: int, result: R) -> None:
        found[number] = result
        done(result)

    cores = min(len(pieces), free_cores())
    crew = _Crew(work, pieces)
    with _one_blas_thread() if cores > 1 else nullcontext():
        try:
            crew.start(cores - 1)
            for number, piece in crew.taken():
                tell(number, work(piece))
                crew.hear(tell)
            crew.hear(tell, to_the_end=True)
        finally:
            crew.stop()
    return [found[number] for number in range(len(pieces))]


class _Crew(Generic[T, R]):
    """Threads that take pieces from one queue and answer in another.

    Python's own pools hold locks that Ctrl-C in the main thread can leave taken for ever. Here is none.
    """

    def __init__(self, work: Callable[[T], R], pieces: Sequence[T]) -> None:
        self._work, self._waiting = work, deque(enumerate(pieces))
        self._answers = SimpleQueue[Any]()
        self._started, self._left = 0, list[bool]()

    def start(self, threads: int) -> None:
        """Start so many threads, or as many as are to be had, which may be none at the end of a process."""
        with suppress(RuntimeError):
            for _ in range(threads):
                start_new_thread(copy_context().run, (self._help,))
                self._started += 1

    def taken(self) -> Iterator[tuple[int, T]]:
        """Yield pieces that no thread has taken before, with their numbers."""
        while True:
            try:
                yield self._waiting.popleft()
            except IndexError:
                return

    def hear(self, tell: Callable[[int, R], object], *, to_the_end: bool = False) -> None:
        """Tell the answers that are there, or wait for all of them; raise what a thread has raised."""
        while not self._answers.empty() or (to_the_end and len(self._left) < self._started):
            answer = self._answers.get()
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                tell(*answer)

    def stop(self) -> None:
        """Let nothing more begin, and wait for what has begun."""
        self._waiting.clear()
        while len(self._left) < self._started:
            self._answers.get()

    def _help(self) -> None:
        try:
            for number, piece in self.taken():
                self._answers.put((number, self._work(piece)))
        except BaseException as error:  # noqa: BLE001, the thread that waits raises it
            self._answers.put(error)
        self._left.append(True)
        self._answers.put(None)  # wakes the thread that waits for this one to leave


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    before = {each["filepath"]: each["num_threads"] for each in _blas().info()}
    try:
        _blas().limit(limits=1)
        yield
    finally:
        try:
            _blas().limit(limits=before)
        except BaseException:  # Ctrl-C, just now
            _blas().limit(limits=before)
            raise


@cache
def _blas() -> Any:
    """Return the BLAS of numpy's wheels, or none where numpy has another. OpenMP would count each thread's threads."""
    loaded, home = ThreadpoolController(), str(Path(np.__file__).parent)
    wanted = {"internal_api": "openblas", "threading_layer": "pthreads"}.items()
    return loaded.select(
        filepath=[
            each["filepath"] for each in loaded.info() if wanted <= each.items() and each["filepath"].startswith(home)
        ]
    )
