"""Compare the characters of each entry with those of the other entries of its bank.

Two measures need no data but the bank. *Surprise*: a small model predicts a character from the two before it, by how
many other entries hold the same sequence. An entry's own text and its nearest entries do not count, so neither a text
nor a group of its variants can make itself usual. *Overlap*: the share of short sequences that two entries have in
common. Public text, where given, counts like more entries.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["ALPHABET", "ORDER", "WEIGHT", "Characters", "fold_text"]

ORDER = 3
"""A character is predicted from the ORDER - 1 before it; overlap compares sequences of this length."""
WEIGHT = 2.0
"""How many entries the prediction from a shorter sequence counts as."""
ALPHABET = 4096
"""Without any sequence each of so many characters is as likely; and no character is more surprising than that."""

_BITS = 21
"""The bits of a code point: ORDER of them fit into one number."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def fold_text(text: str) -> str:
    """Return a text without what is only its form: compatibility characters, case, and runs of space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True, eq=False)
class _Table:
    """Which text holds which sequence: a column for each of ``keys``, which are sorted."""

    keys: Ints
    held: csr_array

    @cached_property
    def totals(self) -> Floats:
        """Return the sum of each column."""
        return np.asarray(self.held.sum(axis=0), dtype=np.float64).ravel()

    def total_of(self, keys: Ints) -> Floats:
        """Return the sums of the columns of some keys; of keys that are not here, zero."""
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(np.where(self.keys[at] == keys, self.totals[at], 0.0))


@dataclass(frozen=True, eq=False)
class _Sequences:
    """The sequences of one length: which stands at each place, how each begins, and which text holds what."""

    ids: Ints
    begins: Ints
    whole: _Table
    starts: _Table


@dataclass(frozen=True, eq=False)
class Characters:
    """Texts, taken apart into the sequences of 1 to ORDER characters that each of them holds.

    ``owners`` says which text each place belongs to. The places of a text are its characters and its end.
    """

    texts: int
    owners: Ints
    sequences: tuple[_Sequences, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Characters":
        """Take folded texts apart."""
        codes, owners = _codes([fold_text(text) for text in texts])
        places = np.flatnonzero(owners >= 0)
        owners, keys, found = owners[places], np.zeros(len(places), dtype=np.int64), []
        for length in range(ORDER):
            # The last character stands in the lowest bits, so that a shift leaves the beginning.
            keys = keys + (codes[places - length] << (_BITS * length))
            known = _distinct(keys)
            ids = np.searchsorted(known, keys)
            starts = _distinct(known >> _BITS)
            begins = np.searchsorted(starts, known >> _BITS)
            held = _held(owners, ids, len(texts), len(known))
            whole = _Table(known, held)
            found.append(_Sequences(ids, begins, whole, _Table(starts, _relabelled(held, begins, len(starts)))))
        return cls(len(texts), owners, tuple(found))

    @property
    def lengths(self) -> Ints:
        """Return how many places each text has."""
        return np.bincount(self.owners, minlength=self.texts).astype(np.int64)

    def surprise(
        self,
        left_out: Sequence[Sequence[int]] | Ints,
        counted: NDArray[np.bool_] | None = None,
        beyond: "Characters | None" = None,
    ) -> Floats:
        """Return the mean surprise of the characters of the first texts, in bits: one for each row of ``left_out``.

        The surprise of a place is -log2 of its likelihood or of 1/ALPHABET, whichever is more likely.

        Args:
            left_out: For each of the first texts, those that do not count for it; itself belongs there.
            counted: Which texts count at all; left out, all do.
            beyond: More texts that count. Those of ``left_out`` that do not count here must be among them.
        """
        rows = np.asarray(left_out, dtype=np.int64)
        owners, likelihood = self.likelihoods(rows, counted, beyond)
        bits = -np.log2(np.maximum(likelihood, 1 / ALPHABET))
        return np.asarray(np.bincount(owners, weights=bits, minlength=len(rows)) / self.lengths[: len(rows)])

    def likelihoods(
        self, left_out: Ints, counted: NDArray[np.bool_] | None = None, beyond: "Characters | None" = None
    ) -> tuple[Ints, Floats]:
        """Return the places of the first texts: which text each belongs to, and how likely its character is.

        Let h(s) be the number of texts that count and hold the sequence s, and h(s·) the sum of h(sc) over all
        characters c. With P_0 = 1/ALPHABET, the character c after the n - 1 characters s has

            P_n(c | s) = (h(sc) + WEIGHT P_{n-1}(c | s')) / (h(s·) + WEIGHT)

        where s' is s without its first character. The likelihood is P_ORDER.
        """
        weights = np.ones(self.texts) if counted is None else counted.astype(np.float64)
        rows, columns = np.repeat(np.arange(len(left_out)), left_out.shape[1]), left_out.ravel()
        taken = weights[columns] if beyond is None else np.ones(len(columns))
        near = csr_array((taken, (rows, columns)), shape=(len(left_out), self.texts))
        mine = self.owners < len(left_out)
        owners = self.owners[mine]
        likelihood = np.full(len(owners), 1 / ALPHABET)
        for length, each in enumerate(self.sequences):
            ids = each.ids[mine]
            begins = each.begins[ids]
            seen = _others(each.whole.held, weights, near, owners, ids)
            before = _others(each.starts.held, weights, near, owners, begins)
            if beyond is not None:
                more = beyond.sequences[length]
                seen += more.whole.total_of(each.whole.keys)[ids]
                before += more.starts.total_of(each.starts.keys)[begins]
            likelihood = (seen + WEIGHT * likelihood) / (before + WEIGHT)
        return owners, likelihood

    def overlap(self, others: Ints) -> Floats:
        """Return the share of their sequences that the first texts have in common with others, row by row.

        The share of two texts is the size of the intersection of their sets of sequences, divided by that of the union.
        """
        held = self.sequences[-1].whole.held
        sizes = np.diff(held.indptr)
        rows, columns = np.repeat(np.arange(len(others)), others.shape[1]), others.ravel()
        common = np.asarray(held[rows].multiply(held[columns]).sum(axis=1)).ravel()
        return np.asarray(common / (sizes[rows] + sizes[columns] - common)).reshape(others.shape)


def _codes(texts: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the code points of all texts, and the text that each belongs to.

    Before each text stand ORDER - 1 edges that belong to none (-1), and after it one that does: its end.
    """
    edge = "\0"
    joined = "".join(edge * (ORDER - 1) + text.replace(edge, " ") + edge for text in texts)
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    lengths = np.array([len(text) + ORDER for text in texts], dtype=np.int64)
    owners, starts = np.repeat(np.arange(len(texts)), lengths), np.cumsum(lengths) - lengths
    for place in range(ORDER - 1):
        owners[starts + place] = -1
    return points, owners


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the different values in ascending order, faster than ``np.unique`` for many."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])


def _held(owners: Ints, ids: Ints, texts: int, size: int) -> csr_array:
    """Return which text holds which sequence, once each."""
    rows, columns = np.divmod(_distinct(owners * size + ids), size)
    starts = np.searchsorted(rows, np.arange(texts + 1))
    return csr_array((np.ones(len(rows)), columns, starts), shape=(texts, size))


def _relabelled(held: csr_array, labels: Ints, size: int) -> csr_array:
    """Return the matrix with columns of one label added up."""
    made = csr_array((held.data.copy(), labels[held.indices], held.indptr.copy()), shape=(held.shape[0], size))
    made.sum_duplicates()
    return made


def _others(held: csr_array, weights: Floats, near: csr_array, owners: Ints, ids: Ints) -> Floats:
    """Return the weighted sum of each place's column over the texts that are not left out for the place's own text."""
    size = held.shape[1]
    own = (near @ held).tocsr()
    own.sort_indices()
    keys = np.repeat(np.arange(own.shape[0], dtype=np.int64), np.diff(own.indptr)) * size + own.indices
    wanted = owners * size + ids
    totals = (weights @ held)[ids]
    if not len(keys):
        return np.asarray(totals)
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    # A text that does not count at all has no row of its own, so its sequences may be missing.
    return np.asarray(totals - np.where(keys[at] == wanted, own.data[at], 0.0))
