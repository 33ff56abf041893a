import re

import pytest

from canarybank.report import latex_tables

KNOWN = re.compile(
    r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|textquotedbl|textasciigrave"
    r"|textquotesingle|ldots)\{\}|\\[{}$&#%_]|\$(\\infty|-|\\langle|\\rangle)\$"
)


@pytest.fixture
def named(summary):
    """Return a function that gives what the table of attacks calls an attack of some name."""

    def name(text):
        attacks = [summary["attacks"][0] | {"name": text}]
        (row,) = re.findall(r"\\midrule\n(.*)\n\\bottomrule", latex_tables(summary | {"attacks": attacks}))[:1]
        return row.partition(" & ")[0]

    return name


@pytest.mark.parametrize("character", list("\\{}$&#%_^~<>|\"`'"))
def test_no_character_keeps_its_power(named, character):
    assert not re.search(r"[\\{}$&#%_^~<>|\"`']", KNOWN.sub("", named(f"a{character}b")))


def test_letters_of_any_script_stay_and_symbols_become_their_code(named):
    assert named("naïve 漢 🙂") == "naïve 漢 U+1F642"


def test_the_tables_hold_every_attack_and_canary(summary, hostile):
    text = latex_tables(summary)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    attacks = len(summary["attacks"])
    assert len(rows) == 2 + attacks + 1 + sum(len(attack["canaries"]) for attack in summary["attacks"])
    assert {KNOWN.sub("", row).count("&") for row in rows} == {7}
    assert hostile not in text
    assert "95\\% confidence" in text
