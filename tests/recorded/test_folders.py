"""The run folders that were written by the first schema version are what their page says."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from canarybank.cli import main

FOLDERS = Path(__file__).parent / "folders"
INPUTS = ("small.toml", "users.csv", "bank.txt")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work on a copy of the folders, beside their inputs."""
    for name in ("audit", "stopped", "evolution", "gate"):
        shutil.copytree(FOLDERS / name, tmp_path / name)
    for name in INPUTS:
        shutil.copy(FOLDERS / "inputs" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_they_are_small_and_of_the_first_version():
    assert sum(path.stat().st_size for path in FOLDERS.rglob("*") if path.is_file()) < 400_000
    manifests = {path.parent.name: json.loads(path.read_text()) for path in FOLDERS.glob("*/manifest.json")}
    assert {name: (each["kind"], each["state"]) for name, each in manifests.items()} == {
        "audit": ("audit", "finished"),
        "stopped": ("audit", "started"),
        "gate": ("audit", "finished"),
        "evolution": ("evolution", "finished"),
    }
    assert {each["schema_version"] for each in manifests.values()} == {1}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["audit", "gate"])
def test_a_finished_audit_verifies(name):
    assert main(["verify", name, "--quiet"]) == 0


@pytest.mark.usefixtures("here")
def test_the_gate_goes_by_the_claim():
    assert main(["gate", "gate", "--claimed-eps", "5", "--quiet"]) == 0
    assert main(["gate", "gate", "--claimed-eps", "0.5", "--quiet"]) == 1


@pytest.mark.parametrize("name", ["audit", "gate"])
def test_a_finished_audit_is_reported_and_still_verifies(here, name):
    """The page of an old run is written anew; its manifest then says that an older version cannot read it."""
    published = hashlib.sha256((here / name / "commitment.json").read_bytes()).hexdigest()
    assert main(["report", name, "--quiet"]) == 0
    assert "nonce-norm" in (here / name / "report.html").read_text()
    assert json.loads((here / name / "manifest.json").read_text())["schema_version"] == 2
    assert main(["verify", name, "--commitment", published, "--quiet"]) == 0


def test_the_same_command_shows_a_finished_audit_again(here, capsys):
    before = (here / "audit" / "results.json").read_bytes()
    assert main(["audit", "small.toml", "--audit.trials", "400", "--folder", "audit", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["commitment"]
    assert (here / "audit" / "results.json").read_bytes() == before


def test_a_run_keeps_a_former_default_and_nothing_else(here, capsys):
    words = ["audit", "small.toml", "--audit.trials", "400", "--folder", "audit", "--quiet"]
    assert main([*words, "--audit.engine", "tail"]) == 2
    assert "audit.engine: 'projected' -> 'tail'" in capsys.readouterr().err
    manifest = here / "audit" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"mechanism.sigma": 1.0', '"mechanism.sigma": 0.5'))
    assert main(words) == 2
    assert "mechanism.sigma: 0.5 -> 1.0" in capsys.readouterr().err


def test_the_stopped_audit_is_refused_in_words_and_stays_as_it_is(here, capsys):
    before = {path.name: path.read_bytes() for path in (here / "stopped").iterdir()}
    words = ["audit", "small.toml", "--audit.trials", "400000", "--run.workers", "1", "--folder", "stopped", "--quiet"]
    assert main(words) == 4
    assert "begun by canarybank 0.1.0" in capsys.readouterr().err
    assert {name: (here / "stopped" / name).read_bytes() for name in before} == before
    assert main(["verify", "stopped"]) == 4


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("words", [["verify"], ["gate", "--claimed-eps", "5"], ["report"]], ids=lambda words: words[0])
def test_the_audited_evolution_is_refused_in_words(words, capsys):
    command, *flags = words
    assert main([command, "evolution", *flags]) == 4
    assert "has layout 1" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_listing_names_every_one_of_them(capsys):
    assert main(["runs", "list", ".", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    states = {Path(row["run"]).name: row["state"] for row in rows}
    assert states == {"audit": "finished", "gate": "finished", "stopped": "stopped", "evolution": "damaged"}
