"""docs/foreign.md does what it says: its code runs, and it names every field and column of every file."""

import contextlib
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from canarybank.auditing import Rule, Rules, Shown, SystemResult
from canarybank.cli import main
from canarybank.run import DesignedScore, OneRunPlant, OneRunResults, Plant, SealedRules, SystemResults

PAGE = (Path(__file__).parents[1] / "docs" / "foreign.md").read_text(encoding="utf-8")
BLOCKS = [tuple(each) for each in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)]
SHELL = [code for language, code in BLOCKS if language == "sh"]


def tables():
    """Return the first column of every table that names fields or columns in code."""
    found = re.findall(r"^\| (?:field|column) \|.*\n\|[-|]+\n((?:\| `.*\n)+)", PAGE, flags=re.MULTILINE)
    return [tuple(re.findall(r"^\| `(\w+)`", rows, flags=re.MULTILINE)) for rows in found]


def test_the_python_of_the_page_is_short_and_gives_a_verdict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = [code for language, code in BLOCKS if language == "python"]
    assert len([line for line in code.splitlines() if line.strip()]) < 20
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "docs/foreign.md", "exec"), {})  # noqa: S102, our own page
    assert said.getvalue().startswith("refuted\nThe claim is refuted")
    assert main(["verify", "audit"]) == 0
    assert main(["gate", "audit", "--claimed-eps", "4.4"]) == 1


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Run the shell of the page, block by block, and return the folder and the exit codes."""
    folder, codes = tmp_path_factory.mktemp("page"), []
    program = shutil.which("canarybank", path=str(Path(sys.executable).parent))
    for code in SHELL:
        if script := re.match(r"# (\w+\.sh) ", code):
            (folder / script[1]).write_text(code)
        else:
            typed = code.replace("canarybank ", f"{program} ")
            codes.append(subprocess.run(["sh", "-c", typed], cwd=folder, check=False).returncode)  # noqa: S607
    return folder, codes


def test_the_shell_of_the_page_ends_in_a_refutation_in_every_way(walked):
    folder, codes = walked
    assert codes == [0, 1, 1, 0, 1]
    for name in ("plant", "plant2", "once"):
        assert json.loads((folder / name / "results.json").read_text())["found"]["verdict"] == "refuted"


def columns(path):
    with path.open(newline="") as file:
        return tuple(next(csv.reader(file)))


def test_every_field_of_every_file_is_on_the_page(walked):
    folder, _ = walked
    plant, stated = folder / "plant", tables()
    record = json.loads((plant / "canaries.jsonl").read_text().splitlines()[0])
    in_files = [columns(plant / "schedule.csv"), columns(plant / "probes.csv"), tuple(record)]
    assert [set(each) for each in stated[:3]] == [set(each) for each in in_files]
    kinds = (Plant, DesignedScore, SealedRules, SystemResults)
    documents = [tuple(kind.model_fields) for kind in kinds]
    documents += [tuple(each.name for each in fields(kind)) for kind in (Rules, Rule, SystemResult, Shown)]
    assert [each for each in documents if each not in stated] == []
    assert [kind for kind in (OneRunPlant, OneRunResults) if tuple(kind.model_fields) not in stated] == []
    assert columns(folder / "once" / "eligible.csv") in stated
    layouts = dict(re.findall(r"^\*\*`(\w+\.json)`\*\* \(layout (\d+)\)", PAGE, flags=re.MULTILINE))
    files = {"commitment.json": Plant, "sealed.json": SealedRules, "results.json": SystemResults}
    assert layouts == {name: str(kind.model_fields["schema_version"].default) for name, kind in files.items()}


def test_every_file_of_a_plant_is_on_the_page(walked):
    folder, _ = walked
    places = [*(folder / "plant2").iterdir(), *(folder / "once").iterdir(), *(folder / "once" / "releases").iterdir()]
    made = {path.name for path in places if not path.name.startswith(".")}
    unnamed = {name for name in made if f"`{name}`" not in PAGE and f"`{name}/`" not in PAGE}
    assert unnamed == set()
