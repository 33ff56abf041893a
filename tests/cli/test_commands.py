import importlib
import pkgutil
import re
import subprocess
import sys

import pytest

import canarybank.cli

LOADED = "import sys; from canarybank.cli import main; main(['--help']); print(*sys.modules, sep='\\n')"
NAMES = [each.name for each in pkgutil.iter_modules(canarybank.cli.__path__) if each.name != "__main__"]
NAMES = [name for name in NAMES if hasattr(importlib.import_module(f"canarybank.cli.{name}"), "command")]


def test_the_help_is_short_and_has_every_command_in_a_group_with_a_line(cli):
    out = cli("--help").out
    assert len(out.splitlines()) < 48
    groups = re.findall(r"╭─ (.*?) ─+╮\n(.*?)╰", out, flags=re.DOTALL)
    listed = {name: re.findall(r"^│ ([\w-]+) +(\S.*\S) +│$", body, flags=re.MULTILINE) for name, body in groups}
    assert listed.pop("Options")
    assert sorted(name for members in listed.values() for name, _ in members) == sorted(NAMES)
    assert all(line.endswith(".") for members in listed.values() for _, line in members)
    assert [name for name, _ in listed["Audit"]][:2] == ["demo", "audit"]  # what one starts with


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_a_help_page(cli, name):
    outcome = cli(name, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"Usage: canarybank {name}")
    assert len(outcome.out.splitlines()) < 70


def test_help_imports_no_command():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines())
    assert "canarybank.cli" in loaded
    assert not loaded & {f"canarybank.cli.{name}" for name in NAMES}


@pytest.mark.parametrize("words", [("audit",), ("gate",), ("cache", "prune"), ("config", "show")])
def test_help_breaks_lines_where_the_terminal_ends_and_not_where_the_source_does(cli, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    before_panels = cli(*words, "--help").out.split("╭")[0]
    paragraphs = [part for part in before_panels.split("\n\n") if part.strip()]
    assert all("\n" not in part.strip() for part in paragraphs)
