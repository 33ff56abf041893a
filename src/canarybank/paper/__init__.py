"""Reproduce the paper's tables and figures beside its own numbers."""

from canarybank.paper.ablations import sweep_piece
from canarybank.paper.catalogue import PIECES, finished_pieces, make_all, make_piece
from canarybank.paper.piece import Cell, Piece, Span, read_piece, write_piece
from canarybank.paper.published import DATASETS, UNPUBLISHED, PaperValue
from canarybank.paper.recipe import Order, Scale

__all__ = [
    "DATASETS",
    "PIECES",
    "UNPUBLISHED",
    "Cell",
    "Order",
    "PaperValue",
    "Piece",
    "Scale",
    "Span",
    "finished_pieces",
    "make_all",
    "make_piece",
    "read_piece",
    "sweep_piece",
    "write_piece",
]
