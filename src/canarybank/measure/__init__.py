"""Measure what text is worth: against real text, by its labels, by its variety; and what selection keeps of votes."""

from canarybank.measure.balls import NEIGHBOURS, Balls, Coverage, expected_coverage, precision_recall
from canarybank.measure.comparison import Mauve, frechet_distance
from canarybank.measure.fidelity import Fidelity, selection_fidelity
from canarybank.measure.labels import Agreement, Classifier, Task, downstream_task, label_agreement
from canarybank.measure.variety import Concentration, Variety, concentration, effective_texts, variety
from canarybank.measure.worth import Compared, TextSet, Worth, common_size, compare_texts, halves

__all__ = [
    "NEIGHBOURS",
    "Agreement",
    "Balls",
    "Classifier",
    "Compared",
    "Concentration",
    "Coverage",
    "Fidelity",
    "Mauve",
    "Task",
    "TextSet",
    "Variety",
    "Worth",
    "common_size",
    "compare_texts",
    "concentration",
    "downstream_task",
    "effective_texts",
    "expected_coverage",
    "frechet_distance",
    "halves",
    "label_agreement",
    "precision_recall",
    "selection_fidelity",
    "variety",
]
