import os

import pytest

from canarybank.store import cache_root


@pytest.fixture
def filled(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    for kind in ("vectors", "responses", "stages"):
        for name, age in (("new", 0), ("old", 40)):
            path = cache_root() / kind / "part" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(1000))
            then = path.stat().st_mtime - age * 86_400
            os.utime(path, (then, then))
    return cache_root()


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_show_counts_what_there_is(cli, filled):
    document = cli("cache", "show", "--json").document
    assert document["folder"] == str(filled)
    assert document["caches"] == [
        {"cache": kind, "files": 2, "bytes": 2000} for kind in ("vectors", "responses", "stages")
    ]


def test_show_of_no_cache_is_empty(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "nowhere"))
    assert "0.0 MiB" in cli("cache", "show").out


def test_prune_removes_what_is_old_but_keeps_answers(cli, filled):
    assert cli("cache", "prune", "--unused-days", "30", "--json").document["freed"] == {"vectors": 1000, "stages": 1000}
    assert left(filled) == ["responses/part/new", "responses/part/old", "stages/part/new", "vectors/part/new"]


def test_answers_go_only_when_they_are_named(cli, filled):
    cli("cache", "prune", "responses", "--all")
    assert left(filled) == ["stages/part/new", "stages/part/old", "vectors/part/new", "vectors/part/old"]


@pytest.mark.parametrize("words", [(), ("--all", "--unused-days", "3"), ("texts", "--all")])
def test_an_unclear_wish_removes_nothing(cli, filled, words):
    assert cli("cache", "prune", *words).code == 2
    assert len(left(filled)) == 6
