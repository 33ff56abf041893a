from pathlib import Path

import numpy as np
import pytest

from canarybank.errors import InputError, StoreError
from canarybank.store import Segment, write_segment


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "keys": rng.integers(0, 256, (3, 5), dtype=np.uint8),
        "vectors": rng.normal(size=(3, 4)).astype(np.float32),
        "none": np.empty((0, 7), dtype=np.int64),
        "words": np.array(["a", "bcd"]),
    }


def read_all(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    segment = Segment(path)
    return {name: segment[name] for name in names}


def same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(first.values(), second.values(), strict=True)
    )


def test_arrays_and_meta_come_back_read_only(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    write_segment(tmp_path / "s", arrays, {"encoder": "x"})
    segment = Segment(tmp_path / "s")
    assert same(read_all(tmp_path / "s", list(arrays)), arrays)
    assert segment.meta == {"encoder": "x"}
    assert segment.size == (tmp_path / "s").stat().st_size
    with pytest.raises(ValueError, match="read-only"):
        segment["keys"][0] = 1
    with pytest.raises(StoreError, match="it holds no absent"):
        segment["absent"]


def test_any_layout_is_written_as_little_endian_rows(tmp_path: Path) -> None:
    array = np.arange(12, dtype=">f8").reshape(3, 4)
    write_segment(tmp_path / "s", {"a": array.T, "b": array[:, ::2]})
    segment = Segment(tmp_path / "s")
    assert np.array_equal(segment["a"], array.T)
    assert np.array_equal(segment["b"], array[:, ::2])
    assert segment["a"].dtype == np.dtype("<f8")


def test_a_large_segment_is_mapped_and_survives_its_removal(tmp_path: Path) -> None:
    array = np.arange(2_000_000, dtype=np.float32)
    write_segment(tmp_path / "s", {"a": array})
    segment = Segment(tmp_path / "s")
    (tmp_path / "s").unlink()
    assert np.array_equal(segment["a"], array)


def test_every_flipped_byte_is_noticed_or_does_not_matter(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path / "s"
    write_segment(path, arrays, {"m": 1})
    whole = path.read_bytes()
    noticed = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            assert same(read_all(path, list(arrays)), arrays)
        except StoreError:
            noticed += 1
    payload = sum(array.nbytes for array in arrays.values())
    assert payload < noticed < len(whole)


def test_every_cut_of_the_contents_is_noticed(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path / "s"
    write_segment(path, arrays)
    whole = path.read_bytes()
    last = -arrays["words"].nbytes % 64
    for length in range(len(whole) - last):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError, match="is broken"):
            Segment(path)
    path.write_bytes(whole[: len(whole) - last])
    assert same(read_all(path, list(arrays)), arrays)


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Python objects"):
        write_segment(tmp_path / "s", {"a": np.array([None])})
    assert list(tmp_path.iterdir()) == []
