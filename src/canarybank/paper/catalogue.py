"""List the pieces of the paper and make them, one or all."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from canarybank.errors import CohortError, ConfigError, MissingError
from canarybank.paper.ablations import ablations
from canarybank.paper.multiround import multiround
from canarybank.paper.piece import Piece, read_piece, write_piece
from canarybank.paper.recipe import Order
from canarybank.paper.tables import encoders_table, full_table, main_table

__all__ = ["PIECES", "finished_pieces", "make_all", "make_piece"]

PIECES: Final[Mapping[str, Callable[[Order], Piece]]] = MappingProxyType(
    {
        "main": main_table,
        "full": full_table,
        "ablations": ablations,
        "multiround": multiround,
        "encoders": encoders_table,
    }
)
"""The tables and figures of the paper by name, in its order."""


def make_piece(name: str, order: Order) -> Piece:
    """Make one table or figure, or go on with it, and keep it in the order's folder."""
    piece = PIECES[name](order)
    write_piece(piece, order.folder)
    return piece


def make_all(order: Order) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """Make every table and figure for which everything is here, and say what is missing for the others."""
    made, left = [], []
    for name in PIECES:
        try:
            made.append(make_piece(name, order))
        except (CohortError, ConfigError, MissingError) as error:
            if not made:
                raise
            left.append(f"{name} was left out: {error}")
    return tuple(made), tuple(left)


def finished_pieces(order: Order) -> tuple[Piece, ...]:
    """Return every piece that is finished in the order's folder, in the paper's order."""
    paths = [order.folder / f"{name}.json" for name in PIECES]
    return tuple(read_piece(path) for path in paths if path.is_file())
