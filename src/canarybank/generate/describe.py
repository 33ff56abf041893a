"""Describe a bank's candidate texts: lengths, labels, variety, a sample."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from canarybank.generate.bank import CandidateBank
from canarybank.generate.distinct import words
from canarybank.seeds import stream

__all__ = ["BankStatistics", "describe_bank"]

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class BankStatistics:
    """What a bank looks like: its size, labels, lengths in words, variety, and a sample.

    ``distinct_n`` is the number of different word n-grams over the number of all of them.
    """

    size: int
    labels: Mapping[str, int]
    words: Mapping[str, float]
    distinct_1: float
    distinct_2: float
    distinct_3: float
    sample: tuple[str, ...]


def describe_bank(bank: CandidateBank, *, sample: int = 10, seed: int = 0) -> BankStatistics:
    """Return a bank's statistics and a seeded sample of its texts.

    The formula: distinct n-grams over all n-grams (Li et al., 2016, https://arxiv.org/abs/1510.03055).

    Args:
        bank: The bank.
        sample: How many texts the sample holds.
        seed: The seed of the sample.

    Example:
        >>> from canarybank.generate import CandidateBank
        >>> bank = CandidateBank(("a cat sleeps", "a dog sleeps"), ("pets", "pets"))
        >>> found = describe_bank(bank)
        >>> found.labels, found.words["50%"], round(found.distinct_1, 2), found.distinct_3
        ({'pets': 2}, 3.0, 0.67, 1.0)
    """
    found = [words(text) for text in bank.texts]
    lengths = np.quantile([len(w) for w in found], _QUANTILES) if found else np.zeros(len(_QUANTILES))
    chosen = stream(seed, "sample").permutation(len(bank))[:sample]
    return BankStatistics(
        size=len(bank),
        labels=dict(Counter(bank.labels).most_common()),
        words={f"{q:.0%}": float(x) for q, x in zip(_QUANTILES, lengths, strict=True)},
        distinct_1=_distinct(found, 1),
        distinct_2=_distinct(found, 2),
        distinct_3=_distinct(found, 3),
        sample=tuple(bank.texts[int(i)] for i in chosen),
    )


def _distinct(found: Sequence[Sequence[str]], n: int) -> float:
    grams = [tuple(w[i : i + n]) for w in found for i in range(len(w) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0
