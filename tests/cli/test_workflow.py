"""The workflow that people copy: its own commands, run as they stand."""

import os
import shlex
from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).parents[2] / ".github" / "workflows" / "gate.yml"
WORKFLOW = yaml.safe_load(FILE.read_text())
STEPS = {step["name"]: step for step in WORKFLOW["jobs"]["gate"]["steps"] if "name" in step}


@pytest.fixture
def step(cli, monkeypatch):
    """Run a step of the workflow, its variables filled in; the shell's own `cat >>` is done here."""
    for name, value in WORKFLOW["env"].items():
        monkeypatch.setenv(name, str(value))

    def run(name, **changes):
        for variable, value in changes.items():
            monkeypatch.setenv(variable, str(value))
        program, *words = shlex.split(os.path.expandvars(STEPS[name]["run"]))
        assert program == "canarybank"
        return cli(*words)

    return run


def test_the_gate_passes_or_fails_and_leaves_the_page_to_upload(step, own, tmp_path):
    assert step("Audit", AUDIT=own).code == 0
    assert step("Gate", CLAIMED_EPS="20").code == 0
    failed = step("Gate", CLAIMED_EPS="0.5")
    assert failed.code == 1
    assert "Violation" in (tmp_path / "runs" / "gate.md").read_text()
    uploaded = tmp_path / STEPS["Upload the page"]["with"]["path"]
    assert {"gate", "gate.xml", "gate.md"} <= {path.name for path in uploaded.iterdir()}
    assert (uploaded / "gate" / "report.html").is_file()
    assert STEPS["Show the outcome"]["run"] == 'cat runs/gate.md >> "$GITHUB_STEP_SUMMARY"'


def test_the_audit_of_this_repository_is_one_that_the_command_takes(cli):
    words = shlex.split(WORKFLOW["env"]["AUDIT"])
    assert cli("config", "show", *words).code == 0


def test_the_page_is_uploaded_whatever_the_gate_said():
    names = [step.get("name") for step in WORKFLOW["jobs"]["gate"]["steps"]]
    assert names.index("Upload the page") > names.index("Gate") > names.index("Audit")
    assert "!cancelled()" in STEPS["Upload the page"]["if"]
    assert WORKFLOW["permissions"] == {"contents": "read"}
