"""The documentation site: every page can be reached, a broken link fails the build, and what pages show runs."""

import contextlib
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import canarybank
from canarybank.cli import main
from canarybank.config import fields, resolve

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOW_TO = sorted(DOCS.glob("how-to/*.md"))


@pytest.fixture(scope="module")
def site():
    return runpy.run_path(str(DOCS / "site.py"))


def pages_of(nav):
    for entry in nav:
        for place in entry.values():
            yield from [place] if isinstance(place, str) else pages_of(place)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_menu_leads_to_every_page_once(site):
    listed = list(pages_of(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    made = {f"api/{room}.md" for room in site["API"]} | set(site["OUTSIDE"])
    assert sorted(listed) == sorted({str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | made)


def test_every_room_that_users_import_from_has_a_page(site):
    rooms = {path.parent.name for path in Path(canarybank.__file__).parent.glob("*/__init__.py")}
    assert rooms - set(site["API"]) == {"cli", "engine", "paper", "store"}


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="other.html#there">', None),
        ('<a href="#here">', None),
        ('<a href="https://example.org/">', None),
        ('<img src="data:,">', None),
        ('<a href="gone.html">', "leads nowhere"),
        ('<img src="gone.svg">', "leads nowhere"),
        ('<a href="other.html#gone">', "without that anchor"),
        ('<script src="https://example.org/x.js"></script>', "from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "from elsewhere"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(site, tmp_path, link, problem):
    (tmp_path / "page.html").write_text(f"<h1 id='here'></h1>{link}")
    (tmp_path / "other.html").write_text("<h1 id='there'></h1>")
    problems, external = site["check_links"](tmp_path)
    assert len(problems) == (problem is not None)
    assert problem is None or problem in problems[0]
    assert external == (["https://example.org/"] if '<a href="https' in link else [])


@pytest.mark.docs
def test_examples_of_docstrings_become_code():
    fenced = runpy.run_path(str(DOCS / "examples.py"))["fenced"]
    assert fenced("Do.\n\n>>> do()\n[1]\n\nMore.") == "Do.\n\n```pycon\n>>> do()\n[1]\n```\n\nMore."
    assert fenced("Do.\n\n    >>> do()\n    1") == "Do.\n\n    ```pycon\n    >>> do()\n    1\n    ```"
    assert fenced("a >>> b") == "a >>> b"


@pytest.mark.parametrize("page", [page for page in HOW_TO if blocks(page, "python")], ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page):
    names, said = {"__name__": "page"}, io.StringIO()
    with contextlib.redirect_stdout(said):
        for block in blocks(page, "python"):
            exec(compile(block, page.name, "exec"), names)  # noqa: S102, our own page
    if page.stem == "attack":
        assert [line.split()[0] for line in said.getvalue().splitlines()] == ["ordinary", "loudest-records"]


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_commands_and_files_of_a_page_are_understood(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = [
        line for block in blocks(page, "(?:sh|yaml)") for line in re.findall(r"canarybank ((?:\w+ )+.*)", block)
    ]
    commands = [line for line in commands if not line.startswith("ceiling")]
    assert commands
    for line in commands:
        assert all(flag in fields() for flag in re.findall(r"--(\w+\.[\w.]+)", line)), line
        assert main([*line.split()]) in {2, 4}, line
        assert re.search(r"'(my-audit\.toml|audit)'", capsys.readouterr().err), line  # nothing but the file is missing
    for text in blocks(page, "toml"):
        (tmp_path / "page.toml").write_text(text)
        assert resolve(tmp_path / "page.toml").config


def test_the_walkthrough_prints_what_its_page_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    executed = runpy.run_path(str(DOCS / "executed.py"))
    made = executed["executed_page"]((DOCS / "walkthrough.py").read_text(encoding="utf-8"), tmp_path)
    assert made == (DOCS / "walkthrough.md").read_text(encoding="utf-8"), "run `python docs/executed.py`"
    assert (tmp_path / "walkthrough.svg").read_text().count("epsilon") >= 1
    assert "<h1>" in (tmp_path / "my-audit" / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path):
    """A copy of what the site is made of."""
    shutil.copytree(DOCS, tmp_path / "docs")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "zensical.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    return tmp_path


def build(tree):
    command = [sys.executable, "docs/site.py"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.docs
def test_the_site_is_built_without_a_network_and_without_a_broken_link(tree):
    code, said = build(tree)
    assert code == 0, said
    api = (tree / "site" / "api" / "canarybank.html").read_text(encoding="utf-8")
    assert all(f'id="canarybank.{name}"' in api for name in canarybank.__all__ if not name.startswith("__"))
    assert "&gt;&gt;&gt; " in api
    assert "<blockquote>" not in api
    assert 'id="canary"' in (tree / "site" / "glossary.html").read_text(encoding="utf-8")


@pytest.mark.docs
def test_a_broken_link_fails_the_build(tree):
    with (tree / "docs" / "index.md").open("a") as page:
        page.write("\n[nowhere](nowhere.md)\n")
    code, said = build(tree)
    assert code == 1
    assert "nowhere.md" in said


@pytest.mark.docs
def test_the_tutorial_goes_from_a_file_to_a_verdict_with_the_figures_that_it_states(tmp_path):
    page = DOCS / "tutorial.md"
    said = page.read_text(encoding="utf-8")
    (script,) = blocks(page, "python")
    (tmp_path / "make_users.py").write_text(script)
    (tmp_path / "my-bank.txt").write_text("\n".join(f"we talked about topic {n} all day" for n in range(300)))
    environment = os.environ | {"CANARYBANK_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(command):
        done = subprocess.run(
            ["sh", "-c", command],  # noqa: S607, as a reader types it
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    *commands, own_bank = [line for block in blocks(page, "sh") for line in block.splitlines()]
    for command in commands:
        code, printed = run(command)
        assert code == 0, printed
    quick = " --attack.names nonce-norm --audit.trials 1000 --cohorts.canaries 1"
    assert run(own_bank + quick)[0] == 0
    assert run("canarybank gate runs/my-users --claimed-eps 1.0")[0] == 1
    found = canarybank.open_run(tmp_path / "runs" / "my-users").results.attacks
    rows = re.findall(r"^\| ([\w-]+) \| (?:a|the) [^|]*\| (\S+) \| (\S+) \|$", said, re.MULTILINE)
    assert [row[0] for row in rows] == [each.attack for each in found]
    for (name, exact, bound), each in zip(rows, found, strict=True):
        assert float(exact) == pytest.approx(each.ladder.attack.epsilon, abs=1e-3), name
        if name != "searched":  # which of many texts a search finds depends on the processor's last bits
            assert float(bound) == pytest.approx(each.headline.epsilon, abs=1e-3), name
    outcome = canarybank.gate(tmp_path / "runs" / "my-users", 1.695)
    assert f"the largest bound, over all six attacks at once with 95% confidence, is {outcome.epsilon:.3f}" in said
