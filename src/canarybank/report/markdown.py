"""Write a run's summary as Markdown, in which no text from outside is markup."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from canarybank.report.numbers import confidence, epsilon, interval_text, rung_text
from canarybank.report.text import clean

__all__ = ["markdown_table", "plain", "summary_markdown"]

_MARKUP = re.compile(r"([\\`*_\[\]<>|~$&@:#]|(?<=[wW]{3})\.)")
"""Markdown's own characters, and those that hosts turn into mentions, links, entities or mathematics."""


def summary_markdown(summary: dict[str, Any]) -> str:
    """Return the summary of a run as Markdown."""
    verdict, audit = summary["verdict"], summary["audit"]
    parts = [
        f"# canarybank audit: {plain(summary['name'])}",
        f"**{verdict['sentence']}**",
        *verdict["beside"],
        f"> {summary['statement']}",
        "## What was audited",
        markdown_table(["what", "value"], [(name, plain(value)) for name, value in summary["facts"]]),
        *(f"Note: {plain(note)}" for note in summary["notes"]),
        "## Ladders",
        (
            f"Exact figures need no trials. Bounds are lower bounds on epsilon by the method {audit['method']} at "
            f"{confidence(1 - audit['alpha'])} confidence for each attack, with {audit['trials']:,} trials of each "
            f"hypothesis of each canary, at delta {summary['mechanism']['delta']:g}."
        ),
        markdown_table(
            ["attack", "accounted", "mechanism", "attack, exact", "rule, exact", "expected (5% to 95%)", "observed"],
            [_ladder_row(attack) for attack in summary["attacks"]],
        ),
        "## What it stands on",
        _bullets(summary["assumptions"]),
        "## What it does not say",
        _bullets(summary["limits"]),
        "## Provenance",
        f"Command: {plain(summary['provenance']['command'])}",
        markdown_table(["what", "sha256"], [(n, f"`{h}`") for n, h in summary["provenance"]["hashes"]]),
    ]
    return "\n\n".join(parts) + "\n"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _MARKUP.sub(r"\\\1", clean(text, 2000))


def _ladder_row(attack: dict[str, Any]) -> tuple[str, ...]:
    rungs = {rung["name"]: rung for rung in attack["ladder"]}
    expected = rungs["expected"]
    spread = rung_text(expected)
    if expected["is_known"]:
        spread += f" ({interval_text(expected['low'], expected['high'])})"
    exact = [rung_text(rungs[name]) for name in ("accounted", "mechanism", "attack", "rule")]
    return (plain(attack["name"]), *exact, spread, epsilon(rungs["observed"]["epsilon"]))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
