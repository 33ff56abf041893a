import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from canarybank.generate import (
    CachedGenerator,
    Request,
    ResponseCache,
    ResponseUsage,
    ScriptedGenerator,
    StoredResponses,
    in_order,
)

HOLD = (
    "import fcntl, sys\n"
    "file = open(sys.argv[1], 'ab')\n"
    "fcntl.flock(file, fcntl.LOCK_EX)\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


def ask(path: Path, count: int, first: int = 0) -> None:
    generator = ScriptedGenerator(lambda request: request.prompt.upper(), "echo")
    in_order(CachedGenerator(generator, ResponseCache(path)), [Request(f"q{i}") for i in range(first, first + count)])


@pytest.fixture
def stored(tmp_path):
    """Return the answers of two generators: many old ones and a few new ones."""
    for name, count, age in (("aaaa", 9, 5000), ("bbbb", 2, 10)):
        ask(tmp_path / f"{name}.log", count)
        then = time.time() - age
        os.utime(tmp_path / f"{name}.log", (then, then))
    return StoredResponses(tmp_path)


def names(stored):
    return [row.fingerprint for row in stored.usage()]


def test_usage_counts_answers_and_bytes_by_generator(stored, monkeypatch, tmp_path):
    sizes = {path.stem: path.stat().st_size for path in stored.folder.iterdir()}
    assert stored.usage() == (
        ResponseUsage("aaaa", 9, sizes["aaaa"], 0),
        ResponseUsage("bbbb", 2, sizes["bbbb"], 0),
    )
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "none"))
    assert StoredResponses().folder == tmp_path / "none" / "responses"
    assert StoredResponses().usage() == ()
    assert StoredResponses().prune(max_bytes=0) == 0


def test_an_answer_that_stands_twice_counts_once_and_a_damaged_one_not(stored):
    path = stored.folder / "bbbb.log"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + first + second.replace(b"Q1", b"QX"))
    found = {row.fingerprint: row for row in stored.usage()}["bbbb"]
    assert (found.answers, found.damaged) == (1, 1)


def test_prune_removes_whole_files_the_longest_unused_first(stored):
    old, new = (row.bytes for row in stored.usage())
    assert stored.prune(unused_for=6000) == 0
    assert stored.prune(max_bytes=new) == old
    assert names(stored) == ["bbbb"]
    assert stored.prune(max_bytes=0) == new
    assert stored.usage() == ()


def test_a_file_that_another_process_holds_stays(stored):
    path = stored.folder / "aaaa.log"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout.readline() == "held\n"
        stored.prune(max_bytes=0, unused_for=0)
        assert names(stored) == ["aaaa"]
        other.stdin.close()
    assert stored.prune(max_bytes=0) > 0
    assert names(stored) == []
