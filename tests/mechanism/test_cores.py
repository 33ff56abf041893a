"""Work over cores: the same results in the same order, one thread for the BLAS meanwhile, and all of it back after."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from canarybank.mechanism import Bank, RouteTable, route
from canarybank.mechanism.cores import over_cores


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.fixture(params=[1, 2, 5])
def cores(request):
    with threadpool_limits(request.param, user_api="blas"):
        if blas_threads() != {request.param}:
            pytest.skip("the threads of this BLAS cannot be set")
        yield request.param


@pytest.fixture
def three_cores():
    with threadpool_limits(3, user_api="blas"):
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


@pytest.mark.usefixtures("cores")
def test_results_stand_in_order_and_each_is_told_once_in_the_calling_thread():
    told = []
    found = over_cores(
        lambda piece: 10 * piece, range(20), lambda each: told.append((each, threading.current_thread()))
    )
    assert found == list(range(0, 200, 10))
    assert sorted(each for each, _ in told) == found
    assert {thread for _, thread in told} == {threading.main_thread()}


def test_as_many_threads_work_at_once_as_the_blas_had_and_the_blas_has_one(cores):
    work, seen = together(cores)
    assert over_cores(work, range(5 * cores)) == list(range(0, 50 * cores, 10))
    assert len({thread for thread, _ in seen}) == cores
    assert all(threads == {1} for _, threads in seen)
    assert blas_threads() == {cores}


@pytest.mark.usefixtures("three_cores")
def test_no_more_threads_are_made_than_there_are_pieces():
    work, seen = together(2)
    over_cores(work, range(2))
    assert len({thread for thread, _ in seen}) == 2


@pytest.mark.usefixtures("three_cores")
def test_one_piece_is_done_in_the_calling_thread_with_all_threads_of_the_blas():
    work, seen = together(1)
    assert over_cores(work, [4]) == [40]
    assert seen == [(threading.main_thread(), {3})]
    assert over_cores(work, []) == []


@pytest.mark.usefixtures("three_cores")
def test_a_thread_that_is_not_the_main_one_works_alone_and_leaves_the_blas_as_it_is():
    work, seen = together(1)
    thread = threading.Thread(target=over_cores, args=(work, range(6)))
    thread.start()
    thread.join()
    assert seen == [(thread, {3})] * 6


@pytest.mark.usefixtures("three_cores")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["work", "done"])
def test_after_an_error_nothing_more_is_begun_and_the_blas_has_its_threads_again(error, place):
    begun, go_on = [], threading.Event()

    def work(piece: int) -> int:
        begun.append(piece)
        if piece == 0 and place == "work":
            raise error("no")
        if piece:
            go_on.wait(0.2)
        return piece

    def done(_: int) -> None:
        if place == "done":
            raise error("no")

    with pytest.raises(error, match="no"):
        over_cores(work, range(1_000), done)
    assert len(begun) < 100
    assert blas_threads() == {3}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("core")]


@pytest.mark.parametrize("seed", range(4))
def test_routes_do_not_depend_on_the_number_of_cores(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    records = rng.integers(-3, 4, (300, 6)).astype(np.float32)  # many ties, some of them crowded
    entries = rng.integers(-3, 4, (90, 6)).astype(np.float32)
    bank = Bank(entries, reserved=(3, 50))
    monkeypatch.setattr("canarybank.mechanism.scan.CHUNK_VALUES", 1_000)
    monkeypatch.setattr("canarybank.mechanism.table.MERGED_VALUES", 1_000)
    found = []
    for number in (1, 2, 7):
        with threadpool_limits(number, user_api="blas"):
            table = RouteTable.build(records, bank, 4)
            merged = table.merge_distances(entries[:5], [90, 91, 92, 93, 94])
            found.append((route(records, entries, 4), table.positions, *merged))
    distances = np.square(records[:, None].astype(np.float64) - entries).sum(axis=2)
    np.testing.assert_array_equal(found[0][0], np.argsort(distances, axis=1, kind="stable")[:, :4])
    for each in found[1:]:
        for ours, first in zip(each, found[0], strict=True):
            np.testing.assert_array_equal(ours, first)
