import contextlib
import json
from csv import DictReader
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from canarybank.errors import StoreError
from canarybank.evolution import (
    Archive,
    Candidate,
    FolderArchive,
    MemoryArchive,
    Population,
    Probes,
    Published,
    write_population,
)
from canarybank.store import hash_file, read_json

HOSTILE = 'a "quoted", text\nwith\u2028lines, =1+1 and ü'


def published(probes: bool = True) -> Published:
    rng = np.random.default_rng(0)
    texts = [HOSTILE, *(f"text {i} \u2028 ü" for i in range(4))]
    start = Population.start(texts, rng.normal(size=(5, 3)), list("ababa"))
    child = Candidate("r1-00000", 'he said "hi"', "sad", 1, ("r0-00002", "r0-00001"), "continue")
    population = start.followed_by([4, 0, 1, 2], [child], rng.normal(size=(1, 3)))
    planted = Probes((4, 1), rng.normal(size=(2, 3)), ("first", "second")) if probes else None
    return Published.of(population, planted, {"duplicate": 2})


@pytest.mark.parametrize("probes", [True, False])
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_what_goes_in_comes_out(tmp_path: Path, kind: str, probes: bool) -> None:
    archive: Archive = MemoryArchive() if kind == "memory" else FolderArchive(tmp_path)
    given = published(probes)
    release = np.random.default_rng(1).normal(size=given.bank.size)
    assert archive.bank(3) is None
    assert archive.release(3) is None
    archive.put_bank(3, given)
    archive.put_release(3, release)
    taken = archive.bank(3)
    assert taken is not None
    assert taken.bank.hash == given.bank.hash
    assert taken.population.candidates == given.population.candidates
    assert np.array_equal(taken.population.vectors, given.population.vectors)
    assert dict(taken.rejected) == {"duplicate": 2}
    if probes:
        assert taken.probes is not None
        assert (taken.probes.positions, taken.probes.texts) == ((4, 1), ("first", "second"))
    assert np.array_equal(archive.release(3), release)


def test_a_bank_counts_only_once_the_file_that_vouches_for_it_is_there(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    (tmp_path / "rounds/000/bank.json").unlink()
    assert archive.bank(0) is None


@pytest.mark.parametrize("name", ["bank.npy", "bank.jsonl", "probes.jsonl"])
def test_an_altered_file_is_refused(tmp_path: Path, name: str) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    path = tmp_path / "rounds/000" / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match=name):
        archive.bank(0)


def test_an_altered_hash_is_refused(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    path = tmp_path / "rounds/000/bank.json"
    whole = path.read_text()
    path.write_text(whole.replace(published().bank.hash, "0" * 64))
    with pytest.raises(StoreError, match="does not fit its checksum"):
        archive.bank(0)
    record = json.loads(whole) | {"hash": "0" * 64}
    del record["sha256"]
    path.write_text(json.dumps(record))
    with pytest.raises(StoreError, match="is not the one that was published"):
        archive.bank(0)


def test_what_version_0_1_0_wrote_without_a_checksum_is_still_read(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    path = tmp_path / "rounds/000/bank.json"
    record = json.loads(path.read_text())
    del record["sha256"]
    path.write_text(json.dumps(record))
    assert archive.bank(0).bank.hash == published().bank.hash


@pytest.mark.parametrize("key", ["files", "hash", "rejected", "reserved", "round"])
def test_no_altered_record_of_a_bank_is_taken(tmp_path: Path, key: str) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    path = tmp_path / "rounds/000/bank.json"
    record = json.loads(path.read_text())
    for value in (None, 7, [1], {"a": 1}, "x"):
        path.write_text(json.dumps(record | {key: value}))
        with pytest.raises(StoreError):
            archive.bank(0)
    assert path.write_text(path.read_text().replace(key, key[::-1]))
    with pytest.raises(StoreError):
        archive.bank(0)


@pytest.mark.parametrize("line", ["{}", "[]", "7", '{"text": "a"}', "not JSON"])
def test_a_line_that_is_no_candidate_is_refused(tmp_path: Path, line: str) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    lines, path = tmp_path / "rounds/000/bank.jsonl", tmp_path / "rounds/000/bank.json"
    lines.write_text(f"{line}\n" * 5)
    record = json.loads(path.read_text())
    del record["sha256"]
    path.write_text(json.dumps(record | {"files": {**record["files"], "bank.jsonl": hash_file(lines)}}))
    with pytest.raises(StoreError, match=r"cannot be read|is not JSON"):
        archive.bank(0)


@pytest.mark.parametrize("at", range(0, 128, 3))
def test_no_byte_of_a_releases_header_crashes_its_reader(tmp_path: Path, at: int) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_release(0, np.arange(3.0))
    path = tmp_path / "rounds/000/release.npy"
    whole = bytearray(path.read_bytes())
    for byte in (0, 1, 0x20, 0x27, 0x28, 0x39, 0x7D, 0xFF):
        whole[at] = byte
        path.write_bytes(whole)
        with contextlib.suppress(StoreError):
            assert archive.release(0).ndim == 1


def test_a_broken_release_is_refused(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_release(0, np.zeros(3))
    path = tmp_path / "rounds/000/release.npy"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match="no numpy array"):
        archive.release(0)


def test_the_remnant_of_an_earlier_draw_goes_before_the_next_is_written(tmp_path: Path) -> None:
    remnant = tmp_path / "rounds/000/.release.npy.1234.abcd.tmp"
    remnant.parent.mkdir(parents=True)
    remnant.write_bytes(b"a whole release that nobody was shown")
    FolderArchive(tmp_path).put_release(0, np.zeros(3))
    assert [path.name for path in remnant.parent.iterdir()] == ["release.npy"]


def test_an_insecure_seed_stamps_banks_and_releases(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path, insecure_seed=9)
    archive.put_bank(0, published())
    archive.put_release(0, np.zeros(7))
    assert read_json(tmp_path / "rounds/000/bank.json")["insecure_seed"] == 9
    assert (tmp_path / "rounds/000/release.insecure.npy").exists()
    assert not (tmp_path / "rounds/000/release.npy").exists()
    assert FolderArchive(tmp_path).release(0) is None


def hostile_population() -> Population:
    start = Population.start(["one", HOSTILE], np.eye(2), labels=["x", "y"])
    return start.followed_by(
        [1], [Candidate("r1-00000", "new", "y", 1, ("r0-00001", "r0-00000"), "continue")], [[1, 1]]
    )


def test_all_three_files_hold_the_candidates_and_their_lineage(tmp_path: Path) -> None:
    population = hostile_population()
    parquet, lines, csv = write_population(population, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "population.csv",
        "population.jsonl",
        "population.parquet",
    ]
    rows = [json.loads(json.dumps(asdict(candidate))) for candidate in population.candidates]
    by_name = [dict(sorted(row.items())) for row in rows]
    assert [dict(sorted(row.items())) for row in pl.read_parquet(parquet).to_dicts()] == by_name
    assert [dict(sorted(row.items())) for row in pl.read_ndjson(lines).to_dicts()] == by_name
    with csv.open(encoding="utf-8", newline="") as file:
        read = list(DictReader(file))
    assert [row["text"] for row in read] == [HOSTILE, "new"]
    assert [row["parents"] for row in read] == ["", "r0-00001 r0-00000"]
    assert [row["born"] for row in read] == ["0", "1"]


def test_an_insecure_seed_stands_in_every_row_of_every_file(tmp_path: Path) -> None:
    parquet, lines, csv = write_population(hostile_population(), tmp_path, insecure_seed=41)
    for frame in (pl.read_parquet(parquet), pl.read_ndjson(lines), pl.read_csv(csv)):
        assert frame["insecure_seed"].to_list() == [41, 41]


def test_a_secure_run_has_no_such_column(tmp_path: Path) -> None:
    assert "insecure_seed" not in pl.read_parquet(write_population(hostile_population(), tmp_path)[0]).columns


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\tx", "\rx"])
def test_no_text_is_a_formula_in_csv_and_every_text_is_raw_elsewhere(tmp_path, text):
    population = Population.start([text], np.eye(1), labels=["=l"])
    parquet, jsonl, csv = write_population(population, tmp_path)
    assert pl.read_csv(csv)["text"].to_list() == [f"'{text}"]
    assert pl.read_csv(csv)["label"].to_list() == ["'=l"]
    assert pl.read_parquet(parquet)["text"].to_list() == [text]
    assert json.loads(jsonl.read_text())["text"] == text
