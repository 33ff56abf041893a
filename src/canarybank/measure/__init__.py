"""Measure what text is worth: MAUVE, precision and recall, variety, concentration of votes, what selection keeps."""

from canarybank.measure.comparison import NEIGHBOURS, Coverage, Mauve, precision_recall
from canarybank.measure.fidelity import Fidelity, selection_fidelity
from canarybank.measure.variety import Concentration, Variety, concentration, variety

__all__ = [
    "NEIGHBOURS",
    "Concentration",
    "Coverage",
    "Fidelity",
    "Mauve",
    "Variety",
    "concentration",
    "precision_recall",
    "selection_fidelity",
    "variety",
]
