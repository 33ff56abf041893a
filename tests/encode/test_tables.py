import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import canarybank.encode.tables as tables_module
from canarybank.encode.tables import KEY, HeldTable, Keys, Rows, Table, merge_rows, sort_rows, write_table
from canarybank.errors import StoreError


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_module, "BLOCK_ROWS", 8)


def draw_keys(rng: np.random.Generator, count: int) -> Keys:
    """Return keys of few different bytes, so that many are equal, and many end with or are nothing but zeros."""
    return rng.integers(0, 3, (count, 4), dtype=np.uint8).repeat(4, axis=1).view(KEY)[:, 0]


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def flat(pieces: Iterator[Rows]) -> list[tuple[bytes, int]]:
    return [row for piece in pieces for row in piece.tolist()]


@pytest.mark.parametrize("seed", range(20))
def test_merging_and_finding_agree_with_a_dictionary(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sources: list[HeldTable | Table] = []
    for number in range(rng.integers(0, 5)):
        keys = draw_keys(rng, int(rng.integers(0, 60)))
        held = HeldTable(sort_rows(keys, rng.permutation(200)[: len(keys)]))
        write_table(tmp_path / str(number), held.pieces(), None)
        sources.append(Table(tmp_path / str(number)) if number % 2 else held)
    rows = sorted(row for source in sources for row in flat(source.pieces()))
    twin: dict[bytes, list[int]] = {}
    for key, place in rows:
        twin.setdefault(key, []).append(place)
    merged = flat(merge_rows(source.pieces() for source in sources))
    assert [key for key, _ in merged] == [key for key, _ in rows]
    assert sorted(merged) == rows
    write_table(tmp_path / "all", merge_rows(source.pieces() for source in sources), {"seed": seed})
    table = Table(tmp_path / "all")
    assert (len(table), table.meta) == (len(rows), {"seed": seed})
    wanted = np.sort(draw_keys(rng, 50))
    expected = [(number, place) for number, key in enumerate(wanted.tolist()) for place in twin.get(key, [])]
    for each in (table, HeldTable.of(table.pieces())):
        which, places = each.find(wanted)
        assert sorted(zip(which.tolist(), places.tolist(), strict=True)) == expected


def test_rows_of_a_key_are_found_in_all_blocks_that_they_fill(tmp_path: Path) -> None:
    keys = np.repeat(np.array([b"a", b"b", b"c"], dtype=KEY), [5, 40, 3])
    write_table(tmp_path / "t", [sort_rows(keys, np.arange(48))], None)
    which, places = Table(tmp_path / "t").find(np.array([b"", b"b", b"d"], dtype=KEY))
    assert set(which.tolist()) == {1}
    assert places.tolist() == list(range(5, 45))


def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rng = np.random.default_rng(1)
    write_table(path, [sort_rows(draw_keys(rng, 60), np.arange(60))], ["a", "b"])
    rows, whole = flat(Table(path).pieces()), path.read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :] for at in range(len(whole))]
    for data in (*changed, *(whole[:end] for end in range(len(whole))), b"x" * 40 + whole):
        path.write_bytes(data)
        with pytest.raises(StoreError, match="is broken"):
            assert flat(Table(path).pieces()) != rows


def test_only_blocks_where_a_wanted_key_may_lie_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    keys = np.arange(10, 90).astype(KEY)
    write_table(path, [sort_rows(keys, np.arange(80))], None)
    data = bytearray(path.read_bytes())
    data[data.index(b"50") + 20] ^= 1
    path.write_bytes(data)
    table = Table(path)
    assert table.find(keys[:8])[1].tolist() == list(range(8))
    assert table.is_sound
    with pytest.raises(StoreError, match="the checksum of a block"):
        table.find(keys[40:41])
    assert not table.is_sound


def test_a_table_is_readable_after_its_removal_and_closed_when_it_is_let_go(tmp_path: Path) -> None:
    write_table(tmp_path / "t", [sort_rows(np.array([b"a"], dtype=KEY), np.array([7]))], None)
    gc.collect()
    before = open_files()
    table = Table(tmp_path / "t")
    (tmp_path / "t").unlink()
    assert [found.tolist() for found in table.find(np.array([b"a", b"b"], dtype=KEY))] == [[0], [7]]
    assert open_files() == before + 1
    del table
    assert open_files() == before
