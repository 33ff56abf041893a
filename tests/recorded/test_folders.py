"""The run folders that were written by the first schema version are what their page says."""

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


@pytest.mark.usefixtures("here")
def test_the_evolution_is_shown_again():
    assert main(["report", "evolution", "--quiet"]) == 0


def test_the_stopped_audit_keeps_its_shards_and_goes_on(here):
    before = (here / "stopped" / "trials.log").read_bytes()
    words = ["audit", "small.toml", "--audit.trials", "400000", "--run.workers", "1", "--folder", "stopped", "--quiet"]
    assert main(words) == 0
    assert (here / "stopped" / "trials.log").read_bytes().startswith(before)
    assert json.loads((here / "stopped" / "manifest.json").read_text())["state"] == "finished"
