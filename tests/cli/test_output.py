import io
import json
import re
import sys

from canarybank import __version__
from canarybank.cli.output import Output, bullets, facts, paragraph, table
from canarybank.progress import SILENT, Lines


def printed(capsys, *parts):
    Output().result("x", {}, *parts)
    return capsys.readouterr().out


def test_json_is_one_document_with_its_command_and_version(capsys):
    Output(json=True).result("x", {"b": 1, "a": [1.5]}, paragraph("not this"))
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": [1.5], "b": 1, "canarybank": __version__, "command": "x", "schema_version": 1}


def test_a_pipe_gets_no_blanks_at_the_ends_of_lines(capsys):
    out = printed(capsys, table(["a", "b"], [["x", 1]]), facts({"key": "value"}))
    assert "x" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_no_cell_is_cut_short(capsys):
    assert "y" * 300 in printed(capsys, table(["a"], [["y" * 300]])).replace("\n", "").replace(" ", "")


def test_a_hostile_text_cannot_command_the_terminal(capsys):
    out = printed(capsys, table(["a"], [["\x1b[2J\x07[bold]x[/bold]\u202e"]]), paragraph("\x1b]0;t\x07"))
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\u202e" not in out
    assert "[bold]x[/bold]" in out


def test_notes_go_to_standard_error_unless_quiet(capsys):
    Output().note("hear this")
    Output(quiet=True).note("not this")
    assert capsys.readouterr() == ("", "hear this\n")


def test_progress_is_plain_where_there_is_no_terminal_and_silent_when_quiet(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(Output().progress, Lines)
    assert Output(quiet=True).progress is SILENT


def test_a_hash_stays_whole_at_80_columns_whatever_stands_beside_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, facts({"a rather long name": "x", "commitment": "f" * 64, "page": "y z"})).splitlines()
    assert any(line.strip() == "f" * 64 for line in lines)
    assert lines[-1].split("  ")[-1] == "y z"
    assert all(len(line) <= 80 for line in lines)


def test_a_line_of_a_list_that_wraps_stands_below_its_own_text(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    Output().result("x", {}, bullets(["one two three four five", "[red]six[/red]"]))
    assert capsys.readouterr().out.splitlines() == ["- one two three four", "  five", "- [red]six[/red]"]


def test_headings_begin_as_sentences_do(capsys):
    assert printed(capsys, table(["true rate", "mu_eff"], [[1, 2]])).split("\n")[1].split() == [
        "True",
        "rate",
        "mu_eff",
    ]


def test_a_table_too_wide_for_the_screen_goes_on_below_and_no_number_is_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    numbers = [f"{index}.123456 to {index}.987654" for index in range(5)]
    headers = ["name", *(f"number {index}" for index in range(5))]
    out = printed(capsys, table(headers, [["one", *numbers], ["other", *numbers]]))
    assert all(len(line) <= 60 for line in out.splitlines())
    assert all(out.count(number) == 2 for number in numbers)
    assert len(re.findall(r"^ other", out, flags=re.MULTILINE)) == 3


def test_a_table_that_fits_is_one_table_and_texts_fold_before_numbers_do(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert printed(capsys, table(["a", "b"], [["x", 1.5]])).count("─\n") == 1
    out = printed(capsys, table(["a", "number"], [["many words " * 9, "1.234567 to 8.765432"]]))
    assert out.count("─\n") == 1
    assert "1.234567 to 8.765432" in out
    assert all(len(line) <= 40 for line in out.splitlines())
