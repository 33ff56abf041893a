"""Render a run as one page, and write all forms of its report into a folder.

The page is one file that needs no network, runs no script but its own, and has two themes.
"""

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.mechanism import Mechanism
from canarybank.report.evidence_figures import density_figure, map_figure, roc_figure, vote_figure
from canarybank.report.evolution import round_rows
from canarybank.report.evolution_figures import clouds_figure, epsilon_figure, utility_figure
from canarybank.report.figures import canary_figure, ladder_figure, overview_figure
from canarybank.report.glossary import find_term, glossary
from canarybank.report.one_run import evolved_markdown, one_run_markdown, one_run_parts, one_run_rows
from canarybank.report.summary import summarise_run
from canarybank.report.system import (
    BETTING_COLUMNS,
    EVIDENCE_COLUMNS,
    PLANTED_COLUMNS,
    POWER_COLUMNS,
    counted_rules,
    summarise_system,
    system_markdown,
    system_rows,
)
from canarybank.report.system_figures import rates_figures, system_ladder
from canarybank.report.tables import (
    ATTACK_COLUMNS,
    PREFIX_COLUMNS,
    bounds_stand_on,
    joint_rows,
    joint_sentence,
    known_columns,
    latex_tables,
    prefix_rows,
    result_rows,
    summary_markdown,
    write_csv,
    write_parquet,
)
from canarybank.report.text import decimal, epsilon
from canarybank.report.utility import compared_part
from canarybank.run.folder import Run
from canarybank.store import PRIVATE, SHAREABLE, write_atomic
from canarybank.wording import sentence_case

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["PAGE", "page_of", "render_html", "render_summary", "write_report"]

PAGE = "report.html"
Forms = tuple[dict[str, str], dict[str, list[dict[str, Any]]]]
"""Texts and tables, by the names of their files."""
Parts = tuple[dict[str, Any], dict[str, Any]]
"""The words of a certificate, and its tables and figures."""
_NUMERIC = re.compile(r"[+−-]?[\d.,]+(e[+-]?\d+)?%?( to [\d.,]+)?|∞|—")


def write_report(
    run: Run | Path | str, folder: Path | str | None = None, *, shareable: bool = False
) -> tuple[Path, ...]:
    """Write the page, the summary and the tables of a finished run; return their paths, the page first.

    They go into the run's own folder unless another is given. The same run gives the same bytes. Only their owner may
    read them, unless they are made shareable: they hold statistics of users without noise.

    Args:
        run: A run, or its folder.
        folder: Where the files go; left out, into the run's own folder.
        shareable: Whether others may read the files.

    Example:
        >>> [path.name for path in write_report("runs/demo", "pages")][0]
        'report.html'
    """
    run, mode = run if isinstance(run, Run) else Run.open(run), SHAREABLE if shareable else PRIVATE
    target = run.folder if folder is None else Path(folder)
    forms = {"system": _system_forms, "one-run": _one_run_forms}.get(run.kind, _audit_forms)
    texts, tables = forms(run)
    for name, text in texts.items():
        write_atomic(target / name, text, mode=mode)
    for name, rows in tables.items():
        write_csv(rows, target / f"{name}.csv", mode=mode)
        write_parquet(rows, target / f"{name}.parquet", mode=mode)
    return tuple(
        target / name for name in (*texts, *(f"{name}.{kind}" for name in tables for kind in ("csv", "parquet")))
    )


def _audit_forms(run: Run) -> Forms:
    """Return the texts and the tables of an audit or an evolution, by their names."""
    summary, tables, certified = summarise_run(run), {}, one_run_parts(run)
    texts = {PAGE: render_summary(summary, certified)}
    if certified is not None:
        texts |= {"summary.md": evolved_markdown(summary, certified[0])}
        tables["results"] = one_run_rows(run)
    if summary["verdict"]:
        texts |= {"summary.md": summary_markdown(summary), "results.tex": latex_tables(summary)}
        tables["results"] = result_rows(run.results)
    if summary["evolution"] and summary["evolution"]["rounds"]:
        tables["rounds"] = round_rows(run.results)
    return texts, tables


def _system_forms(run: Run) -> Forms:
    """Return the texts and the tables of a system's audit; without a table where nothing is stated of its runs."""
    summary, rows = summarise_system(run), system_rows(run)
    texts = {PAGE: _system_page(run, summary), "summary.md": system_markdown(summary)}
    return texts, {"results": rows} if rows else {}


def _one_run_forms(run: Run) -> Forms:
    """Return the texts and the table of an audit of one run."""
    page, summary = _one_run_page(run)
    return {PAGE: page, "summary.md": one_run_markdown(summary)}, {"results": one_run_rows(run)}


def _one_run_page(run: Run) -> tuple[str, dict[str, Any]]:
    """Return the page of an audit of one run, and the summary that it was made from."""
    made = one_run_parts(run)
    assert made is not None  # noqa: S101, such a run has a certificate, or is not finished
    summary, parts = made
    return page_of("one_run.html", version=summary["version"], summary=summary, parts=parts), summary


def _system_page(run: Run, summary: dict[str, Any]) -> str:
    claim, rules, parts = run.system_results.found.claim, counted_rules(run), dict[str, Any]()
    if summary["rungs"]:
        parts = {
            "evidence": known_columns(EVIDENCE_COLUMNS, summary["evidence"]),
            "powers": (POWER_COLUMNS, summary["powers"]),
            "betting": (BETTING_COLUMNS, summary["betting"]),
            "rates": rates_figures(rules, claim, summary["rules"]) if rules else (),
            "ladder": system_ladder(summary["rungs"], summary["system"]),
        }
    planted = known_columns(PLANTED_COLUMNS, summary["planted"]["rows"])
    given = {"version": summary["version"], "summary": summary, "planted": planted, "evidence": None}
    return page_of("system.html", **given | parts)


def render_html(run: Run) -> str:
    """Return the page of a finished run.

    Args:
        run: A finished run of any kind.

    Example:
        >>> render_html(Run.open("runs/demo")).splitlines()[0]
        '<!DOCTYPE html>'
    """
    if run.kind == "one-run":
        return _one_run_page(run)[0]
    if run.kind == "system":
        return _system_page(run, summarise_system(run))
    return render_summary(summarise_run(run), one_run_parts(run))


def render_summary(summary: dict[str, Any], certified: Parts | None = None) -> str:
    """Return the page of a summary, with the words and figures of its certificate where an evolution has one.

    The same summary gives the same bytes.

    Args:
        summary: What ``summarise_run`` returns.
        certified: The words of the certificate, and its tables and figures; None where there is none.

    Example:
        >>> summary = summarise_run(Run.open("runs/demo"))
        >>> render_summary(summary) == render_summary(summary)
        True
    """
    evolution = summary["evolution"]
    parts = _audit_parts(summary) if summary["verdict"] else {"panels": []}
    if evolution:
        names = ("mauve", "precision", "recall", "distinct_2")
        costs = [(each["round"], *(decimal(each[name], "+") for name in names)) for each in evolution["cost"]]
        parts |= {
            "epsilon_figure": epsilon_figure(summary) if evolution["rounds"] else None,
            "utility_figure": utility_figure(evolution),
            "compared": compared_part(evolution["utility"]),
            "clouds_figure": clouds_figure(evolution["clouds"]) if evolution["clouds"] else None,
            "costs": known_columns(("after round", "MAUVE", "precision", "recall", "distinct pairs"), costs),
            "prefixes": known_columns(PREFIX_COLUMNS, prefix_rows(summary["prefixes"])),
        }
    section, figures = certified or (None, None)
    given = {"summary": summary, "evolution": evolution, "certificate": section, "certificate_parts": figures}
    return page_of("page.html", version=summary["version"], **given, **parts)


def page_of(template: str, **values: Any) -> str:
    """Return a template filled with values, our style, our script, and a policy that allows nothing else."""
    style, script = _resource("style.css"), _resource("script.js")
    page = _environment().get_template(template)
    html = page.render(style=style, script=script, policy=_policy(style, script), glossary=glossary(), **values)
    return html.strip() + "\n"


def _audit_parts(summary: dict[str, Any]) -> dict[str, Any]:
    attacks, exact, mechanism = summary["attacks"], summary["epsilon"], Mechanism(**summary["mechanism"])
    ledgers = [("verdict: ", summary["gate"]), *(("", attack["ledger"]) for attack in attacks)]
    return {
        "stands_on": bounds_stand_on(summary),
        "by_attack": known_columns(ATTACK_COLUMNS, joint_rows(summary)),
        "joint": joint_sentence(summary),
        "joint_epsilon": epsilon(summary["joint"]["epsilon"]),
        "ledger_rows": [
            (f"{prefix}{name}", f"{share:.4g}", f"{ledger['total']:g}")
            for prefix, ledger in ledgers
            for name, share in ledger["entries"]
        ],
        "ladder": ladder_figure(attacks[summary["strongest"]]),
        "notes": _shared_notes(attacks),
        "overview": overview_figure(attacks, exact, summary["accounted"]),
        "canaries": canary_figure(attacks, exact),
        "panels": [
            {
                "attack": attack,
                "index": index,
                "pair": (
                    roc_figure(attack, mechanism, exact, f"roc-{index}"),
                    density_figure(attack, mechanism.q, f"densities-{index}"),
                ),
                "figures": (vote_figure(attack, f"votes-{index}"), map_figure(attack, f"map-{index}")),
            }
            for index, attack in enumerate(attacks)
            if attack["evidence"]
        ],
    }


def _shared_notes(attacks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return every note on attacks once, after the names of all attacks that it is on."""
    notes = dict.fromkeys(note for attack in attacks for note in attack["notes"])
    return [(", ".join(attack["name"] for attack in attacks if note in attack["notes"]), note) for note in notes]


def _policy(style: str, script: str) -> str:
    """Return a content-security policy that allows our own style and script by their hashes, and nothing else."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    own = "style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:".format(*hashes)
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


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
    environment.filters["sentence_case"] = sentence_case
    environment.filters["term"] = find_term
    environment.tests["numeric"] = lambda cell: not isinstance(cell, str) or bool(_NUMERIC.fullmatch(cell))
    return environment
