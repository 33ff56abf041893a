"""Time routing against chunked numpy, and swapping probes against routing again."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from canarybank.mechanism import Bank, Mechanism, Routed, contributions, route
from canarybank.users import Evaluation, Users
from harness import Result, measure, ratio

RECORDS, USERS, BANK, DIMENSION, PROBES = 64_000, 1_000, 8_192, 384, 64
MOST_MEMORY_GB = 0.5
SIZE = f"{RECORDS:,} records, bank {BANK:,}, {DIMENSION}-d"


def run() -> list[Result]:
    """Return the two lines: a search of the whole bank, and a swap of its probes."""
    rng = np.random.default_rng(20)
    mechanism = Mechanism()
    records, entries, probes = (unit_vectors(count, rng) for count in (RECORDS, BANK, PROBES))
    bank = Bank(entries).reserve(PROBES, seed=20)
    return [search(records, bank, mechanism.k), swap(records, bank, probes, mechanism)]


def search(records: NDArray[np.float32], bank: Bank, k: int) -> Result:
    """Compare `route` with what one would write in numpy, which settles no near-tie."""
    agree = (route(records, bank, k) == chunked_numpy(records, bank.vectors, k)).all(axis=1).mean()
    assert agree > 0.999, agree
    used = peak_gigabytes(lambda: route(records, bank, k))
    assert used <= MOST_MEMORY_GB, f"route took {used:.2f} GB above its inputs"
    literal = measure(lambda: chunked_numpy(records, bank.vectors, k), warm=False)
    ours = measure(lambda: route(records, bank, k), warm=False)
    note = f"peak {used:.2f} GB above the inputs (at most {MOST_MEMORY_GB} GB)"
    return ratio("route", SIZE, literal, ours, 0.9, note)


def swap(records: NDArray[np.float32], bank: Bank, probes: NDArray[np.float32], mechanism: Mechanism) -> Result:
    """Compare routes and contributions by a merge with those by a new search."""
    owners = np.repeat(np.arange(USERS), RECORDS // USERS)
    users = Users(ids=tuple(f"user {i}" for i in range(USERS)), owners=owners, vectors=records)
    routed = Routed.build(Evaluation(users), bank, mechanism.k)
    planted = bank.with_probes(probes)

    def again() -> object:
        return contributions(route(records, planted, mechanism.k), owners, USERS, BANK, mechanism.clip)

    assert (abs(again() - routed.contributions(planted, mechanism))).nnz == 0
    literal = measure(again, warm=False)
    ours = measure(lambda: routed.contributions(planted, mechanism), repeats=15)
    return ratio("swapping 64 probes", SIZE, literal, ours, 50, "baseline: our own route")


def chunked_numpy(
    records: NDArray[np.float32], entries: NDArray[np.float32], k: int, chunk: int = 1024
) -> NDArray[np.int64]:
    """Route by matrix product and argpartition, in float32."""
    squares = np.square(entries).sum(axis=1)
    found = np.empty((len(records), k), dtype=np.int64)
    for start in range(0, len(records), chunk):
        scores = squares - 2 * (records[start : start + chunk] @ entries.T)
        nearest = np.argpartition(scores, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(scores, nearest, axis=1), axis=1)
        found[start : start + chunk] = np.take_along_axis(nearest, order, axis=1)
    return found


def unit_vectors(count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw unit vectors, uniform on the sphere."""
    vectors = rng.standard_normal((count, DIMENSION), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def peak_gigabytes(work: Callable[[], object]) -> float:
    """Return how far resident memory rises above its start while some work runs, sampled every millisecond."""
    done = threading.Event()
    before, peak = resident(), [0]

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], resident())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return (peak[0] - before) / 1e9


def resident() -> int:
    """Return this process's resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
