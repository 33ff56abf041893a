"""Plants for systems with a bank and a histogram for each label, from a bank file that an operator would write."""

import csv
import json

import pytest
from operators import rows_of

FLAGS = ("--mechanism.q", "1", "--system.runs", "20", "--system.apart", "10", "--system.by_label")
LABELS = ("warm", "cold", "mild")


@pytest.fixture
def bank(world, tmp_path):
    lines = [text for text in (world / "bank.txt").read_text().splitlines() if text]
    with (tmp_path / "bank.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["label", "text"], *([LABELS[i % 3], text] for i, text in enumerate(lines))])
    return tmp_path / "bank.csv"


def design(cli, world, bank, folder, *more):
    outcome = cli("design", world / "own.toml", "-o", folder, "--bank.source", bank, *FLAGS, *more)
    assert outcome.code == 0, outcome.err
    return json.loads((folder / "commitment.json").read_text())


def test_a_canary_of_one_record_is_planted_in_one_label_alone(cli, world, bank, tmp_path):
    plant = design(cli, world, bank, tmp_path / "plant", "--users.cap", "1")
    assert set(plant["bank_sizes"]) == set(LABELS)
    records = [json.loads(line) for line in (tmp_path / "plant" / "canaries.jsonl").read_text().splitlines()]
    assert [each["label"] for each in records] == ["warm"]
    assert {each["label"] for each in rows_of(tmp_path / "plant" / "probes.csv")} == {"warm"}
    assert {label for label, _ in plant["positions"]} == {"warm"}


def test_the_whole_bank_is_inspected_where_that_is_asked_for(cli, world, bank, tmp_path):
    plant = design(cli, world, bank, tmp_path / "plant", "--users.cap", "1", "--system.inspect", "bank")
    sizes = plant["bank_sizes"]
    assert plant["positions"] == [[label, place] for label in LABELS for place in range(sizes[label])]
    (score,) = plant["designed"]["canary-1"]
    planted = {(each["label"], int(each["position"])) for each in rows_of(tmp_path / "plant" / "probes.csv")}
    weighed = {tuple(at) for at, votes in zip(plant["positions"], score["canary"], strict=True) if votes}
    assert set() < weighed <= planted
    assert "at every position of the bank of each label" in (tmp_path / "plant" / "README.md").read_text()
