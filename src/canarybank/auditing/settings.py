"""Declare an audit before anything is evaluated, make the claims that its counts then buy, and account for alpha."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self, TypeVar

import numpy as np

from canarybank.auditing.methods import PAPER, Bound, Method, find_method
from canarybank.auditing.methods.pooled import POOLED
from canarybank.auditing.rates import whole_counts
from canarybank.auditing.threshold import Target, ThresholdMode
from canarybank.auditing.trials import Counts
from canarybank.errors import BudgetError, InputError
from canarybank.mechanism import Mechanism

__all__ = [
    "AlphaLedger",
    "Settings",
    "TrialEngine",
    "attack_bound",
    "canary_bound",
    "headline",
    "one_of",
    "pooled_bound",
]

Choice = TypeVar("Choice", bound=StrEnum)
_ROUNDING = 1e-12


class TrialEngine(StrEnum):
    """How trials on our own system are played."""

    LITERAL = "literal"
    PROJECTED = "projected"


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
    engine: TrialEngine = TrialEngine.PROJECTED
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", find_method(self.method))
        object.__setattr__(self, "threshold", one_of(ThresholdMode, self.threshold, "threshold"))
        object.__setattr__(self, "engine", one_of(TrialEngine, self.engine, "engine"))
        object.__setattr__(self, "trials", int(whole_counts("trials", self.trials)))
        if self.trials < 1:
            raise InputError(f"An audit needs at least one trial of each hypothesis, not {self.trials}.")
        self.method.require(self.alpha)
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise InputError(f"A seed is a whole number of at least 0, not {self.seed!r}.")

    def share(self, canaries: int) -> float:
        """Return the level of each bound: all of alpha where canaries are pooled, an even share of it elsewhere."""
        return self.method.share(self.alpha, canaries)

    def target(self, mechanism: Mechanism, canaries: int) -> Target:
        """Return what the threshold is chosen for."""
        return Target(self.trials, mechanism.delta, self.share(canaries), self.method, canaries, mechanism.q)


def attack_bound(counts: Sequence[Counts], mechanism: Mechanism, settings: Settings) -> Bound:
    """Return an attack's headline from its canaries' counts.

    With probability at least 1 - alpha it does not exceed the epsilon of the mechanism that gave the counts.
    """
    bounds = [canary_bound(each, mechanism, settings, len(counts)) for each in counts]
    return headline(bounds, pooled_bound(counts, mechanism, settings), settings)


def canary_bound(counts: Counts, mechanism: Mechanism, settings: Settings, canaries: int) -> Bound:
    """Return one canary's bound at its share of alpha: by the declared method, or what it shows of a canary alone."""
    share = settings.alpha / canaries
    return settings.method.single.bound([counts], delta=mechanism.delta, alpha=share, q=mechanism.q)


def pooled_bound(counts: Sequence[Counts], mechanism: Mechanism, settings: Settings) -> Bound | None:
    """Return the bound over all canaries at all of alpha; none of included canaries' counts, or beyond its proof."""
    method = settings.method if settings.method.pools else POOLED
    if not settings.method.pools and (settings.method.included or settings.alpha > method.largest_alpha):
        return None
    return method.bound(counts, delta=mechanism.delta, alpha=settings.alpha, q=mechanism.q)


def headline(bounds: Sequence[Bound], over_all: Bound | None, settings: Settings) -> Bound:
    """Return the one claim that all of alpha buys: the pooled bound, or the largest of the canaries' own."""
    if not bounds:
        raise InputError("An audit needs at least one canary.")
    if settings.method.pools and over_all is not None:
        return over_all
    best = max(bounds, key=lambda bound: bound.epsilon)
    if len(bounds) == 1:
        return best
    union = f"{best.assumption}; the largest of {len(bounds)} canaries' bounds, alpha split evenly over them"
    return replace(best, confidence=1 - settings.alpha, assumption=union)


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
        for position, (name, share) in enumerate(self.entries):
            self._admit(name, share, self.entries[:position])

    def _admit(self, name: str, share: float, before: tuple[tuple[str, float], ...]) -> None:
        if not share > 0:
            raise InputError(
                f"The share of {name!r} must be positive, not {share!r}; a claim at no alpha cannot be made."
            )
        if name in dict(before):
            raise BudgetError(
                f"{name!r} already has its share of alpha, {dict(before)[name]:g}; one claim is made once."
            )
        spent = math.fsum(amount for _, amount in before)
        if spent + share > self.total * (1 + _ROUNDING):
            raise BudgetError(
                f"{name!r} asks for alpha {share:g}, but {self.total - spent:g} of {self.total:g} is left; declare a "
                "larger total before the trials, or make fewer claims."
            )

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

    def share(self, name: str) -> float:
        """Return the alpha that a claim was given."""
        if name not in dict(self.entries):
            known = ", ".join(name for name, _ in self.entries) or "none"
            raise BudgetError(f"{name!r} has no share of alpha; the claims with one: {known}.")
        return dict(self.entries)[name]

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
