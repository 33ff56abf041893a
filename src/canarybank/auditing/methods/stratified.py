"""A bound from trials in which the canary surely takes part: more power, but it trusts the sampler."""

import numpy as np
from numpy.typing import ArrayLike

from canarybank.auditing.methods.base import FROZEN, Bound, Method
from canarybank.auditing.rates import Array
from canarybank.auditing.trials import Counts
from canarybank.errors import InputError

__all__ = ["STRATIFIED", "stratified"]


class _Stratified(Method):
    included = True

    def require(self, alpha: float, *, delta: float = 0.0, q: float | None = 1.0) -> None:
        super().require(alpha, delta=delta)
        if q is None or not 0 < q <= 1:
            raise InputError(
                f"A {self.name} bound needs q in (0, 1], the probability that an eligible canary takes part, not {q!r}."
            )

    def first_rate(self, tpr: Array, fpr: Array, q: float | None) -> Array:
        q = q or 1.0
        return np.clip((tpr - (1 - q) * fpr) / q, 0.0, 1.0)

    def branches(
        self, tp: ArrayLike, fp: ArrayLike, n1: float, n0: float, *, delta: float, alpha: float, q: float | None
    ) -> tuple[Array, Array]:
        """Return log((1-q) + (q TPR_L - delta)/FPR_U), each end at alpha/2; -inf where q TPR_L <= delta."""
        q, gamma = q or 1.0, alpha / self.tails
        spent, fpr = q * self.ends(tp, n1, gamma)[0] - delta, self.ends(fp, n0, gamma)[1]
        with np.errstate(divide="ignore"):
            forward = np.log(np.where(spent > 0, (1 - q) + spent / fpr, 0.0))
        return forward, np.full_like(forward, -np.inf)


STRATIFIED = _Stratified(
    "stratified",
    f"{FROZEN}; an eligible canary takes part with probability at least q and leaves no trace when it does not, "
    "so it is blind to sampler bugs; two ends at alpha/2 each, forward only, since with an honest sampler the "
    "reverse branch cannot exceed -log(1-q)",
)


def stratified(tp_included: int, fp: int, n1: int, n0: int, *, q: float, delta: float, alpha: float) -> Bound:
    """Return a lower bound on epsilon from trials in which the canary surely takes part, and trials without it.

    P(bound.epsilon > epsilon) <= alpha, where an eligible canary takes part with probability at least q and a canary
    that does not leaves the law of its absence: then TPR >= (1-q) FPR + q TPR_included.
    """
    return STRATIFIED.bound([Counts(tp_included, fp, n1, n0)], delta=delta, alpha=alpha, q=q)
