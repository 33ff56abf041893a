"""Hold what is declared before anything is evaluated."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np

from canarybank.audit.methods import Method, find_method
from canarybank.audit.methods.paper import PAPER
from canarybank.audit.rates import whole_counts
from canarybank.audit.target import Target
from canarybank.audit.threshold import ThresholdMode
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism

__all__ = ["Settings", "TrialEngine", "one_of"]

Choice = TypeVar("Choice", bound=StrEnum)


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


def one_of(kind: type[Choice], given: str, name: str) -> Choice:
    """Return the choice of that name, or say which there are."""
    try:
        return kind(given)
    except ValueError:
        raise InputError(f"The {name} must be one of {', '.join(kind)}, not {given!r}.") from None
