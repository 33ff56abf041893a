"""Declare an audit and freeze its rules before anything is evaluated; make the claims that its counts then buy.

The best threshold is the one whose bound is best in expectation, for so many trials, at such a level, by such a method.
It is frozen on the calibration cohort alone.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank import seeds
from canarybank.auditing.methods import PAPER, POOLED, Bound, Branch, Method, find_method
from canarybank.auditing.rates import Array, Law, rate_epsilon, whole_counts
from canarybank.auditing.sources import MOST_SURVIVING, Scores, Tail, Trials
from canarybank.auditing.trials import Counts, draw, draw_above
from canarybank.engine import Engine
from canarybank.errors import BudgetError, CohortError, InputError
from canarybank.mechanism import Claim, Mechanism, Routed, StreamedCohort
from canarybank.progress import SILENT, Progress
from canarybank.score import RoundLaw
from canarybank.score.exceedances import WIDEST, chernoff_cut
from canarybank.users import Calibration

__all__ = [
    "AlphaLedger",
    "AttackRates",
    "Settings",
    "Target",
    "Threshold",
    "ThresholdMode",
    "TrialEngine",
    "aimed",
    "analytic",
    "attack_bound",
    "best_threshold",
    "calibrated",
    "canary_bound",
    "choose_aim",
    "headline",
    "one_of",
    "pooled_bound",
    "stand_in_rows",
    "tail_cut",
]

Choice = TypeVar("Choice", bound=StrEnum)
AttackRates: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Thresholds to (FPR, TPR): the probability that the score exceeds them, canary absent and canary eligible."""

_WIDEST = 2.0**40
_TAIL_TRIALS = 1 << 13
"""How many trials of an absent canary are drawn to look for a threshold in the tail; about an eighth exceed the cut."""


class TrialEngine(StrEnum):
    """How trials on our own system are played."""

    TAIL = "tail"
    """From the scalar law of the score, and of all trials only those above the threshold are drawn."""
    PROJECTED = "projected"
    """From the scalar law of the score, every trial."""
    LITERAL = "literal"
    """As the mechanism releases: participants, sums and noise."""
    LITERAL_TORCH = "literal-torch"
    """Literally, with the coins, sums and noise of all trials drawn on a GPU where there is one."""


class ThresholdMode(StrEnum):
    """How the threshold is frozen."""

    CALIBRATED = "calibrated"
    ANALYTIC = "analytic"


@dataclass(frozen=True, slots=True)
class Target:
    """What a threshold is chosen for.

    ``trials`` counts each hypothesis of each canary, and may be infinite. ``alpha`` is the level of each bound: a
    canary's share, or all of it where the method pools all ``canaries``. ``stratified`` needs ``q``.
    """

    trials: float
    delta: float
    alpha: float
    method: Method = PAPER
    canaries: int = 1
    q: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", find_method(self.method))
        self.method.require(self.alpha, delta=self.delta, q=self.q)
        if not (self.trials >= 1 and (self.trials == math.inf or self.trials == int(self.trials))):
            raise InputError(f"trials must be a whole number of at least 1, or infinite, not {self.trials!r}.")
        if self.canaries < 1:
            raise InputError(f"There must be at least one canary, not {self.canaries!r}.")

    @property
    def pool(self) -> int:
        """Return how many canaries' counts go into one bound."""
        return self.canaries if self.method.pools else 1

    def bound(self, tpr: ArrayLike, fpr: ArrayLike, branch: Branch | None = None) -> Array:
        """Return one branch of the bound at the expected counts, or the better; below 0 where it certifies nothing.

        Rates are those of an eligible canary for every method; ``stratified`` derives those of a canary that surely
        takes part from them. ``joint`` is forecast by its statistic, to about 0.01.
        """
        return aimed(self.branches(tpr, fpr), branch)

    def branches(self, tpr: ArrayLike, fpr: ArrayLike) -> tuple[Array, Array]:
        """Return both branches of the bound at the expected counts: forward, reverse."""
        tpr, fpr = np.asarray(tpr, np.float64), np.asarray(fpr, np.float64)
        if self.trials == math.inf:
            # A rate that rounds to 1 leaves 1 - rate known to 2^-53 only: say no more than that supports.
            reverse = rate_epsilon(1 - fpr, np.maximum(1 - tpr, 2.0**-53), self.delta)
            return rate_epsilon(tpr, fpr, self.delta), reverse
        n = self.pool * self.trials
        return self._branches(n * self.first_rate(tpr, fpr), n * fpr, n)

    def first_rate(self, tpr: ArrayLike, fpr: ArrayLike) -> Array:
        """Return the rate that the first count of the method estimates: TPR, or TPR_included for ``stratified``."""
        return self.method.first_rate(np.asarray(tpr, np.float64), np.asarray(fpr, np.float64), self.q)

    def at_counts(self, tp: ArrayLike, fp: ArrayLike, n: float) -> Array:
        """Return the better branch of the bound at counts of n trials a hypothesis; counts need not be whole."""
        return np.maximum(*self._branches(tp, fp, n))

    def claim(self, tp: float, fp: float, n: float) -> float:
        """Return the bound itself at whole counts of n trials a hypothesis, and no forecast of it."""
        return max(
            0.0,
            *self.method.claim(int(tp), int(fp), int(n), int(n), delta=self.delta, alpha=self.alpha, q=self.q),
        )

    def _branches(self, tp: ArrayLike, fp: ArrayLike, n: float) -> tuple[Array, Array]:
        return self.method.branches(tp, fp, n, n, delta=self.delta, alpha=self.alpha, q=self.q)


@dataclass(frozen=True, slots=True)
class Settings:
    """The declaration of an audit: how many trials, at which level, by which method and rule, from which seed.

    ``trials`` counts each hypothesis of each canary. ``alpha`` is the level of the attack's one headline claim; it is
    split evenly over the canaries unless the method pools them.
    """

    trials: int = 1_000_000
    alpha: float = 0.05
    method: Method = PAPER
    threshold: ThresholdMode = ThresholdMode.CALIBRATED
    engine: TrialEngine = TrialEngine.TAIL
    seed: int = 0

    def __post_init__(self) -> None:
        checked = {
            "method": find_method(self.method),
            "threshold": one_of(ThresholdMode, self.threshold, "threshold"),
            "engine": one_of(TrialEngine, self.engine, "engine"),
            "trials": int(whole_counts("trials", self.trials)),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.trials < 1:
            raise InputError(f"An audit needs at least one trial of each hypothesis, not {self.trials}.")
        self.method.require(self.alpha)
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise InputError(f"A seed is a whole number of at least 0, not {self.seed!r}.")

    def share(self, canaries: int) -> float:
        """Return the level of each bound: all of alpha where canaries are pooled, an even share of it elsewhere."""
        return self.method.share(self.alpha, canaries)

    def target(self, mechanism: Mechanism | Claim, canaries: int) -> Target:
        """Return what the threshold is chosen for."""
        return Target(self.trials, mechanism.delta, self.share(canaries), self.method, canaries, mechanism.q)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A frozen threshold: the rule says "present" when the score exceeds ``value``."""

    value: float
    """The rule says "present" when the score exceeds this."""
    mode: ThresholdMode
    """How it was frozen."""
    expected: float
    """The bound that the calibration cohort's own rates would give; a forecast, not a claim."""


def aimed(branches: tuple[Array, Array], branch: Branch | None) -> Array:
    """Return one branch of (forward, reverse), or the better of the two where none is asked for."""
    return np.maximum(*branches) if branch is None else branches[branch is Branch.REVERSE]


def best_threshold(rates: AttackRates, target: Target, branch: Branch | None = None) -> tuple[float, float]:
    """Return the threshold that maximises the bound at expected counts, or one branch of it, and that bound.

    A scan over all thresholds at which either rate is neither 0 nor 1 for so many trials, then five ever closer
    looks around the best. The bound is a forecast from true rates: it claims nothing.

    Args:
        rates: The true rates of an attack, as functions of the threshold.
        target: What the bound will be made with: trials, method, level.
        branch: The branch of the bound that counts; left out, the better one.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.auditing import perfect_rates
        >>> target = Target(trials=1_000_000, delta=1e-5, alpha=0.01)
        >>> threshold, bound = best_threshold(perfect_rates(Mechanism()), target)
        >>> round(bound, 2)
        0.99
    """
    rare = 1e-3 / min(target.trials, 1e9)
    low = -_doubled(lambda at: float(rates(np.array([-at]))[1][0]) >= 1 - rare)
    grid = np.linspace(low, _doubled(lambda at: float(rates(np.array([at]))[0][0]) <= rare), 257)
    for _ in range(6):
        fpr, tpr = rates(grid)
        values = target.bound(tpr, fpr, branch)
        best = int(np.argmax(values))
        threshold, value = float(grid[best]), float(values[best])
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], 33)
    return threshold, max(0.0, value)


def _doubled(beyond: Callable[[float], bool]) -> float:
    """Return a power of two beyond which it holds and at half of which it does not."""
    at = 1.0
    while not beyond(at) and at < _WIDEST:
        at *= 2
    while at > 1 / _WIDEST and beyond(at / 2):
        at /= 2
    return at


def stand_in_rows(
    routed: Routed[Calibration] | StreamedCohort[Calibration], eligible: int, seed: int
) -> NDArray[np.int64]:
    """Return which calibration users stand for ``eligible`` ones, by index.

    Each user appears floor(eligible / cohort size) times, and the remainder is chosen by seed; every copy will
    toss a participation coin of its own.
    """
    if routed.role is not Calibration:
        raise CohortError(f"A threshold is frozen on the calibration cohort, not on {routed.role.__name__}.")
    copies, rest = divmod(eligible, len(routed))
    extra = seeds.stream(seed, "calibration", "remainder").choice(len(routed), size=rest, replace=False)
    return np.concatenate([np.repeat(np.arange(len(routed)), copies), np.sort(extra)])


def choose_aim(candidates: Sequence[Sequence[Threshold]]) -> list[Threshold]:
    """Return each canary's threshold under the one aim that promises an attack's canaries most together.

    ``candidates[c][a]`` is the threshold of canary c under aim a of ``Method.aims``; the first of equal aims wins.

    Args:
        candidates: The thresholds of each canary, one for each aim.

    Example:
        >>> low, high = (Threshold(each, ThresholdMode.ANALYTIC, expected=each / 2) for each in (1.0, 2.0))
        >>> choose_aim([[low, high]]) == [high]
        True
    """
    return list(max(zip(*candidates, strict=True), key=lambda aim: sum(threshold.expected for threshold in aim)))


def analytic(law: Law, target: Target, branch: Branch | None = None) -> Threshold:
    """Freeze the threshold at which the law's exact rates promise the best bound, or the best of one branch.

    Args:
        law: The law of the score under both hypotheses.
        target: What the bound will be made with: trials, method, level.
        branch: The branch of the bound that counts; left out, the better one.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> target = Target(trials=1_000_000, delta=1e-5, alpha=0.01)
        >>> round(analytic(RoundLaw.perfect(Mechanism()), target).expected, 2)
        0.99
    """
    value, expected = best_threshold(law.point, target, branch)
    return Threshold(value, ThresholdMode.ANALYTIC, expected)


def calibrated(
    trials: Trials,
    target: Target,
    *,
    number: int,
    seed: int,
    path: tuple[str | int, ...] = (),
    branch: Branch | None = None,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> Threshold:
    """Freeze the threshold at which trials on the calibration cohort, or through a system, gave the best bound.

    With ``branch`` it is the best for that branch of the bound alone.
    The candidates are the scores at log-spaced ranks of both hypotheses together, from both ends. ``Tail`` trials are
    first drawn in the upper tail alone, and all of them only where the best candidate does not lie well inside.

    Args:
        trials: What plays trials.
        target: What the bound will be made with: trials, method, level.
        number: How many trials of each hypothesis are played.
        seed: The root of what is random.
        path: Where these trials stand below the root.
        branch: The branch of the bound that counts; left out, the better one.
        engine: Where the work runs; left out, here.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.auditing import Projected
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> trials = Projected(RoundLaw.perfect(Mechanism(q=0.5)))
        >>> target = Target(trials=10_000, delta=1e-5, alpha=0.01)
        >>> calibrated(trials, target, number=2_000, seed=0).expected > 0.5
        True
    """
    play = partial(draw_above, seed=seed, engine=engine, progress=progress)
    if isinstance(trials, Tail) and (found := _calibrated_in_tail(trials, target, number, branch, path, play)):
        return found
    absent, eligible = draw(
        trials,
        number,
        seed=seed,
        path=(*path, "calibration"),
        ascending=True,
        engine=engine,
        progress=progress,
    )
    return _best_of_drawn(absent, eligible, target, number, branch)


def _calibrated_in_tail(
    trials: Tail,
    target: Target,
    number: int,
    branch: Branch | None,
    path: tuple[str | int, ...],
    play: Callable[..., tuple[Scores, Scores]],
) -> Threshold | None:
    """Return the best threshold where it lies well inside the upper tail, of which few trials are drawn; else None."""
    law = trials.law
    # True rates never promise more than this by the reverse branch, so a larger bound is the forward one's.
    least = 0.0 if branch is Branch.FORWARD else -math.log(law.idle) if law.idle > 0 else math.inf
    if law.silent or branch is Branch.REVERSE or math.isinf(least) or law.background.reach > WIDEST:
        return None
    wider = 1
    while wider * _TAIL_TRIALS < MOST_SURVIVING * number:
        address = (*path, "calibration", f"tail of {wider}")
        absent, eligible = play(trials, tail_cut(law, number, wider), number, path=address)
        if len(eligible):
            found = _best_of_drawn(absent, eligible, target, number, branch)
            inside = 2 * np.count_nonzero(eligible >= found.value) <= len(eligible)
            if inside and found.expected > least:
                return found
        wider *= 8
    return None


def tail_cut(law: RoundLaw, number: int, wider: int = 1) -> float:
    """Return the score above which few of ``number`` trials are drawn to look for a threshold there.

    Args:
        law: The law of the score.
        number: The trials of each hypothesis.
        wider: How many times as many are drawn.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> round(tail_cut(RoundLaw.perfect(Mechanism()), 1_000_000), 2)
        2.6
    """
    return chernoff_cut(law.background, min(0.5, wider * _TAIL_TRIALS / number)) - law.offset


def _best_of_drawn(absent: Scores, eligible: Scores, target: Target, number: int, branch: Branch | None) -> Threshold:
    """Return the best threshold by scores in order: all of ``number`` trials, or those above a cut."""
    ranks = np.unique(np.geomspace(1, number, 1024).astype(np.int64)) - 1
    highest = [scores[-1 - ranks[ranks < len(scores)]] for scores in (absent, eligible)]
    lowest = [scores[ranks] for scores in (absent, eligible) if len(scores) == number]
    candidates = np.unique(np.concatenate([*highest, *lowest]))
    tpr, fpr = (
        (len(scores) - np.searchsorted(scores, candidates, side="right")) / number for scores in (eligible, absent)
    )
    bounds = target.bound(tpr, fpr, branch)
    best = int(np.argmax(bounds))
    return Threshold(float(candidates[best]), ThresholdMode.CALIBRATED, max(0.0, float(bounds[best])))


def attack_bound(counts: Sequence[Counts], mechanism: Mechanism | Claim, settings: Settings) -> Bound:
    """Return an attack's headline from its canaries' counts.

    With probability at least 1 - alpha it does not exceed the epsilon of the mechanism that gave the counts.

    The formula: Clopper–Pearson ends in the definition of differential privacy, as in Jagielski, Ullman and Oprea
    (2020, https://arxiv.org/abs/2006.07709).

    Args:
        counts: The counts of each canary.
        mechanism: The parameters of the release, or the claim.
        settings: Trials, method and alpha, which the canaries share.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.auditing import Counts, Settings
        >>> found = attack_bound([Counts(tp=60, fp=10, n1=1000, n0=1000)], Mechanism(), Settings(trials=1000))
        >>> round(found.epsilon, 2)
        0.81
    """
    return headline(
        [canary_bound(each, mechanism, settings, len(counts)) for each in counts],
        pooled_bound(counts, mechanism, settings),
        settings,
    )


def canary_bound(counts: Counts, mechanism: Mechanism | Claim, settings: Settings, canaries: int) -> Bound:
    """Return one canary's bound at its share of alpha: by the declared method, or what it shows of a canary alone.

    The formula: Clopper–Pearson ends in the definition of differential privacy, as in Jagielski, Ullman and Oprea
    (2020, https://arxiv.org/abs/2006.07709).

    Args:
        counts: The counts of the canary.
        mechanism: The parameters of the release, or the claim.
        settings: Trials, method and alpha.
        canaries: How many canaries share alpha.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.auditing import Counts, Settings
        >>> counts = Counts(tp=60, fp=10, n1=1000, n0=1000)
        >>> one, of_five = (canary_bound(counts, Mechanism(), Settings(trials=1000), n).epsilon for n in (1, 5))
        >>> of_five < one
        True
    """
    return settings.method.single.bound([counts], delta=mechanism.delta, alpha=settings.alpha / canaries, q=mechanism.q)


def pooled_bound(counts: Sequence[Counts], mechanism: Mechanism | Claim, settings: Settings) -> Bound | None:
    """Return the bound over all canaries at all of alpha; none of included canaries' counts, or beyond its proof.

    Args:
        counts: The counts of each canary.
        mechanism: The parameters of the release, or the claim.
        settings: Trials, method and alpha.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.auditing import Counts, Settings
        >>> counts = [Counts(tp=60, fp=10, n1=1000, n0=1000)] * 5
        >>> pooled_bound(counts, Mechanism(), Settings(trials=1000)).epsilon > 1.2
        True
    """
    method = settings.method if settings.method.pools else POOLED
    if not settings.method.pools and (settings.method.included or settings.alpha > method.largest_alpha):
        return None
    return method.bound(counts, delta=mechanism.delta, alpha=settings.alpha, q=mechanism.q)


def headline(bounds: Sequence[Bound], over_all: Bound | None, settings: Settings) -> Bound:
    """Return the one claim that all of alpha buys: the pooled bound, or the largest of the canaries' own.

    Args:
        bounds: Each canary's own bound, at its share of alpha.
        over_all: The pooled bound at all of alpha, where there is one.
        settings: Says which of the two is the headline.

    Example:
        >>> from canarybank.auditing import Settings, epsilon_lower
        >>> bounds = [epsilon_lower(tp, 10, 1000, 1000, delta=1e-5, alpha=0.025) for tp in (40, 60)]
        >>> headline(bounds, None, Settings(trials=1000)).epsilon == bounds[1].epsilon
        True
    """
    if not bounds:
        raise InputError("An audit needs at least one canary.")
    if settings.method.pools and over_all is not None:
        return over_all
    best = max(bounds, key=lambda bound: bound.epsilon)
    if len(bounds) == 1:
        return best
    return replace(
        best,
        confidence=1 - settings.alpha,
        assumption=f"{best.assumption}; the largest of {len(bounds)} canaries' bounds, alpha split evenly over them",
    )


@dataclass(frozen=True, slots=True)
class AlphaLedger:
    """A declared total of alpha and the shares spent from it, in the order in which they were spent.

    If each claim named here fails with probability at most its share, then some claim fails with probability at
    most the total. A ledger never changes: spending gives a new one.
    """

    total: float
    """The alpha that was declared."""
    entries: tuple[tuple[str, float], ...] = ()
    """The claims by name, and the share of each."""

    def __post_init__(self) -> None:
        if not 0 < self.total < 1:
            raise InputError(f"The total alpha must lie strictly between 0 and 1, not be {self.total!r}.")
        object.__setattr__(self, "entries", tuple((str(name), float(share)) for name, share in self.entries))
        before: dict[str, float] = {}
        for name, share in self.entries:
            if not share > 0:
                raise InputError(
                    f"The share of {name!r} must be positive, not {share!r}; a claim at no alpha cannot be made."
                )
            if name in before:
                raise BudgetError(f"{name!r} already has its share of alpha, {before[name]:g}; one claim is made once.")
            spent = math.fsum(before.values())
            if spent + share > self.total * (1 + 1e-12):
                raise BudgetError(
                    f"{name!r} asks for alpha {share:g}, but {self.total - spent:g} of {self.total:g} is left; declare "
                    "a larger total before the trials, or make fewer claims."
                )
            before[name] = share

    @classmethod
    def split(cls, total: float, names: Iterable[str]) -> Self:
        """Return a ledger that has given each name an equal share of the total."""
        claims = list(names)
        if not claims:
            raise InputError("There is no claim to split alpha over; name at least one.")
        return cls(total, tuple((name, total / len(claims)) for name in claims))

    def spend(self, name: str, share: float) -> Self:
        """Return the ledger after giving a share to a claim; refuse to overspend, and to pay one claim twice."""
        return type(self)(self.total, (*self.entries, (name, share)))

    @property
    def spent(self) -> float:
        """Return the sum of all shares."""
        return math.fsum(share for _, share in self.entries)

    @property
    def left(self) -> float:
        """Return what can still be spent."""
        return max(0.0, self.total - self.spent)

    def __str__(self) -> str:
        claims = ", ".join(f"{name} {share:g}" for name, share in self.entries) or "nothing spent"
        return f"alpha {self.total:g}: {claims}; {self.left:.3g} left"


def one_of(kind: type[Choice], given: str, name: str) -> Choice:
    """Return the choice of that name, or say which there are."""
    try:
        return kind(given)
    except ValueError:
        raise InputError(f"The {name} must be one of {', '.join(kind)}, not {given!r}.") from None
