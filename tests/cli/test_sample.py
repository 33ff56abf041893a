"""A sample of an evolution's texts, from its folder."""

import json
import shutil

import polars as pl
import pytest

from canarybank.cli import main
from canarybank.evolution import Evolution, sample
from canarybank.run import verify

WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")


RULES = (
    *("--bank.size", "60", "--generator.kind", "scripted_answers:write", "--evolve.rounds", "2", "--evolve.near", "1"),
    *("--evolve.keeper", "threshold", "--evolve.threshold", "0.5", "--evolve.parents", "votes", "--insecure-seed", "3"),
    *("--evolve.share", "0.5,0.3", "--evolve.feedback", "in-context:0.5,fresh:0.5", "--evolve.sample", "25"),
)


@pytest.fixture(scope="module")
def made(own, answering, tmp_path_factory):
    """Run one evolution by rules that are not the default ones, with a sample of its own."""
    folder = tmp_path_factory.mktemp("sampled") / "run"
    with answering(lambda asked: f"I saw the {' '.join(WORDS[(asked.seed // 14**i) % 14] for i in range(5))} today."):
        assert main(["evolve", str(own), *RULES, "--folder", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture
def run(made, tmp_path):
    """Return a copy of that run."""
    return shutil.copytree(made, tmp_path / "run")


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_writes_the_sample_that_it_was_asked_for(run):
    drawn = sample(Evolution.load(run / "evolution"), 25)
    assert [row["id"] for row in rows(run / "sample.jsonl")] == [each.id for each in drawn]
    assert pl.read_parquet(run / "sample.parquet")["text"].to_list() == [each.text for each in drawn]
    assert {row["insecure_seed"] for row in rows(run / "sample.jsonl")} == {3}
    assert verify(run).ok


@pytest.mark.parametrize("rounds", ["last", "all"])
def test_any_size_is_drawn_from_a_finished_run_and_leaves_it_whole(cli, run, rounds):
    outcome = cli("sample", run, "--size", 300, "--rounds", rounds, "--seed", 4, "--json")
    assert outcome.code == 0, outcome.err
    drawn = sample(Evolution.load(run / "evolution"), 300, rounds=rounds, seed=4)
    assert [row["text"] for row in rows(run / "sample.jsonl")] == [each.text for each in drawn]
    document = outcome.document
    assert (document["size"], document["distinct"]) == (300, len({each.id for each in drawn}))
    assert document["insecure_seed"] == 3
    assert verify(run).ok


def test_it_says_what_it_replaced(cli, run, tmp_path):
    files = [str(run / f"sample.{kind}") for kind in ("parquet", "jsonl", "csv")]
    assert cli("sample", run, "--size", 7, "--json").document["replaced"] == files  # the run's own sample
    assert "an earlier sample in these files" in " ".join(cli("sample", run, "--size", 7).out.split())
    first = cli("sample", run, "--size", 7, "--out", tmp_path / "other")
    assert "an earlier sample" not in first.out
    assert cli("sample", run, "--size", 7, "--out", tmp_path / "third", "--json").document["replaced"] == []


def test_another_folder_leaves_the_run_untouched(cli, run, tmp_path):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    outcome = cli("sample", run, "--size", 7, "--out", tmp_path / "other")
    assert outcome.code == 0
    assert "7 texts" in outcome.out
    assert len(rows(tmp_path / "other" / "sample.jsonl")) == 7
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_the_folder_of_the_rounds_alone_will_do(cli, run):
    assert cli("sample", run / "evolution", "--size", 5).code == 0
    assert len(rows(run / "evolution" / "sample.jsonl")) == 5


def test_what_is_no_evolution_and_what_was_altered_is_refused(cli, run, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "audit")
    for folder, code, wrong in ((tmp_path / "audit", 2, "has no texts"), (tmp_path, 4, "There is no run")):
        outcome = cli("sample", folder, "--size", 5)
        assert outcome.code == code
        assert wrong in " ".join(outcome.err.split())
    (run / "population.csv").write_text("text\n")
    assert cli("sample", run, "--size", 5).code != 0
    assert cli("sample", run, "--size", 0).code == 2


def test_a_distinct_sample_has_no_text_twice(cli, run):
    outcome = cli("sample", run, "--size", 60, "--rounds", "all", "--distinct", "--json")
    assert (outcome.document["size"], outcome.document["distinct"]) == (60, 60)
    assert len({row["id"] for row in rows(run / "sample.jsonl")}) == 60
    assert verify(run).ok
