"""Write pieces of the paper, or a sweep: CSV, LaTeX, SVG and PDF of each, and one page with a section for each."""

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from canarybank import __version__
from canarybank.audit import own_method
from canarybank.experiment.reproduce import UNPUBLISHED, Cell, Piece
from canarybank.report.latex import latex_table
from canarybank.report.numbers import confidence
from canarybank.report.page import page_of
from canarybank.report.paper_figures import alternative, figure_bytes
from canarybank.report.paper_rows import piece_rows, shown_columns, shown_rows
from canarybank.report.rows import write_csv
from canarybank.report.text import clean
from canarybank.store import write_atomic

__all__ = ["piece_latex", "render_pieces", "stands_on", "write_pieces"]

_PACKAGES = "% Needs \\usepackage{booktabs} and \\usepackage{textcomp}. Made by canarybank; not differentially private."


def write_pieces(pieces: Sequence[Piece], folder: Path, *, title: str = "the paper, reproduced") -> Path:
    """Write every form of every piece into a folder, and the page of all; return the page.

    The same pieces give the same bytes.
    """
    for piece in pieces:
        write_csv(piece_rows(piece), folder / f"{piece.name}.csv")
        write_atomic(folder / f"{piece.name}.tex", piece_latex(piece))
        for kind in ("svg", "pdf"):
            write_atomic(folder / f"{piece.name}.{kind}", figure_bytes(piece, kind))
    page = folder / "index.html"
    write_atomic(page, render_pieces(pieces, title=title))
    return page


def render_pieces(pieces: Sequence[Piece], *, title: str = "the paper, reproduced") -> str:
    """Return one page with a section for each piece."""
    return page_of("paper.html", title=title, version=__version__, sections=[_section(piece) for piece in pieces])


def piece_latex(piece: Piece) -> str:
    """Return a piece as a LaTeX table, with what its figures stand on in the caption."""
    table = latex_table(shown_columns(piece), shown_rows(piece), f"{piece.title}. {stands_on(piece)}")
    notes = "".join(f"% {clean(note, 400)}\n" for note in piece.notes)
    return f"{_PACKAGES}\n{notes}{table}\n"


def stands_on(piece: Piece) -> str:
    """Say what a piece's figures stand on."""
    cells = piece.cells
    text = (
        f"Observed: lower bound {_either(_rule(cell) for cell in cells)} at "
        f"{_either(confidence(cell.confidence) for cell in cells)} confidence, "
        f"{_either(f'{trials:,}' for trials in sorted(cell.trials for cell in cells))} trials of each hypothesis of "
        f"each canary, delta {_either(f'{cell.delta:g}' for cell in cells)}, thresholds "
        f"{_either(cell.threshold for cell in cells)}. Exact figures need no trials."
    )
    if any(cell.explained is not None for cell in piece.cells):
        text += " Explained: whether the observed bound lies where sampling alone puts it."
    if any(cell.paper for cell in piece.cells):
        text += (
            " Paper: where its two tables differ, the main table's value stands first; an asterisk marks a value that "
            "sampling alone could give on the users and bank here."
        )
    if piece.unpublished:
        text += f" Paper: it has a plot, so each of its values is {UNPUBLISHED}."
    return text


def _rule(cell: Cell) -> str:
    """Say how the bound of a cell comes from its canaries."""
    method = own_method(cell.method)
    if cell.canaries == 1:
        over = "of one canary"
    elif method is not None and method.pools:
        over = f"from the counts of {cell.canaries} canaries together"
    else:
        over = f"the largest over {cell.canaries} canaries"
    return f"{over} by the method {cell.method}"


def _either(values: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(values))


def _section(piece: Piece) -> dict[str, Any]:
    return {
        "name": piece.name,
        "title": piece.title,
        "about": piece.about,
        "setup": [(name, clean(value, 400)) for name, value in piece.setup.items()],
        "notes": [clean(note, 600) for note in piece.notes],
        "image": base64.b64encode(figure_bytes(piece, "svg")).decode(),
        "alternative": alternative(piece),
        "columns": shown_columns(piece),
        "rows": shown_rows(piece),
        "legend": stands_on(piece),
    }
