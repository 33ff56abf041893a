"""Write pieces of the paper, or a sweep: CSV, LaTeX, SVG and PDF of each, and one page with a section for each."""

import base64
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from canarybank import __version__
from canarybank.auditing import own_method
from canarybank.paper import DATASETS, UNPUBLISHED, Cell, Piece, Span
from canarybank.report.page import page_of
from canarybank.report.paper_figures import alternative, figure_bytes
from canarybank.report.tables import PACKAGES, latex_table, write_csv
from canarybank.report.text import UNKNOWN, clean, confidence, decimal, epsilon, interval_text, setting_text
from canarybank.store import write_atomic

__all__ = ["piece_latex", "piece_rows", "render_pieces", "shown_columns", "shown_rows", "stands_on", "write_pieces"]

_CLAIMS = {None: UNKNOWN, "stands": "no violation", "fails": "FAILS"}
_EXPLAINED = {None: UNKNOWN, True: "yes", False: "NO"}


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
    sections = [
        {
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
        for piece in pieces
    ]
    return page_of("paper.html", title=title, version=__version__, sections=sections)


def piece_latex(piece: Piece) -> str:
    """Return a piece as a LaTeX table, with what its figures stand on in the caption."""
    table = latex_table(shown_columns(piece), shown_rows(piece), f"{piece.title}. {stands_on(piece)}")
    notes = "".join(f"% {clean(note, 400)}\n" for note in piece.notes)
    return f"{PACKAGES}\n{notes}{table}\n"


def piece_rows(piece: Piece) -> list[dict[str, Any]]:
    """Return a row for each cell, numbers as they are; the paper's stand in columns of their own."""
    tables = sorted({(value.dataset, value.table) for cell in piece.cells for value in cell.paper})
    return [
        {
            **cell.at,
            **({"paper": UNPUBLISHED} if piece.unpublished else {}),
            **dict.fromkeys(f"paper: {dataset}, {table}" for dataset, table in tables),
            **{f"paper: {value.dataset}, {value.table}": value.value for value in cell.paper},
            "observed": cell.observed,
            "exact": as_number(cell.exact),
            "exact_rule": as_number(cell.rule),
            "expected": as_number(cell.expected),
            "expected_05": as_number(cell.likely.low),
            "expected_95": as_number(cell.likely.high),
            "sampling_low": None if cell.explained is None else as_number(cell.explained.low),
            "sampling_high": None if cell.explained is None else as_number(cell.explained.high),
            "explained": cell.is_explained,
            "mechanism": cell.mechanism,
            "accounted": cell.accounted,
            "claim": cell.claim,
            "method": cell.method,
            "confidence": cell.confidence,
            "trials": cell.trials,
            "canaries": cell.canaries,
            "threshold": cell.threshold,
            "delta": cell.delta,
            **{name: cell.more.get(name) for name in _more(piece)},
        }
        for cell in piece.cells
    ]


def shown_columns(piece: Piece) -> tuple[str, ...]:
    """Return the heads of the table for people; where the paper has no number for any cell, it has no column."""
    return tuple(_columns(piece))


def shown_rows(piece: Piece) -> list[tuple[str, ...]]:
    """Return the rows of the table for people."""
    return list(zip(*_columns(piece).values(), strict=True))


def _columns(piece: Piece) -> dict[str, list[str]]:
    """Return the columns of the table for people, each with a word for every cell."""
    cells = piece.cells
    columns = {name: [setting_text(cell.at[name]) for cell in cells] for name in piece.coordinates}
    if datasets := dict.fromkeys(value.dataset for cell in cells for value in cell.paper):
        head = f"paper ({'; '.join(DATASETS.get(name, name) for name in datasets)})"
        columns[head] = [_paper_words(cell) for cell in cells]
    columns |= {
        "observed": [epsilon(cell.observed) for cell in cells],
        "exact": [epsilon(as_number(cell.exact)) for cell in cells],
        "at rule": [epsilon(as_number(cell.rule)) for cell in cells],
        "expected": [epsilon(as_number(cell.expected)) for cell in cells],
        "5% to 95%": [_span_text(cell.likely) for cell in cells],
    }
    if any(cell.explained is not None for cell in cells):
        columns["99.9% sampling"] = [_span_text(cell.explained) for cell in cells]
        columns["explained"] = [_EXPLAINED[cell.is_explained] for cell in cells]
    more = _more(piece)
    if "theory" not in more and len({cell.mechanism for cell in cells}) > 1:
        columns["mechanism"] = [epsilon(cell.mechanism) for cell in cells]
    if any(cell.claim is not None for cell in cells):
        columns["claim"] = [_CLAIMS[cell.claim] for cell in cells]
    for name in more:
        columns[name] = [decimal(cell.more.get(name)) for cell in cells]
    return columns


def as_number(value: float | None) -> float:
    """Return a number, infinite where it is None: a piece's file cannot hold an infinite one."""
    return math.inf if value is None else value


def _span_text(span: Span | None) -> str:
    return interval_text(None if span is None else {"low": as_number(span.low), "high": as_number(span.high)})


def _more(piece: Piece) -> list[str]:
    return sorted({name for cell in piece.cells for name in cell.more})


def _paper_words(cell: Cell) -> str:
    """Return the paper's numbers by dataset, marking those that sampling alone could give here."""
    words: dict[str, list[str]] = {}
    for value in cell.paper:
        mark = "*" if cell.explains(value.value) else ""
        words.setdefault(value.dataset, []).append(f"{value.value:.3f}{mark}")
    return "; ".join("/".join(values) for values in words.values()) or UNPUBLISHED


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
    if any(cell.explained is not None for cell in cells):
        text += " Explained: whether the observed bound lies where sampling alone puts it."
    if any(cell.paper for cell in cells):
        text += (
            " Paper: where its two tables differ, the main table's value stands first; an asterisk marks a value that "
            "sampling alone could give on the users and bank here."
        )
    if piece.unpublished:
        text += f" Paper: it has a plot, so each of its values is {UNPUBLISHED}."
    return text


def _rule(cell: Cell) -> str:
    """Say how the bound of a cell comes from its canaries."""
    over, method = f"the largest over {cell.canaries} canaries", own_method(cell.method)
    if cell.canaries == 1:
        over = "of one canary"
    elif method is not None and method.pools:
        over = f"from the counts of {cell.canaries} canaries together"
    return f"{over} by the method {cell.method}"


def _either(values: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(values))
