"""Encode texts by hashing their words: no model, no meaning, no dependency; the public test double.

Each lower-cased word adds plus or minus one at a coordinate that its hash names, and each pair of neighbouring
letters a quarter of that, so texts that share words lie near each other. A vector depends on its text alone,
exactly, on any machine.
"""

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.protocol import Vectors, check_texts, unit_vectors
from canarybank.errors import InputError
from canarybank.store import hash_json

__all__ = ["HashingEncoder"]

_WORD = re.compile(r"\w+")
_PAIR_WEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class HashingEncoder:
    """An encoder for tests: deterministic unit vectors from hashed words."""

    isolated: ClassVar[bool] = True
    cheap: ClassVar[bool] = True
    dimension: int = 64

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise InputError(f"A vector needs at least one coordinate, not {self.dimension}.")

    @property
    def name(self) -> str:
        """Return ``hashing``."""
        return "hashing"

    @property
    def fingerprint(self) -> str:
        """Return the sha256 of the scheme and the dimension."""
        return hash_json({"encoder": "hashing", "scheme": 1, "dimension": self.dimension})

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order."""
        checked = check_texts(texts)
        words = [_WORD.findall(text.lower()) for text in checked]
        places = {word: place for place, word in enumerate(dict.fromkeys(itertools.chain.from_iterable(words)))}
        rows = np.zeros((len(checked), self.dimension))
        if places:
            known = np.array([_word_row(word, self.dimension) for word in places])
            spoken = [place for place, own in enumerate(words) if own]
            starts = np.cumsum([0, *(len(words[place]) for place in spoken[:-1])])
            flat = [places[word] for own in words for word in own]
            # All terms are multiples of a quarter and sums stay small, so no order of summation rounds.
            rows[spoken] = np.add.reduceat(known[flat], starts)
        return unit_vectors(rows)


@lru_cache(maxsize=1 << 16)
def _word_row(word: str, dimension: int) -> NDArray[np.float64]:
    """Return what one word adds to a vector."""
    row = np.zeros(dimension)
    pairs = ((f"{first}{second}/", _PAIR_WEIGHT) for first, second in itertools.pairwise(word))
    for feature, weight in ((word, 1.0), *pairs):
        number = int.from_bytes(hashlib.sha256(feature.encode("utf-8", "surrogatepass")).digest()[:8], "little")
        row[(number >> 1) % dimension] += weight if number & 1 else -weight
    row.setflags(write=False)
    return row
