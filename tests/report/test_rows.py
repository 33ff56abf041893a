import csv
import math
from dataclasses import replace

import polars as pl
import pytest

from canarybank.report.tables import result_rows, write_csv, write_parquet


@pytest.fixture(scope="module")
def rows(run):
    return result_rows(run.results)


def test_a_row_for_each_canary_of_each_attack(run, rows):
    expected = [(attack.attack, canary.counts.tp) for attack in run.results.attacks for canary in attack.canaries]
    assert [(row["attack"], row["tp"]) for row in rows] == expected


def test_parquet_and_csv_hold_the_same_numbers(rows, tmp_path):
    write_csv(rows, tmp_path / "r.csv")
    write_parquet(rows, tmp_path / "r.parquet")
    frame = pl.read_parquet(tmp_path / "r.parquet")
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert frame.columns == list(read[0])
    assert [float(row["bound"]) for row in read] == frame["bound"].to_list() == [row["bound"] for row in rows]


def test_no_id_is_a_formula_for_a_spreadsheet(rows, tmp_path):
    assert any(row["canary"].startswith("=") for row in rows)
    write_csv(rows, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        ids = [row["canary"] for row in csv.DictReader(file)]
    assert not any(name.startswith(("=", "+", "-", "@")) for name in ids)


def test_an_unbounded_figure_is_infinite_again(changed, run):
    first, *others = run.results.attacks
    canary = first.canaries[0]
    endless = replace(canary, rule=replace(canary.rule, upper=math.inf))
    attack = replace(first, canaries=(endless, *first.canaries[1:]))
    assert result_rows(changed(attacks=(attack, *others)).results)[0]["exact_rule_upper"] == float("inf")
