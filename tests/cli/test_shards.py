"""An audit over users in shards writes the bytes of one in memory, whatever the format, the shards and the kills."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

SMALL = ("--attack.names", "ordinary,exact,nonce-mueff", "--audit.trials", "2000", "--cohorts.canaries", "1")
DOUBLES = str(Path(__file__).parents[1] / "doubles")
WRITTEN = ("commitment.json", "results.json")


@pytest.fixture(scope="module")
def files(world, tmp_path_factory):
    """Write the users in three formats, with an uneven one and rows that are skipped among them."""
    folder = tmp_path_factory.mktemp("formats")
    with (world / "users.csv").open() as file:
        rows = list(csv.DictReader(file))
    rows = [*rows[::2], {"user": "u03", "text": " "}, {"user": "", "text": "nobody's"}, *rows[1::2], *rows[:3]]
    with (folder / "users.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["user", "text"])
        writer.writeheader()
        writer.writerows(rows)
    (folder / "users.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pl.DataFrame(rows).write_parquet(folder / "users.parquet")
    return folder


def audited(run, own, users, folder, *more):
    outcome = run("audit", own, "--users.source", users, "--folder", folder, *SMALL, *more)
    assert outcome.code == 0, outcome.err
    return [(Path(folder) / name).read_bytes() for name in WRITTEN]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_results_and_commitment_are_those_of_an_audit_in_memory(cli, own, files, tmp_path, suffix):
    users = files / f"users.{suffix}"
    whole = audited(cli, own, users, tmp_path / "whole", "--run.shards", "0")
    for number in ("1", "8") if suffix == "csv" else ("4",):
        assert audited(cli, own, users, tmp_path / number, "--run.shards", number) == whole
        stages = json.loads((tmp_path / number / "manifest.json").read_text())["stages"]
        passed = sum(stages[how].get("pass", 0) for how in ("made", "found"))  # found where a format before had them
        assert 2 <= passed <= 2 * int(number)  # one pass for all attacks, on each of two cohorts


@pytest.mark.parametrize(
    "more",
    [
        ("--users.cap", "5", "--users.limit", "20", "--cohorts.shared"),
        ("--cohorts.fixed", "u04", "--audit.threshold", "analytic", "--bank.vet"),
        ("--audit.engine", "literal", "--run.engine", "serial"),
    ],
    ids=["limited", "fixed and vetted", "literal"],
)
def test_other_settings_have_the_bytes_of_memory_too(cli, own, files, tmp_path, more):
    found = [
        audited(cli, own, files / "users.csv", tmp_path / number, "--run.shards", number, *more)
        for number in ("0", "4")
    ]
    assert found[0] == found[1]


def test_a_finished_run_is_the_same_run_with_other_shards(cli, own, files, tmp_path):
    audited(cli, own, files / "users.csv", tmp_path / "run", "--run.shards", "0")
    again = cli("audit", own, "--users.source", files / "users.csv", "--folder", tmp_path / "run", *SMALL)
    assert again.code == 0
    shown = cli("plan", own, "--users.source", files / "users.csv", *SMALL, "--run.shards", "4", "--json")
    assert shown.code == 0, shown.err
    assert shown.document["users"] == 30


# One process that has never used polars forks a child for each kill; each goes on where the one before it died.
SCRIPT = """
import pathlib, signal, sys

sys.path.insert(0, sys.argv[1])
from killing import arm, child
from canarybank.cli import main
import canarybank.flow.audit, polars, scipy.sparse
cache, words = pathlib.Path(sys.argv[2]), sys.argv[3:]

def killed():
    arm(9, ())
    assert main(words) == 0

kills, kept = 0, {}
while (code := child(killed)) != 0:
    assert code == -signal.SIGKILL, code
    kills += 1
    found = {path.name: path.stat().st_ino for path in cache.glob("stages/[sp]*/*") if path.is_file()}
    assert kept.items() <= found.items(), "a shard, or what a pass gave for it, was made twice"
    kept = found
print(kills)
"""


def test_kills_cost_the_shard_under_way_and_no_byte(cli, own, files, tmp_path):
    users, folder = files / "users.jsonl", tmp_path / "run"
    whole = audited(cli, own, users, tmp_path / "whole", "--run.shards", "0")
    words = ("audit", own, "--users.source", users, "--folder", folder, *SMALL, "--quiet", "--run.shards", "4")
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, DOUBLES, tmp_path / "cache", *words, "--run.workers", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"CANARYBANK_CACHE": str(tmp_path / "cache"), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    assert int(outcome.stdout.split()[-1]) >= 3
    assert len(list(tmp_path.glob("cache/stages/pass/*"))) >= 6
    assert [(folder / name).read_bytes() for name in WRITTEN] == whole


def test_secret_shares_say_that_they_need_memory(cli, own, files, tmp_path):
    outcome = cli(
        "audit", own, "--users.source", files / "users.csv", "--folder", tmp_path / "run", "--mechanism.share", "0.5",
        "--run.shards", "4",
    )  # fmt: skip
    assert outcome.code == 2
    assert "secret shares are drawn from users in memory. Set run.shards to 0, or leave it out." in outcome.err
