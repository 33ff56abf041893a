import importlib

import pytest

from canarybank.cli.commands import COMMANDS, program

NAMES = [name for members in COMMANDS.values() for name, _ in members]


def test_the_help_is_short_grouped_and_stable(cli, golden):
    outcome = cli("--help")
    assert len(outcome.out.splitlines()) < 48
    golden("help.txt", "".join(f"{line.rstrip()}\n" for line in outcome.out.splitlines()))


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_a_module_a_line_and_a_help_page(cli, name):
    assert callable(importlib.import_module(f"canarybank.cli.{name}").command)
    outcome = cli(name, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"Usage: canarybank {name}")
    assert len(outcome.out.splitlines()) < 70


def test_help_imports_no_command():
    app = program()
    app.help_print([], console=None)
    assert not any(app._commands[name].is_resolved for name in NAMES)


@pytest.mark.parametrize("words", [("audit",), ("gate",), ("cache", "prune"), ("config", "show")])
def test_help_breaks_lines_where_the_terminal_ends_and_not_where_the_source_does(cli, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    before_panels = cli(*words, "--help").out.split("╭")[0]
    paragraphs = [part for part in before_panels.split("\n\n") if part.strip()]
    assert all("\n" not in part.strip() for part in paragraphs)
