"""Keep texts apart: exact and near duplicates, by a rule that is stated and exact."""

import hashlib
import itertools
import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from canarybank.errors import InputError

__all__ = ["Distinct", "fold", "jaccard", "shingles", "words"]

_ASCII = {code: None if chr(code) == "'" else " " for code in range(128) if not chr(code).isalnum()}
"""What becomes of the characters that no word keeps, where nothing has to be unified first."""


def words(text: str) -> list[str]:
    """Split a text into folded words: compatibility forms unified, case folded, punctuation dropped."""
    if text.isascii():
        return text.lower().translate(_ASCII).split()
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (c if unicodedata.category(c)[0] in "LMN" else "" if c in "'’" else " " for c in folded)
    return "".join(kept).split()


def fold(text: str) -> str:
    """Return the text with case, space and punctuation folded away; two texts are verbatim equal if these are.

    Symbols count only in a text without letters and digits, so that two such texts can still differ.

    Compatibility forms are unified by NFKC (Unicode Standard Annex 15, https://www.unicode.org/reports/tr15/).

    Args:
        text: Any text.

    Example:
        >>> fold("It's  FINE, really!") == fold("its fine really"), fold("?!")
        (True, '?!')
    """
    return " ".join(words(text)) or "".join(text.split())


def shingles(text: str) -> frozenset[str]:
    """Return the text's word bigrams, or its words when it has fewer than two."""
    found = words(text)
    pairs = frozenset(f"{a} {b}" for a, b in itertools.pairwise(found))
    return pairs or frozenset(found) or frozenset((fold(text),))


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the share of two sets' union that they have in common."""
    common = len(a & b)
    return common / (len(a) + len(b) - common) if a or b else 1.0


class Distinct:
    """Texts of which no two are near duplicates.

    Two texts are duplicates when they fold to the same, and near duplicates when the Jaccard similarity of
    their word bigrams is at least ``similarity``. The search is exact, not probabilistic: two sets that
    similar share an element among each one's first n - ceil(similarity n) + 1 in any fixed order (the order
    is that of the elements' hashes), so only those are indexed.
    """

    def __init__(self, similarity: float = 0.7, texts: Iterable[str] = ()) -> None:
        if not 0 < similarity <= 1:
            raise InputError(f"The similarity of near duplicates must lie in (0, 1], but it is {similarity}.")
        self._similarity = similarity
        self._folded: set[str] = set()
        self._sets: list[frozenset[str]] = []
        self._index: defaultdict[str, list[int]] = defaultdict(list)
        for text in texts:
            if not self.duplicates(text):
                self.add(text)

    def __len__(self) -> int:
        return len(self._folded)

    def duplicates(self, text: str) -> bool:
        """Say whether the text folds to one that is here already."""
        return fold(text) in self._folded

    def resembles(self, text: str) -> bool:
        """Say whether the text is a near duplicate of one that is here already."""
        mine = shingles(text)
        most = len(mine) / self._similarity + 1e-9
        found = {i for shingle in self._prefix(mine) for i in self._index.get(shingle, ())}
        # Sets whose sizes lie further apart than the similarity allows are not compared.
        likely = (each for i in found if self._similarity * len(mine) - 1e-9 <= len(each := self._sets[i]) <= most)
        return any(jaccard(mine, each) >= self._similarity for each in likely)

    def add(self, text: str) -> None:
        """Add a text, whether or not it resembles another."""
        mine = shingles(text)
        self._folded.add(fold(text))
        for shingle in self._prefix(mine):
            self._index[shingle].append(len(self._sets))
        self._sets.append(mine)

    def _prefix(self, mine: frozenset[str]) -> list[str]:
        # The hash is taken from the text, not from Python, whose order changes from process to process.
        ordered = sorted(mine, key=lambda s: hashlib.blake2b(s.encode("utf-8", "replace"), digest_size=8).digest())
        # Rounded down before the ceiling, so that 0.7 * 10 = 7.000000000000001 does not lose an element.
        return ordered[: len(ordered) - math.ceil(self._similarity * len(ordered) - 1e-9) + 1]
