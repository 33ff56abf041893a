"""Routes on a torch device are the CPU's, integer for integer. Here the device is the processor, by the same code."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.mechanism import Bank, RouteTable, route
from canarybank.mechanism import device_routing as module
from canarybank.mechanism.device_routing import DeviceRouter, Product, nearest_on

torch = pytest.importorskip("torch")

Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


def ordinary(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    return rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(p, d)).astype(np.float32)


def units(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records / np.linalg.norm(records, axis=1)[:, None], entries / np.linalg.norm(entries, axis=1)[:, None]


def lattice(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    return rng.integers(-1, 2, (n, d)).astype(np.float32), rng.integers(-1, 2, (p, d)).astype(np.float32)


def copies(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = units(rng, n, max(1, p // 3), d)
    return records, entries[rng.integers(0, len(entries), p)]


def tied_copies(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    """Entries in two copies that mirror each other, so that records on the mirror tie with both."""
    records, entries = units(rng, n, p, d)
    records[:, 0] = 0
    mirrored = entries.copy()
    mirrored[:, 0] *= -1
    return records, np.concatenate((entries, mirrored, entries))[rng.permutation(3 * p)][:p]


def nearly_equal(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records, entries[:1] + np.float32(3e-7) * entries


def all_equal(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, 1, d)
    return records, np.repeat(entries, p, axis=0)


def zeros(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    records[::2], entries[::3], entries[1::3] = 0.0, 0.0, -0.0
    return records, entries


def one_giant(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    entries[0] *= 1e6
    return records, entries


def large(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records * np.float32(1e16), entries * np.float32(1e16)


def tiny(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records * np.float32(1e-40), entries * np.float32(1e-40)


def faint(rng: np.random.Generator, n: int, p: int, d: int) -> Pair:
    records, entries = ordinary(rng, n, p, d)
    return records * np.float32(1e-24), entries * np.float32(1e-44)  # the squares of both are zero in float32


CASES = [ordinary, units, lattice, copies, tied_copies, nearly_equal, all_equal, zeros, one_giant, large, tiny, faint]
SIZES = [(1, 1, 1, 1), (30, 7, 3, 7), (40, 300, 24, 5), (25, 2100, 48, 3)]


@pytest.mark.parametrize("product", Product)
@pytest.mark.parametrize("case", CASES)
def test_equals_the_naive_twin(case: Any, product: Product, naive_route: Any) -> None:
    for seed, (n, p, d, k) in enumerate(SIZES):
        records, entries = case(np.random.default_rng(seed), n, p, d)
        found = DeviceRouter(entries, k, "cpu", product).route(torch.from_numpy(records))
        assert found.dtype == torch.int64
        assert np.array_equal(found.numpy(), naive_route(records, entries, k))


@pytest.mark.parametrize("product", [Product.SPLIT, Product.SINGLE])
def test_any_rounding_within_the_margin_changes_nothing(
    product: Product, naive_route: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands for another device: every score is moved at random, by as much as the margin allows.
    rng = np.random.default_rng(6)
    honest = module._Operand.scores

    def moved(self: Any, records: Any) -> Any:
        lengths = torch.linalg.vector_norm(records.double(), dim=1)
        margin = self.margin(lengths, largest, records.shape[1])[:, None]
        scores = honest(self, records)
        signs = torch.from_numpy(rng.choice([-0.9, 0.9], scores.shape))
        return scores + (margin * signs).to(scores.dtype)

    monkeypatch.setattr(module._Operand, "scores", moved)
    for case in (ordinary, copies, nearly_equal, lattice):
        records, entries = case(rng, 80, 900, 64)
        largest = float(np.linalg.norm(entries, axis=1).max())
        found = DeviceRouter(entries, 5, "cpu", product).route(torch.from_numpy(records))
        assert np.array_equal(found.numpy(), naive_route(records, entries, 5))


@pytest.mark.parametrize("product", Product)
def test_no_score_is_farther_from_the_definition_than_its_margin(product: Product) -> None:
    for case in (ordinary, units, one_giant, large, tiny, zeros):
        records, entries = case(np.random.default_rng(4), 50, 60, 384)
        table = torch.from_numpy(entries.astype(np.float64))
        operand = module._Operand.of(table, table.square().sum(dim=1), product)
        lengths = np.linalg.norm(records.astype(np.float64), axis=1)
        differences = records[:, None].astype(np.float64) - entries
        defined = np.square(differences).sum(axis=2) - np.square(lengths)[:, None]
        error = np.abs(operand.scores(torch.from_numpy(records)).numpy().astype(np.float64) - defined)
        largest = float(np.linalg.norm(entries.astype(np.float64), axis=1).max())
        assert (error <= operand.margin(lengths, largest, 384)[:, None]).all()


def test_each_step_settles_what_it_can() -> None:
    rng = np.random.default_rng(7)
    records, entries = units(rng, 400, 2000, 64)
    plain = DeviceRouter(entries, 5, "cpu", Product.SINGLE)
    plain.route(torch.from_numpy(records))
    assert plain.seen["by scores"] > 350
    assert plain.seen["by scores"] + plain.seen["in float64"] == plain.seen["records"] == 400
    split = DeviceRouter(entries, 5, "cpu", Product.SPLIT)
    split.route(torch.from_numpy(records))
    assert split.seen["by scores"] < plain.seen["by scores"]
    assert split.seen["by the definition"] == split.seen["crowded"] == 0
    repeated = DeviceRouter(entries[np.arange(2000) % 1000], 5, "cpu", Product.SINGLE)
    repeated.route(torch.from_numpy(records))
    assert repeated.seen["in float64"] == 400, "copies are told apart by their numbers alone"
    records, entries = lattice(rng, 50, 2000, 6)
    tied = DeviceRouter(entries, 5, "cpu")
    tied.route(torch.from_numpy(records))
    assert tied.seen["by the definition"] > 30


@pytest.mark.parametrize("case", CASES)
def test_one_minimum_after_another_finds_what_a_sort_finds(
    case: Any, naive_route: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MINIMA_ON", {"cpu"})
    monkeypatch.setattr(torch.Tensor, "topk", None)
    for n, p, d, k in SIZES[1:3]:
        records, entries = case(np.random.default_rng(k), n, p, d)
        monkeypatch.setattr(module, "MOST_MINIMA", 1 << 30)
        found = DeviceRouter(entries, k, "cpu").route(torch.from_numpy(records))
        assert np.array_equal(found.numpy(), naive_route(records, entries, k))


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, naive_route: Any) -> None:
    records, entries = copies(np.random.default_rng(8), 90, 400, 16)
    expected = naive_route(records, entries, 4)
    for values in (1, 5000, 1 << 22):
        monkeypatch.setitem(module.CHUNK_VALUES, "cpu", values)
        assert np.array_equal(DeviceRouter(entries, 4, "cpu").route_host(records), expected)


def test_route_and_the_table_take_a_device() -> None:
    records, entries = copies(np.random.default_rng(9), 60, 300, 16)
    bank = Bank(entries, reserved=(1, 7), barred=(3, 4, 250))
    assert np.array_equal(route(records, bank, 4, device="cpu"), route(records, bank, 4))
    here, there = RouteTable.build(records, bank, 4), RouteTable.build(records, bank, 4, device="cpu")
    assert np.array_equal(here.positions, there.positions)
    assert np.array_equal(here.distances, there.distances)


def test_vectors_that_cannot_be_written_are_routed_without_a_warning() -> None:
    records, entries = copies(np.random.default_rng(9), 60, 300, 16)
    expected = route(records, entries, 4)
    records.flags.writeable = False
    assert np.array_equal(route(records, entries, 4, device="cpu"), expected)


def test_much_work_is_done_where_the_encoder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    records, entries = copies(np.random.default_rng(9), 60, 300, 16)
    asked = []

    def counted(device: str, *given: Any) -> Any:
        asked.append(device)
        return nearest_on(device, *given)

    monkeypatch.setattr(module, "nearest_on", counted)
    monkeypatch.setattr("canarybank.mechanism.routing.device_in_use", lambda: "cpu")
    expected = route(records, entries, 4)
    assert asked == [], "little work stays with numpy"
    monkeypatch.setattr("canarybank.mechanism.routing.LEAST_PAIRS", 60 * 300)
    assert np.array_equal(route(records, entries, 4), expected)
    assert asked == ["cpu"]


def test_float64_vectors_keep_their_digits() -> None:
    records, entries = np.array([[0.0]]), np.array([[1 + 1e-12], [1.0]])
    assert nearest_on("cpu", records, entries, 2).tolist() == [[1, 0]]


def test_a_program_that_allows_coarse_products_changes_no_route() -> None:
    records, entries = units(np.random.default_rng(10), 50, 500, 32)
    torch.set_float32_matmul_precision("medium")
    try:
        assert np.array_equal(DeviceRouter(entries, 5, "cpu").route_host(records), route(records, entries, 5))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_refuses_what_it_cannot_route() -> None:
    with pytest.raises(InputError, match="not to 3 of float32"):
        DeviceRouter(np.ones((2, 4), dtype=np.float32), 3, "cpu")
    with pytest.raises(InputError, match="'cuda:9' cannot be used here"):
        route(np.ones((2, 4)), np.eye(4), 1, device="cuda:9")
