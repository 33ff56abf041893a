"""Make the paper's tables and figures beside its own numbers."""

from canarybank.paper.piece import Cell, Piece, Span, read_piece, write_piece
from canarybank.paper.pieces import PIECES, finished_pieces, make_all, make_piece, sweep_piece
from canarybank.paper.published import DATASETS, UNPUBLISHED, PaperValue
from canarybank.paper.settings import Order

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
