"""Call a function with many pieces of work on all cores, where each call multiplies matrices on one thread.

A BLAS shares one product among all cores, and then they wait while one of them looks through what came out. Here a core
that has its product goes on with it alone. Meanwhile the BLAS uses one thread in the whole process. The last bits of
what other code computes could depend on that, so it happens only in the main thread, while that waits for the cores:
the workers of an engine each keep to their own.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from typing import Any, TypeVar

import numpy as np  # noqa: F401, loads the BLAS that is limited
from threadpoolctl import ThreadpoolController

__all__ = ["over_cores"]

T = TypeVar("T")
R = TypeVar("R")


def over_cores(work: Callable[[T], R], pieces: Sequence[T], done: Callable[[R], object] = lambda _: None) -> list[R]:
    """Return what a function gives for each piece, in order.

    Args:
        work: The function; several threads call it at once. There are as many as the BLAS would use, so
            OMP_NUM_THREADS holds for them too.
        pieces: What to call it with.
        done: Called in this thread with each result as it comes.

    Example:
        >>> over_cores(abs, [-3, 2])
        [3, 2]
    """
    is_main = threading.current_thread() is threading.main_thread()
    cores = min(len(pieces), _threads()) if is_main and len(pieces) > 1 else 1
    if cores == 1:
        return [_told(work(piece), done) for piece in pieces]
    with _one_thread():
        # Some libraries count the threads of each thread apart, so the limit is set in all.
        pool = ThreadPoolExecutor(cores, "core", initializer=_one_thread)
        try:
            jobs = [pool.submit(work, piece) for piece in pieces]
            for job in as_completed(jobs):
                done(job.result())
            return [job.result() for job in jobs]
        finally:
            pool.shutdown(cancel_futures=True)  # what was not begun before an error or Ctrl-C is not begun any more


def _told(result: R, done: Callable[[R], object]) -> R:
    done(result)
    return result


def _threads() -> int:
    return max((each["num_threads"] for each in _blas().info()), default=1)


def _one_thread() -> Any:
    return _blas().limit(limits=1)


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")
