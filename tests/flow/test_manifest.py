import shutil
import subprocess
from pathlib import Path

import canarybank
from canarybank.config import resolve
from canarybank.run import Run


def test_it_says_what_the_run_was_told_and_done_with(resolved, finished):
    manifest = finished.manifest
    assert manifest.command == "canarybank audit small.toml"
    assert manifest.config == resolved.values()
    assert manifest.origins["audit.trials"] == "flag"
    assert manifest.state == "finished"
    assert "not itself differentially private" in manifest.statement
    around = manifest.surroundings
    assert {"numpy", "scipy", "dp-accounting", "pydantic"} <= set(around.packages)
    assert around.cores >= 1


def test_the_commit_is_that_of_the_checkout(finished):
    root = Path(canarybank.__file__).parents[2]
    git = shutil.which("git")
    command = [git, "-C", str(root), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() if git else ""
    assert finished.manifest.surroundings.commit == (found or None)


def test_no_key_reaches_it(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    told = resolve(flags={"generator.kind": "openai", "generator.model": "m"})
    with Run.held(told, tmp_path / "run", "x", "audit") as run:
        written = (run.folder / "manifest.json").read_text()
    assert "OPENAI_API_KEY" in written
    assert "hunter2" not in written
