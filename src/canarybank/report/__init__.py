"""Show what a run found: summary, figures, one page, and the same as Markdown, LaTeX, CSV, Parquet and JUnit."""

from canarybank.report.page import PAGE, render_html, render_summary, write_report
from canarybank.report.paper import render_pieces, write_pieces
from canarybank.report.summary import (
    Tone,
    Verdict,
    evolution_headline,
    generator_line,
    summarise_run,
    verdict,
    written_lines,
)
from canarybank.report.tables import GateFiles, gate_markdown, junit, latex_tables, summary_markdown

__all__ = [
    "PAGE",
    "GateFiles",
    "Tone",
    "Verdict",
    "evolution_headline",
    "gate_markdown",
    "generator_line",
    "junit",
    "latex_tables",
    "render_html",
    "render_pieces",
    "render_summary",
    "summarise_run",
    "summary_markdown",
    "verdict",
    "write_pieces",
    "write_report",
    "written_lines",
]
