"""`canarybank measure`: texts from anywhere against real users, and the populations of a run."""

import json
import random
import shutil
import sys

import pytest

WORDS = {
    "law": ("court", "judge", "claim", "appeal", "verdict", "statute", "brief", "motion"),
    "food": ("soup", "bread", "salt", "oven", "spice", "apple", "dinner", "sauce"),
}


def sentence(rng, label):
    return " ".join(rng.choice(WORDS[label]) for _ in range(6))


def rows(seed, count=80, *, turned=False):
    rng, other = random.Random(seed), {"law": "food", "food": "law"}  # noqa: S311, made-up texts
    labels = [rng.choice(("law", "food")) for _ in range(count)]
    return [{"text": sentence(rng, each), "label": other[each] if turned else each} for each in labels]


@pytest.fixture
def files(tmp_path):
    """Write labelled users, texts like theirs, and the same texts with every label wrong."""
    people = rows(0, 160)
    lines = [f"u{i % 16},{row['text']},{row['label']}" for i, row in enumerate(people)]
    (tmp_path / "users.csv").write_text("\n".join(["user,text,topic", *lines]) + "\n")
    for name, made in (("good", rows(1)), ("turned", rows(1, turned=True))):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    (tmp_path / "plain.txt").write_text("\n".join([*(row["text"] for row in rows(2)), "", "  "]) + "\n")
    return tmp_path


@pytest.mark.usefixtures("files")
def test_texts_of_any_origin_are_measured_beside_real_text(cli):
    words = ("measure", "good.jsonl", "turned.jsonl", "plain.txt", "--users", "users.csv", "--label", "topic")
    outcome = cli(*words, "--encoder", "hashing", "--json")
    assert outcome.code == 0, outcome.err
    document = outcome.document
    assert document["names"] == ["good.jsonl", "turned.jsonl", "plain.txt"]
    assert document["sizes"] == [80, 80, 80]
    compared = document["compared"]
    assert (compared["size"], compared["users"], compared["labels"]) == (80, 16, ["food", "law"])
    good, turned, plain = compared["sets"]
    real = compared["real"]
    for name in ("mauve", "precision", "recall", "density", "coverage", "frechet"):
        assert real[name] is not None
        assert good[name] == turned[name]  # the same texts
    assert real["agreement"]["share"] > 0.9
    assert good["agreement"]["share"] > 0.9
    assert turned["agreement"]["share"] < 0.1
    assert turned["task"]["accuracy"] < turned["task"]["chance"] < good["task"]["accuracy"]
    assert (plain["labelled"], plain["agreement"], plain["task"]) == (0, None, None)
    assert document["notes"] == ["2 blank texts are left out."]
    assert "not differentially private" in document["statement"]
    shutil.copy("good.jsonl", f"{'ж' * 90}.jsonl")
    lines = cli(*words[:1], f"{'ж' * 90}.jsonl", *words[1:], "--encoder", "hashing", "--quiet").out.splitlines()
    shown = " ".join(" ".join(lines).split())
    assert "real text" in shown
    assert shown.casefold().count("ж") == 40
    assert f"label agreement {good['agreement']['share']:.3f}" in shown
    assert "not differentially private" in shown


def test_a_file_with_settings_says_who_the_users_are(cli, files):
    (files / "own.toml").write_text('[users]\nsource = "users.csv"\n\n[encoder]\nname = "hashing"\n')
    document = cli("measure", "good.jsonl", "good.jsonl", "embedded", "--config", "own.toml", "--json").document
    assert document["encoder"].startswith("hashing")
    assert document["names"] == ["good.jsonl", "good.jsonl (2)", "embedded bank"]
    assert document["sizes"] == [80, 80, 2048]
    assert document["compared"]["sets"][0] == document["compared"]["sets"][1]
    assert document["compared"]["labels"] == []
    (note,) = document["notes"]
    assert "Name the users' column by --label" in note


@pytest.mark.usefixtures("files")
def test_without_the_package_mauve_is_left_out_and_said_to_be(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "mauve", None)
    words = ("measure", "good.jsonl", "--users", "users.csv", "--label", "label", "--text", "text")
    assert cli(*words, "--encoder", "hashing").code == 2  # there is no such column
    outcome = cli(*words[:4], "--label", "topic", "--encoder", "hashing", "--json")
    (note,) = outcome.document["notes"]
    assert "pip install 'canarybank[mauve]'" in note
    assert outcome.document["compared"]["real"]["mauve"] is None
    assert outcome.document["compared"]["sets"][0]["task"]["accuracy"] > 0.9


def test_the_populations_of_an_evolution_are_those_of_its_rounds(cli, own, world, writing, tmp_path):
    spoken = ("cat", "dog", "sun", "rain", "soup", "bread", "walk")
    writing(lambda request: f"I saw the {' '.join(spoken[(request.seed // 7**i) % 7] for i in range(5))} today.")
    small = ("--bank.size", 40, "--generator.kind", "scripted_answers:write", "--evolve.rounds", 1, "--run.workers", 1)
    made = cli("evolve", own, *small, "--evolve.share", 0.5, "--evolve.near", 1, "--insecure-seed", 0)
    assert made.code == 0, made.err
    words = ("measure", "runs/own", "--users", world / "users.csv", "--encoder", "hashing", "--json")
    every = cli(*words, "--rounds", "all").document
    assert every["names"] == ["own, first population", "own, after round 1"]
    assert every["compared"]["sets"][0] != every["compared"]["sets"][1]
    last = cli(*words).document
    assert last["names"] == every["names"][1:]
    assert last["compared"]["sets"] == every["compared"]["sets"][1:]
    # The population's own file gives the same figures.
    shutil.copy(tmp_path / "runs" / "own" / "population.jsonl", tmp_path / "made.jsonl")
    again = cli("measure", "made.jsonl", *words[2:]).document
    assert again["compared"]["sets"] == last["compared"]["sets"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("good.jsonl",), "name a file of users by --users"),
        (("--users", "users.csv"), "at least one file of texts"),
        (("missing.jsonl", "--users", "users.csv"), "no file or folder 'missing.jsonl'"),
        ((".", "--users", "users.csv"), "holds no evolution"),
        (("good.jsonl", "--users", "users.csv", "--column", "body"), "no text under 'body'"),
    ],
)
@pytest.mark.usefixtures("files")
def test_what_cannot_be_measured_is_refused(cli, words, said):
    outcome = cli("measure", *words, "--encoder", "hashing")
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
