"""Reproduce the paper's tables and figures beside its own numbers."""

from canarybank.experiment.reproduce.ablations import sweep_piece
from canarybank.experiment.reproduce.catalogue import PIECES, finished_pieces, make_all, make_piece
from canarybank.experiment.reproduce.piece import Cell, Piece, Span, read_piece, write_piece
from canarybank.experiment.reproduce.published import DATASETS, UNPUBLISHED, PaperValue
from canarybank.experiment.reproduce.recipe import Order, Scale

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
