import stat

import numpy as np
import pytest

from canarybank.experiment.stage_cache import StageCache, stage_key


@pytest.fixture
def cache(tmp_path):
    return StageCache(tmp_path / "stages")


def test_a_key_follows_from_stage_and_inputs_alone():
    assert stage_key("bank", a=1, b=[2]) == stage_key("bank", b=[2], a=1)
    assert len({stage_key("bank", a=1), stage_key("bank", a=2), stage_key("users", a=1)}) == 3


def test_a_document_is_made_once(cache):
    calls = []
    for _ in range(3):
        assert cache.document("bank", "k", lambda: calls.append(1) or {"x": [1, 2.5]}) == {"x": [1, 2.5]}
    assert len(calls) == 1
    assert (cache.made, cache.found) == ({"bank": 1}, {"bank": 2})
    assert cache.has("bank", "k")
    assert not cache.has("bank", "other")


def test_arrays_come_back_to_the_bit(cache):
    made = {"a": np.array([0.1, np.pi]), "empty": np.zeros(0, dtype=np.int64)}
    cache.arrays("design", "k", lambda: made)
    found = cache.arrays("design", "k", pytest.fail)
    assert found.keys() == made.keys()
    for name, array in made.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"sha256":"0","value":1}', b"null"])
def test_what_cannot_be_read_back_is_made_again(cache, damage):
    cache.document("bank", "k", lambda: 1)
    cache.arrays("bank", "a", lambda: {"x": np.ones(3)})
    for name in ("k.json", "a.arrays"):
        (cache.folder / "bank" / name).write_bytes(damage)
    assert cache.document("bank", "k", lambda: 2) == 2
    assert cache.arrays("bank", "a", lambda: {"x": np.zeros(3)})["x"].sum() == 0


def test_the_folder_is_its_owners_alone(cache):
    cache.document("users", "k", lambda: 1)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
