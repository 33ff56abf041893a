import csv
import math
from dataclasses import replace

import polars as pl
import pytest

from canarybank.report import write_report


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    """Return a folder with the run's report."""
    folder = tmp_path_factory.mktemp("rows")
    write_report(run, folder)
    return folder


def rows_of(folder):
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_row_for_each_canary_of_each_attack(run, folder):
    expected = [(attack.attack, str(c.counts.tp)) for attack in run.results.attacks for c in attack.canaries]
    assert [(row["attack"], row["tp"]) for row in rows_of(folder)] == expected


def test_parquet_and_csv_hold_the_same_numbers(run, folder):
    frame, read = pl.read_parquet(folder / "results.parquet"), rows_of(folder)
    bounds = [canary.bound.epsilon for attack in run.results.attacks for canary in attack.canaries]
    assert frame.columns == list(read[0])
    assert [float(row["bound"]) for row in read] == frame["bound"].to_list() == bounds


def test_no_id_is_a_formula_for_a_spreadsheet(folder):
    assert any(name.startswith("=") for name in pl.read_parquet(folder / "results.parquet")["canary"])
    assert not any(row["canary"].startswith(("=", "+", "-", "@")) for row in rows_of(folder))


def test_an_unbounded_figure_is_infinite_again(changed, run, tmp_path):
    first, *others = run.results.attacks
    canary = first.canaries[0]
    endless = replace(canary, rule=replace(canary.rule, upper=math.inf))
    attack = replace(first, canaries=(endless, *first.canaries[1:]))
    write_report(changed(attacks=(attack, *others)), tmp_path)
    assert pl.read_parquet(tmp_path / "results.parquet")["exact_rule_upper"][0] == math.inf
