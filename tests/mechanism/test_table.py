from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.mechanism import Bank, RouteTable, route
from canarybank.mechanism import table as table_module


def vectors(rng: np.random.Generator, kind: str, count: int, dimension: int) -> Any:
    plain = rng.normal(size=(count, dimension))
    shaped = {
        "ordinary": plain,
        "lattice": np.round(plain),
        "wild": plain * 10.0 ** rng.integers(-18, 19, (count, 1)),
        "near": 1 + 1e-7 * plain,
        "huge": plain * 1e36,
    }
    return shaped[kind].astype(np.float32)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(["ordinary", "lattice", "wild", "near", "huge"]),
    st.sampled_from(["ordinary", "lattice", "wild", "near", "huge"]),
    st.integers(1, 30),
    st.integers(6, 120),
    st.integers(1, 24),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)
def test_swap_equals_routing_again(kind: str, other: str, n: int, p: int, d: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bank = Bank(vectors(rng, kind, p, d)).reserve(int(rng.integers(0, p - k + 1)), seed)
    table = RouteTable.build(vectors(rng, kind, n, d), bank, k)
    assert np.array_equal(table.swap(bank), route(table.records, bank, k))
    if bank.reserved:
        count = int(rng.integers(1, len(bank.reserved) + 1))
        planted = bank.with_probes(vectors(rng, other, count, d))
        assert np.array_equal(table.swap(planted), route(table.records, planted, k))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_nobody_votes_for_a_barred_entry_and_the_others_are_ranked_as_without_it(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    bank = Bank(np.round(rng.normal(size=(40, 3)))).reserve(9, seed)
    records = np.round(rng.normal(size=(15, 3)))
    barred = [rng.permutation(40)[:count] for count in (6, 12)]
    tables = [RouteTable.build(records, each, k) for each in (bank, bank.bar(barred[0]))]
    for banned in (bank, bank.bar(barred[0]), bank.bar(barred[1]), bank.bar(bank.reserved[:4])):
        for each in (banned, banned.with_probes(np.round(rng.normal(size=(9, 3))))):
            expected = each.open[route(records, each.vectors[each.open], k)]
            assert np.array_equal(route(records, each, k), expected)
            for table in tables:
                assert np.array_equal(table.swap(each), expected)


def test_refuses_a_bank_with_too_few_open_entries() -> None:
    bank = Bank(np.eye(5)).reserve(1, 0).bar([0, 1, 2])
    with pytest.raises(InputError, match="entries that are neither reserved nor barred"):
        RouteTable.build(np.ones((2, 5)), bank, 3)
    with pytest.raises(InputError, match="only 2 entries to choose from"):
        route(np.ones((2, 5)), bank, 3)


def test_probes_that_copy_base_entries_or_records_tie_to_the_lowest_index(naive_route: Any) -> None:
    rng = np.random.default_rng(1)
    bank = Bank(np.round(rng.normal(size=(200, 5)))).reserve(40, 3)
    table = RouteTable.build(np.round(rng.normal(size=(90, 5))), bank, 5)
    copied = np.concatenate((bank.vectors[bank.base[:20]], table.records[:20]))
    planted = bank.with_probes(copied)
    assert np.array_equal(table.swap(planted), naive_route(table.records, planted, 5))


def test_positions_are_of_the_base_and_distances_are_theirs(naive_route: Any) -> None:
    rng = np.random.default_rng(2)
    bank = Bank(rng.normal(size=(60, 7))).reserve(15, 4)
    table = RouteTable.build(rng.normal(size=(25, 7)).astype(np.float32), bank, 4)
    assert np.array_equal(table.positions, bank.base[naive_route(table.records, bank.vectors[bank.base], 4)])
    assert not set(table.positions.ravel()) & set(bank.reserved)
    differences = table.records[:, None].astype(float) - bank.vectors[table.positions]
    assert np.array_equal(table.distances, np.square(differences).sum(axis=-1))
    assert table.k == 4
    with pytest.raises(ValueError, match="read-only"):
        table.positions[0, 0] = 1


def test_merge_numbers_entries_by_their_places_behind_the_bank(naive_route: Any) -> None:
    rng = np.random.default_rng(3)
    bank = Bank(np.round(rng.normal(size=(80, 4)))).reserve(10, 4)
    table = RouteTable.build(np.round(rng.normal(size=(50, 4))), bank, 5)
    pool = np.round(rng.normal(size=(33, 4)))
    expected = naive_route(table.records, np.concatenate((bank.vectors[bank.base], pool)), 5)
    numbers = np.concatenate((bank.base, np.arange(80, 113)))
    assert np.array_equal(table.merge(pool, np.arange(80, 113)), numbers[expected])


def test_merged_routes_come_with_their_own_distances() -> None:
    rng = np.random.default_rng(7)
    bank = Bank(np.round(3 * rng.normal(size=(80, 4)))).reserve(10, 4)
    table = RouteTable.build(np.round(3 * rng.normal(size=(50, 4))), bank, 5)
    pool = np.concatenate((table.records[:20] + 0.25, 9 * rng.normal(size=(13, 4))))
    positions, distances = table.merge_distances(pool, np.arange(80, 113))
    assert np.array_equal(positions, table.merge(pool, np.arange(80, 113)))
    assert 20 <= (positions >= 80).any(axis=1).sum() < 50
    differences = table.records[:, None].astype(float) - np.concatenate((bank.vectors, pool))[positions]
    np.testing.assert_allclose(distances, np.square(differences).sum(axis=-1), rtol=1e-6, atol=0)
    assert (np.diff(distances, axis=1) >= 0).all()


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    bank = Bank(rng.normal(size=(60, 7))).reserve(15, 4)
    table = RouteTable.build(rng.normal(size=(25, 7)), bank, 4)
    planted = bank.with_probes(rng.normal(size=(15, 7)))
    expected = table.swap(planted)
    monkeypatch.setattr(table_module, "MERGED_VALUES", 40)
    honest, chunks = table_module.Scan.scores, []

    def counted(self: Any, records: Any, out: Any = None) -> Any:
        chunks.append(len(records))
        return honest(self, records, out)

    monkeypatch.setattr(table_module.Scan, "scores", counted)
    assert np.array_equal(table.swap(planted), expected)
    assert chunks == [2] * 12 + [1]


def test_any_rounding_within_the_margin_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    bank = Bank(1 + 1e-4 * rng.normal(size=(300, 16))).reserve(100, 4)
    table = RouteTable.build(1 + 1e-4 * rng.normal(size=(200, 16)), bank, 5)
    planted = bank.with_probes(1 + 1e-4 * rng.normal(size=(100, 16)))
    honest = table_module.Scan.scores

    def moved(self: Any, records: Any, out: Any = None) -> Any:
        margin = self.margin(np.linalg.norm(records.astype(np.float64), axis=1))[:, None]
        return honest(self, records, out) + 0.9 * margin

    expected = route(table.records, planted, 5)
    monkeypatch.setattr(table_module.Scan, "scores", moved)
    assert np.array_equal(table.swap(planted), expected)


def test_a_bank_without_reserved_positions_swaps_into_itself() -> None:
    rng = np.random.default_rng(5)
    bank = Bank(rng.normal(size=(20, 3)))
    table = RouteTable.build(rng.normal(size=(6, 3)), bank, 2)
    assert np.array_equal(table.swap(bank), route(table.records, bank, 2))
    assert table.swap(bank).flags.writeable


def test_refuses_a_bank_of_another_base() -> None:
    rng = np.random.default_rng(6)
    entries = rng.normal(size=(20, 3))
    table = RouteTable.build(rng.normal(size=(6, 3)), Bank(entries, reserved=(4, 5)), 2)
    with pytest.raises(InputError, match="does not reserve the same positions"):
        table.swap(Bank(entries, reserved=(4, 6)))
    with pytest.raises(InputError, match="or is of another size"):
        table.swap(Bank(entries[:19], reserved=(4, 5)))
    entries[7] += 1
    with pytest.raises(InputError, match="differs from the table's outside the reserved positions"):
        table.swap(Bank(entries, reserved=(4, 5)))


def test_refuses_k_beyond_the_base() -> None:
    bank = Bank(np.ones((6, 2)), reserved=(0, 1))
    with pytest.raises(InputError, match="k is 5, but the bank has 4 entries that are not reserved"):
        RouteTable.build(np.ones((3, 2)), bank, 5)


def test_refuses_entries_that_cannot_be_merged() -> None:
    bank = Bank(np.ones((6, 2)), reserved=(0, 1))
    table = RouteTable.build(np.ones((3, 2)), bank, 2)
    with pytest.raises(InputError, match="dimension 2 but merged entries have dimension 3"):
        table.merge(np.ones((1, 3)), [0])
    with pytest.raises(InputError, match="2 places for 1 merged entries"):
        table.merge(np.ones((1, 2)), [0, 1])
    with pytest.raises(InputError, match="place 3 is a base position"):
        table.merge(np.ones((1, 2)), [3])
    with pytest.raises(InputError, match="twice"):
        table.merge(np.ones((2, 2)), [8, 8])


def test_what_a_search_of_the_base_depends_on_has_a_name_of_its_own() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(20, 4))
    bank = Bank(vectors).reserve(3, 1)
    others = [
        Bank(vectors),
        Bank(vectors[:19]).reserve(3, 1),
        Bank(vectors).reserve(3, 2),
        bank.bar([int(bank.base[0])]),
        bank.bar([int(bank.base[1])]),
        bank.bar([bank.reserved[0]]),
        Bank(vectors + (np.arange(20) == bank.base[2])[:, None], None, bank.reserved),
    ]
    names = [each.base_hash for each in (bank, *others)]
    assert len(set(names)) == len(names)
    assert bank.with_probes(rng.normal(size=(3, 4))).base_hash == bank.base_hash
