import re
import subprocess
import sys
from pathlib import Path

import pytest

from canarybank.auditing import Branch, epsilon_lower, pooled, stratified
from canarybank.cli import main
from canarybank.registry import METHODS
from canarybank.run import Commitment, Manifest, Plant, Results, SealedRules, SystemResults

ROOT = Path(__file__).parents[1]


def test_the_reference_is_what_the_code_says():
    done = subprocess.run(
        [sys.executable, "docs/make.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda p: p.name)
def test_every_link_between_pages_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_architecture_names_files_that_exist_and_every_room():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "canarybank"
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", page)
    assert [name for name in named if not (source / name).exists()] == []
    rooms = {path.parent.name for path in source.glob("*/__init__.py")}
    assert [room for room in sorted(rooms) if not re.search(rf"\b{room}\b", page)] == []
    walk = re.findall(r"^\| \d+ \| (\w+) \| `(\w+)/", page, flags=re.MULTILINE)
    assert len({room for room, _ in walk}) == len(walk) > 10, "a room is visited once"
    assert [pair for pair in walk if pair[0] != pair[1]] == []


def test_the_stability_page_states_the_layouts_that_are_written():
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| (`\w+\.json`[\w ]*) \| (\d+) \|", page, flags=re.MULTILINE))
    kinds = {
        "`manifest.json`": Manifest,
        "`commitment.json`": Commitment,
        "`results.json`": Results,
        "`commitment.json` of a system": Plant,
        "`sealed.json` of a system": SealedRules,
        "`results.json` of a system": SystemResults,
    }
    assert stated == {name: str(kind.model_fields["schema_version"].default) for name, kind in kinds.items()}


def test_no_page_names_a_machine():
    said = "\n".join(page.read_text(encoding="utf-8") for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    assert re.findall(r"(?<![\w.])/(?:home|root|work|tmp)/\S*", said) == []


def test_the_mathematics_name_the_branches_that_each_method_has():
    """Counts that only the reverse branch refutes: a method without it certifies nothing from them."""
    table = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| `([\w-]+)` \|[^|]*\| (both|forward) \|", table, flags=re.MULTILINE))
    assert set(stated) == set(METHODS.places)
    counts, options = (10_000, 5_000, 10_000, 10_000), {"delta": 1e-5, "alpha": 0.01}
    for method, branches in stated.items():
        if method == "pooled":
            bound = pooled(*([each] for each in counts), **options)
        elif method == "stratified":
            bound = stratified(*counts, q=0.5, **options)
        else:
            bound = epsilon_lower(*counts, method=method, **options)
        assert (bound.branch is Branch.REVERSE) == (branches == "both")


def test_the_mathematics_describe_no_inversion_that_the_code_does_not_have():
    said = " ".join((ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8").split())
    assert "half a step" not in said
    assert "ladder of tilts whose first rung serves the neighbourhood of the mean" in said


def test_the_commands_of_the_page_of_one_run_are_understood(capsys, monkeypatch, tmp_path):
    page = (ROOT / "docs" / "one-run.md").read_text(encoding="utf-8")
    found = re.findall(r"canarybank ([a-z]+[^`\n]* --[^`\n]*)", page)
    commands = [each for each in found if not each.startswith("design")]  # that would make a plant
    assert len(commands) >= 3
    monkeypatch.chdir(tmp_path)
    for each in commands:
        assert main(each.split()) in {2, 4}, each
        assert re.search(r"'(my\.toml|runs/my)'", capsys.readouterr().err), each  # nothing but the file is missing
