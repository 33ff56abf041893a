import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from canarybank.encode import CachedEncoder, Encoder, HashingEncoder, VectorCache
from canarybank.encode.cached import encode_blocks
from canarybank.encode.shelf import text_keys
from canarybank.errors import StoreError
from canarybank.seeds import stream

if TYPE_CHECKING:
    from tests.encode.conftest import Counting

KILLS = 50
DIMENSION = 128
SMALL_BLOCKS = (
    "import os, sys\n"
    "from functools import partialmethod\n"
    "from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache, cached, index, shelf, tables\n"
    "cached._FLUSH_TEXTS, cached.BLOCK_TEXTS = 64, 64\n"
    "index.HELD_ROWS, tables.BLOCK_ROWS = 200, 32\n"
    "shelf.Shelf.compact = partialmethod(shelf.Shelf.compact, least=8)\n"
)
# A process that forks a fresh encoding process at each line it reads: fifty imports would take a minute.
BLOCK_BYTES = 640 * DIMENSION * 4
NURSERY = SMALL_BLOCKS + (
    f"DIMENSION = {DIMENSION}\n"
    "for line in sys.stdin:\n"
    "    if child := os.fork():\n"
    "        print(child, flush=True)\n"
    "        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
    "    else:\n"
    "        encoder = CachedEncoder(HashingEncoder(DIMENSION), VectorCache(sys.argv[1]))\n"
    "        for start in range(0, 1 << 40, 640):\n"
    "            encoder.encode([f'{line.strip()}x{n}' for n in range(start, start + 640)])\n"
)
SHARED = SMALL_BLOCKS + (
    "texts = [f'record {n} of someone, ' * (1 + n % 5) for n in range(4000)]\n"
    "encoder = CachedEncoder(HashingEncoder(16), VectorCache(sys.argv[1]))\n"
    "order = texts[::int(sys.argv[2])]\n"
    "vectors = encoder.encode(order)\n"
    "print((vectors == HashingEncoder(16).encode(order)).all())\n"
)


def test_vectors_are_those_of_the_encoder_and_only_missing_texts_are_asked_for(
    tmp_path: Path, counting: "Counting", texts: list[str]
) -> None:
    cached = CachedEncoder(counting, VectorCache(tmp_path))
    truth = HashingEncoder(16).encode(texts)
    assert cached.missing(texts) == 100
    assert np.array_equal(cached.encode(texts[:60]), truth[:60])
    assert sorted(counting.asked) == sorted(texts[:60])
    assert cached.missing(texts) == 40
    assert np.array_equal(cached.encode(texts[::-1]), truth[::-1])
    assert sorted(counting.asked) == sorted(texts)
    assert np.array_equal(CachedEncoder(counting, VectorCache(tmp_path)).encode(texts), truth)
    assert len(counting.asked) == 100
    assert cached.encode([]).shape == (0, 16)


def test_it_is_an_encoder_with_the_name_of_the_one_behind_it(tmp_path: Path, counting: "Counting") -> None:
    cached = CachedEncoder(counting, VectorCache(tmp_path))
    assert isinstance(cached, Encoder)
    assert (cached.name, cached.dimension, cached.fingerprint) == ("hashing", 16, counting.fingerprint)


def test_a_text_that_stands_there_twice_is_encoded_once(tmp_path: Path, counting: "Counting") -> None:
    vectors = CachedEncoder(counting, VectorCache(tmp_path)).encode(["a", "b", "a", "a"])
    assert sorted(counting.asked) == ["a", "b"]
    assert np.array_equal(vectors, HashingEncoder(16).encode(["a", "b", "a", "a"]))


def test_encoders_do_not_see_each_others_vectors(tmp_path: Path) -> None:
    for dimension in (8, 16, 8):
        encoder = HashingEncoder(dimension)
        vectors = CachedEncoder(encoder, VectorCache(tmp_path)).encode(["a", "b"])
        assert np.array_equal(vectors, encoder.encode(["a", "b"]))


def test_blocks_hold_texts_of_like_length_and_each_text_once(counting: "Counting", texts: list[str]) -> None:
    positions = []
    for block, vectors in encode_blocks(counting, texts):
        positions += block
        assert np.array_equal(vectors, HashingEncoder(16).encode([texts[i] for i in block]))
    assert sorted(positions) == list(range(100))
    lengths = [len(text) for text in counting.asked]
    assert lengths == sorted(lengths, reverse=True)
    assert {len(call) for call in counting.calls} == {8, 4}


def test_progress_counts_what_is_encoded_not_what_is_cached(
    tmp_path: Path, counting: "Counting", texts: list[str]
) -> None:
    seen: list[object] = []

    class Recorder:
        @contextmanager
        def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator["Recorder"]:
            seen.extend((name, total, unit))
            yield self

        def advance(self, done: int = 1, note: str = "") -> None:
            assert not note
            seen.append(done)

    CachedEncoder(counting, VectorCache(tmp_path)).encode(texts[:81])
    CachedEncoder(counting, VectorCache(tmp_path), progress=Recorder()).encode(texts)
    assert seen == ["encoding with hashing", 19, "texts", 8, 8, 3]


def test_a_failing_encoder_keeps_what_came_before(tmp_path: Path, counting: "Counting", texts: list[str]) -> None:
    real = counting.encode

    def fail(batch: Sequence[str]) -> np.ndarray:
        if len(counting.calls) == 5:
            raise KeyboardInterrupt
        return real(batch)

    counting.encode = fail  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        CachedEncoder(counting, VectorCache(tmp_path)).encode(texts)
    assert CachedEncoder(counting, VectorCache(tmp_path)).missing(texts) == 60


def test_vectors_reach_the_disk_while_the_work_goes_on(
    tmp_path: Path, counting: "Counting", texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.block = 1024
    clock = itertools.count(step=0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    CachedEncoder(counting, VectorCache(tmp_path)).encode([f"text {n}" for n in range(20_000)])
    assert VectorCache(tmp_path).usage()[0].segments == 3
    counting.block = 8
    clock = itertools.count(step=11)
    CachedEncoder(counting, VectorCache(tmp_path / "by time")).encode(texts)
    assert VectorCache(tmp_path / "by time").usage()[0].segments == 13


def test_corrupt_vectors_are_encoded_again_and_only_those(
    tmp_path: Path, counting: "Counting", texts: list[str]
) -> None:
    CachedEncoder(counting, VectorCache(tmp_path)).encode(texts[:50])
    CachedEncoder(counting, VectorCache(tmp_path)).encode(texts[50:])
    path = min(tmp_path.rglob("*.vectors"))
    data = bytearray(path.read_bytes())
    data[-300] ^= 4
    path.write_bytes(data)
    counting.calls.clear()
    vectors = CachedEncoder(counting, VectorCache(tmp_path)).encode(texts)
    assert np.array_equal(vectors, HashingEncoder(16).encode(texts))
    assert sorted(counting.asked) == sorted(texts[:50])
    assert [p.name for p in tmp_path.rglob("*.corrupt")] == [f"{path.name}.corrupt"]


def test_a_full_cache_that_cannot_be_written_still_serves(
    tmp_path: Path,
    counting: "Counting",
    texts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    CachedEncoder(counting, VectorCache(tmp_path)).encode(texts)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    assert CachedEncoder(counting, VectorCache(tmp_path)).encode(texts).shape == (100, 16)
    encoder = CachedEncoder(counting, VectorCache(tmp_path))
    new = ["a new one", "and another"]
    for _ in range(2):
        assert np.array_equal(encoder.encode([*new, *texts]), HashingEncoder(16).encode([*new, *texts]))
    assert counting.asked[-2:] in (new, new[::-1])
    (note,) = [record.getMessage() for record in caplog.records]
    assert "cannot be written, so this run goes on without it" in note


def test_a_cache_that_loses_all_it_is_given_is_reported(
    tmp_path: Path, counting: "Counting", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "replace", lambda written, _: written.unlink())
    with pytest.raises(StoreError, match="loses vectors as fast as they are written"):
        CachedEncoder(counting, VectorCache(tmp_path)).encode(["a"])


def test_fifty_kills_at_random_moments_leave_a_cache_that_is_never_wrong(tmp_path: Path) -> None:
    rng = stream(2024, "kills")
    held = []
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for kill in range(KILLS):
            print(kill, file=nursery.stdin, flush=True)
            child = int(nursery.stdout.readline())
            # Work and not time says when, so that a busy machine is killed at as many different moments as an idle one.
            grown, until = kept_bytes(tmp_path) + rng.uniform(0.0, 12.0) * BLOCK_BYTES, time.monotonic() + 20.0
            while kept_bytes(tmp_path) < grown and time.monotonic() < until:
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.005))
            os.kill(child, signal.SIGKILL)
            assert int(nursery.stdout.readline()) == -signal.SIGKILL
            held.append(held_and_right(tmp_path, [f"{kill}x{n}" for n in range(8000)]))
        nursery.stdin.close()
    # The kills fell in the middle of work, at different moments of it: on a loaded machine some of them fall together.
    assert len(set(held)) > 5
    assert list(tmp_path.rglob("*.index"))
    assert list(tmp_path.rglob("*.corrupt")) == []


def kept_bytes(folder: Path) -> int:
    """Return the size of all files that are kept, and of those that are being written."""
    sizes = (path.stat(follow_symlinks=False).st_size for path in folder.rglob("*") if path.exists())
    try:
        return sum(sizes)
    except FileNotFoundError:  # one that was written has its name now
        return kept_bytes(folder)


def held_and_right(folder: Path, texts: list[str]) -> int:
    """Return how many of the texts the cache holds, after checking all those vectors, and that the rest can follow."""
    encoder = HashingEncoder(DIMENSION)
    shelf = VectorCache(folder).shelf(encoder)
    shelf.refresh()
    absent = set(shelf.absent(text_keys(texts)))
    held = [text for position, text in enumerate(texts) if position not in absent]
    vectors = shelf.get(text_keys(held))
    assert vectors is not None
    assert np.array_equal(vectors, encoder.encode(held))
    some = texts[max(0, len(held) - 50) : len(held) + 50]
    assert np.array_equal(CachedEncoder(encoder, VectorCache(folder)).encode(some), encoder.encode(some))
    return len(held)


def test_processes_share_a_cache_at_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", SHARED, str(tmp_path), step], stdout=subprocess.PIPE, text=True)
        for step in ("2", "-3", "5")
    ]
    assert [process.communicate()[0] for process in processes] == ["True\n"] * 3
    texts = [f"record {n} of someone, " * (1 + n % 5) for n in range(4000)]
    assert np.array_equal(
        CachedEncoder(HashingEncoder(16), VectorCache(tmp_path)).encode(texts), HashingEncoder(16).encode(texts)
    )
    assert list(tmp_path.rglob("*.corrupt")) == []
