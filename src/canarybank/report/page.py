"""Render a run as one page: a file that needs no network, runs no script but its own, and has two themes."""

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from canarybank.mechanism import Mechanism
from canarybank.report import numbers
from canarybank.report.evolution_figures import epsilon_figure, utility_figure
from canarybank.report.figures import (
    canary_figure,
    density_figure,
    ladder_figure,
    map_figure,
    overview_figure,
    roc_figure,
    vote_figure,
)
from canarybank.report.summary import summarise_run
from canarybank.report.text import short_hash
from canarybank.run.folder import Run

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page_of", "render_html", "render_summary"]

_NUMERIC = re.compile(r"[+−-]?[\d.,]+(e[+-]?\d+)?%?|∞|—")


def render_html(run: Run) -> str:
    """Return the page of a finished run."""
    return render_summary(summarise_run(run))


def render_summary(summary: dict[str, Any]) -> str:
    """Return the page of a summary. The same summary gives the same bytes."""
    shown = summary["evolution"]
    return page_of(
        "page.html",
        version=summary["version"],
        summary=summary,
        epsilon_figure=epsilon_figure(shown) if shown and shown["rounds"] else None,
        utility_figure=utility_figure(shown) if shown else None,
        cost_rows=[_cost_row(each) for each in shown["cost"]] if shown else [],
        **(_audit_parts(summary) if summary["verdict"] else {"panels": []}),
    )


def _cost_row(each: dict[str, Any]) -> tuple[str | int, ...]:
    names = ("mauve", "precision", "recall", "distinct_2")
    return (each["round"], *("—" if each[name] is None else f"{each[name]:+.3f}" for name in names))


def page_of(template: str, **values: Any) -> str:
    """Return a template filled with values, our style, our script, and a policy that allows nothing else."""
    style, script = _resource("style.css"), _resource("script.js")
    page = _environment().get_template(template)
    html = page.render(style=style, script=script, policy=_policy(style, script), **values)
    return html.strip() + "\n"


def _audit_parts(summary: dict[str, Any]) -> dict[str, Any]:
    attacks, best = summary["attacks"], summary["attacks"][summary["strongest"]]
    mechanism = Mechanism(**summary["mechanism"])
    exact = summary["epsilon"]
    return {
        "attack_rows": _attack_rows(attacks),
        "ledger_rows": _ledger_rows(summary),
        "ladder": ladder_figure(best, claimed=summary["claimed"]),
        "overview": overview_figure(attacks, exact, summary["accounted"]),
        "canaries": canary_figure(attacks, exact),
        "panels": [
            {"attack": attack, "index": index, "figures": _panel(attack, mechanism, exact, index)}
            for index, attack in enumerate(attacks)
            if attack["evidence"]
        ],
    }


def _panel(attack: dict[str, Any], mechanism: Mechanism, exact: float, index: int) -> list[Any]:
    return [
        roc_figure(attack, mechanism, exact, f"roc-{index}"),
        density_figure(attack, mechanism.q, f"densities-{index}"),
        vote_figure(attack, f"votes-{index}"),
        map_figure(attack, f"map-{index}"),
    ]


def _attack_rows(attacks: list[dict[str, Any]]) -> list[tuple[str | int, ...]]:
    return [
        (
            attack["name"],
            numbers.epsilon(attack["headline"]["epsilon"]),
            numbers.confidence(attack["headline"]["confidence"]),
            attack["headline"]["branch"],
            "—" if attack["pooled"] is None else numbers.epsilon(attack["pooled"]["epsilon"]),
            numbers.rung_text(attack["ladder"][3]),
            numbers.rung_text(attack["ladder"][2]),
            len(attack["canaries"]),
        )
        for attack in attacks
    ]


def _ledger_rows(summary: dict[str, Any]) -> list[tuple[str, str, str]]:
    ledgers = [("verdict: ", summary["gate"]), *(("", attack["ledger"]) for attack in summary["attacks"])]
    return [
        (f"{prefix}{name}", f"{share:.4g}", f"{ledger['total']:g}")
        for prefix, ledger in ledgers
        for name, share in ledger["entries"]
    ]


def _policy(style: str, script: str) -> str:
    """Return a content-security policy that allows our own style and script by their hashes, and nothing else."""
    allowed = {"style-src": _source(style), "script-src": _source(script), "img-src": "data:"}
    parts = ["default-src 'none'", *(f"{kind} {value}" for kind, value in allowed.items())]
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def _source(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _resource(name: str) -> str:
    return resources.files("canarybank.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "epsilon": numbers.epsilon,
        "percent": numbers.percent,
        "confidence": numbers.confidence,
        "short": short_hash,
    }
    environment.tests["numeric"] = lambda cell: not isinstance(cell, str) or bool(_NUMERIC.fullmatch(cell))
    return environment
