"""Turn counts of true and false positives into a lower bound on epsilon that says what it stands on.

tp of n1 trials with the canary eligible and fp of n0 trials with it absent called the canary present. Forward is
the claim P1(A) <= exp(epsilon) P0(A) + delta about the event "present", reverse the one about its complement with
the hypotheses exchanged: epsilon is that of adding or removing one user, so both must hold.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.audit.joint import joint_epsilon
from canarybank.audit.rates import (
    Ends,
    count_epsilons,
    ends,
    pooled_ends,
    probability,
    small_probability,
    stratified_epsilon,
    whole_counts,
)
from canarybank.errors import InputError

__all__ = ["FEW_EVENTS", "REVERSE_SHARE", "Bound", "Branch", "Method", "epsilon_lower", "pooled", "stratified"]

FEW_EVENTS: Final = 10
"""Below this many events of a kind a bound says more about the number of trials than about the rate."""
REVERSE_SHARE: Final = 0.05
"""The part of alpha that ``joint`` gives to the reverse branch."""
LARGEST_POOLED_ALPHA: Final = 0.5


class Method(StrEnum):
    """How counts become a bound."""

    PAPER = "paper"
    CLOPPER_PEARSON = "clopper-pearson"
    JOINT = "joint"
    POOLED = "pooled"
    STRATIFIED = "stratified"

    @property
    def assumption(self) -> str:
        """Say what the bound stands on."""
        return _ASSUMPTIONS[self]

    @property
    def pools(self) -> bool:
        """Say whether all canaries are one bound at all of alpha."""
        return self is Method.POOLED

    @property
    def included(self) -> bool:
        """Say whether the trials that are counted are those of a canary that surely takes part."""
        return self is Method.STRATIFIED

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the method of that name, or say which there are."""
        if name not in tuple(cls):
            raise InputError(f"The method must be one of {', '.join(cls)}, not {str(name)!r}.")
        return cls(name)


class Branch(StrEnum):
    """Which direction of the definition gave the bound."""

    FORWARD = "forward"
    REVERSE = "reverse"
    NONE = "none"


_FROZEN: Final = "independent trials within each hypothesis, the rule frozen before them"
_ASSUMPTIONS: Final = {
    Method.PAPER: f"{_FROZEN}; four one-sided Clopper–Pearson ends at alpha/4 each, both branches",
    Method.CLOPPER_PEARSON: (
        f"{_FROZEN}; two one-sided Clopper–Pearson ends at alpha/2 each, which serve both branches because "
        "TNR_L = 1 - FPR_U and FNR_U = 1 - TPR_L"
    ),
    Method.JOINT: (
        f"{_FROZEN}, and the hypotheses independent of each other (no common random numbers); forward by Buehler's "
        f"ordering at {1 - REVERSE_SHARE:g} alpha, reverse by Clopper–Pearson at {REVERSE_SHARE:g} alpha"
    ),
    Method.POOLED: (
        f"{_FROZEN}, also across canaries (no shared releases), and every canary with the same share of the trials of "
        "both hypotheses; two ends at alpha/2 each on counts summed over canaries, valid for unequal canaries"
    ),
    Method.STRATIFIED: (
        f"{_FROZEN}; an eligible canary takes part with probability at least q and leaves no trace when it does not, "
        "so it is blind to sampler bugs; two ends at alpha/2 each, forward only, since with an honest sampler the "
        "reverse branch cannot exceed -log(1-q)"
    ),
}


@dataclass(frozen=True, slots=True, repr=False)
class Bound:
    """A lower bound on epsilon at delta, with what it stands on.

    Where the assumption holds, the probability that ``epsilon`` exceeds the true one is at most 1 - confidence.
    """

    epsilon: float
    method: Method
    assumption: str
    confidence: float
    delta: float
    trials: tuple[int, int]
    """Trials with the canary eligible (or surely taking part, for ``stratified``), and with it absent."""
    counts: tuple[int, int]
    """True positives and false positives."""
    branch: Branch
    warning: str | None = None
    canaries: int = 1

    def __str__(self) -> str:
        over = f" over {self.canaries} canaries" if self.canaries > 1 else ""
        won = "no branch" if self.branch is Branch.NONE else f"{self.branch} branch"
        text = (
            f"epsilon >= {self.epsilon:.3f} at delta {self.delta:g}, confidence {self.confidence:.6g} ({self.method}, "
            f"{won}; {self.counts[0]:,} of {self.trials[0]:,} true and {self.counts[1]:,} of "
            f"{self.trials[1]:,} false positives{over}; assumes {self.assumption})"
        )
        return f"{text}. Warning: {self.warning}" if self.warning else text

    def __repr__(self) -> str:
        return f"Bound({self})"


def epsilon_lower(
    tp: int, fp: int, n1: int, n0: int, *, delta: float, alpha: float, method: Method | str = Method.PAPER
) -> Bound:
    """Return a lower bound on epsilon from one canary's counts, at that canary's share of alpha.

    Whatever the two rates are, P(bound.epsilon > epsilon) <= alpha for every epsilon at which they meet the
    definition in both directions. ``joint`` needs the two counts to be independent as well.
    """
    chosen = _one_canary(method)
    counts, trials = _checked(tp, fp, n1, n0)
    small_probability("delta", delta), probability("alpha", alpha)
    if chosen is Method.JOINT:
        forward = joint_epsilon(*counts, *trials, delta=delta, alpha=(1 - REVERSE_SHARE) * alpha)
        reverse = _branches(counts, trials, delta, REVERSE_SHARE * alpha / 2)[1]
    else:
        gamma = alpha / (4 if chosen is Method.PAPER else 2)
        forward, reverse = _branches(counts, trials, delta, gamma)
    return _bound(forward, reverse, chosen, counts, trials, delta, alpha)


def pooled(tp: ArrayLike, fp: ArrayLike, n1: ArrayLike, n0: ArrayLike, *, delta: float, alpha: float) -> Bound:
    """Return a lower bound on epsilon from the counts of several canaries together, one entry a canary.

    P(bound.epsilon > epsilon) <= alpha for every epsilon at which all canaries' rates meet the definition, even
    where those rates differ: with equal shares of the trials their means meet it too.
    """
    x1, x0, m1, m0 = _each_canary(tp, fp, n1, n0)
    small_probability("delta", delta), poolable(alpha)
    counts, trials = _checked(*(sum(map(int, values)) for values in (x1, x0, m1, m0)))
    forward, reverse = _branches(counts, trials, delta, alpha / 2, pooled_ends)
    return _bound(forward, reverse, Method.POOLED, counts, trials, delta, alpha, canaries=len(x1))


def poolable(alpha: float) -> float:
    """Return a level at which a pooled bound is proven to hold, or say that it is none."""
    if probability("alpha", alpha) > LARGEST_POOLED_ALPHA:
        raise InputError(
            f"A pooled bound is proven for alpha up to {LARGEST_POOLED_ALPHA}, not {alpha!r}; use a smaller one."
        )
    return alpha


def stratified(tp_included: int, fp: int, n1: int, n0: int, *, q: float, delta: float, alpha: float) -> Bound:
    """Return a lower bound on epsilon from trials in which the canary surely takes part, and trials without it.

    P(bound.epsilon > epsilon) <= alpha, where an eligible canary takes part with probability at least q and a canary
    that does not leaves the law of its absence: then TPR >= (1-q) FPR + q TPR_included.
    """
    counts, trials = _checked(tp_included, fp, n1, n0)
    small_probability("delta", delta), probability("alpha", alpha)
    if not 0 < q <= 1:
        raise InputError(
            f"q must lie in (0, 1], not be {q!r}; it is the probability that an eligible canary takes part."
        )
    forward = float(stratified_epsilon(counts[0], counts[1], *trials, q=q, delta=delta, gamma=alpha / 2))
    return _bound(forward, -np.inf, Method.STRATIFIED, counts, trials, delta, alpha)


def _branches(
    counts: tuple[int, int], trials: tuple[int, int], delta: float, gamma: float, each: Ends = ends
) -> tuple[float, float]:
    forward, reverse = count_epsilons(*counts, *trials, delta=delta, gamma=gamma, each=each)
    return float(forward), float(reverse)


def _bound(
    forward: float,
    reverse: float,
    method: Method,
    counts: tuple[int, int],
    trials: tuple[int, int],
    delta: float,
    alpha: float,
    *,
    canaries: int = 1,
) -> Bound:
    best = max(0.0, forward, reverse)
    won = Branch.NONE if best == 0 else Branch.FORWARD if forward >= reverse else Branch.REVERSE
    return Bound(
        epsilon=best,
        method=method,
        assumption=method.assumption,
        confidence=1 - alpha,
        delta=delta,
        trials=trials,
        counts=counts,
        branch=won,
        warning=_warning(won, counts, trials),
        canaries=canaries,
    )


def _warning(branch: Branch, counts: tuple[int, int], trials: tuple[int, int]) -> str | None:
    if branch is Branch.REVERSE:
        seen = {"false negatives": trials[0] - counts[0], "true negatives": trials[1] - counts[1]}
    else:
        seen = {"true positives": counts[0], "false positives": counts[1]}
    few = [f"{number} {kind}" for kind, number in seen.items() if number < FEW_EVENTS]
    if not few:
        return None
    return (
        f"only {' and '.join(few)} seen, and fewer than {FEW_EVENTS} of a kind leave the bound to the number of trials "
        "rather than to the rates; run more trials, or freeze a threshold where both kinds occur."
    )


def _one_canary(method: Method | str) -> Method:
    known = (Method.PAPER, Method.CLOPPER_PEARSON, Method.JOINT)
    if method not in known:
        raise InputError(
            f"There is no bound for one canary called {str(method)!r}; choose one of {', '.join(known)}. Pooled and "
            "stratified bounds have functions of their own."
        )
    return Method(method)


def _checked(tp: ArrayLike, fp: ArrayLike, n1: ArrayLike, n0: ArrayLike) -> tuple[tuple[int, int], tuple[int, int]]:
    given = {"tp": tp, "fp": fp, "n1": n1, "n0": n0}
    whole = {name: whole_counts(name, value) for name, value in given.items()}
    for name, value in whole.items():
        if value.ndim:
            raise InputError(
                f"{name} must be one count, not an array of shape {value.shape}; `pooled` takes several canaries."
            )
    x1, x0, m1, m0 = (int(value) for value in whole.values())
    for name, x, m in (("tp", x1, m1), ("fp", x0, m0)):
        if m < 1:
            raise InputError(f"There must be at least one trial of each hypothesis, not n1 = {m1} and n0 = {m0}.")
        if x > m:
            raise InputError(f"{name} = {x} positives cannot come from {m} trials; check the order: tp, fp, n1, n0.")
    return (x1, x0), (m1, m0)


def _each_canary(
    tp: ArrayLike, fp: ArrayLike, n1: ArrayLike, n0: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    given = {"tp": tp, "fp": fp, "n1": n1, "n0": n0}
    arrays = [np.atleast_1d(whole_counts(name, value)) for name, value in given.items()]
    length = max(len(array) for array in arrays)
    if any(array.ndim > 1 or len(array) not in {1, length} for array in arrays) or length == 0:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(given, arrays, strict=True))
        raise InputError(f"Counts and trials need one entry a canary, but the shapes are {shapes}.")
    x1, x0, m1, m0 = (np.broadcast_to(array, length) for array in arrays)
    for row in zip(x1, x0, m1, m0, strict=True):
        _checked(*row)
    _refuse_unequal_shares(m1, m0)
    return x1, x0, m1, m0


def _refuse_unequal_shares(m1: NDArray[np.int64], m0: NDArray[np.int64]) -> None:
    total1, total0 = sum(map(int, m1)), sum(map(int, m0))
    for canary, (one, other) in enumerate(zip(m1, m0, strict=True)):
        if int(one) * total0 != int(other) * total1:
            raise InputError(
                f"Canary {canary} has {one} of {total1} trials with it eligible, but {other} of {total0} without it. "
                "Unequal shares mix canaries of different rates differently in the two sums, which alone can make the "
                "pooled rates violate what every canary meets (Simpson's paradox); give each canary equal shares."
            )
