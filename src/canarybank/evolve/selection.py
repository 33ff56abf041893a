"""Choose which candidates stay, by the noisy histogram alone."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import whole

__all__ = ["Keep", "top"]


@dataclass(frozen=True, slots=True)
class Keep:
    """How many candidates stay after a round: ``count``, or else floor(share · bank size), and one at least.

    The bank size counts the probes; the candidates that stay never include one.
    """

    share: float = 0.05
    count: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"The share of candidates that stay must lie in (0, 1], not be {self.share!r}.")
        if self.count is not None:
            object.__setattr__(self, "count", whole("The count of candidates that stay", self.count))

    def of(self, bank_size: int) -> int:
        """Return how many candidates of a bank of this size stay."""
        if self.count is not None:
            return self.count
        # By fractions, for 0.29 · 100 is 28.999999999999996 in floating point.
        return max(1, math.floor(Fraction(str(self.share)) * bank_size))


def top(votes: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return the indices of the ``count`` largest votes, largest first, ties to the lowest index."""
    values = np.asarray(votes, dtype=np.float64)
    if not 1 <= count <= len(values):
        raise InputError(f"{count} candidates cannot stay of {len(values)}; keep at least one and at most all.")
    return np.argsort(-values, kind="stable")[:count].astype(np.int64)
