"""Score many records against many entries by matrix product, with a bound on what rounding did to each score.

The score of a record x and an entry b is |b|² - 2 x·b: their squared distance less |x|², so it ranks entries
as the distance does. One matrix product gives all of them, in an order of summation that is the BLAS's own;
the margin makes whatever is concluded from them independent of that order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from canarybank.mechanism.vectors import Vectors, norms

__all__ = ["Floats", "Scan", "parts", "precision", "score_margin"]

Floats = NDArray[np.floating[Any]]
Lengths = TypeVar("Lengths", bound=Any)

CHUNK_VALUES = 1 << 23
LARGEST_SINGLE_NORM = 1e18
LARGEST_SINGLE_DIMENSION = 100_000


@dataclass(frozen=True, eq=False)
class Scan:
    """Entries made ready to be scored against records in one precision: -2b, and |b|² as one coordinate more."""

    matrix: Floats
    largest: float

    @classmethod
    def of(cls, entries: Vectors, dtype: type[np.floating[Any]], *, multiple: int = 1) -> "Scan":
        """Prepare entries; fill up to a multiple of some count with entries that are farther than any other."""
        length, (count, dimension) = norms(entries), entries.shape
        matrix = np.zeros((count + -count % multiple, dimension + 1), dtype=dtype)
        np.multiply(entries, -2, out=matrix[:count, :dimension], casting="same_kind")
        matrix[:count, dimension] = np.square(length)
        matrix[count:, dimension] = np.finfo(dtype).max / 2  # infinity would be no number where a BLAS meets it with 0
        return cls(matrix, float(length.max()))

    def __len__(self) -> int:
        """Return how many entries are scored, those that fill up counted in."""
        return len(self.matrix)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the precision of scores."""
        return self.matrix.dtype

    def scores(self, records: Vectors, out: Floats | None = None) -> Floats:
        """Return the scores of all pairs, shape (records, entries); ``out`` may offer rows to put them in."""
        # A coordinate of 1 meets |b|²: the product adds it, which a pass over all scores would take a fifth longer for.
        longer = np.ones((len(records), self.matrix.shape[1]), dtype=self.dtype)
        longer[:, :-1] = records
        place = None if out is None else out[: len(records)]
        result: Floats = np.matmul(longer, self.matrix.T, out=place)
        return result

    def margin(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound, for records of these norms, how far any score is from the defined squared distance less |x|²."""
        kind, terms = np.finfo(self.dtype), self.matrix.shape[1]
        return score_margin(lengths, self.largest, terms - 1, float(kind.eps) / 2, float(kind.tiny), terms=terms)


def score_margin(
    lengths: Lengths,
    largest: float,
    dimension: int,
    roundoff: float,
    tiny: float,
    *,
    terms: int | None = None,
    dropped: float = 0.0,
) -> Lengths:
    """Bound how far a score by matrix product is from the defined squared distance less |x|².

    With unit roundoffs u of the product and v of float64, dimension d, n terms summed (d, where a product of parts does
    not sum more), and B the largest entry norm: casting, the product in any order, fused or not, and adding |b|² change
    a score by at most (n+4)u(2|x|B + B²) to first order; terms left out of the product change it by at most their share
    of 2|x|B; the definition's own rounding and that of |x|² add (2d+4)v(|x|+B)²; underflow, flushed to zero or not,
    adds the smallest normal number at most for each operation and casting. Each term is taken with a quarter to spare:
    that covers higher orders and the rounding of a threshold.

    Args:
        lengths: The norms |x| of the records, as an array or a tensor in float64.
        largest: The largest norm B of an entry.
        dimension: The length d of a vector.
        roundoff: The unit roundoff u in which products are summed.
        tiny: The smallest normal number of that format.
        terms: How many products are summed for a score; left out, d.
        dropped: The products that are left out, as a share of |x|B.
    """
    count = (dimension if terms is None else terms) + 8
    reach = lengths + largest
    rounding = count * roundoff * (2 * lengths + largest) * largest + 2 * dropped * lengths * largest
    defined = (dimension + 8) * float(np.finfo(np.float64).eps) * reach * reach
    underflow = 4 * count * tiny * (1 + reach)
    bound: Lengths = 1.25 * (rounding + defined + underflow)
    return bound


def precision(lengths: NDArray[np.float64], entries: Vectors) -> type[np.floating[Any]]:
    """Return float32 where no score can overflow it and its margin stays small, else float64."""
    largest = max(lengths.max(), norms(entries).max())
    fits = largest < LARGEST_SINGLE_NORM and entries.shape[1] < LARGEST_SINGLE_DIMENSION
    return np.float32 if fits else np.float64


def parts(rows: int, columns: int, values: int | None = None, *, at_once: int = 1) -> Iterator[slice]:
    """Cut rows into slices whose tables of so many columns hold so many values each, some eight million by default.

    Of more than two tables ``at_once`` each holds less, so that all hold what two do.
    """
    step = max(1, 2 * (values or CHUNK_VALUES) // max(2, at_once) // columns)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))
