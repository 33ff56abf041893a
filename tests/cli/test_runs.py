import json
import os
import shutil
from pathlib import Path

import pytest

from canarybank.store import lock_folder


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
    assert "stopped" in cli("runs", "list").out


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


def test_a_run_at_work_is_told_apart_from_one_whose_process_is_gone(cli, unfinished):
    with lock_folder(unfinished, "running canarybank audit"):
        (busy,) = cli("runs", "list", "--json").document["runs"]
    (idle,) = cli("runs", "list", "--json").document["runs"]
    assert (busy["state"], idle["state"]) == ("running", "stopped")
    assert busy["reason"].startswith(f"At work: process {os.getpid()} on ")
    assert idle["reason"].startswith("No process is at work; run the same command again")


def test_the_list_fits_80_columns(cli, copied, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("runs", "list", copied.parent.relative_to(Path.cwd())).out.splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = (line.split() for line in lines if line.startswith(" runs/own"))
    assert row[1] == "finished"
    assert row[-2:] == ["not", "tested"]


@pytest.fixture
def other(cli, own, copied):
    """Return a second run beside the first, with less noise and one attack."""
    folder = copied.parent / "other"
    words = ("--attack.names", "ordinary", "--mechanism.sigma", "0.4", "--audit.trials", "500", "--quiet")
    assert cli("audit", own, "--folder", folder, *words).code == 0
    return folder


def test_one_page_links_every_run_and_has_its_colour(cli, copied, other):
    half_results(shutil.copytree(copied, copied.parent / "a <b> run"))
    outcome = cli("runs", "page", "runs", "--json")
    html = Path(outcome.document["page"]).read_text()
    assert Path(outcome.document["page"]).stat().st_mode & 0o077 == 0
    assert all(f'<a href="{name}/report.html">' in html for name in (copied.name, other.name))
    assert "a <b> run" not in html
    assert html.count('class="verdict tone-untested"') == 2
    assert html.count('class="verdict tone-none"') == 1
    assert "damaged" in html


def test_two_runs_stand_side_by_side_with_the_settings_that_differ(cli, copied, other, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    document = cli("runs", "compare", copied, other, "--json").document
    settings = {row["key"]: (row["one"], row["other"]) for row in document["settings"]}
    assert settings.keys() == {"attack.names", "audit.trials", "mechanism.sigma"}
    assert settings["mechanism.sigma"] == ("0.5", "0.4")
    figures = {row["what"]: (row["one"], row["other"]) for row in document["figures"]}
    claimed = [json.loads((run / "results.json").read_text())["epsilon"] for run in (copied, other)]
    assert [float(value) for value in figures["budget claimed"]] == pytest.approx(claimed, abs=5e-4)
    assert figures["nonce-norm, exact"][1] == "—"
    out = cli("runs", "compare", "runs/own", "runs/other").out
    assert "in runs/own" in out
    assert "mechanism.sigma" in out
    assert "same settings" in cli("runs", "compare", copied, copied).out


def test_a_run_named_without_its_folder_is_found_by_its_name(cli, copied):
    Path("own.out").write_text("no run")
    for typed in ("own", "runs/ownn", "owm"):
        outcome = cli("runs", "compare", typed, copied)
        assert outcome.code == 2
        assert "did you mean 'runs/own'?" in outcome.err
    assert "check the path." in cli("runs", "compare", "nothing-like-it", copied).err


def test_a_run_that_is_not_finished_or_was_altered_is_not_compared(cli, copied):
    whole = shutil.copytree(copied, copied.parent / "whole")
    no_commitment(copied)
    assert cli("runs", "compare", whole, copied).code == 4
    manifest = json.loads((whole / "manifest.json").read_text())
    (whole / "manifest.json").write_text(json.dumps(manifest | {"state": "started", "finished": None, "files": {}}))
    outcome = cli("runs", "compare", whole, whole)
    assert outcome.code == 4
    assert "is not finished, so there is nothing to compare" in outcome.err
