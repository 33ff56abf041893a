import hashlib
from pathlib import Path

import numpy as np
import pytest

from canarybank.errors import InputError, StoreError
from canarybank.store import altered_files, hash_array, hash_bytes, hash_file, hash_folder, hash_json, hash_text

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_hashes_of_bytes_texts_files_and_documents_are_plain_sha256(tmp_path: Path) -> None:
    assert hash_bytes(b"") == EMPTY
    assert hash_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_text("\ud800") == hash_bytes(b"\xed\xa0\x80")
    assert hash_json({"b": 1, "a": [0.5]}) == hash_bytes(b'{"a":[0.5],"b":1}')
    (tmp_path / "f").write_bytes(bytes(300_000))
    assert hash_file(tmp_path / "f") == hash_bytes(bytes(300_000))
    with pytest.raises(StoreError, match="it is not there"):
        hash_file(tmp_path / "g")


def test_an_arrays_hash_is_that_of_its_header_and_values() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert hash_array(array) == hashlib.sha256(b'["<i4",[2,3]]' + array.tobytes()).hexdigest()


def test_layout_and_byte_order_do_not_count_but_type_shape_and_values_do() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    same = [np.asfortranarray(array), array.astype(">f4"), np.repeat(array, 2, axis=1)[:, ::2], array.tolist()]
    assert [hash_array(other) for other in same[:3]] == [hash_array(array)] * 3
    different = [array.astype(np.float64), array.reshape(3, 2), array + 1, array[:0], array.T]
    assert len({hash_array(other) for other in [array, *different]}) == 6


def test_arrays_of_every_rank_and_of_strings_have_a_hash_but_objects_have_none() -> None:
    assert hash_array(np.float64(3)) == hash_array(np.array(3.0))
    assert hash_array(np.empty((0, 4))) != hash_array(np.empty((4, 0)))
    assert hash_array(np.array(["a", "bc"])) != hash_array(np.array(["a", "bd"]))
    with pytest.raises(InputError, match="Python objects"):
        hash_array(np.array([None]))


def test_a_folder_is_compared_with_its_hashes(tmp_path: Path) -> None:
    for name in ("a", "sub/b", "sub/c", ".lock", "skip"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    hashes = hash_folder(tmp_path, skip={"skip"})
    assert hashes == {name: hash_text(name) for name in ("a", "sub/b", "sub/c")}
    assert altered_files(tmp_path, hashes) == {}
    (tmp_path / "a").write_text("A")
    (tmp_path / "sub/b").unlink()
    assert altered_files(tmp_path, hashes) == {"a": "altered", "sub/b": "missing"}
