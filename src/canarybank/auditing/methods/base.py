"""Methods: each is one way from counts to a lower bound on epsilon, as an object that says all there is to know of it.

tp of n1 trials with the canary eligible and fp of n0 trials with it absent called the canary present. Forward is
the claim P1(A) <= exp(epsilon) P0(A) + delta about the event "present", reverse the one about its complement with
the hypotheses exchanged: epsilon is that of adding or removing one user, so both must hold.

A method says its name and assumption, what it needs (all canaries' counts at once, trials in which the canary surely
takes part, a small enough alpha), its bound, its forecast, and the branches that a threshold may be aimed at. The rest
of the program asks the object and never its name. ``canarybank.testing.check_method`` checks a method of your own:

    # my_package/thirds.py, registered as thirds = "my_package.thirds:THIRDS" in the group canarybank.methods
    from canarybank.auditing import Method

    THIRDS = Method("thirds", "independent trials; two Clopper–Pearson ends at alpha/3 each", tails=3)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from canarybank.auditing.rates import Array, Branch, count_epsilons, ends, probability, whole_counts
from canarybank.auditing.trials import Counts
from canarybank.errors import ConfigError, InputError
from canarybank.registry import METHODS

__all__ = [
    "CLOPPER_PEARSON",
    "FROZEN",
    "PAPER",
    "POOLED",
    "STRATIFIED",
    "Bound",
    "Branch",
    "Method",
    "epsilon_lower",
    "find_method",
    "own_method",
    "pooled",
    "stratified",
]

FROZEN: Final = "independent trials within each hypothesis, the rule frozen before them"
"""The assumption that every method here shares."""
FEW_EVENTS: Final = 10
"""Below this many events of a kind a bound says more about the number of trials than about the rate."""


@dataclass(frozen=True, slots=True, repr=False)
class Bound:
    """A lower bound on epsilon at delta, with what it stands on.

    Where the assumption holds, the probability that ``epsilon`` exceeds the true one is at most 1 - confidence.
    """

    epsilon: float
    """The lower bound on epsilon."""
    method: str
    """The name of the method."""
    assumption: str
    """What must hold for it."""
    confidence: float
    """It exceeds the truth at most one minus this often."""
    delta: float
    """The delta at which it is stated."""
    trials: tuple[int, int]
    """Trials with the canary eligible (or surely taking part, where the method asks for that), and with it absent."""
    counts: tuple[int, int]
    """True positives and false positives."""
    branch: Branch
    """Which of the two tests gave it."""
    warning: str | None = None
    """What a reader should know before relying on it."""
    canaries: int = 1
    """The canaries that it is over."""

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


@dataclass(frozen=True)
class Method:
    """How counts become a bound: as it stands, by one-sided Clopper–Pearson ends at alpha / ``tails`` each.

    Override ``ends`` for other ends of a rate, ``branches`` for another formula, ``claim`` where the bound is no
    formula but a search that ``branches`` only forecasts, and the class variables for what the method needs.
    """

    name: str
    assumption: str
    tails: int = 2
    """Alpha is split over so many one-sided ends."""

    pools: ClassVar[bool] = False
    """Whether it makes one bound from all canaries' counts, at all of alpha."""
    included: ClassVar[bool] = False
    """Whether it counts trials in which the canary surely takes part: only our own system has them."""
    largest_alpha: ClassVar[float] = 1.0
    """The largest level at which it is proven."""
    aims: ClassVar[tuple[Branch | None, ...]] = (None,)
    """What thresholds may be aimed at, the same for all canaries of an attack: one branch, or None for the better."""

    def __str__(self) -> str:
        return self.name

    @property
    def single(self) -> "Method":
        """Return the method whose bound is shown for each canary alone: itself, unless it pools."""
        return self

    @property
    def alone(self) -> bool:
        """Say whether it makes a bound from one canary's eligible trials, as any system gives them."""
        return not (self.pools or self.included)

    @property
    def exact(self) -> bool:
        """Say whether ``branches`` at whole counts is the bound itself, and not a forecast of a search."""
        return type(self).claim is Method.claim

    @property
    def separate(self) -> bool:
        """Say whether the bound is Clopper–Pearson ends at alpha / tails, so that a table of ends serves."""
        return self.exact and type(self).branches is Method.branches and type(self).ends is Method.ends

    def require(
        self,
        alpha: float,
        *,
        delta: float = 0.0,
        q: float | None = 1.0,  # noqa: ARG002, of those that need it
    ) -> None:
        """Refuse a level, a delta, or a probability of taking part, at which the bound is not proven."""
        probability("delta", delta, or_zero=True)
        if probability("alpha", alpha) > self.largest_alpha:
            raise InputError(
                f"A {self.name} bound is proven for alpha up to {self.largest_alpha}, not {alpha!r}; use a smaller one."
            )

    def require_alone(self) -> None:
        """Refuse a method that needs more than one canary's eligible trials."""
        if not self.alone:
            able = ", ".join(name for name in METHODS.places if METHODS.built_in(name).alone)
            raise InputError(
                f"The method {self.name!r} cannot make a bound from one canary's eligible trials; choose one of {able}."
            )

    def share(self, alpha: float, canaries: int) -> float:
        """Return the level of each bound: all of alpha where canaries are pooled, an even share of it elsewhere."""
        return alpha if self.pools else alpha / canaries

    def first_rate(self, tpr: Array, fpr: Array, q: float | None) -> Array:  # noqa: ARG002, of those that need it
        """Return the rate that the first count estimates, from those of an eligible canary: TPR itself."""
        return tpr

    def ends(self, x: ArrayLike, n: ArrayLike, gamma: float) -> tuple[Array, Array]:
        """Return one-sided bounds (lower, upper) of the rate behind x of n, at gamma each; x need not be whole."""
        return ends(x, n, gamma)

    def branches(
        self,
        tp: ArrayLike,
        fp: ArrayLike,
        n1: float,
        n0: float,
        *,
        delta: float,
        alpha: float,
        q: float | None,  # noqa: ARG002, of those that need it
    ) -> tuple[Array, Array]:
        """Return the bound (forward, reverse) at counts that need not be whole, below 0 where it certifies nothing."""
        own = None if type(self).ends is Method.ends else self.ends
        return count_epsilons(tp, fp, n1, n0, delta=delta, gamma=alpha / self.tails, each=own)

    def claim(
        self, tp: int, fp: int, n1: int, n0: int, *, delta: float, alpha: float, q: float | None
    ) -> tuple[float, float]:
        """Return the bound (forward, reverse) itself, from whole counts."""
        forward, reverse = self.branches(tp, fp, n1, n0, delta=delta, alpha=alpha, q=q)
        return float(forward), float(reverse)

    def bound(self, counts: Sequence[Counts], *, delta: float, alpha: float, q: float | None = None) -> Bound:
        """Return the bound from one canary's counts, or from those of all canaries where the method pools.

        Where the assumption holds, P(bound.epsilon > epsilon) <= alpha for every epsilon at which the canaries' rates
        meet the definition in both directions.
        """
        self.require(alpha, delta=delta, q=q)
        if not counts or (len(counts) > 1 and not self.pools):
            raise InputError(f"A {self.name} bound is made from the counts of one canary, not of {len(counts)}.")
        tp, fp, n1, n0 = (sum(each) for each in zip(*map(_whole, counts), strict=True))
        forward, reverse = self.claim(tp, fp, n1, n0, delta=delta, alpha=alpha, q=q)
        best = max(0.0, forward, reverse)
        won = Branch.NONE if best == 0 else Branch.FORWARD if forward >= reverse else Branch.REVERSE
        return Bound(
            epsilon=best,
            method=self.name,
            assumption=self.assumption,
            confidence=1 - alpha,
            delta=delta,
            trials=(n1, n0),
            counts=(tp, fp),
            branch=won,
            warning=_few_events(won, (tp, fp), (n1, n0)),
            canaries=len(counts),
        )


PAPER: Final = Method("paper", f"{FROZEN}; four one-sided Clopper–Pearson ends at alpha/4 each, both branches", tails=4)
"""The paper's rule: four one-sided ends, a quarter of alpha each."""
CLOPPER_PEARSON: Final = Method(
    "clopper-pearson",
    f"{FROZEN}; two one-sided Clopper–Pearson ends at alpha/2 each, which serve both branches because "
    "TNR_L = 1 - FPR_U and FNR_U = 1 - TPR_L",
)
"""The paper's rule with two ends instead of four: by symmetry they serve both branches."""


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


def find_method(method: Method | str) -> Method:
    """Return a method by its name, or by ``module:name``; a method itself is returned as it is.

    Args:
        method: A name, ``module:name``, or a method.

    Example:
        >>> find_method("paper").name
        'paper'
    """
    found = METHODS.find(method) if isinstance(method, str) else method
    if not isinstance(found, Method):
        raise ConfigError(f"{method!r} is not a method but a {type(found).__name__}; give a Method or the name of one.")
    if found.name in METHODS.places and found != METHODS.built_in(found.name):
        raise ConfigError(
            f"A method of your own is called {found.name!r}, and so is one of ours; give it another name."
        )
    return found


def own_method(name: str) -> Method | None:
    """Return one of canarybank's own methods, or None for somebody else's, which is not imported.

    Args:
        name: A method's name.

    Example:
        >>> own_method("paper").name, own_method("somebody:else")
        ('paper', None)
    """
    return METHODS.built_in(name) if name in METHODS.places else None


def epsilon_lower(
    tp: int, fp: int, n1: int, n0: int, *, delta: float, alpha: float, method: Method | str = "paper"
) -> Bound:
    """Return a lower bound on epsilon from one canary's counts, at that canary's share of alpha.

    Whatever the two rates are, P(bound.epsilon > epsilon) <= alpha for every epsilon at which they meet the
    definition in both directions. ``joint`` needs the two counts to be independent as well.

    The formula: Clopper–Pearson ends in the definition of differential privacy, as in Jagielski, Ullman and Oprea
    (2020, https://arxiv.org/abs/2006.07709).

    Args:
        tp: Eligible trials whose score exceeds the threshold.
        fp: Absent trials whose score does.
        n1: All eligible trials.
        n0: All absent trials.
        delta: The delta of epsilon.
        alpha: How often the bound may exceed the truth: the canary's share.
        method: The method, or its name.

    Example:
        >>> found = epsilon_lower(600, 100, 10_000, 10_000, delta=1e-5, alpha=0.05)
        >>> round(found.epsilon, 2), found.method
        (1.48, 'paper')
    """
    chosen = find_method(method)
    chosen.require_alone()
    return chosen.bound([Counts(tp, fp, n1, n0)], delta=delta, alpha=alpha)


def pooled(tp: ArrayLike, fp: ArrayLike, n1: ArrayLike, n0: ArrayLike, *, delta: float, alpha: float) -> Bound:
    """Return a lower bound on epsilon from the counts of several canaries together, one entry a canary.

    P(bound.epsilon > epsilon) <= alpha for every epsilon at which all canaries' rates meet the definition, even
    where those rates differ: with equal shares of the trials their means meet it too.

    The formula: Clopper–Pearson ends in the definition of differential privacy, as in Jagielski, Ullman and Oprea
    (2020, https://arxiv.org/abs/2006.07709).

    Args:
        tp: Eligible trials whose score exceeds the threshold, one entry a canary.
        fp: Absent trials whose score does.
        n1: All eligible trials of each canary.
        n0: All absent trials of each canary.
        delta: The delta of epsilon.
        alpha: How often the bound may exceed the truth.

    Example:
        >>> found = pooled([600] * 5, [100] * 5, [10_000] * 5, [10_000] * 5, delta=1e-5, alpha=0.05)
        >>> found.epsilon > epsilon_lower(600, 100, 10_000, 10_000, delta=1e-5, alpha=0.01).epsilon
        True
    """
    given = {"tp": tp, "fp": fp, "n1": n1, "n0": n0}
    arrays = [np.atleast_1d(whole_counts(name, value)) for name, value in given.items()]
    length = max(len(array) for array in arrays)
    if any(array.ndim > 1 or len(array) not in {1, length} for array in arrays) or length == 0:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(given, arrays, strict=True))
        raise InputError(f"Counts and trials need one entry a canary, but the shapes are {shapes}.")
    rows = zip(*(np.broadcast_to(array, length).tolist() for array in arrays), strict=True)
    return POOLED.bound([Counts(*row) for row in rows], delta=delta, alpha=alpha)


def stratified(tp_included: int, fp: int, n1: int, n0: int, *, q: float, delta: float, alpha: float) -> Bound:
    """Return a lower bound on epsilon from trials in which the canary surely takes part, and trials without it.

    P(bound.epsilon > epsilon) <= alpha, where an eligible canary takes part with probability at least q and a canary
    that does not leaves the law of its absence: then TPR >= (1-q) FPR + q TPR_included.

    Args:
        tp_included: Trials with the canary taking part whose score exceeds the threshold.
        fp: Absent trials whose score does.
        n1: All trials with the canary taking part.
        n0: All absent trials.
        q: The least probability with which an eligible canary takes part.
        delta: The delta of epsilon.
        alpha: How often the bound may exceed the truth.

    Example:
        >>> found = stratified(5000, 100, 10_000, 10_000, q=0.1, delta=1e-5, alpha=0.05)
        >>> found.method
        'stratified'
    """
    return STRATIFIED.bound([Counts(tp_included, fp, n1, n0)], delta=delta, alpha=alpha, q=q)


def _whole(counts: Counts) -> tuple[int, int, int, int]:
    """Return counts as whole numbers (tp, fp, n1, n0), or say what is wrong with them."""
    given = {name: whole_counts(name, getattr(counts, name)) for name in ("tp", "fp", "n1", "n0")}
    for name, value in given.items():
        if value.ndim:
            raise InputError(
                f"{name} must be one count, not an array of shape {value.shape}; `pooled` takes several canaries."
            )
    tp, fp, n1, n0 = (int(value) for value in given.values())
    if min(n1, n0) < 1:
        raise InputError(f"There must be at least one trial of each hypothesis, not n1 = {n1} and n0 = {n0}.")
    for name, x, n in (("tp", tp, n1), ("fp", fp, n0)):
        if x > n:
            raise InputError(f"{name} = {x} positives cannot come from {n} trials; check the order: tp, fp, n1, n0.")
    return tp, fp, n1, n0


def _few_events(branch: Branch, counts: tuple[int, int], trials: tuple[int, int]) -> str | None:
    """Return a warning where a branch stands on fewer events of a kind than ``FEW_EVENTS``."""
    seen = {"true positives": counts[0], "false positives": counts[1]}
    if branch is Branch.REVERSE:
        seen = {"false negatives": trials[0] - counts[0], "true negatives": trials[1] - counts[1]}
    few = [f"{number} {kind}" for kind, number in seen.items() if number < FEW_EVENTS]
    if not few:
        return None
    return (
        f"only {' and '.join(few)} seen, and fewer than {FEW_EVENTS} of a kind leave the bound to the number of trials "
        "rather than to the rates; run more trials, or freeze a threshold where both kinds occur."
    )
