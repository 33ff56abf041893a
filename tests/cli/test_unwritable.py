"""Where a cache or a run cannot be written, a command goes on without the cache, or ends in words and loses nothing."""

import contextlib
import resource
import shutil

import pytest

from canarybank.config import resolve
from canarybank.encode import CachedEncoder, HashingEncoder
from canarybank.flow.inputs import admit_users
from canarybank.store import StageCache


@contextlib.contextmanager
def files_up_to(size):
    """Let no file grow past a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def words(own):
    return ("audit", own, "--audit.trials", 200, "--audit.threshold", "analytic", "--run.workers", 1)


@pytest.fixture
def whole(cli, words, tmp_path):
    """Return the results of a run that nothing hindered."""
    assert cli(*words, "--folder", tmp_path / "whole").code == 0
    return (tmp_path / "whole" / "results.json").read_bytes()


@pytest.mark.parametrize("size", [1_000, 6_000, 20_000])
def test_a_full_disk_ends_a_run_in_words_and_the_same_command_goes_on(cli, words, whole, tmp_path, monkeypatch, size):
    run, cache = tmp_path / "run", tmp_path / "cache"
    monkeypatch.setenv("CANARYBANK_CACHE", str(cache))
    with files_up_to(size):
        ended = cli(*words, "--folder", run)
    assert ended.code == 4
    assert ended.err.strip().splitlines()[-1].startswith("Error: Cannot write ")
    assert [path for path in (*run.rglob("*"), *cache.rglob("*")) if path.name.endswith(".tmp")] == []
    again = cli(*words, "--folder", run)
    assert again.code == 0, again.err
    assert (run / "results.json").read_bytes() == whole


def test_a_disk_that_is_full_while_users_are_cached_costs_the_cache_alone(own, tmp_path, caplog):
    config, cache = resolve(own).config, StageCache(tmp_path / "stages")
    with files_up_to(1_000):
        people = admit_users(config.users, config.cohorts, cache).users
    assert "goes on without it" in caplog.text
    assert [path for path in cache.folder.rglob("*") if path.suffix in {".packed", ".parquet", ".tmp"}] == []
    assert admit_users(config.users, config.cohorts, cache).users.hash == people.hash
    assert cache.made["users"] == 3  # the users twice, and once the report, which is small enough


@pytest.mark.parametrize("part", ["", "vectors", "stages/users"])
def test_a_cache_that_cannot_be_written_costs_a_note_and_nothing_else(
    cli, words, whole, tmp_path, monkeypatch, caplog, part
):
    cache = tmp_path / "cache"
    (cache / part).parent.mkdir(parents=True, exist_ok=True)
    (cache / part).write_text("a file stands in the way")
    monkeypatch.setenv("CANARYBANK_CACHE", str(cache))
    for name in ("one", "two"):
        outcome = cli(*words, "--folder", tmp_path / name)
        assert outcome.code == 0, outcome.err
        assert (tmp_path / name / "results.json").read_bytes() == whole
    notes = [record.getMessage() for record in caplog.records]
    assert len(notes) == (2 if part == "" else 1)
    assert all("goes on without it" in note for note in notes)


def test_a_cache_that_was_damaged_and_can_only_be_read_is_passed_over(cli, words, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    assert cli(*words, "--folder", tmp_path / "one").code == 0
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-70])

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    for name in ("replace", "unlink", "rename"):
        monkeypatch.setattr(f"pathlib.Path.{name}", refuse)
    config = resolve(words[1]).config
    people = admit_users(config.users, config.cohorts, StageCache()).users
    vectors = CachedEncoder(HashingEncoder(), None).encode(people.texts)
    assert vectors.shape[0] == len(people.texts)
    monkeypatch.undo()
    assert admit_users(config.users, config.cohorts, StageCache(tmp_path / "fresh")).users.hash == people.hash


def test_show_and_prune_work_on_a_damaged_cache(cli, words, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    assert cli(*words, "--folder", tmp_path / "one").code == 0
    pieces = list((tmp_path / "cache" / "stages").rglob("*.arrays"))
    (shelf,) = (tmp_path / "cache" / "vectors").iterdir()
    shutil.copy(pieces[0], shelf / "0.vectors")
    (shelf / "1.vectors").symlink_to(shelf / "1.vectors")
    (tmp_path / "cache" / "responses").mkdir()
    (tmp_path / "cache" / "responses" / "x.log").write_bytes(bytes(100))
    for command in (("cache", "show"), ("cache", "prune", "vectors", "stages", "responses", "--all")):
        outcome = cli(*command)
        assert outcome.code == 0, outcome.err
    assert not list((tmp_path / "cache" / "stages").rglob("*.arrays"))
