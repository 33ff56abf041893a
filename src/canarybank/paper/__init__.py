"""Make the paper's tables and figures beside its own numbers."""

from canarybank.paper.piece import DATASETS, UNPUBLISHED, Cell, PaperValue, Piece, Span, read_piece, write_piece
from canarybank.paper.pieces import PIECES, finished_pieces, make_all, make_piece, sweep_piece
from canarybank.paper.runs import Order

__all__ = [
    "DATASETS",
    "PIECES",
    "UNPUBLISHED",
    "Cell",
    "Order",
    "PaperValue",
    "Piece",
    "Span",
    "finished_pieces",
    "make_all",
    "make_piece",
    "read_piece",
    "sweep_piece",
    "write_piece",
]
