import json
import shutil


def test_runs_are_listed_with_their_state_and_largest_bound(cli, copied, golden, shape):
    document = cli("runs", "list", copied.parent, "--json").document
    (run,) = document["runs"]
    assert run["state"] == "finished"
    assert run["largest"]["attack"] == "nonce-norm"
    assert (run["largest"]["method"], run["largest"]["confidence"]) == ("paper", 0.95)
    golden("runs.json", json.dumps(shape(document), indent=1) + "\n")
    assert "nonce-norm" in cli("runs", "list").out


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


def test_without_a_word_more_the_runs_in_the_usual_folder_are_listed(cli, copied):
    bare = cli("runs")
    assert bare.code == 0
    assert "nonce-norm" in bare.out
    assert bare.out == cli("runs", "list").out
    assert cli("runs", "--json").document == cli("runs", "list", copied.parent.name, "--json").document
    assert cli("--json", "runs").document["runs"]


def test_a_mistyped_word_is_told(cli):
    outcome = cli("runs", "lst")
    assert outcome.code == 2
    assert "did you mean 'list'?" in outcome.err
