"""The tables of a shelf, with sizes so small that a few texts make and merge many of them."""

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import canarybank.encode.index as index_module
import canarybank.encode.shelf as shelf_module
import canarybank.encode.tables as tables_module
from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache
from canarybank.encode.shelf import Shelf, text_keys
from canarybank.encode.tables import Table, write_table
from canarybank.errors import StoreError
from canarybank.store import Segment, write_segment

ENCODER = HashingEncoder(8)
TEXTS = [f"text {n}" for n in range(120)]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "HELD_ROWS", 10)
    monkeypatch.setattr(index_module, "MOST_ROWS", 64)
    monkeypatch.setattr(tables_module, "BLOCK_ROWS", 8)


def open_shelf(folder: Path) -> Shelf:
    shelf = VectorCache(folder).shelf(ENCODER)
    shelf.refresh()
    return shelf


def put(shelf: Shelf, texts: list[str], size: int = 6) -> None:
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        shelf.put(text_keys(some), ENCODER.encode(some))


def check(shelf: Shelf, texts: list[str]) -> None:
    assert shelf.absent(text_keys(texts)) == []
    vectors = shelf.get(text_keys(texts))
    assert vectors is not None
    assert np.array_equal(vectors, ENCODER.encode(texts))


def files(shelf: Shelf, suffix: str) -> list[Path]:
    return sorted(shelf.folder.glob(f"*.{suffix}"))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(12))
def test_shelves_that_share_a_folder_agree_with_a_dictionary(tmp_path: Path, seed: int) -> None:
    rng, shelves, twin = np.random.default_rng(seed), [open_shelf(tmp_path) for _ in range(3)], dict[str, int]()

    def agree(shelf: Shelf) -> None:
        assert shelf.absent(text_keys(TEXTS)) == [n for n, text in enumerate(TEXTS) if text not in twin]
        vectors = shelf.get(text_keys(list(twin)))
        assert vectors is not None
        assert vectors[:, 0].tolist() == list(twin.values())

    for version in range(60):
        which = int(rng.integers(3))
        shelf, wanted = shelves[which], [TEXTS[n] for n in rng.permutation(120)[: rng.integers(1, 8)]]
        shelf.put(text_keys(wanted), np.full((len(wanted), 8), version, dtype=np.float32))
        for text in wanted:
            twin.setdefault(text, version)
        match int(rng.integers(7)):
            case 0:
                shelf.refresh()
                agree(shelf)
            case 1:
                shelves[which] = open_shelf(tmp_path)
                agree(shelves[which])
            case 2:
                shelf.refresh()
                shelf.compact(least=4)
                agree(shelf)
            case 3 if tables := files(shelf, "index"):
                path = tables[rng.integers(len(tables))]
                flip(path, int(rng.integers(path.stat().st_size)))
            case 4 if tables := files(shelf, "index"):
                tables[rng.integers(len(tables))].unlink()
    for shelf in (*shelves, open_shelf(tmp_path)):
        shelf.refresh()
        agree(shelf)
    assert files(shelf, "index")
    assert files(shelf, "corrupt") == []


def test_broken_segments_make_their_own_texts_absent_and_no_others(tmp_path: Path) -> None:
    put(open_shelf(tmp_path), TEXTS)
    put(open_shelf(tmp_path), TEXTS[:12], size=12)  # younger, and so not read
    reader, rng = open_shelf(tmp_path), np.random.default_rng(4)
    paths = files(reader, "vectors")
    for number in (2, 9, 15):
        flip(paths[number], int(rng.integers(paths[number].stat().st_size - 256, paths[number].stat().st_size)))
    paths[4].unlink()
    gone = [6 * number + n for number in (2, 4, 9, 15) for n in range(6)]
    assert reader.get(text_keys(TEXTS)) is None
    assert reader.absent(text_keys(TEXTS)) == gone
    check(reader, [text for n, text in enumerate(TEXTS) if n not in gone])
    assert [path.name.removesuffix(".corrupt") for path in files(reader, "corrupt")] == [
        paths[number].name for number in (2, 9, 15)
    ]
    put(reader, [TEXTS[n] for n in gone])
    for shelf in (reader, open_shelf(tmp_path)):
        check(shelf, TEXTS)


def test_few_tables_are_left_and_a_table_does_not_grow_without_end(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    texts = [f"text {n}" for n in range(600)]
    put(shelf, texts, size=5)
    sizes = sorted(len(Table(path)) for path in files(shelf, "index"))
    assert 60 <= sizes[-1] <= 64
    assert len(sizes) <= 2 * 600 / 64
    assert sum(len(part.table) for part in shelf._index._parts if part.held) <= 10
    check(open_shelf(tmp_path), texts)


def test_segments_of_a_folder_without_tables_are_found_and_then_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = open_shelf(tmp_path)
    vectors, keys = ENCODER.encode(TEXTS), np.frombuffer(b"".join(text_keys(TEXTS)), np.uint8).reshape(-1, 32)
    meta = {"encoder": "hashing", "fingerprint": ENCODER.fingerprint, "dimension": 8, "rows": 30}
    for number in range(4):  # as earlier versions wrote them: keys in the order of the texts, and no tables
        some = slice(30 * number, 30 * number + 30)
        name = f"{1_700_000_000_000_000_000 + number:020d}-77-0a0b0c0d.vectors"
        write_segment(shelf.folder / name, {"keys": keys[some], "vectors": vectors[some]}, meta)
    check(open_shelf(tmp_path), TEXTS)
    assert files(shelf, "index")
    opened: list[Path] = []

    def count(path: Path) -> Segment:
        opened.append(path)
        return Segment(path)

    monkeypatch.setattr(shelf_module, "Segment", count)
    reader = open_shelf(tmp_path)
    assert reader.absent(text_keys([*TEXTS, "another"])) == [120]
    assert opened == []
    check(reader, TEXTS[35:50])
    assert len(opened) == 1


def test_a_process_uses_the_tables_of_others(tmp_path: Path) -> None:
    reader, writer = open_shelf(tmp_path), open_shelf(tmp_path)
    put(writer, TEXTS)
    written = files(writer, "index")
    reader.refresh()
    check(reader, TEXTS)
    assert files(reader, "index") == written
    assert {part.name for part in reader._index._parts} >= {path.name for path in written}


def test_a_table_that_vanishes_between_listing_and_opening_has_a_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(open_shelf(tmp_path), TEXTS)
    moments = itertools.count()

    class Slow(Table):
        def __init__(self, path: Path) -> None:
            if next(moments) == 0:  # another process has merged it meanwhile
                path.rename(path.with_name(f"9{path.name}"))
            super().__init__(path)

    monkeypatch.setattr(index_module, "Table", Slow)
    present, covered = VectorCache(tmp_path).shelf(ENCODER)._index.refresh()
    assert len(present) == 20
    assert len(present - covered) <= 1


def test_a_cache_that_cannot_be_written_still_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(open_shelf(tmp_path), TEXTS[:60])
    for path in files(open_shelf(tmp_path), "index"):
        path.unlink()
    tries = []

    def refuse(path: Path, *_: object) -> None:
        tries.append(path)
        raise StoreError("the disk is full")

    monkeypatch.setattr(index_module, "write_table", refuse)
    reader = open_shelf(tmp_path)
    check(reader, TEXTS[:60])
    assert len(tries) == 2  # at 12 keys, and at more than 24
    monkeypatch.setattr(shelf_module, "write_segment", refuse)
    put(reader, TEXTS[60:])
    check(reader, TEXTS)
    monkeypatch.undo()
    check(reader, TEXTS)
    assert open_shelf(tmp_path).absent(text_keys(TEXTS)) == list(range(60, 120))


def test_a_table_of_wrong_places_is_found_out(tmp_path: Path) -> None:
    put(open_shelf(tmp_path), TEXTS)
    for path in files(open_shelf(tmp_path), "index"):
        table = Table(path)
        rows = np.concatenate(list(table.pieces()))
        rows["place"] = np.roll(rows["place"], 1)
        write_table(path, [rows], table.meta)
    assert open_shelf(tmp_path).get(text_keys(TEXTS)) is None
    assert np.array_equal(CachedEncoder(ENCODER, VectorCache(tmp_path)).encode(TEXTS), ENCODER.encode(TEXTS))


def test_a_table_of_another_encoder_is_removed(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    put(shelf, TEXTS)
    for path in files(shelf, "index"):
        write_table(path, [], {"fingerprint": "another", "segments": []})
    check(open_shelf(tmp_path), TEXTS)


def test_pruning_a_segment_removes_the_tables_that_name_its_texts(tmp_path: Path) -> None:
    cache, shelf = VectorCache(tmp_path), open_shelf(tmp_path)
    put(shelf, TEXTS)
    size = sum(path.stat().st_size for path in shelf.folder.iterdir())
    assert cache.usage()[0].bytes == size
    assert cache.prune(max_bytes=size) == 0
    left = size - cache.prune(max_bytes=size - 1)
    assert files(shelf, "index") == []
    assert sum(path.stat().st_size for path in shelf.folder.iterdir()) == left
    check(shelf, TEXTS)  # it has them open
    present = [text for text in TEXTS if not open_shelf(tmp_path).absent(text_keys([text]))]
    assert len(present) >= 114
    cache.prune(max_bytes=0)
    assert list(shelf.folder.iterdir()) == []


def test_the_memory_to_find_vectors_does_not_grow_with_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "HELD_ROWS", 2_000)
    monkeypatch.setattr(index_module, "MOST_ROWS", 1 << 24)
    monkeypatch.setattr(tables_module, "BLOCK_ROWS", 128)
    monkeypatch.setattr(shelf_module, "MOST_SMALL_BYTES", 1)

    def peaks(rows: int) -> tuple[float, float]:
        """Return the most bytes held while a cache of so many texts grows by a thousand, and while it is read."""
        folder, keys = tmp_path / str(rows), np.random.default_rng(3).bytes(32 * (rows + 1_000))
        some = [[keys[32 * n : 32 * n + 32] for n in range(at, at + 1_000)] for at in range(0, rows + 1_000, 1_000)]
        vectors, writer = np.zeros((1_000, 8), dtype=np.float32), open_shelf(folder)
        for part in some[:-1]:
            writer.put(part, vectors)
        tracemalloc.start()
        for at in range(0, 1_000, 100):
            writer.put(some[-1][at : at + 100], vectors[:100])
        _, growing = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        tracemalloc.start()
        reader = open_shelf(folder)
        assert reader.absent(some[rows // 2_000]) == []
        _, reading = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return growing, reading

    peaks(2_000)  # what is made once
    for small, large in zip(peaks(8_000), peaks(64_000), strict=True):
        assert large - small < 56_000 * 24 / 8
