"""Work over cores: the same results in the same order, one thread for the BLAS meanwhile, and all of it back after."""

import _thread
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from canarybank.mechanism import Bank, RouteTable, cores, route, routing, table
from canarybank.mechanism.cores import over_cores


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in cores._blas().info()}


def limited(threads: int):
    return threadpool_limits({each["filepath"]: threads for each in cores._blas().info()})


@pytest.fixture(params=[1, 2, 5])
def some_cores(request):
    with limited(request.param):
        if blas_threads() != {request.param}:
            pytest.skip("the threads of this BLAS cannot be set")
        yield request.param


@pytest.fixture
def three_cores():
    with limited(3):
        if blas_threads() != {3}:
            pytest.skip("the threads of this BLAS cannot be set")
        yield


def together(count: int):
    """Return work that goes on only once so many threads are at it, and what each call saw."""
    barrier, seen = threading.Barrier(count, timeout=60), []

    def work(piece: int) -> int:
        barrier.wait()
        seen.append((threading.current_thread(), blas_threads()))
        return 10 * piece

    return work, seen


@pytest.mark.usefixtures("some_cores")
def test_results_stand_in_order_and_each_is_told_once_in_the_calling_thread():
    told = []
    found = over_cores(
        lambda piece: 10 * piece, range(20), lambda each: told.append((each, threading.current_thread()))
    )
    assert found == list(range(0, 200, 10))
    assert sorted(each for each, _ in told) == found
    assert {thread for _, thread in told} == {threading.main_thread()}


def test_as_many_threads_work_at_once_as_the_blas_had_and_meanwhile_it_has_one(some_cores):
    work, seen = together(some_cores)
    assert over_cores(work, range(5 * some_cores)) == list(range(0, 50 * some_cores, 10))
    assert len({thread for thread, _ in seen}) == some_cores
    assert all(threads == {1} for _, threads in seen)
    assert blas_threads() == {some_cores}


@pytest.mark.usefixtures("three_cores")
def test_one_piece_is_done_in_the_calling_thread_with_all_threads_of_the_blas():
    work, seen = together(1)
    assert over_cores(work, [4]) == [40]
    assert seen == [(threading.main_thread(), {3})]
    assert over_cores(work, []) == []


@pytest.mark.usefixtures("three_cores")
def test_a_thread_that_is_not_the_main_one_works_alone_and_leaves_the_blas_as_it_is():
    work, seen = together(1)
    free = []
    thread = threading.Thread(target=lambda: (free.append(cores.free_cores()), over_cores(work, range(6))))
    thread.start()
    thread.join()
    assert free == [1]
    assert seen == [(thread, {3})] * 6


@pytest.mark.usefixtures("three_cores")
def test_a_process_that_is_a_worker_works_alone(monkeypatch):
    monkeypatch.setattr(cores, "parent_process", object)
    work, seen = together(1)
    over_cores(work, range(6))
    assert seen == [(threading.main_thread(), {3})] * 6


def library(path: str, api: str = "openblas", layer: str = "pthreads") -> dict[str, object]:
    return {"filepath": path, "internal_api": api, "threading_layer": layer, "num_threads": 3}


NUMPYS = str(Path(np.__file__).parent) + ".libs/blas.so"


@pytest.mark.parametrize(
    ("libraries", "threads"),
    [
        ([], 1),
        ([library("/elsewhere/blas.so")], 1),
        ([library(NUMPYS, "mkl", "intel")], 1),
        ([library(NUMPYS, layer="openmp")], 1),
        ([library(NUMPYS), library("/elsewhere/blas.so", layer="openmp")], 3),
    ],
)
def test_only_the_blas_of_numpys_wheels_is_shared_out(libraries, threads, monkeypatch):
    def controller(seen):
        return SimpleNamespace(
            info=lambda: seen,
            select=lambda filepath: controller([each for each in seen if each["filepath"] in filepath]),
        )

    monkeypatch.setattr(cores, "ThreadpoolController", lambda: controller(libraries))
    monkeypatch.setattr(cores, "_blas", cores._blas.__wrapped__)
    assert cores.free_cores() == threads


def test_where_no_core_is_free_one_call_follows_the_other(monkeypatch):
    monkeypatch.setattr(cores, "free_cores", lambda: 1)
    work, seen = together(1)
    assert over_cores(work, range(6)) == list(range(0, 60, 10))
    assert {thread for thread, _ in seen} == {threading.main_thread()}


@pytest.mark.usefixtures("three_cores")
def test_where_no_thread_can_be_started_the_calling_one_does_everything(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cores, "start_new_thread", refuse)
    assert over_cores(lambda piece: 10 * piece, range(20)) == list(range(0, 200, 10))


@pytest.mark.usefixtures("three_cores")
def test_what_numpy_was_told_about_errors_holds_in_all_threads():
    barrier = threading.Barrier(3, timeout=60)

    def work(piece: int) -> int:
        barrier.wait()
        np.float32(1.0) / np.float32(0.0)
        return piece

    with np.errstate(divide="ignore"):
        assert over_cores(work, range(3)) == [0, 1, 2]


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["work", "done"])
def test_after_an_error_nothing_more_is_begun_and_the_blas_has_its_threads_again(error, place):
    begun, ended, threads = [], [], _thread._count()

    def work(piece: int) -> int:
        begun.append(piece)
        if piece == 1 and place == "work":
            ended.append(piece)
            raise error("no")
        time.sleep(0.01)
        ended.append(piece)
        return piece

    def done(_: int) -> None:
        if place == "done":
            raise error("no")

    with pytest.raises(error, match="no"):
        over_cores(work, range(1_000), done)
    assert len(begun) < 100
    assert sorted(ended) == sorted(begun), "work goes on after the error"
    assert blas_threads() == {3}
    deadline = time.monotonic() + 60
    while _thread._count() > threads:  # a thread that has said that it leaves takes a moment to be gone
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.usefixtures("three_cores")
def test_ctrl_c_at_any_moment_ends_the_work_and_leaves_all_as_it_was():
    interrupts, rng = 0, np.random.default_rng(0)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in rng.uniform(1e-5, 2e-3, size=400):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                while True:
                    over_cores(abs, range(4))
            except KeyboardInterrupt:
                interrupts += 1
            assert blas_threads() == {3}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
    assert interrupts == 400
    assert over_cores(abs, range(-20, 0)) == list(range(20, 0, -1))


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize(("module", "step"), [(routing, "_shortlist"), (table, "Scan.scores")])
def test_slices_of_a_route_and_of_a_merge_are_searched_at_once(module, step, monkeypatch):
    monkeypatch.setattr("canarybank.mechanism.scan.CHUNK_VALUES", 1_000)
    monkeypatch.setattr("canarybank.mechanism.table.MERGED_VALUES", 100)
    rng = np.random.default_rng(0)
    records, bank = rng.normal(size=(300, 6)), Bank(rng.normal(size=(90, 6)).astype(np.float32))
    made = RouteTable.build(records, bank, 4)
    place, _, name = step.rpartition(".")
    owner, barrier = getattr(module, place) if place else module, threading.Barrier(3, timeout=60)
    original, seen = getattr(owner, name), []

    def watched(*given, **named):
        if len(seen) < 3:  # the first of each thread
            seen.append(threading.current_thread())
            barrier.wait()
        return original(*given, **named)

    monkeypatch.setattr(owner, name, watched)
    _ = route(records, bank, 4) if module is routing else made.merge(rng.normal(size=(5, 6)), range(90, 95))
    assert len(set(seen)) == 3


def crowded_records(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return records some of which have more near ties than a float32 search lists."""
    entries = np.concatenate((rng.normal(size=(60, 6)), 1.0 + 1e-7 * rng.normal(size=(60, 6)))).astype(np.float32)
    return np.concatenate((rng.normal(size=(200, 6)), np.full((40, 6), 1.0))).astype(np.float32), entries


def lattice_records(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return records and entries with many ties."""
    return tuple(rng.integers(-3, 4, (rows, 6)).astype(np.float32) for rows in (300, 90))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [crowded_records, lattice_records])
def test_routes_do_not_depend_on_the_number_of_cores(make, seed, monkeypatch):
    records, entries = make(np.random.default_rng(seed))
    bank, places = Bank(entries, reserved=(3, 50)), range(len(entries), len(entries) + 5)
    monkeypatch.setattr("canarybank.mechanism.scan.CHUNK_VALUES", 1_000)
    monkeypatch.setattr("canarybank.mechanism.table.MERGED_VALUES", 1_000)
    doubles, search = [], routing._search

    def watched(some, lengths, few, k, dtype, stage):
        doubles.append(dtype is np.float64)
        return search(some, lengths, few, k, dtype, stage)

    monkeypatch.setattr(routing, "_search", watched)
    found, told = [], []
    for number in (1, 2, 7):
        with limited(number):
            made = RouteTable.build(records, bank, 4)
            stage = SimpleNamespace(advance=told.append)
            progress = SimpleNamespace(stage=lambda *_, stage=stage: nullcontext(stage))
            found.append(
                (
                    routing.nearest(records, entries, 4, progress),
                    made.positions,
                    *made.merge_distances(entries[:5], places),
                )
            )
    distances = np.square(records[:, None].astype(np.float64) - entries).sum(axis=2)
    np.testing.assert_array_equal(found[0][0], np.argsort(distances, axis=1, kind="stable")[:, :4])
    for each in found[1:]:
        for ours, first in zip(each, found[0], strict=True):
            np.testing.assert_array_equal(ours, first)
    assert any(doubles) == (make is crowded_records)
    assert sum(told) == 3 * len(records)
