"""Measure what text is worth: MAUVE, precision and recall, variety, and how concentrated votes are."""

from canarybank.measure.comparison import NEIGHBOURS, Coverage, Mauve, precision_recall
from canarybank.measure.variety import Concentration, Variety, concentration, variety

__all__ = [
    "NEIGHBOURS",
    "Concentration",
    "Coverage",
    "Mauve",
    "Variety",
    "concentration",
    "precision_recall",
    "variety",
]
