"""What a bound is: a lower bound on epsilon from counts, with everything that it stands on.

tp of n1 trials with the canary eligible and fp of n0 trials with it absent called the canary present. Forward is
the claim P1(A) <= exp(epsilon) P0(A) + delta about the event "present", reverse the one about its complement with
the hypotheses exchanged: epsilon is that of adding or removing one user, so both must hold.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["FEW_EVENTS", "Bound", "Branch", "few_events"]

FEW_EVENTS: Final = 10
"""Below this many events of a kind a bound says more about the number of trials than about the rate."""


class Branch(StrEnum):
    """Which direction of the definition gave the bound."""

    FORWARD = "forward"
    REVERSE = "reverse"
    NONE = "none"


@dataclass(frozen=True, slots=True, repr=False)
class Bound:
    """A lower bound on epsilon at delta, with what it stands on.

    Where the assumption holds, the probability that ``epsilon`` exceeds the true one is at most 1 - confidence.
    """

    epsilon: float
    method: str
    """The name of the method."""
    assumption: str
    confidence: float
    delta: float
    trials: tuple[int, int]
    """Trials with the canary eligible (or surely taking part, where the method asks for that), and with it absent."""
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


def few_events(branch: Branch, counts: tuple[int, int], trials: tuple[int, int]) -> str | None:
    """Return a warning where a branch stands on fewer events of a kind than ``FEW_EVENTS``."""
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
