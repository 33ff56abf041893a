import shutil
import subprocess
from pathlib import Path

import canarybank
from canarybank.config import resolve
from canarybank.run.folder import new_manifest
from canarybank.run.surroundings import surroundings


def test_it_says_what_the_run_was_told_and_done_with(resolved):
    manifest = new_manifest(resolved, "canarybank audit x")
    assert manifest.config == resolved.values()
    assert manifest.origins["audit.trials"] == "flag"
    assert manifest.state == "started"
    assert "not itself differentially private" in manifest.statement
    around = manifest.surroundings
    assert {"numpy", "scipy", "dp-accounting", "pydantic"} <= set(around.packages)
    assert around.cores >= 1


def test_the_commit_is_that_of_the_checkout():
    root = Path(canarybank.__file__).parents[2]
    git = shutil.which("git")
    command = [git, "-C", str(root), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() if git else ""
    assert surroundings().commit == (found or None)


def test_no_key_reaches_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    told = resolve(flags={"generator.kind": "openai", "generator.model": "m"})
    assert "hunter2" not in new_manifest(told, "x").model_dump_json()
