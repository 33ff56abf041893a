import os
import stat
import time

import numpy as np
import pytest

from canarybank.store import StageCache, StageUsage, stage_key


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


@pytest.fixture
def filled(cache):
    """Return a cache with a piece of two files, an older one, and the oldest of another stage."""
    cache.document("users", "new", lambda: 1)
    cache.arrays("users", "new", lambda: {"x": np.ones(300)})
    cache.document("users", "old", lambda: 2)
    cache.document("bank", "oldest", lambda: 3)
    for name, age in (("users/old.json", 5000), ("bank/oldest.json", 9000)):
        then = time.time() - age
        os.utime(cache.folder / name, (then, then))
    return cache


def left(cache):
    return sorted(str(path.relative_to(cache.folder)) for path in cache.folder.rglob("*") if path.is_file())


def test_usage_counts_pieces_and_bytes_by_stage(filled):
    sizes = {name: sum(path.stat().st_size for path in (filled.folder / name).iterdir()) for name in ("users", "bank")}
    assert filled.usage() == (StageUsage("users", 2, sizes["users"]), StageUsage("bank", 1, sizes["bank"]))
    assert StageCache(filled.folder / "nowhere").usage() == ()


def test_prune_keeps_the_newest_that_fit(filled):
    new = sum((filled.folder / "users" / f"new.{kind}").stat().st_size for kind in ("json", "arrays"))
    freed = sum((filled.folder / name).stat().st_size for name in ("users/old.json", "bank/oldest.json"))
    assert filled.prune(max_bytes=new) == freed
    assert left(filled) == ["users/new.arrays", "users/new.json"]


def test_use_renews_what_prune_would_take(filled):
    filled.document("bank", "oldest", pytest.fail)
    filled.prune(unused_for=4000)
    assert left(filled) == ["bank/oldest.json", "users/new.arrays", "users/new.json"]


def test_prune_leaves_what_another_process_is_writing(filled):
    live, dead = (filled.folder / "users" / f".k.json.{pid}.abcd.tmp" for pid in (1, 2))
    live.write_text("half")
    dead.write_text("half")
    os.utime(dead, (0, 0))
    filled.prune(max_bytes=0, unused_for=0)
    assert left(filled) == ["users/.k.json.1.abcd.tmp"]
