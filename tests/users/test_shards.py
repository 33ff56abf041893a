"""Users in shards are those of ``admit``, whatever the number of shards; a newcomer changes one file."""

import csv
import errno
import gc
import io
import json
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import canarybank.users.shards as shards_module
from canarybank.engine import Serial, Threads
from canarybank.errors import DataError, StoreError
from canarybank.progress import Lines, Silent, Stage
from canarybank.store import StageCache, hash_json
from canarybank.users import (
    Admission,
    CohortSizes,
    Columns,
    Members,
    Part,
    Shards,
    Source,
    admit,
    draw_cohorts,
    draw_indices,
    run_pass,
    shard_count,
    shard_users,
    source,
)
from canarybank.users.shards import shard_of

ROWS = [(f"u{i % 37:02d}", f"text {i % 11} of {i}", str(i % 3)) for i in range(400)]
LABELLED = Columns(label="label")


def written(folder: Path, suffix: str, rows: list[tuple[Any, ...]] = ROWS) -> Path:
    path = folder / f"users.{suffix}"
    if suffix == "parquet":
        pl.DataFrame(rows, schema=["user", "text", "label"], orient="row").write_parquet(path)
    elif suffix == "jsonl":
        path.write_text(
            "".join(json.dumps(dict(zip(("user", "text", "label"), row, strict=True))) + "\n" for row in rows)
        )
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("user", "text", "label"), *rows])
    return path


def sharded(given: Source, rule: Admission, number: int, folder: Path, key: str = "a key", **told: Any) -> Shards:
    return shard_users(given, rule, number, folder, key=hash_json([key, str(given.path)]), **told)


def same_as_admit(given: Source, rule: Admission, number: int, folder: Path) -> Shards:
    admitted, shards = admit(given, rule), sharded(given, rule, number, folder)
    assert shards.number == number
    assert shards.everybody.load().hash == admitted.users.hash
    assert tuple(shards.ids) == admitted.users.ids
    assert np.array_equal(shards.counts, admitted.users.counts)
    assert shards.everybody.digest == admitted.users.digest
    assert shards.report.as_dict() == admitted.report.as_dict()
    return shards


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("number", [1, 8, 64])
def test_users_and_report_are_those_of_admit(tmp_path: Path, suffix: str, number: int) -> None:
    given = source(written(tmp_path, suffix), columns=LABELLED)
    same_as_admit(given, Admission(minimum=11, cap=5, seed=3), number, tmp_path / "cache")


def test_limits_labels_words_and_skipped_rows_are_as_admitted_together(tmp_path: Path) -> None:
    rows = [*ROWS, ("", "nobody's", "1"), ("u05", "", "1"), ("late", "alone here", "2"), ("u06", "word", "1")]
    given = source(written(tmp_path, "csv", rows), columns=LABELLED)
    for rule in (
        Admission(minimum=3, users=9, seed=5),
        Admission(labels=frozenset({"1"}), cap=2, seed=1),
        Admission(minimum_words=2, maximum=10),
    ):
        shards = sharded(given, rule, 16, tmp_path / "cache", str(rule))
        admitted = admit(given, rule)
        assert shards.everybody.load().hash == admitted.users.hash
        assert shards.report.as_dict() == admitted.report.as_dict()


def test_an_isolated_source_is_read_as_when_admitted_together(tmp_path: Path) -> None:
    path = written(tmp_path, "jsonl")
    path.write_text(path.read_text() + '{"user": 7, "text": "seven"}\n{"user": "07", "text": "again"}\n{broken\n')
    given = source(path, isolated=True)
    shards = same_as_admit(given, Admission(cap=4), 8, tmp_path / "cache")
    assert "7" in shards.ids
    path.write_text("")
    assert len(sharded(given, Admission(), 4, tmp_path / "cache", "empty")) == 0


def test_nobody_admitted_is_the_same_sentence(tmp_path: Path) -> None:
    given = source(written(tmp_path, "csv"))
    with pytest.raises(DataError) as together:
        admit(given, Admission(minimum=99))
    with pytest.raises(DataError) as apart:
        sharded(given, Admission(minimum=99), 4, tmp_path / "cache")
    assert str(apart.value) == str(together.value)


def test_a_newcomer_changes_the_file_of_one_shard(tmp_path: Path) -> None:
    before = sharded(source(written(tmp_path, "jsonl")), Admission(), 16, tmp_path / "cache", "before")
    path = written(tmp_path, "jsonl", [("newcomer", "hello", "1"), *ROWS])
    after = sharded(source(path), Admission(), 16, tmp_path / "cache", "after")
    changed = [i for i in range(16) if before.key(i) != after.key(i)]
    assert changed == [shard_of("newcomer", 16)]
    assert [i for i in range(16) if before.contents[i] != after.contents[i]] == changed


def test_the_shard_of_a_user_never_changes() -> None:
    # Another hash would move everybody: every shard, and all that passes gave for it, would be made again.
    assert [shard_of(user, 1024) for user in ("a", "u0000001", "ümlaut")] == [458, 571, 204]


def test_roles_are_drawn_by_ids_alone(tmp_path: Path) -> None:
    given, rule = source(written(tmp_path, "csv")), Admission(cap=6)
    users, shards = admit(given, rule).users, sharded(given, rule, 8, tmp_path / "cache")
    sizes = CohortSizes(5, 6, 12, 2)
    together = draw_cohorts(users, sizes, attacks=["a", "b"], records=6, seed=4)
    drawn = draw_indices(shards.ids, shards.counts, sizes, attacks=["a", "b"], records=6, seed=4)
    for name in ("auxiliary", "calibration", "evaluation"):
        members = Members(shards, getattr(drawn, name))
        expected = getattr(together, name).users
        assert tuple(members.ids) == expected.ids
        assert members.load().hash == expected.hash
        assert members.digest == expected.digest
        assert all(map(members.has, expected.ids))
        assert not members.has(together.canaries["a"].ids[0])
    assert Members(shards, drawn.canaries["b"]).load().hash == together.canaries["b"].hash


def test_a_lower_cap_keeps_the_first_records(tmp_path: Path) -> None:
    given = source(written(tmp_path, "csv"))
    shards = sharded(given, Admission(), 8, tmp_path / "cache")
    low = shards.capped(3)
    assert low.everybody.load().hash == admit(given, Admission(cap=3)).users.hash
    assert low.everybody.digest == admit(given, Admission(cap=3)).users.digest
    assert low.key(2) != shards.key(2)


class Stopping(Silent):
    """Stop, as by Ctrl-C, after so many shards; remember the stages and how much they had to do."""

    def __init__(self, after: int) -> None:
        self.left, self.stages = after, list[tuple[str, int | None]]()

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        self.stages.append((name.split(maxsplit=1)[0], total))
        with super().stage(name, total, unit) as stage:
            yield self if name == "admit users" else stage

    def advance(self, done: int = 1, note: str = "") -> None:
        del note
        self.left -= done
        if self.left < 0:
            raise KeyboardInterrupt


def test_a_finished_spill_and_finished_shards_are_taken_up(tmp_path: Path) -> None:
    given, rule, folder = source(written(tmp_path, "jsonl")), Admission(), tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        shard_users(given, rule, 8, folder, key="a" * 64, progress=Stopping(2))
    again = Stopping(8)
    shards = shard_users(given, rule, 8, folder, key="a" * 64, progress=again)
    assert again.stages == [("admit", 5)]  # three were done, the third when it was stopped; and nothing is read again
    assert shards.everybody.load().hash == admit(given, rule).users.hash
    assert not list((folder / "spill").glob("*/*"))
    third = Stopping(8)
    assert shard_users(given, rule, 8, folder, key="a" * 64, progress=third).ids[:] == shards.ids[:]
    assert third.stages == []


def test_an_unfinished_spill_is_made_again(tmp_path: Path) -> None:
    path, folder = written(tmp_path, "csv"), tmp_path / "cache"
    whole = path.read_text()
    path.write_text(whole + '"open')
    with pytest.raises(DataError, match="never closed"):
        shard_users(source(path), Admission(), 4, folder, key="a" * 64)
    path.write_text(whole)
    shards = shard_users(source(path), Admission(), 4, folder, key="a" * 64)
    assert shards.everybody.load().hash == admit(source(path), Admission()).users.hash


def test_a_damaged_spill_is_refused_and_made_again(tmp_path: Path) -> None:
    given, folder = source(written(tmp_path, "jsonl")), tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        shard_users(given, Admission(), 2, folder, key="a" * 64, progress=Stopping(0))
    spilled = next((folder / "spill").glob("*/00001.rows"))
    spilled.write_bytes(spilled.read_bytes()[:-1])
    with pytest.raises(StoreError, match="damaged; run the command again"):
        shard_users(given, Admission(), 2, folder, key="a" * 64)
    assert len(shard_users(given, Admission(), 2, folder, key="a" * 64)) == 37


def test_memory_does_not_grow_with_the_records_of_one_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "SPILLED_ROWS", 256)

    def peak(records: int) -> int:
        folder = tmp_path / str(records)
        folder.mkdir()
        rows = [*ROWS, *(("talkative", f"sentence {i}", "0") for i in range(records))]
        given = source(written(folder, "jsonl", rows))
        tracemalloc.start()
        shards = sharded(given, Admission(cap=4), 2, folder / "cache")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert shards.report.records_capped == admit(given, Admission(cap=4)).report.records_capped
        return most

    assert peak(20_000) < 1.5 * peak(2_000)


def test_memory_does_not_grow_with_the_length_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "SPILLED_CHARACTERS", 2**16)

    def peak(users: int) -> int:
        folder = tmp_path / str(users)
        folder.mkdir()
        rows = [(f"user {i:04d}", "x" * 4_000, "0") for i in range(users)]
        given = source(written(folder, "jsonl", rows))
        tracemalloc.start()
        assert len(sharded(given, Admission(), 64, folder / "cache")) == users
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(1_600) < 2 * peak(200)


def test_a_file_that_changed_after_its_key_was_made_is_not_kept_under_that_key(tmp_path: Path) -> None:
    given = source(written(tmp_path, "csv"))
    content, state = given.path.read_bytes(), given.state
    with given.path.open("a") as file:
        file.write("newcomer,some words,0\n")
    with pytest.raises(DataError, match="changed while it was read"):
        sharded(given, Admission(), 4, tmp_path / "cache", state=state)
    given.path.write_bytes(content)
    assert "newcomer" not in sharded(given, Admission(), 4, tmp_path / "cache").ids


def test_a_lost_shard_says_what_to_do(tmp_path: Path) -> None:
    shards = sharded(source(written(tmp_path, "csv")), Admission(), 4, tmp_path / "cache")
    for path in (tmp_path / "cache" / "shards").iterdir():
        path.unlink()
    with pytest.raises(StoreError, match="run the command again"):
        shards.users(0)
    again = sharded(source(written(tmp_path, "csv")), Admission(), 4, tmp_path / "cache")
    assert again.everybody.load().hash == admit(source(written(tmp_path, "csv")), Admission()).users.hash


def test_one_run_more_mends_all_damaged_shards(tmp_path: Path) -> None:
    given, folder = source(written(tmp_path, "csv")), tmp_path / "cache"
    shards = sharded(given, Admission(), 4, folder)
    expected, files = shards.everybody.load().hash, sorted((folder / "shards").iterdir())
    assert len(files) >= 3
    for path in files[1:]:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError, match="missing from the cache or damaged; run the command again"):
        shards.everybody.load()
    assert sorted((folder / "shards").iterdir()) == files[:1]
    assert sharded(given, Admission(), 4, folder).everybody.load().hash == expected


def test_damage_in_one_pass_is_cleared_at_once_and_other_users_stay(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    shards = sharded(source(written(tmp_path, "csv")), Admission(), 4, folder)
    mine = {folder / "shards" / f"{content}.packed" for content in shards.contents}
    (tmp_path / "other").mkdir()
    sharded(
        source(written(tmp_path / "other", "csv", [(f"u{i}", "some text", "0") for i in range(9)])),
        Admission(),
        2,
        folder,
    )
    others = set((folder / "shards").iterdir()) - mine
    assert others
    for path in (folder / "shards").iterdir():
        path.write_bytes(path.read_bytes()[:100])
        os.utime(path, (1.0, 1.0))
    with pytest.raises(StoreError, match="missing from the cache or damaged"):
        list(
            run_pass(
                "look", lambda part: {"n": np.zeros(len(part.users()))}, shards.everybody.parts(), Serial(), key="n"
            )
        )
    assert set((folder / "shards").iterdir()) == others
    assert {path.stat().st_mtime for path in others} == {1.0}


def test_a_shard_that_cannot_be_read_now_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = sharded(source(written(tmp_path, "csv")), Admission(), 4, tmp_path / "cache")
    files = set((tmp_path / "cache" / "shards").iterdir())
    for error in (MemoryError(), OSError(errno.EMFILE, "too many open files")):

        def fail(*_: Any, error: BaseException = error, **__: Any) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", fail)
            with pytest.raises((MemoryError, StoreError)):
                shards.everybody.load()
        assert set((tmp_path / "cache" / "shards").iterdir()) == files
    assert len(shards.everybody.load()) == len(shards)


@pytest.mark.parametrize("stage", ["sharding", "shards"])
def test_whatever_is_lost_or_damaged_is_made_again(tmp_path: Path, stage: str) -> None:
    given, folder = source(written(tmp_path, "csv")), tmp_path / "cache"
    whole = sharded(given, Admission(), 3, folder)
    for path in sorted((folder / stage).iterdir()):
        path.unlink()
        again = sharded(given, Admission(), 3, folder)
        assert again.everybody.load().hash == whole.everybody.load().hash
        assert again.report == whole.report
        assert path.exists()
    if stage == "sharding":
        for path in sorted((folder / stage).iterdir()):
            path.write_bytes(path.read_bytes()[:20])
            assert sharded(given, Admission(), 3, folder).report == whole.report


class Meeting(Silent):
    """Once users are admitted, let another process begin with the same users and wait."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self.begin = begin

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        if name == "admit users":
            self.begin()
        with super().stage(name, total, unit) as stage:
            yield stage


def test_two_runs_at_once_lay_out_the_same_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, folder, waiting = source(written(tmp_path, "csv")), tmp_path / "cache", threading.Event()
    said = io.StringIO()
    locked = shards_module.flocked

    def announced(descriptor: int, path: Path, *, wait: bool) -> bool:
        if threading.current_thread() is not threading.main_thread():
            waiting.set()
        return locked(descriptor, path, wait=wait)

    monkeypatch.setattr(shards_module, "flocked", announced)
    with ThreadPoolExecutor(1) as other:
        seconds: list[Future[Shards]] = []

        def begin() -> None:
            seconds.append(other.submit(sharded, given, Admission(), 4, folder, progress=Lines(said)))
            assert waiting.wait(30)

        first = shard_users(
            given, Admission(), 4, folder, key=hash_json(["a key", str(given.path)]), progress=Meeting(begin)
        )
        (second,) = seconds
        assert second.result(30).everybody.load().hash == first.everybody.load().hash
    assert "waiting for another process that lays out these users: started" in said.getvalue()
    assert not list((folder / "spill").glob("*"))


def test_the_number_of_shards_is_a_power_of_two_of_the_size(write: Callable[[str, bytes], Path]) -> None:
    assert shard_count(write("small.csv", b"x")) == 1
    for megabytes, number in ((4, 1), (5, 2), (9, 4), (17, 8)):
        path = write("large.csv", b"")
        with path.open("r+b") as file:
            file.truncate(megabytes * 2**20)
        assert shard_count(path) == number
    assert shard_count(path.rename(path.with_suffix(".parquet"))) == 32


def lengths(part: Part) -> dict[str, Any]:
    return {"lengths": part.users().counts}


@pytest.mark.parametrize("engine", [Serial(), Threads(3)])
def test_a_pass_goes_on_where_it_stopped(tmp_path: Path, engine: Any) -> None:
    shards = sharded(source(written(tmp_path, "csv")), Admission(), 8, tmp_path / "cache")
    parts, cache, asked = shards.everybody.parts(), StageCache(tmp_path / "cache"), []

    def counted(part: Part) -> dict[str, Any]:
        asked.append(part.content)
        return lengths(part)

    def total(cache: StageCache | None, key: str = "lengths") -> list[int]:
        found = np.zeros(len(shards), dtype=np.int64)
        for part, kept in run_pass("lengths", counted, parts, engine, key=key, cache=cache):
            found[part.positions] = kept["lengths"]
        return found.tolist()

    passing = run_pass("lengths", counted, parts, Serial(), key="lengths", cache=cache)
    for _ in range(3):
        next(passing)
    passing.close()
    assert total(cache) == shards.counts.tolist()
    assert sorted(asked) == sorted(part.content for part in parts)
    assert total(cache) == shards.counts.tolist()
    assert len(asked) == len(parts)
    total(cache, "another")
    assert len(asked) == 2 * len(parts)


class Told(Silent):
    """Keep what is shown of stages."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        self.shown.append((name, total, unit))
        yield self

    def advance(self, done: int = 1, note: str = "") -> None:
        self.shown.append((done, note))


def test_progress_of_a_pass_counts_what_is_left_to_do(tmp_path: Path) -> None:
    shards = sharded(source(written(tmp_path, "csv")), Admission(), 4, tmp_path / "cache")
    parts, cache, told = shards.everybody.parts(), StageCache(tmp_path / "cache"), Told()
    sizes = [len(part) for part in parts]
    passing = run_pass("lengths", lengths, parts, Serial(), key="lengths", cache=cache)
    for _ in range(3):
        next(passing)
    passing.close()
    assert len(list(run_pass("lengths", lengths, parts, Serial(), key="lengths", cache=cache, progress=told))) == 4
    assert told.shown == [("lengths", sizes[3], "users"), (sizes[3], "shard 4 of 4")]
    told.shown.clear()
    list(run_pass("lengths", lengths, parts, Serial(), key="another", cache=cache, progress=told))
    assert told.shown == [
        ("lengths", 37, "users"),
        *((size, f"shard {number} of 4") for number, size in enumerate(sizes, 1)),
    ]


def test_memory_holds_few_bytes_of_each_user(tmp_path: Path) -> None:
    def held(users: int) -> int:
        path = tmp_path / f"{users}.csv"
        path.write_text("user,text\n" + "".join(f"u{user:07d},a text\n" for user in range(users)))
        tracemalloc.start()
        shards = sharded(source(path), Admission(), 4, tmp_path / "stages")
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(shards) == users
        return kept

    held(10)  # imports
    # An id of 8 letters takes 16 bytes, a digest 32, count, shard and place 16. With ids as texts it was 113.
    assert (held(1500) - held(500)) / 1000 < 80
