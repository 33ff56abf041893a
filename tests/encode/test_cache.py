import os
import time
from pathlib import Path

import pytest

from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache
from canarybank.errors import InputError


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    cache = VectorCache(tmp_path / "vectors")
    for dimension in (8, 32):
        for part in range(3):
            CachedEncoder(HashingEncoder(dimension), cache).encode([f"{part} {n}" for n in range(100)])
    return cache


def files(cache: VectorCache) -> list[Path]:
    return sorted(cache.folder.rglob("*.vectors"))


def test_the_default_place_is_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path))
    assert VectorCache().folder == tmp_path / "vectors"
    assert VectorCache().usage() == ()
    assert VectorCache().prune(max_bytes=0) == 0


def test_usage_says_what_each_encoder_takes(cache: VectorCache) -> None:
    large, small = cache.usage()
    assert (large.encoder, large.vectors, large.segments, large.corrupt) == ("hashing", 300, 3, 0)
    assert large.fingerprint == HashingEncoder(32).fingerprint
    assert small.fingerprint == HashingEncoder(8).fingerprint
    assert large.bytes + small.bytes == sum(path.stat().st_size for path in files(cache))
    assert large.bytes > small.bytes


def test_usage_counts_broken_files_without_failing(cache: VectorCache) -> None:
    broken, aside, *_ = files(cache)
    broken.write_bytes(b"nonsense")
    aside.rename(f"{aside}.corrupt")
    assert sum(row.vectors for row in cache.usage()) == 400
    assert sum(row.corrupt for row in cache.usage()) == 1


def test_prune_takes_the_longest_unused_until_the_rest_fits(cache: VectorCache) -> None:
    for age, path in enumerate(files(cache)):
        os.utime(path, (0, 1_000_000 + age))
    keep = files(cache)[-2:]
    allowed = sum(path.stat().st_size for path in keep)
    before = sum(path.stat().st_size for path in files(cache))
    assert cache.prune(max_bytes=allowed) == before - allowed
    assert files(cache) == keep
    assert cache.prune(max_bytes=0) == allowed
    assert cache.usage() == ()


def test_prune_takes_what_was_not_used_for_long_and_use_renews(cache: VectorCache) -> None:
    for path in files(cache):
        os.utime(path, (0, time.time() - 1000))
    assert cache.prune(unused_for=2000) == 0
    CachedEncoder(HashingEncoder(8), cache).encode(["0 1"])
    cache.prune(unused_for=500)
    assert [row.vectors for row in cache.usage()] == [100]
    assert cache.usage()[0].fingerprint == HashingEncoder(8).fingerprint


def test_prune_always_takes_corrupt_files_and_old_temporaries(cache: VectorCache) -> None:
    first = files(cache)[0]
    aside = first.rename(f"{first}.corrupt")
    temporary = first.with_name(".x.1.y.tmp")
    temporary.write_text("")
    os.utime(temporary, (0, 0))
    size = aside.stat().st_size
    assert cache.prune() == size
    assert not aside.exists()
    assert not temporary.exists()
    assert len(files(cache)) == 5


def test_prune_refuses_less_than_nothing(cache: VectorCache) -> None:
    with pytest.raises(InputError, match="-1 bytes"):
        cache.prune(max_bytes=-1)


def test_a_running_process_keeps_what_it_has_open(cache: VectorCache) -> None:
    encoder = CachedEncoder(HashingEncoder(8), cache)
    before = encoder.encode(["0 1", "2 2"])
    cache.prune(max_bytes=0)
    assert (encoder.encode(["0 1", "2 2"]) == before).all()
