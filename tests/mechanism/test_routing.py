import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.mechanism import Bank, RouteTable, route
from canarybank.mechanism import routing as routing_module
from canarybank.mechanism.routing import first_of_each, rank, settled

Pair = tuple[NDArray[Any], NDArray[Any]]


def ordinary(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    return rng.normal(size=(n, d)), rng.normal(size=(p, d))


def lattice(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    return rng.integers(-1, 2, (n, d)).astype(float), rng.integers(-1, 2, (p, d)).astype(float)


def copies(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, max(1, p // 12), d)
    return np.concatenate((records[:-1], entries[:1]))[:n], entries[rng.integers(0, len(entries), p)]


def all_equal(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, 1, d)
    return records, np.repeat(entries, p, axis=0)


def zeros(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    records[::2], entries[::3], entries[1::3] = 0.0, 0.0, -0.0
    return records, entries


def nearly_equal(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records, entries[:1] + 3e-7 * entries


def wild_norms(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records * 10.0 ** rng.integers(-18, 18, (n, 1)), entries * 10.0 ** rng.integers(-18, 18, (p, 1))


def one_giant(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    entries[0] *= 1e6
    return records, entries


def far_records(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records * 1e9, entries


def huge(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records * 1e36, entries * 1e36


def tiny(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records * 1e-40, entries * 1e-40


CASES = [
    ordinary,
    lattice,
    copies,
    all_equal,
    zeros,
    nearly_equal,
    wild_norms,
    one_giant,
    far_records,
    huge,
    tiny,
]


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 300),
    st.integers(1, 50),
    st.integers(1, 8),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32 - 1),
)
def test_equals_the_naive_twin(
    case: Any, naive_route: Any, n: int, p: int, d: int, k: int, dtype: Any, seed: int
) -> None:
    records, entries = (a.astype(dtype) for a in case(np.random.default_rng(seed), n, p, d))
    found = route(records, entries, min(k, p))
    assert found.dtype == np.int64
    assert np.array_equal(found, naive_route(records, entries, min(k, p)))


@pytest.mark.parametrize("case", CASES)
def test_chunks_folds_and_precision_change_nothing(
    case: Any, naive_route: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, entries = (a.astype(np.float32) for a in case(np.random.default_rng(5), 60, 700, 24))
    expected = naive_route(records, entries, 5)
    for values in (1, 1000, 5000, 1 << 23):
        monkeypatch.setattr("canarybank.mechanism.scan.CHUNK_VALUES", values)
        assert np.array_equal(route(records, entries, 5), expected)
    for fold in (1, 3, 64):
        monkeypatch.setattr(routing_module, "FOLD", fold)
        assert np.array_equal(route(records, entries, 5), expected)
    monkeypatch.setattr(routing_module, "precision", lambda *_: np.float64)
    assert np.array_equal(route(records, entries, 5), expected)


def test_any_rounding_within_the_margin_changes_nothing(naive_route: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Stands for another BLAS: every score is moved at random, by as much as the margin allows.
    rng = np.random.default_rng(6)
    honest = routing_module.Scan.scores

    def moved(self: Any, records: Any, out: Any = None) -> Any:
        scores = honest(self, records, out)
        margin = self.margin(np.linalg.norm(records.astype(np.float64), axis=1))[:, None]
        scores += (0.9 * margin * rng.choice([-1, 1], scores.shape)).astype(scores.dtype)
        return scores

    monkeypatch.setattr(routing_module.Scan, "scores", moved)
    for case in (ordinary, copies, nearly_equal, lattice):
        records, entries = (a.astype(np.float32) for a in case(rng, 80, 900, 64))
        assert np.array_equal(route(records, entries, 5), naive_route(records, entries, 5))


def test_most_rows_are_settled_without_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    exact = routing_module.squared_distances

    def counting(records: Any, entries: Any, rows: Any, columns: Any) -> Any:
        looked.append(len(np.unique(rows)))
        return exact(records, entries, rows, columns)

    monkeypatch.setattr(routing_module, "squared_distances", counting)
    rng = np.random.default_rng(7)
    route(*(a.astype(np.float32) for a in ordinary(rng, 500, 2000, 64)), 5)
    assert sum(looked) < 50


def test_ties_go_to_the_lowest_index_among_hundreds() -> None:
    entries = np.tile(np.eye(4, dtype=np.float32), (300, 1))
    assert route(np.zeros((2, 4)), entries, 7).tolist() == [list(range(7))] * 2
    assert route(np.eye(4), entries, 3).tolist() == [[i, i + 4, i + 8] for i in range(4)]


def test_only_thefirst_copies_of_an_entry_are_searched() -> None:
    entries = np.array([[0.0], [1.0], [-0.0], [1.0], [0.0], [2.0], [1.0]])
    assert routing_module.first_copies(entries, 2).tolist() == [0, 1, 2, 3, 5]


def test_unit_length_is_not_assumed() -> None:
    # By angle the first entry wins, by distance the second.
    assert route([[1.0, 0.0]], [[10.0, 0.0], [1.0, 1.0]], 1).tolist() == [[1]]


def test_float64_values_are_not_rounded_to_float32() -> None:
    assert route(np.array([[0.0]]), np.array([[1 + 1e-12], [1.0]]), 2).tolist() == [[1, 0]]
    assert route(np.array([[0.0]]), np.array([[1 + 1e-12], [1.0]], dtype=np.float32), 2).tolist() == [[0, 1]]


def test_takes_a_bank_or_an_array_and_k_up_to_all() -> None:
    rng = np.random.default_rng(8)
    entries = rng.normal(size=(9, 3)).astype(np.float32)
    records = rng.normal(size=(4, 3)).astype(np.float32)
    assert np.array_equal(route(records, Bank(entries, reserved=(1,)), 9), route(records, entries, 9))
    assert all(sorted(row) == list(range(9)) for row in route(records, entries, 9).tolist())


@pytest.mark.parametrize(
    ("records", "bank", "k", "words"),
    [
        (np.ones((2, 3)), np.ones((4, 3)), 5, "k is 5, but the bank has only 4 entries"),
        (np.ones((2, 3)), np.ones((4, 3)), 0, "k must be a whole number of at least 1, not 0"),
        (np.ones((2, 3)), np.ones((4, 2)), 1, "Records have dimension 3 but bank entries have dimension 2"),
        (np.full((2, 3), np.nan), np.ones((4, 3)), 1, "record 0 is NaN or infinite"),
        (np.ones((2, 3)), np.full((4, 3), np.inf), 1, "bank entry 0 is NaN or infinite"),
        (np.ones((0, 3)), np.ones((4, 3)), 1, "record vectors must be a non-empty table"),
        (np.ones(3), np.ones((4, 3)), 1, r"shape \(3,\)"),
    ],
)
def test_refuses_what_cannot_be_routed(records: Any, bank: Any, k: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        route(records, bank, k)


def test_rank_orders_by_distance_then_by_id() -> None:
    rows = np.array([3, 0, 3, 0, 3])
    ids = np.array([9, 4, 1, 2, 5])
    distances = np.array([1.0, 7.0, 1.0, 7.0, 0.5])
    assert rank(rows, ids, distances, 2).tolist() == [[2, 4], [5, 1]]


def test_first_of_each_points_at_the_head_of_each_row() -> None:
    assert first_of_each(np.array([0, 0, 0, 2, 2, 5, 5, 5]), 2).tolist() == [[0, 1], [3, 4], [5, 6]]


def test_routing_shows_every_record_as_it_is_done(monkeypatch):
    class Seen:
        def __init__(self):
            self.stages, self.steps = [], []

        @contextlib.contextmanager
        def stage(self, name, total=None, unit=""):
            self.stages.append((name, total, unit))
            yield self

        def advance(self, done=1, note=""):
            del note
            self.steps.append(done)

    monkeypatch.setattr("canarybank.mechanism.scan.CHUNK_VALUES", 400)
    rng, seen = np.random.default_rng(0), Seen()
    entries = np.repeat(rng.normal(size=(10, 4)), 4, axis=0).astype(np.float32)
    RouteTable.build(rng.normal(size=(90, 4)).astype(np.float32), Bank(entries), 3, seen)
    assert seen.stages == [("route", 90, "records")]
    assert sum(seen.steps) == 90
    assert len(seen.steps) > 5


def test_no_move_within_the_drift_changes_a_settled_route() -> None:
    rng, drift, k = np.random.default_rng(5), 4e-3, 4

    def unit(values: Any) -> Any:
        return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)

    entries = unit(rng.normal(size=(300, 6)))
    entries = np.concatenate((entries, entries[:40]))
    records = unit(np.concatenate((rng.normal(size=(200, 6)), entries[:50] + 1e-3 * rng.normal(size=(50, 6)))))
    table = RouteTable.build(records, Bank(entries), k + 1)
    sure = settled(table.distances[:, k - 1 :], drift)
    assert 0.2 < sure.mean() < 0.95
    chosen, worst = np.sort(table.positions[:, :k], axis=1), 0
    for _ in range(40):
        moved = (records + 0.999 * drift * unit(rng.normal(size=records.shape))).astype(np.float32)
        there = np.sort(route(moved, entries, k), axis=1)
        assert np.array_equal(there[sure], chosen[sure])
        worst = max(worst, (there[~sure] != chosen[~sure]).any(axis=1).sum())
    assert worst > 0
    # The worst move is from the k-th entry straight towards the next one: one drift for each changes their order.
    near = np.square([[1.0, 1.0 + 2.01 * drift], [1.0, 1.0 + 2.0 * drift]])
    assert settled(near, drift).tolist() == [True, False]
