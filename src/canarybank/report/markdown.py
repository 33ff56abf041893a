"""Write a run's summary and a gate's outcome as Markdown, in which no text from outside is markup."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from canarybank.experiment.gating import GateOutcome
from canarybank.experiment.power import shown_epsilon
from canarybank.report.numbers import confidence, epsilon, interval_text, rung_text
from canarybank.report.text import clean

__all__ = ["gate_markdown", "markdown_table", "plain", "refused_markdown", "summary_markdown"]

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


def gate_markdown(outcome: GateOutcome) -> str:
    """Return a gate's outcome as Markdown, for a pull request."""
    first = outcome.attacks[0].bound
    parts = [
        f"### Privacy audit gate: {_title(outcome)}",
        outcome.statement,
        markdown_table(
            ["attack", "bound", "share of alpha", "true positives", "false positives", "exact, at least"],
            [
                (
                    plain(each.attack),
                    epsilon(each.bound.epsilon),
                    f"{each.alpha:.4g}",
                    f"{each.bound.counts[0]:,} of {each.bound.trials[0]:,}",
                    f"{each.bound.counts[1]:,} of {each.bound.trials[1]:,}",
                    shown_epsilon(each.exact),
                )
                for each in outcome.attacks
            ],
        ),
        (
            f"Claimed epsilon {outcome.claimed:g} at delta {first.delta:g}; exact epsilon of the mechanism "
            f"{shown_epsilon(outcome.attained)}, computed without trials; method {outcome.method}, declared "
            f"beforehand, {confidence(outcome.confidence)} confidence over all attacks, {outcome.trials:,} trials of "
            f"each hypothesis of each canary. It assumes {first.assumption}."
        ),
        f"Commitment: `{outcome.commitment}`",
    ]
    return "\n\n".join(parts) + "\n"


def refused_markdown(reason: str) -> str:
    """Return Markdown of a gate that compared nothing, with why."""
    return f"### Privacy audit gate: refused\n\nNo claim was compared. {plain(reason)}\n"


def _title(outcome: GateOutcome) -> str:
    if outcome.ok:
        return "no violation detected at this power"
    shown = any(cause.kind == "trials" for cause in outcome.causes)
    return "violation detected" if shown else "the claim is too small"


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
    spread = f"{epsilon(expected['epsilon'])} ({interval_text(expected['low'], expected['high'])})"
    exact = [rung_text(rungs[name]) for name in ("accounted", "mechanism", "attack", "rule")]
    return (plain(attack["name"]), *exact, spread, epsilon(rungs["observed"]["epsilon"]))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
