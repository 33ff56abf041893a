"""One bound from the counts of several canaries together, at all of alpha."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from canarybank.auditing.methods.base import FROZEN, Bound, Branch, Method
from canarybank.auditing.methods.clopper_pearson import CLOPPER_PEARSON
from canarybank.auditing.rates import Array, ends, whole_counts
from canarybank.auditing.trials import Counts
from canarybank.errors import InputError

__all__ = ["POOLED", "pooled"]


class _Pooled(Method):
    pools = True
    largest_alpha = 0.5
    # A forward and a reverse rule cancel each other in the summed counts: all canaries aim at the same branch.
    aims: ClassVar[tuple[Branch | None, ...]] = (Branch.FORWARD, Branch.REVERSE)

    @property
    def single(self) -> Method:
        return CLOPPER_PEARSON

    def ends(self, x: ArrayLike, n: ArrayLike, gamma: float) -> tuple[Array, Array]:
        """Return the two one-sided bounds of the mean rate of n independent trials whose rates may all differ.

        For X a sum of n independent Bernoulli variables with mean rate p: P(lower(X) > p) <= gamma and
        P(upper(X) < p) <= gamma, for gamma <= 1/4. Such a sum is more concentrated than Bin(n, p) beyond its mean ± 1
        (Hoeffding 1956), where every Clopper–Pearson cut-off lies but two: one success when less than one is expected,
        and one failure likewise. There P(X >= 1) <= n p gives gamma / n.
        """
        lower, upper = ends(x, n, gamma)
        x, n = np.asarray(x, np.float64), np.asarray(n, np.float64)
        return np.where(x == 1, gamma / n, lower), np.where(x == n - 1, 1 - gamma / n, upper)

    def bound(self, counts: Sequence[Counts], *, delta: float, alpha: float, q: float | None = None) -> Bound:
        found = super().bound(counts, delta=delta, alpha=alpha, q=q)
        n1, n0 = found.trials
        for canary, each in enumerate(counts):
            if each.n1 * n0 != each.n0 * n1:
                raise InputError(
                    f"Canary {canary} has {each.n1} of {n1} trials with it eligible, but {each.n0} of {n0} without it. "
                    "Unequal shares mix canaries of different rates differently in the two sums, which alone can make "
                    "the pooled rates violate what every canary meets (Simpson's paradox); give each canary equal "
                    "shares."
                )
        return found


POOLED = _Pooled(
    "pooled",
    f"{FROZEN}, also across canaries (no shared releases), and every canary with the same share of the trials of "
    "both hypotheses; two ends at alpha/2 each on counts summed over canaries, valid for unequal canaries",
)


def pooled(tp: ArrayLike, fp: ArrayLike, n1: ArrayLike, n0: ArrayLike, *, delta: float, alpha: float) -> Bound:
    """Return a lower bound on epsilon from the counts of several canaries together, one entry a canary.

    P(bound.epsilon > epsilon) <= alpha for every epsilon at which all canaries' rates meet the definition, even
    where those rates differ: with equal shares of the trials their means meet it too.
    """
    given = {"tp": tp, "fp": fp, "n1": n1, "n0": n0}
    arrays = [np.atleast_1d(whole_counts(name, value)) for name, value in given.items()]
    length = max(len(array) for array in arrays)
    if any(array.ndim > 1 or len(array) not in {1, length} for array in arrays) or length == 0:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(given, arrays, strict=True))
        raise InputError(f"Counts and trials need one entry a canary, but the shapes are {shapes}.")
    rows = zip(*(np.broadcast_to(array, length).tolist() for array in arrays), strict=True)
    return POOLED.bound([Counts(*row) for row in rows], delta=delta, alpha=alpha)
