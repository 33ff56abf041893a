"""Measure how varied texts are, and how concentrated the votes for them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from canarybank.errors import InputError
from canarybank.generate import Distinct
from canarybank.generate.distinct import words
from canarybank.mechanism.vectors import check_vectors

__all__ = ["Concentration", "Variety", "concentration", "effective_texts", "variety"]


@dataclass(frozen=True, slots=True)
class Variety:
    """How varied some texts are.

    ``distinct_n`` is the number of different word n-grams over the number of all of them, 0 where there are none.
    """

    distinct_1: float
    """Different words as a share of all words."""
    distinct_2: float
    """Different pairs of words as a share of all pairs."""
    distinct_3: float
    """Different triples of words as a share of all triples."""
    duplicates: float
    """The share of texts that repeat an earlier one, case and punctuation aside."""
    near_duplicates: float
    """The share of texts that repeat an earlier one or share most of its word pairs."""


def variety(texts: Sequence[str], *, similarity: float = 0.7) -> Variety:
    """Return how varied texts are; near copies share at least ``similarity`` of their word pairs, by Jaccard.

    Args:
        texts: The texts.
        similarity: The share of word pairs from which two texts are near copies.

    Example:
        >>> variety(["a cat sat here", "a cat sat here", "dogs run far away"]).distinct_1 < 1
        True
    """
    if not texts or isinstance(texts, str):
        raise InputError("Variety is measured over a list of at least one text.")
    split = [words(text) for text in texts]
    seen, copies, near = Distinct(similarity), 0, 0
    for text in texts:
        copy = seen.duplicates(text)
        copies += copy
        near += copy or seen.resembles(text)
        seen.add(text)
    ones, twos, threes = (_distinct_share(split, n) for n in (1, 2, 3))
    return Variety(ones, twos, threes, duplicates=copies / len(texts), near_duplicates=near / len(texts))


def _distinct_share(texts: Sequence[Sequence[str]], n: int) -> float:
    grams = [gram for text in texts for gram in zip(*(text[i:] for i in range(n)), strict=False)]
    return len(set(grams)) / len(grams) if grams else 0.0


def effective_texts(vectors: ArrayLike) -> float:
    """Return how many wholly different texts would be as varied as texts with these vectors: the Vendi score.

    It is exp(-sum of l log l) over the eigenvalues l of the matrix of cosine similarities over their number: 1 where
    all vectors are the same, their number where all are orthogonal (Friedman and Dieng, 2023,
    https://arxiv.org/abs/2210.02410). It grows with the number of texts, so compare equal numbers.

    >>> effective_texts([[1, 0], [0, 2], [1, 0], [0, 3]])
    2.0

    Args:
        vectors: The vectors of the texts, a row each.
    """
    table = check_vectors(vectors, "text").astype(np.float64)
    lengths = np.sqrt(np.square(table).sum(axis=1, keepdims=True))
    if not lengths.all():
        raise InputError("A vector of length 0 has no direction; drop empty texts or mend the encoder.")
    unit = table / lengths
    small = unit.T @ unit if unit.shape[1] < len(unit) else unit @ unit.T  # the same eigenvalues but for zeros
    shares = np.linalg.eigvalsh(small) / len(unit)
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


@dataclass(frozen=True, slots=True)
class Concentration:
    """How a round's noisy votes are spread; noise spreads them further than they were."""

    kept_share: float
    """The kept candidates' part of all positive noisy votes of candidates; 0 where no candidate has any."""
    effective: float | None
    """How many candidates with equal votes would have the same sum and sum of squares, both freed of the noise in
    expectation; None where noise drowns the votes."""
    probe_share: float | None
    """The probes' part of all votes, noise included: what auditing took from the candidates; None without probes or
    where noise drowns the votes."""


def concentration(release: ArrayLike, kept: ArrayLike, *, noise: float, reserved: ArrayLike = ()) -> Concentration:
    """Return how the votes of one release are spread: post-processing of it, which costs no privacy.

    Args:
        release: The noisy votes of all bank entries.
        kept: The positions of the candidates that stay.
        noise: The standard deviation of the noise on each entry.
        reserved: The positions of the probes, which are no candidates.

    Example:
        >>> found = concentration([3.0, 0.1, -0.2, 2.0], [0, 3], noise=0.1)
        >>> type(found).__name__
        'Concentration'
    """
    entries = np.asarray(release, dtype=np.float64)
    probes = np.asarray(reserved, dtype=np.int64)
    votes = np.delete(entries, probes)
    positive, total = float(np.maximum(votes, 0.0).sum()), float(entries.sum())
    kept_votes = float(np.maximum(entries[np.asarray(kept)], 0.0).sum())
    noise_squares = len(votes) * noise**2
    squared_sum, sum_of_squares = float(votes.sum()) ** 2 - noise_squares, float(votes @ votes) - noise_squares
    drowned = squared_sum <= 0 or sum_of_squares <= 0
    return Concentration(
        kept_share=kept_votes / positive if positive > 0 else 0.0,
        effective=None if drowned else min(max(squared_sum / sum_of_squares, 1.0), float(len(votes))),
        probe_share=float(entries[probes].sum()) / total if len(probes) and total > 0 else None,
    )
