"""Texts routed by a fast encoder have the routes of the exact one."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from canarybank.encode.fixed_shapes import TokenBatch
from canarybank.errors import InputError
from canarybank.mechanism import route
from canarybank.mechanism.device_routing import DeviceRouter
from canarybank.mechanism.text_routing import measure_drift, route_texts

torch = pytest.importorskip("torch")

ROWS = 16


class Numbers:
    """Texts are numbers; a batch holds the vectors of some of them, looked up in a table."""

    def __init__(self) -> None:
        self.rows = np.array([ROWS])

    def batches(self, texts: Sequence[str]) -> Iterator[TokenBatch]:
        for start in range(0, len(texts), ROWS):
            ids = torch.tensor([[int(text)] for text in texts[start : start + ROWS]])
            yield TokenBatch(np.arange(start, start + len(ids)), ids, torch.ones(len(ids), dtype=torch.int64))


class Looked:
    """An encoder by a table, with the seam of ``FixedShapes``; it counts what it is asked."""

    def __init__(self, tokens: Numbers, table: Any) -> None:
        self.tokens, self.table, self.asked = tokens, table, 0

    def rows_of(self, length: int) -> int:
        return ROWS * length

    def forward(self, batch: TokenBatch) -> Any:
        assert len(batch.positions) <= ROWS
        self.asked += len(batch.positions)
        return torch.from_numpy(self.table[batch.ids[: len(batch.positions), 0].numpy()])

    def vectors(self, texts: Sequence[str]) -> Iterator[tuple[TokenBatch, Any]]:
        for batch in self.tokens.batches(texts):
            yield batch, self.forward(batch)

    def encode(self, texts: Sequence[str]) -> Any:
        return np.concatenate([vectors.numpy() for _, vectors in self.vectors(texts)])


def scene(drift: float, count: int = 600) -> tuple[list[str], Any, Looked, Looked]:
    rng = np.random.default_rng(3)
    entries = unit(rng.normal(size=(400, 12)))
    vectors = unit(rng.normal(size=(count, 12)))
    moved = vectors + drift * unit(rng.normal(size=vectors.shape)) * rng.uniform(0.3, 1, (count, 1)).astype(np.float32)
    tokens = Numbers()
    return [str(n) for n in range(count)], entries, Looked(tokens, moved.astype(np.float32)), Looked(tokens, vectors)


def unit(values: Any) -> Any:
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("drift", [0.0, 1e-5, 1e-3, 0.05])
@pytest.mark.parametrize("block", [1, 100, 1 << 16])
def test_routes_are_the_exact_encoders(drift: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canarybank.mechanism.text_routing.BLOCK", block)
    texts, entries, fast, exact = scene(drift)
    expected = route(exact.table, entries, 5)
    found = route_texts(texts, fast, exact, DeviceRouter(entries, 5, "cpu"), drift=drift * 1.01)
    assert np.array_equal(found.routes, expected)
    assert found.largest <= found.drift
    assert found.encoded_again == exact.asked
    if drift == 1e-3:
        plain = route(fast.table, entries, 5)
        assert (plain != expected).any(), "the drift must matter, or nothing is tested"
        assert found.encoded_again < len(texts) / 2
    if drift == 1e-5:
        assert found.encoded_again < len(texts) / 40


def test_a_wrong_bound_is_noticed_and_everything_encoded_exactly() -> None:
    texts, entries, fast, exact = scene(0.05)
    found = route_texts(texts, fast, exact, DeviceRouter(entries, 5, "cpu"), drift=1e-3)
    assert found.largest > found.drift
    assert found.encoded_again == len(texts)
    assert np.array_equal(found.routes, route(exact.table, entries, 5))


def test_the_bound_is_measured_on_a_sample() -> None:
    texts, entries, fast, exact = scene(1e-3)
    measured = measure_drift(texts, fast, exact, sample=50)
    largest = np.linalg.norm(fast.table.astype(np.float64) - exact.table, axis=1).max()
    assert 0.5 * largest <= measured <= largest
    found = route_texts(texts, fast, exact, DeviceRouter(entries, 5, "cpu"))
    assert found.drift == 4 * largest
    assert np.array_equal(found.routes, route(exact.table, entries, 5))


def test_no_move_within_the_drift_changes_a_sure_route() -> None:
    rng = np.random.default_rng(5)
    entries = unit(rng.normal(size=(300, 6)))
    entries = np.concatenate((entries, entries[:40]))
    records = unit(np.concatenate((rng.normal(size=(200, 6)), entries[:50] + 1e-3 * rng.normal(size=(50, 6)))))
    router = DeviceRouter(entries, 4, "cpu")
    routes, sure = (each.numpy() for each in router.route_within(torch.from_numpy(records), 4e-3))
    assert 0.2 < sure.mean() < 0.9
    assert np.array_equal(routes[sure], route(records, entries, 4)[sure])
    worst = 0
    for _ in range(40):
        moved = (records + 3.99e-3 * unit(rng.normal(size=records.shape))).astype(np.float32)
        there = route(moved, entries, 4)
        assert np.array_equal(there[sure], routes[sure])
        worst = max(worst, (there[~sure] != routes[~sure]).any(axis=1).sum())
    assert worst > 0


def test_encoders_of_other_buckets_are_refused() -> None:
    texts, entries, fast, _ = scene(0.0)
    with pytest.raises(InputError, match="share their tokens"):
        route_texts(texts, fast, scene(0.0)[3], DeviceRouter(entries, 5, "cpu"), drift=0.0)


def test_fast_vectors_that_are_no_numbers_are_encoded_again() -> None:
    texts, entries, fast, exact = scene(1e-4)
    expected = route(exact.table, entries, 5)
    fast.table[[0, 17, 300]] = np.nan
    fast.table[301, 3] = np.inf
    assert measure_drift(texts, fast, exact) < 2e-4
    found = route_texts(texts, fast, exact, DeviceRouter(entries, 5, "cpu"))
    assert np.array_equal(found.routes, expected)
    assert 4 <= found.encoded_again < len(texts) / 2
    assert 0 < found.largest < 2e-4


def test_an_exact_vector_that_is_no_number_is_an_error_of_the_encoder() -> None:
    texts, entries, fast, exact = scene(1e-4)
    fast.table[21], exact.table[21] = np.nan, np.nan
    for drift in (None, 1e-9):  # one text is encoded again, or all of them
        with pytest.raises(InputError, match="gave text 21 a vector with NaN or infinity"):
            route_texts(texts, fast, exact, DeviceRouter(entries, 5, "cpu"), drift=drift)


def test_no_texts_have_no_routes_and_no_drift_is_not_trusted() -> None:
    _, entries, fast, exact = scene(0.0)
    assert route_texts([], fast, exact, DeviceRouter(entries, 5, "cpu")).routes.shape == (0, 5)
    assert route_texts(["1", "2"], exact, exact, DeviceRouter(entries, 5, "cpu")).drift > 0
