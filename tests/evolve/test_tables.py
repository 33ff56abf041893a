import json
from csv import DictReader
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from canarybank.evolve import Candidate, Population, write_population
from canarybank.evolve.tables import json_lines, read_json_lines

HOSTILE = 'a "quoted", text\nwith\u2028lines, =1+1 and ü'


def make() -> Population:
    start = Population.start(["one", HOSTILE], np.eye(2), labels=["x", "y"])
    return start.followed_by(
        [1], [Candidate("r1-00000", "new", "y", 1, ("r0-00001", "r0-00000"), "continue")], [[1, 1]]
    )


def test_all_three_files_hold_the_candidates_and_their_lineage(tmp_path: Path) -> None:
    population = make()
    parquet, lines, csv = write_population(population, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "population.csv",
        "population.jsonl",
        "population.parquet",
    ]
    rows = [candidate.to_json() for candidate in population.candidates]
    by_name = [dict(sorted(row.items())) for row in rows]
    assert [dict(sorted(row.items())) for row in pl.read_parquet(parquet).to_dicts()] == by_name
    assert [dict(sorted(row.items())) for row in pl.read_ndjson(lines).to_dicts()] == by_name
    with csv.open(encoding="utf-8", newline="") as file:
        read = list(DictReader(file))
    assert [row["text"] for row in read] == [HOSTILE, "new"]
    assert [row["parents"] for row in read] == ["", "r0-00001 r0-00000"]
    assert [row["born"] for row in read] == ["0", "1"]


def test_an_insecure_seed_stands_in_every_row_of_every_file(tmp_path: Path) -> None:
    parquet, lines, csv = write_population(make(), tmp_path, insecure_seed=41)
    for frame in (pl.read_parquet(parquet), pl.read_ndjson(lines), pl.read_csv(csv)):
        assert frame["insecure_seed"].to_list() == [41, 41]


def test_a_secure_run_has_no_such_column(tmp_path: Path) -> None:
    assert "insecure_seed" not in pl.read_parquet(write_population(make(), tmp_path)[0]).columns


def test_json_lines_survive_hostile_texts() -> None:
    population = make()
    assert read_json_lines(json_lines(population.candidates), "here") == population.candidates


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\tx", "\rx"])
def test_no_text_is_a_formula_in_csv_and_every_text_is_raw_elsewhere(tmp_path, text):
    population = Population.start([text], np.eye(1), labels=["=l"])
    parquet, jsonl, csv = write_population(population, tmp_path)
    assert pl.read_csv(csv)["text"].to_list() == [f"'{text}"]
    assert pl.read_csv(csv)["label"].to_list() == ["'=l"]
    assert pl.read_parquet(parquet)["text"].to_list() == [text]
    assert json.loads(jsonl.read_text())["text"] == text
