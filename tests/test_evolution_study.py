"""The study that compares rules: it resumes, pairs by seed, and states what it starts from."""

import json
import math
import shutil
import sys
from pathlib import Path

import pytest
from scipy import stats

from canarybank.generate import Response
from canarybank.store import hash_file

pytest.importorskip("mauve")
sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import evolution_study as study

WORDS = (
    *("court", "statute", "record", "judge", "brief", "lawyer", "question", "answer"),
    *("law", "case", "facts", "state", "union", "tax", "jury"),
)


class Scripted:
    """Write sentences that follow from a request's seed."""

    name, fingerprint, server = "scripted", "scripted", None

    def generate(self, requests):
        for index, request in enumerate(requests):
            drawn = [WORDS[(request.seed // len(WORDS) ** i) % len(WORDS)] for i in range(7)]
            yield index, Response(f"{request.opening} I think the {' '.join(drawn)}.", 9, 11)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Prepare a small study and run two rules with two seeds."""
    place = tmp_path_factory.mktemp("study")
    rows = [
        {
            "user": f"u{user}",
            "label": "1960s",
            "text": f"I say that {WORDS[(user * 7 + i) % 15]} number {user * i} counts.",
        }
        for user in range(40)
        for i in range(6)
    ]
    (place / "users.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prepare = ("--users", place / "users.jsonl", "--model", "none", "--encoder", "hashing", "--held-out", 15)
    step(place, "prepare", *prepare, "--records", 6, "--size", 60, "--rounds", 1)
    step(place, "run", "--rules", "paper,answers-blanks", "--seeds", "1,2")
    step(place, "measure")
    return place / "study"


def step(place, name, *given):
    study.main([name, str(place / "study"), *map(str, given)], lambda _: Scripted())


def test_every_run_starts_from_the_one_bank_and_ends_with_as_many_texts(made):
    facts = json.loads((made / "study.json").read_text())
    assert facts["first"] == hash_file(made / "first.jsonl")
    runs = sorted((made / "runs").glob("*/*"))
    assert [run.relative_to(made / "runs").as_posix() for run in runs] == [
        "answers-blanks/1",
        "answers-blanks/2",
        "paper/1",
        "paper/2",
    ]
    banks = {(run / "rounds" / "000" / "bank.jsonl").read_bytes() for run in runs}
    assert len(banks) == 1
    found = [json.loads((run / "measured.json").read_text()) for run in runs]
    assert len({each["populations"][0]["recall"] for each in found}) == 1
    assert [each["end"] == each["all"] for each in found] == [True, True, False, False]
    assert [each["end"] == each["populations"][-1] for each in found] == [False, False, True, True]
    assert all(each["tokens"] == 11 * each["answers"] for each in found)


def test_a_run_that_is_there_is_left_alone_and_a_changed_bank_is_refused(made):
    before = {path: path.read_bytes() for path in made.rglob("measured.json")}
    step(made.parent, "run", "--rules", "paper,answers-blanks", "--seeds", "1,2")
    step(made.parent, "measure")
    assert {path: path.read_bytes() for path in made.rglob("measured.json")} == before
    text = (made / "first.jsonl").read_text()
    (made / "first.jsonl").write_text(text.replace("I think", "You think", 1))
    with pytest.raises(SystemExit, match="not the bank"):
        step(made.parent, "run", "--rules", "paper", "--seeds", "3")
    (made / "first.jsonl").write_text(text)


def test_another_preparation_and_unknown_rules_are_refused(made):
    again = ("--users", made.parent / "users.jsonl", "--model", "none", "--encoder", "hashing", "--held-out", 15)
    with pytest.raises(SystemExit, match="choose another folder"):
        step(made.parent, "prepare", *again, "--records", 6, "--size", 80, "--rounds", 1)
    with pytest.raises(SystemExit, match="no rules"):
        step(made.parent, "table", "--best", "better")


def test_a_run_that_finds_too_few_texts_is_named(made, tmp_path, capsys):
    class Stuck(Scripted):
        def generate(self, requests):
            for index, _ in enumerate(requests):
                yield index, Response("I think the court is right about this.", 9, 11)

    copy = shutil.copytree(made, tmp_path / "study")
    study.main(["run", str(copy), "--rules", "aug-pe", "--seeds", "1"], lambda _: Stuck())
    step(tmp_path, "table")
    assert "Failed, for the generator found too few texts: aug-pe/1." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("after", "named"), [((), "answers-blanks"), (("--after", 1), "answers-blanks after 1 rounds")]
)
def test_the_table_pairs_by_seed(made, capsys, after, named):
    step(made.parent, "table", "--best", "answers-blanks", "--against", "paper", *after)
    printed = capsys.readouterr().out
    runs = {
        rule: [json.loads((made / "runs" / rule / seed / "measured.json").read_text()) for seed in "12"]
        for rule in ("answers-blanks", "paper")
    }
    mine = [(run["populations"][1] if after else run["end"])["mauve"] for run in runs["answers-blanks"]]
    others = [run["end"]["mauve"] for run in runs["paper"]]
    differences = [one - other for one, other in zip(mine, others, strict=True)]
    low, high = study.interval(differences)
    mean, ratio = sum(differences) / 2, sum(mine) / sum(others)
    assert f"| {named} less paper | 2 | {mean:.3f} | {low:.3f} to {high:.3f} | {ratio:.2f} |" in printed
    assert "| first bank |" in printed
    assert "| real text of voters |" in printed


def test_the_table_leaves_out_the_seeds_that_chose_the_rule(made, capsys):
    step(made.parent, "table", "--seeds", "2")
    assert "| paper | 1 |" in capsys.readouterr().out


def test_what_is_measured_is_not_measured_again(made, capsys):
    step(made.parent, "measure")
    assert not capsys.readouterr().err


def test_the_interval_is_students():
    values = [0.3, 0.1, 0.25, 0.4, -0.05]
    right = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert study.interval(values, 0.9) == pytest.approx((right.low, right.high))
    low, high = study.interval([1.0, 3.0])  # one degree of freedom: the Cauchy quantile, tan of an angle
    assert (high - low) / 2 == pytest.approx(math.tan(0.95 * math.pi / 2))
