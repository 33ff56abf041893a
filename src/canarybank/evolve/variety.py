"""Measure how varied texts are: distinct n-grams, copies and near copies."""

from collections.abc import Sequence
from dataclasses import dataclass

from canarybank.errors import InputError
from canarybank.generate import Distinct
from canarybank.generate.distinct import words

__all__ = ["Variety", "variety"]


@dataclass(frozen=True, slots=True)
class Variety:
    """How varied some texts are.

    ``distinct_n`` is the number of different word n-grams over the number of all of them, 0 where there are none.
    """

    distinct_1: float
    distinct_2: float
    distinct_3: float
    duplicates: float
    """The share of texts that repeat an earlier one, case and punctuation aside."""
    near_duplicates: float
    """The share of texts that repeat an earlier one or share most of its word pairs."""


def variety(texts: Sequence[str], *, similarity: float = 0.7) -> Variety:
    """Return how varied texts are; near copies share at least ``similarity`` of their word pairs, by Jaccard."""
    if not texts or isinstance(texts, str):
        raise InputError("Variety is measured over a list of at least one text.")
    found = [words(text) for text in texts]
    seen, copies, near = Distinct(similarity), 0, 0
    for text in texts:
        copy = seen.duplicates(text)
        copies += copy
        near += copy or seen.resembles(text)
        seen.add(text)
    return Variety(
        distinct_1=_distinct(found, 1),
        distinct_2=_distinct(found, 2),
        distinct_3=_distinct(found, 3),
        duplicates=copies / len(texts),
        near_duplicates=near / len(texts),
    )


def _distinct(found: Sequence[Sequence[str]], n: int) -> float:
    grams = [gram for each in found for gram in zip(*(each[i:] for i in range(n)), strict=False)]
    return len(set(grams)) / len(grams) if grams else 0.0
