"""Show what a run found: summary, figures, one page, and the same as Markdown, LaTeX, CSV, Parquet and JUnit."""

from canarybank.report.certificate import Planted, certificate_markdown, summarise_certificate
from canarybank.report.evidence_figures import density_figure, map_figure, roc_figure, vote_figure
from canarybank.report.evolution import evolution_headline
from canarybank.report.evolution_figures import clouds_figure, epsilon_figure, utility_figure
from canarybank.report.figures import canary_figure, ladder_figure, overview_figure
from canarybank.report.page import PAGE, render_html, render_summary, write_report
from canarybank.report.paper import draw_piece, render_pieces, write_pieces
from canarybank.report.summary import generator_line, summarise_run, written_lines
from canarybank.report.system import summarise_system, system_markdown
from canarybank.report.tables import GateFiles, gate_markdown, junit, latex_tables, summary_markdown
from canarybank.report.verdicts import Number, Tone, Verdict, verdict

__all__ = [
    "PAGE",
    "GateFiles",
    "Number",
    "Planted",
    "Tone",
    "Verdict",
    "canary_figure",
    "certificate_markdown",
    "clouds_figure",
    "density_figure",
    "draw_piece",
    "epsilon_figure",
    "evolution_headline",
    "gate_markdown",
    "generator_line",
    "junit",
    "ladder_figure",
    "latex_tables",
    "map_figure",
    "overview_figure",
    "render_html",
    "render_pieces",
    "render_summary",
    "roc_figure",
    "summarise_certificate",
    "summarise_run",
    "summarise_system",
    "summary_markdown",
    "system_markdown",
    "utility_figure",
    "verdict",
    "vote_figure",
    "write_pieces",
    "write_report",
    "written_lines",
]
