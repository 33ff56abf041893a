"""Explain the gap between what was claimed and what was measured, one rung a cause."""

from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Ladder", "Rung"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder: an epsilon, the range it is known to, and where it comes from."""

    name: str
    epsilon: float
    low: float
    high: float
    source: str

    def __str__(self) -> str:
        spread = f" ({self.low:.3f} to {self.high:.3f})" if self.high - self.low > 5e-4 else ""  # noqa: PLR2004, what three decimals show
        return f"{self.name} {self.epsilon:.3f}{spread}: {self.source}"


@dataclass(frozen=True, slots=True)
class Ladder:
    """The six rungs, top to bottom.

    From *accounted* to *mechanism* the step is the accountant's slack; to *attack*, what this attack leaves on
    the table; to *rule*, the price of freezing the threshold for so many trials; to *expected*, what so few
    trials cost. *Observed* scatters around *expected*; it lies above *mechanism* only as often as its level
    allows, or because the mechanism is broken.
    """

    accounted: Rung
    mechanism: Rung
    attack: Rung
    rule: Rung
    expected: Rung
    observed: Rung

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Return the rungs, top to bottom."""
        return (self.accounted, self.mechanism, self.attack, self.rule, self.expected, self.observed)

    @property
    def steps(self) -> tuple[float, ...]:
        """Return how far down each rung after the first lies below the one before it."""
        return tuple(above.epsilon - below.epsilon for above, below in pairwise(self.rungs))

    def __str__(self) -> str:
        return "\n".join(str(rung) for rung in self.rungs)
