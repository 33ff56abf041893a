import json
import shutil

import pytest


@pytest.fixture
def leading(finished):
    """Return the attack with the largest bound of the small audit."""
    attacks = json.loads((finished / "results.json").read_text())["attacks"]
    return max(attacks, key=lambda attack: attack["headline"]["epsilon"])["attack"]


def test_runs_are_listed_with_their_state_and_largest_bound(cli, copied, golden, shape, leading):
    document = cli("runs", "list", copied.parent, "--json").document
    (run,) = document["runs"]
    assert run["state"] == "finished"
    assert run["largest"]["attack"] == leading
    assert (run["largest"]["method"], run["largest"]["confidence"]) == ("paper", 0.95)
    golden("runs.json", json.dumps(shape(document), indent=1) + "\n")
    assert leading in cli("runs", "list").out


def test_a_run_that_is_not_finished_shows_no_bound(cli, unfinished):
    (run,) = cli("runs", "list", unfinished.parent, "--json").document["runs"]
    assert run["largest"] is None
    assert "started" in cli("runs", "list").out


def test_a_folder_without_runs_says_how_to_start(cli):
    outcome = cli("runs", "list")
    assert outcome.code == 0
    assert "canarybank demo" in outcome.out


def test_several_runs_stand_in_the_order_of_their_names(cli, copied):
    shutil.copytree(copied, copied.parent / "a")
    names = [run["run"] for run in cli("runs", "list", "--json").document["runs"]]
    assert names == ["runs/a", "runs/own"]


def test_without_a_word_more_the_runs_in_the_usual_folder_are_listed(cli, copied, leading):
    bare = cli("runs")
    assert bare.code == 0
    assert leading in bare.out
    assert bare.out == cli("runs", "list").out
    assert cli("runs", "--json").document == cli("runs", "list", copied.parent.name, "--json").document
    assert cli("--json", "runs").document["runs"]


def test_a_mistyped_word_is_told(cli):
    outcome = cli("runs", "lst")
    assert outcome.code == 2
    assert "did you mean 'list'?" in outcome.err


def test_the_confidence_of_the_largest_bound_covers_all_attacks(cli, copied, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    (run,) = cli("runs", "list", copied.parent, "--json").document["runs"]
    assert run["largest"]["over"] == "over all attacks"
    out = cli("runs", "list", copied.parent).out
    assert "95% over all attacks" in out
    assert "each attack" not in out


def no_json(folder):
    (folder / "manifest.json").write_text("{")


def half_results(folder):
    text = (folder / "results.json").read_text()
    (folder / "results.json").write_text(text[: len(text) // 2])


def no_commitment(folder):
    (folder / "commitment.json").unlink()


def no_manifest(folder):
    (folder / "manifest.json").unlink()


def torn_log(folder):
    (folder / "trials.log").write_bytes(b"\xff\n")


def binary(folder):
    (folder / "manifest.json").write_bytes(bytes(range(256)))


def strange_trials(folder):
    value = json.loads((folder / "manifest.json").read_text())
    value["config"]["audit.trials"] = "many"
    (folder / "manifest.json").write_text(json.dumps(value))


@pytest.mark.parametrize(
    "damage", [no_json, half_results, no_commitment, no_manifest, torn_log, binary, strange_trials]
)
def test_a_damaged_run_is_listed_with_its_reason_and_hides_no_other(cli, copied, damage, monkeypatch, leading):
    monkeypatch.setenv("COLUMNS", "300")
    damage(shutil.copytree(copied, copied.parent / "bad"))
    outcome = cli("runs", "list", copied.parent, "--json")
    assert outcome.code == 0
    bad, good = outcome.document["runs"]
    assert (bad["state"], bad["largest"]) == ("damaged", None)
    assert bad["reason"]
    assert (good["state"], good["ok"]) == ("finished", True)
    table = cli("runs", "list", copied.parent).out
    assert "damaged" in table
    assert bad["reason"].split(";")[0][:40] in table
    assert leading in table
