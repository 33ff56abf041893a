"""Show what a run found: summary, figures, one page, and the same as Markdown, LaTeX, CSV, Parquet and JUnit."""

from canarybank.report.gate_files import GateFiles, gate_markdown, junit
from canarybank.report.latex import latex_tables
from canarybank.report.markdown import summary_markdown
from canarybank.report.page import render_html, render_summary
from canarybank.report.paper import render_pieces, write_pieces
from canarybank.report.statements import generator_line, written_lines
from canarybank.report.summary import evolution_headline, summarise_run
from canarybank.report.verdict import Tone, Verdict, verdict
from canarybank.report.write import PAGE, write_report

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
