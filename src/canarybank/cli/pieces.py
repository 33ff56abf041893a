"""Print tables and figures of the paper, and sweeps, for the commands that make them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.paper import Piece

__all__ = ["print_pieces"]


def print_pieces(
    command: str, pieces: "tuple[Piece, ...]", page: Path, output: Output, *, left: tuple[str, ...] = ()
) -> None:
    """Print each piece as a table with what it stands on, and where its files are."""
    from canarybank.report.paper import shown_columns, shown_rows, stands_on

    parts: list[Any] = []
    for piece in pieces:
        lines = {**piece.setup, "stands on": stands_on(piece)}
        if piece.notes:
            lines["notes"] = " ".join(piece.notes)
        lines["files"] = ", ".join(str(page.parent / f"{piece.name}.{kind}") for kind in ("csv", "tex", "svg", "pdf"))
        heads = [head.replace(" (", "\n(").replace("; ", ";\n") for head in shown_columns(piece)]
        rows = [[word.replace("; ", ";\n") for word in row] for row in shown_rows(piece)]
        leading = heads.index("observed")
        parts += [paragraph(piece.title, "bold"), table(heads, rows, text=leading, whole=leading), facts(lines)]
    document = {
        "pieces": [piece.model_dump(mode="json", exclude={"schema_version", "canarybank"}) for piece in pieces],
        "left_out": list(left),
        "page": str(page),
    }
    output.result(command, document, *parts, paragraph("\n".join((*left, f"page: {page}"))))
