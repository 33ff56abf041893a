"""Lay a piece of the paper, or a sweep, out as rows: numbers for CSV, words for people."""

from typing import Any

from canarybank.paper import DATASETS, UNPUBLISHED, Cell, Piece
from canarybank.report.numbers import epsilon, interval_text

__all__ = ["EXPLAINED", "WORDS", "coordinate", "piece_rows", "shown_columns", "shown_rows"]

WORDS = ("observed", "exact", "at rule", "expected", "5% to 95%")
EXPLAINED = ("99.9% sampling", "explained")
_CLAIMS = {None: "—", "stands": "no violation", "fails": "FAILS"}


def piece_rows(piece: Piece) -> list[dict[str, Any]]:
    """Return a row for each cell, numbers as they are; the paper's stand in columns of their own."""
    columns = sorted({(value.dataset, value.table) for cell in piece.cells for value in cell.paper})
    more = sorted({name for cell in piece.cells for name in cell.more})
    plot = {"paper": UNPUBLISHED} if piece.unpublished else {}
    return [_row(cell, columns, more, plot) for cell in piece.cells]


def shown_columns(piece: Piece) -> tuple[str, ...]:
    """Return the heads of the table for people; where the paper has no number for any cell, it has no column."""
    more = sorted({name for cell in piece.cells for name in cell.more})
    return (
        *piece.coordinates,
        *_paper_head(piece),
        *WORDS,
        *_explained_head(piece),
        *_mechanism_head(piece),
        *_claim_head(piece),
        *more,
    )


def shown_rows(piece: Piece) -> list[tuple[str, ...]]:
    """Return the rows of the table for people."""
    more = sorted({name for cell in piece.cells for name in cell.more})
    heads = (_paper_head, _explained_head, _mechanism_head, _claim_head)
    published, explained, varies, claimed = (bool(head(piece)) for head in heads)
    return [
        (
            *map(coordinate, cell.at.values()),
            *((_paper(cell),) if published else ()),
            *_words(cell),
            *(_explained(cell) if explained else ()),
            *((epsilon(cell.mechanism),) if varies else ()),
            *((_CLAIMS[cell.claim],) if claimed else ()),
            *(f"{cell.more[name]:.3f}" if name in cell.more else "—" for name in more),
        )
        for cell in piece.cells
    ]


def _explained_head(piece: Piece) -> tuple[str, ...]:
    """Return the heads of what sampling alone explains, where it was computed."""
    return EXPLAINED if any(cell.explained is not None for cell in piece.cells) else ()


def _mechanism_head(piece: Piece) -> tuple[str, ...]:
    """Return the head of the mechanism's own epsilon, where rows differ in it and no other column has it."""
    stated = any("theory" in cell.more for cell in piece.cells)
    return () if stated or len({cell.mechanism for cell in piece.cells}) == 1 else ("mechanism",)


def _claim_head(piece: Piece) -> tuple[str, ...]:
    """Return the head of whether the run's own claim stands, where that was asked."""
    return ("claim",) if any(cell.claim is not None for cell in piece.cells) else ()


def _explained(cell: Cell) -> tuple[str, str]:
    span, verdict = cell.explained, {None: "—", True: "yes", False: "NO"}[cell.is_explained]
    return ("—" if span is None else interval_text(span.low, span.high), verdict)


def _words(cell: Cell) -> tuple[str, ...]:
    return (
        epsilon(cell.observed),
        epsilon(cell.exact),
        epsilon(cell.rule),
        epsilon(cell.expected),
        interval_text(cell.likely.low, cell.likely.high),
    )


def _paper(cell: Cell) -> str:
    """Return the paper's numbers by dataset, marking those that sampling alone could give here."""
    parts: dict[str, list[str]] = {}
    for value in cell.paper:
        mark = "*" if cell.explains(value.value) else ""
        parts.setdefault(value.dataset, []).append(f"{value.value:.3f}{mark}")
    return "; ".join("/".join(values) for values in parts.values()) or UNPUBLISHED


def _paper_head(piece: Piece) -> tuple[str, ...]:
    """Return the head of the paper's column: which datasets its numbers in a row are of, in their order."""
    names = dict.fromkeys(value.dataset for cell in piece.cells for value in cell.paper)
    return (f"paper ({'; '.join(DATASETS.get(name, name) for name in names)})",) if names else ()


def _row(cell: Cell, columns: list[tuple[str, str]], more: list[str], plot: dict[str, str]) -> dict[str, Any]:
    paper = {(value.dataset, value.table): value.value for value in cell.paper}
    explained = cell.explained
    return {
        **cell.at,
        **plot,
        **{f"paper: {dataset}, {table}": paper.get((dataset, table)) for dataset, table in columns},
        "observed": cell.observed,
        "exact": _number(cell.exact),
        "exact_rule": _number(cell.rule),
        "expected": _number(cell.expected),
        "expected_05": _number(cell.likely.low),
        "expected_95": _number(cell.likely.high),
        "sampling_low": None if explained is None else _number(explained.low),
        "sampling_high": None if explained is None else _number(explained.high),
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
        **{name: cell.more.get(name) for name in more},
    }


def coordinate(value: str | float) -> str:
    """Write a value of a swept key as people would."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float | None) -> float:
    return float("inf") if value is None else value
