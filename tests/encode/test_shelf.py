import errno
from pathlib import Path

import numpy as np
import pytest

import canarybank.encode.shelf as shelf_module
from canarybank.encode import HashingEncoder, VectorCache
from canarybank.encode.shelf import Shelf, text_keys
from canarybank.errors import InputError, StoreError
from canarybank.store import Segment, hash_text

ENCODER = HashingEncoder(8)


def open_shelf(folder: Path) -> Shelf:
    shelf = VectorCache(folder).shelf(ENCODER)
    shelf.refresh()
    return shelf


def put(shelf: Shelf, texts: list[str]) -> None:
    shelf.put(text_keys(texts), ENCODER.encode(texts))


def check(shelf: Shelf, texts: list[str]) -> None:
    vectors = shelf.get(text_keys(texts))
    assert vectors is not None
    assert np.array_equal(vectors, ENCODER.encode(texts))


def segments(shelf: Shelf, pattern: str = "*.vectors") -> list[Path]:
    return sorted(shelf.folder.glob(pattern))


def test_keys_are_sha256_of_the_text_even_with_broken_surrogates() -> None:
    assert [key.hex() for key in text_keys(["a", "é", ""])] == [hash_text(text) for text in ("a", "é", "")]
    assert [key.hex() for key in text_keys(["a", "\ud800"])] == [hash_text("a"), hash_text("\ud800")]


def test_what_was_put_comes_back_in_any_order_from_any_number_of_segments(tmp_path: Path, texts: list[str]) -> None:
    shelf = open_shelf(tmp_path)
    assert shelf.get(text_keys(texts)) is None
    for start in range(0, 100, 30):
        put(shelf, texts[start : start + 30])
    for reader in (shelf, open_shelf(tmp_path)):
        check(reader, texts)
        check(reader, [texts[i] for i in (99, 3, 3, 40, 0)])
        empty = reader.get([])
        assert empty is not None
        assert empty.shape == (0, 8)


def test_absent_lists_first_places_only(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    put(shelf, ["a"])
    assert shelf.absent(text_keys(["b", "a", "b", "c", "a", "c"])) == [0, 3]
    assert shelf.get(text_keys(["a", "b"])) is None


def test_a_reader_takes_in_what_others_add(tmp_path: Path, texts: list[str]) -> None:
    reader, writer = open_shelf(tmp_path), open_shelf(tmp_path)
    put(writer, texts)
    assert reader.get(text_keys(texts)) is None
    reader.refresh()
    check(reader, texts)


def test_of_two_rows_for_a_text_the_older_is_read(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    shelf.put(text_keys(["a"]), np.eye(8, dtype=np.float32)[:1])
    shelf.put(text_keys(["a"]), np.eye(8, dtype=np.float32)[1:2])
    for reader in (shelf, open_shelf(tmp_path)):
        vectors = reader.get(text_keys(["a"]))
        assert vectors is not None
        assert vectors[0, 0] == 1


@pytest.mark.parametrize("place", ["magic", "header", "keys", "vectors", "cut", "empty"])
def test_a_corrupt_segment_is_set_aside_and_its_texts_are_absent_again(
    tmp_path: Path, texts: list[str], place: str
) -> None:
    shelf = open_shelf(tmp_path)
    put(shelf, texts[:50])
    put(shelf, texts[50:])
    path = segments(shelf)[0]
    data = bytearray(path.read_bytes())
    spots = {"magic": 3, "header": 60, "keys": data.find(text_keys(texts)[7]), "vectors": len(data) - 100}
    if place in spots:
        data[spots[place]] ^= 1
    path.write_bytes({"cut": data[:-200], "empty": b""}.get(place, data))
    reader = open_shelf(tmp_path)
    assert reader.get(text_keys(texts)) is None
    assert reader.absent(text_keys(texts)) == list(range(50))
    check(reader, texts[50:])
    assert [p.name for p in segments(shelf, "*.corrupt")] == [f"{path.name}.corrupt"]
    put(reader, texts[:50])
    check(reader, texts)
    check(open_shelf(tmp_path), texts)


def test_a_segment_of_another_encoder_is_set_aside(tmp_path: Path) -> None:
    other = VectorCache(tmp_path / "other").shelf(HashingEncoder(9))
    other.put(text_keys(["a"]), HashingEncoder(9).encode(["a"]))
    shelf = open_shelf(tmp_path)
    shelf.folder.mkdir(parents=True)
    segments(other)[0].rename(shelf.folder / "0.vectors")
    shelf.refresh()
    assert shelf.get(text_keys(["a"])) is None
    assert len(segments(shelf, "*.corrupt")) == 1


def test_vectors_of_a_wrong_shape_or_type_are_refused(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    for bad in (np.zeros((2, 8), np.float32), np.zeros((1, 7), np.float32), np.zeros((1, 8))):
        with pytest.raises(InputError, match=r"it must give float32 \(1, 8\)"):
            shelf.put(text_keys(["a"]), bad)  # type: ignore[arg-type]


def test_many_small_segments_are_joined_without_losing_a_row(tmp_path: Path, texts: list[str]) -> None:
    shelf, other = open_shelf(tmp_path), open_shelf(tmp_path)
    for text in texts[:9]:
        put(shelf, [text])
    shelf.compact(least=10)
    assert len(segments(shelf)) == 9
    other.refresh()
    put(shelf, texts[9:])
    shelf.compact(least=10)
    assert len(segments(shelf)) == 1
    taken_in = dict(shelf._sizes)
    shelf.refresh()
    assert shelf._sizes == taken_in
    for reader in (shelf, open_shelf(tmp_path)):
        check(reader, texts)
    check(other, texts[:9])
    other.refresh()
    check(other, texts)


def test_joining_keeps_the_older_of_two_rows(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    for row in range(3):
        shelf.put(text_keys(["a"]), np.eye(8, dtype=np.float32)[row : row + 1])
    shelf.compact(least=2)
    vectors = open_shelf(tmp_path).get(text_keys(["a"]))
    assert vectors is not None
    assert vectors[0, 0] == 1


def test_a_segment_is_joined_once_and_a_text_keeps_one_row(tmp_path: Path, texts: list[str]) -> None:
    one, two = open_shelf(tmp_path), open_shelf(tmp_path)
    for text in texts[:20]:
        for shelf in (one, two):
            put(shelf, [text])
            shelf.compact(least=4)
    fresh = open_shelf(tmp_path)
    assert sum(Segment(path).meta["rows"] for path in segments(fresh)) == 40
    fresh.compact(least=1)
    last = open_shelf(tmp_path)
    assert [Segment(path).meta["rows"] for path in segments(last)] == [20]
    check(last, texts[:20])


def test_joining_does_not_let_a_younger_large_segment_win(tmp_path: Path) -> None:
    rows = np.eye(8, dtype=np.float32)
    shelf = open_shelf(tmp_path)
    shelf.put(text_keys(["a"]), rows[:1])
    shelf.put(text_keys(["a", "b", "c"]), rows[1:4])
    shelf.put(text_keys(["b"]), rows[4:5])
    before = shelf.get(text_keys(["a", "b", "c"]))
    shelf.compact(least=2, small_bytes=segments(shelf)[1].stat().st_size)
    assert len(segments(shelf)) == 2
    after = open_shelf(tmp_path).get(text_keys(["a", "b", "c"]))
    np.testing.assert_array_equal(after, before)


def test_a_segment_that_vanishes_between_listing_and_reading_is_passed_over(tmp_path: Path) -> None:
    shelf = open_shelf(tmp_path)
    shelf._take_in("gone.vectors")
    assert shelf._sizes == {}


def test_few_segments_are_open_at_a_time(tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_module, "MOST_OPEN", 3)
    writer = open_shelf(tmp_path)
    for start in range(0, 40, 4):
        put(writer, texts[start : start + 4])
    for shelf in (writer, open_shelf(tmp_path)):
        for wanted in (texts[:40], texts[39::-1], texts[5:7]):
            check(shelf, wanted)
            assert len(shelf._open) <= 3
    segments(writer)[2].unlink()  # pruned while it was closed
    assert writer.get(text_keys(texts[:40])) is None
    assert writer.absent(text_keys(texts[:40])) == [8, 9, 10, 11]
    assert not segments(writer, "*.corrupt")
    put(writer, texts[8:12])
    check(writer, texts[:40])


def test_a_segment_that_the_system_cannot_open_now_is_not_set_aside(
    tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(open_shelf(tmp_path), texts)

    def refuse(path: Path) -> None:
        raise StoreError(f"cannot read {path}") from OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(shelf_module, "Segment", refuse)
        assert open_shelf(tmp_path).absent(text_keys(texts)) == list(range(len(texts)))
    check(open_shelf(tmp_path), texts)


def test_small_segments_that_are_open_take_few_bytes(
    tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = open_shelf(tmp_path)
    for start in range(0, 40, 4):
        put(shelf, texts[start : start + 4])
    monkeypatch.setattr(shelf_module, "MOST_SMALL_BYTES", 3 * segments(shelf)[0].stat().st_size)
    check(shelf, texts[:40])
    assert len(shelf._open) == 3
    monkeypatch.setattr(shelf_module, "MOST_SMALL_BYTES", 1)
    check(shelf, texts[:40])
    assert len(shelf._open) == 1


def test_many_small_segments_are_joined_a_few_at_a_time(
    tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_module, "MOST_JOINED", 6)
    shelf = open_shelf(tmp_path)
    for text in texts[:10]:
        put(shelf, [text])
    for left in (5, 1):
        shelf.compact(least=2)
        assert len(segments(shelf)) == left
        check(open_shelf(tmp_path), texts[:10])
