import os
import threading
import time

import pytest

from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache
from canarybank.errors import ConfigError
from canarybank.flow import caches_usage, prune_caches
from canarybank.flow.caches import parse_size
from canarybank.generate import Response, ResponseCache
from canarybank.store import StageCache, atomic_writer, cache_root, write_atomic

CACHES = tuple(each.cache for each in caches_usage().caches)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return the folder of caches that hold vectors, a generator's answers and a stage's document."""
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path))
    CachedEncoder(HashingEncoder(8), VectorCache()).encode(["one", "two", "three"])
    answers = ResponseCache(cache_root() / "responses" / "abcd.log")
    for number in range(5):
        answers.put(str(number), Response("yes"))
    StageCache().document("bank", "k", lambda: [1, 2])
    return tmp_path


def on_disk(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_usage_says_what_stands_where_and_adds_up(root):
    found = caches_usage()
    assert [(row.encoder, row.fingerprint, row.vectors) for row in found.vectors] == [
        ("hashing", HashingEncoder(8).fingerprint, 3)
    ]
    assert [(row.fingerprint, row.answers) for row in found.responses] == [("abcd", 5)]
    assert [(row.stage, row.pieces) for row in found.stages] == [("bank", 1)]
    assert [(total.cache, total.files) for total in found.caches] == [("vectors", 1), ("responses", 1), ("stages", 1)]
    assert found.bytes == sum(row.bytes for row in (*found.vectors, *found.responses, *found.stages)) == on_disk(root)


def test_answers_stay_unless_they_are_named(root):
    assert prune_caches(max_bytes=0).keys() == {"vectors", "stages"}
    assert on_disk(root) == on_disk(root / "responses") > 0
    size = on_disk(root)
    assert prune_caches(["responses"], max_bytes=0) == {"responses": size}
    assert on_disk(root) == 0


def test_an_unknown_cache_is_named_before_anything_is_removed(root):
    before = on_disk(root)
    with pytest.raises(ConfigError, match=r"no cache 'texts'; choose from vectors, responses, stages"):
        prune_caches(["vectors", "texts"], max_bytes=0)
    assert on_disk(root) == before


@pytest.mark.parametrize("cache", CACHES)
def test_a_file_that_is_being_written_arrives_whole_though_all_is_pruned_meanwhile(root, cache):
    target = root / cache / "part" / "late"
    begun, pruned = threading.Event(), threading.Event()

    def write():
        with atomic_writer(target) as file:
            file.write(b"first half, ")
            file.flush()
            begun.set()
            pruned.wait(timeout=60)
            file.write(b"second half")

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(timeout=60)
    prune_caches(CACHES, max_bytes=0, unused_for=0)
    pruned.set()
    writer.join()
    assert target.read_bytes() == b"first half, second half"


@pytest.mark.parametrize("cache", CACHES)
def test_what_a_killed_process_left_long_ago_goes(root, cache):
    left = root / cache / "part" / ".x.1.abcd.tmp"
    write_atomic(left, b"half")
    then = time.time() - 7200
    os.utime(left, (then, then))
    prune_caches(CACHES, max_bytes=0)
    assert on_disk(root) == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1500", 1500),
        ("12B", 12),
        ("500MB", 500_000_000),
        ("500 mb", 500_000_000),
        (" 2KB ", 2000),
        ("3GB", 3 * 10**9),
        ("1TB", 10**12),
        ("4KiB", 4096),
        ("1.5GiB", 3 << 29),
        ("1mib", 1 << 20),
        ("2TiB", 2 << 40),
        ("0.1KB", 100),
        (f"1{'0' * 400}", 10**400),
    ],
)
def test_a_size_is_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MB", "-5MB", "5 elephants", "5M", "5iB", "1e6", "nan", "inf", "1,000", "5 KB MB", ".5GB", "5.KB"]
)
def test_a_size_that_is_none_is_refused_with_what_would_do(text):
    with pytest.raises(ConfigError, match=r"cannot be read; give a number of bytes, or .*MB.*GiB.*such as 500MB"):
        parse_size(text)
