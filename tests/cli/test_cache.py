import os
import time

import pytest

from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache
from canarybank.generate import Response, ResponseCache
from canarybank.store import StageCache, cache_root

FINGERPRINT = HashingEncoder(16).fingerprint
MONTH = 40 * 86_400


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """Fill each cache with something new and something old, and return where they are."""
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    for age in (MONTH, 0):
        before = set(cache_root().rglob("*"))
        CachedEncoder(HashingEncoder(16), VectorCache()).encode([f"{age} {number}" for number in range(50)])
        ResponseCache(cache_root() / "responses" / f"{age:032x}.log").put("k", Response("yes"))
        StageCache().document("bank", f"k{age}", lambda age=age: age)
        for path in set(cache_root().rglob("*")) - before:
            then = time.time() - age
            os.utime(path, (then, then))
    return cache_root()


def left(folder):
    """Return how many files stand in each cache."""
    kinds = ("vectors", "responses", "stages")
    return tuple(sum(path.is_file() for path in (folder / kind).rglob("*")) for kind in kinds)


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_show_lists_vectors_by_encoder_answers_by_generator_and_pieces_by_stage(cli, filled):
    document = cli("cache", "show", "--json").document
    assert document["folder"] == str(filled)
    assert [(row["cache"], row["files"]) for row in document["caches"]] == [
        ("vectors", 2),
        ("responses", 2),
        ("stages", 2),
    ]
    (shelf,) = document["vectors"]
    assert (shelf["encoder"], shelf["fingerprint"], shelf["vectors"]) == ("hashing", FINGERPRINT, 100)
    assert shelf["bytes"] == size(filled / "vectors")
    assert {row["fingerprint"]: row["answers"] for row in document["responses"]} == {
        f"{MONTH:032x}": 1,
        f"{0:032x}": 1,
    }
    (stage,) = document["stages"]
    assert stage == {"stage": "bank", "pieces": 2, "bytes": size(filled / "stages")}
    assert document["bytes"] == size(filled)


def test_show_prints_the_same_as_a_table_with_a_total(cli, filled):
    (filled / "stages" / "bank" / ".k.1.a.tmp").write_bytes(bytes(3 << 20))
    lines = [" ".join(line.split()) for line in cli("cache", "show").out.splitlines()]
    assert f"vectors hashing {FINGERPRINT[:12]} 100 vectors 0.0 MiB" in lines
    assert "responses 000000000000 1 answers 0.0 MiB" in lines
    assert "stages bank 2 pieces 0.0 MiB" in lines
    assert "stages other files 3.0 MiB" in lines
    assert "total 7 files 3.0 MiB" in lines


def test_an_encoder_that_no_file_names_is_shown_by_its_fingerprint(cli, filled):
    for path in (filled / "vectors").rglob("*.vectors"):
        path.write_bytes(b"nonsense")
    lines = [" ".join(line.split()) for line in cli("cache", "show").out.splitlines()]
    assert f"vectors {FINGERPRINT[:12]} 0 vectors 0.0 MiB" in lines


def test_show_of_no_cache_is_empty(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "nowhere"))
    outcome = cli("cache", "show")
    assert outcome.code == 0
    assert "0.0 MiB" in outcome.out
    assert cli("cache", "show", "--json").document["bytes"] == 0


def test_prune_removes_what_is_old_but_keeps_answers(cli, filled):
    document = cli("cache", "prune", "--unused-days", "30", "--json").document
    assert document["freed"].keys() == {"vectors", "stages"}
    assert document["kept"] == {kind: size(filled / kind) for kind in ("vectors", "stages")}
    assert left(filled) == (1, 2, 1)
    assert not (filled / "stages" / "bank" / f"k{MONTH}.json").exists()


def test_answers_go_only_when_they_are_named(cli, filled):
    cli("cache", "prune", "responses", "--all")
    assert left(filled) == (2, 0, 2)
    assert cli("cache", "prune", "--all").out.startswith("Freed 0.0 MiB in vectors, stages, and kept 0.0 MiB.")
    assert left(filled) == (0, 0, 0)


def test_prune_to_a_size_keeps_the_newest(cli, filled):
    newest = max((filled / "vectors").rglob("*.vectors"), key=lambda path: path.stat().st_mtime)
    before = size(filled / "vectors")
    freed = cli("cache", "prune", "vectors", "--max-size", "8KB", "--json").document["freed"]
    assert 8000 > newest.stat().st_size > 4000
    assert freed == {"vectors": before - newest.stat().st_size}
    assert left(filled) == (1, 2, 2)
    assert newest.exists()


def test_a_large_enough_size_removes_nothing(cli, filled):
    assert cli("cache", "prune", "--max-size", "500 MiB", "--json").document["bytes"] == 0
    assert left(filled) == (2, 2, 2)


def test_the_help_says_what_is_kept(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert "the newest is kept" in cli("cache", "prune", "--help").out


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--all", "--unused-days", "3"),
        ("--all", "--max-size", "3"),
        ("texts", "--all"),
        ("--max-size", "3 elephants"),
        ("--max-size=-3",),
        ("--unused-days=-3",),
        ("--unused-days", "nan"),
    ],
)
def test_an_unclear_wish_removes_nothing(cli, filled, words):
    assert cli("cache", "prune", *words).code == 2
    assert left(filled) == (2, 2, 2)
