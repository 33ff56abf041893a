"""Hold what an audit found: of each canary, of each attack over its canaries, as a ladder, and all of it together.

These are the values that a run's ``results.json`` stores. Where a system has no law, nothing is computed exactly: those
figures are None, and an infinite one is infinite.
"""

import math
from dataclasses import asdict, dataclass, field, fields
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from canarybank.attack import PoolFacts, SearchFacts
from canarybank.auditing.methods import Bound
from canarybank.auditing.settings import AlphaLedger, Threshold
from canarybank.auditing.trials import Counts
from canarybank.errors import InputError, MissingError
from canarybank.mechanism import Mechanism
from canarybank.score import Interval

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["AttackResult", "AuditResult", "CanaryResult", "Ladder", "Rung"]

WIDE: Final = 1e-3
"""The width of a certified interval, relative to its lower end or 1, from which on its middle would say too much."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder: an epsilon, the range it is known to, and where it comes from."""

    name: str
    """Which step."""
    epsilon: float
    """Its epsilon; null where it is infinite."""
    low: float
    """The lower end of the range it is known to, or falls into."""
    high: float
    """The upper end."""
    source: str
    """Where it comes from."""

    @classmethod
    def known(cls, name: str, interval: Interval, source: str) -> "Rung":
        """Return the rung of a certified interval: its middle, or its lower end where the middle would say too much."""
        is_wide = WIDE * max(1.0, interval.lower) < interval.width < math.inf
        return cls(name, interval.lower if is_wide else interval.midpoint, interval.lower, interval.upper, source)

    def __str__(self) -> str:
        spread = f" ({self.low:.3f} to {self.high:.3f})" if self.high - self.low > 5e-4 else ""  # noqa: PLR2004, what three decimals show
        return f"{self.name} {self.epsilon:.3f}{spread}: {self.source}"


@dataclass(frozen=True, slots=True)
class Ladder:
    """The gap between what was claimed and what was measured, one rung a cause, top to bottom.

    From *accounted* to *mechanism* the step is the accountant's slack; to *attack*, what this attack leaves on
    the table; to *rule*, the price of freezing the threshold for so many trials; to *expected*, what so few
    trials cost. *Observed* scatters around *expected*; it lies above *mechanism* only as often as its level
    allows, or because the mechanism is broken. A system without a law has no rungs between *mechanism* and *observed*.
    """

    accounted: Rung
    """What the operator's accountant claims."""
    mechanism: Rung
    """The exact epsilon of the mechanism, over as many releases."""
    attack: Rung | None
    """The exact epsilon of this attack, over all thresholds."""
    rule: Rung | None
    """The exact epsilon at the frozen threshold."""
    expected: Rung | None
    """The median and 5% to 95% range of the bound at so many trials."""
    observed: Rung
    """The bound that the trials gave."""

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Return the rungs that there are, top to bottom."""
        return tuple(rung for each in fields(self) if (rung := getattr(self, each.name)) is not None)

    @property
    def steps(self) -> tuple[float, ...]:
        """Return how far down each rung after the first lies below the one before it."""
        return tuple(above.epsilon - below.epsilon for above, below in pairwise(self.rungs))

    def reached(self, name: Literal["attack", "rule"]) -> tuple[float, bool] | None:
        """Return the exact epsilon of a rung, and whether it is its certified lower end alone; None where unknown.

        No attack exceeds its mechanism, unless the system does not run it. Where a rate underflows, the certified
        interval has no upper end of its own, and what is known is the lower one.
        """
        rung, most = getattr(self, name), self.mechanism.epsilon
        if rung is None:
            return None
        if most < math.inf and min(rung.high, most) - rung.low > WIDE * max(1.0, rung.low):
            return rung.low, True
        return rung.epsilon if rung.low > most else min(rung.epsilon, most), False

    def __str__(self) -> str:
        return "\n".join(str(rung) for rung in self.rungs)


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What one canary's frozen rule showed on the evaluation cohort.

    After several rounds the rule is about the sum of their scores; bank, positions and separation are the last one's.
    """

    canary: str
    """The canary's id."""
    bank_hash: str
    """The sha256 of the bank with the probes in it: what the server would commit to."""
    inspected: tuple[int, ...]
    """The bank positions that the score reads."""
    selected: tuple[int, ...]
    """The pool indices of the probes, in the order of their positions."""
    mu_eff: float
    """The separation of a participating canary, in deviations of the score."""
    probe_norm: float
    """The L2 norm of the canary's clipped contribution on the inspected positions; at most clip."""
    threshold: Threshold
    """The frozen threshold."""
    counts: Counts
    """What the trials counted."""
    bound: Bound
    """The bound from these counts at this canary's share of alpha."""
    supremum: Interval | None
    """The exact epsilon of this attack on the evaluation cohort, over all thresholds."""
    rule: Interval | None
    """The exact epsilon at the frozen threshold."""
    absent_rate: Interval | None
    """The exact false positive rate of the frozen rule."""
    eligible_rate: Interval | None
    """The exact true positive rate of the frozen rule."""
    exact: float | None = None
    """The point value of the supremum."""
    run_score: float | None = None
    """The score that the audited run's own releases have, where there is such a run."""
    pool: PoolFacts | None = None
    """The written texts that its probes were selected from; null where there were none."""
    search: SearchFacts | None = None
    """What the search for it found; null for an attack that does not search."""


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What one attack showed over its canaries, in the first ``rounds`` releases.

    ``headline`` is the one claim declared beforehand, at level alpha. ``pooled`` stands beside it as a claim of its
    own at the same level; taking the larger of the two would be a third claim that nobody made.
    """

    attack: str
    """The attack's name."""
    description: str
    """What the attacker does."""
    headline: Bound
    """The one claim declared beforehand, at level alpha."""
    pooled: Bound | None
    """The pooled bound: a claim of its own, not to be combined."""
    headline_canary: int
    """The index of the canary with the largest bound, which figures show."""
    canaries: tuple[CanaryResult, ...]
    """Each canary's own results."""
    ladder: Ladder
    """Where the gap to the claim comes from."""
    ledger: AlphaLedger
    """How alpha was split."""
    rounds: int = 1
    """The releases that the rule is about."""
    plants: bool = True
    """Whether the attacker plants entries in the bank."""
    on_people: bool = True
    """Whether the canaries are people of the data, and not made up."""
    notes: tuple[str, ...] = ()
    """What a reader should know of this attack."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """The data behind the figures of the page."""

    def __str__(self) -> str:
        claim, best = self.headline, self.ladder.attack
        exact = "" if best is None else f"; exact {best.low:.3f} of {self.ladder.mechanism.epsilon:.3f}"
        over = f" over {self.rounds} releases" if self.rounds > 1 else ""
        return (
            f"{self.attack}{over}: epsilon >= {claim.epsilon:.3f} at {100 * claim.confidence:.6g}% by "
            f"{claim.method}, {self.canaries[0].counts.n1:,} trials a hypothesis, {len(self.canaries)} canaries{exact}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class AuditResult:
    """What an audit in memory showed, attack by attack; each attack is a claim of its own at level alpha."""

    attacks: tuple[AttackResult, ...]
    mechanism: Mechanism
    eligible: int
    trials: int
    seed: int
    notes: tuple[str, ...] = ()

    def attack(self, name: str, rounds: int | None = None) -> AttackResult:
        """Return what an attack showed, after all of its rounds unless a number of them is given."""
        found = [each for each in self.attacks if each.attack == name and rounds in {None, each.rounds}]
        if not found:
            raise InputError(f"There is no attack {name!r} here; there are {', '.join(self.names)}.")
        return found[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the attacks, in their order."""
        return tuple(dict.fromkeys(each.attack for each in self.attacks))

    @property
    def only(self) -> AttackResult:
        """Return what the one attack showed; of several, say which to choose from."""
        if len(self.names) > 1:
            raise InputError(f"There are several attacks, {', '.join(self.names)}; choose one by .attack(name).")
        return self.attacks[-1]

    @property
    def headline(self) -> Bound:
        """Return the claim of the one attack."""
        return self.only.headline

    @property
    def pooled(self) -> Bound | None:
        """Return the pooled bound of the one attack."""
        return self.only.pooled

    @property
    def canaries(self) -> tuple[CanaryResult, ...]:
        """Return the canaries of the one attack."""
        return self.only.canaries

    @property
    def ladder(self) -> Ladder:
        """Return the ladder of the one attack."""
        return self.only.ladder

    @property
    def ledger(self) -> AlphaLedger:
        """Return how the alpha of the one attack was split."""
        return self.only.ledger

    def __repr__(self) -> str:
        return f"AuditResult({' | '.join(map(str, self.attacks))})"

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as plain values."""
        return asdict(self)

    def to_polars(self) -> "pl.DataFrame":
        """Return a frame with a row for each canary of each attack: its counts, its bound, the exact figures beside."""
        import polars as pl

        return pl.DataFrame(self.rows())

    def to_pandas(self) -> "pd.DataFrame":
        """Return the same table for pandas, which must be installed."""
        try:
            import pandas as pd
        except ImportError as problem:
            raise MissingError("A pandas frame needs pandas; run: pip install pandas") from problem
        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each canary of each attack, as plain values."""
        return [
            {
                "attack": each.attack,
                "rounds": each.rounds,
                "canary": canary.canary,
                "bound": canary.bound.epsilon,
                "confidence": canary.bound.confidence,
                "method": str(canary.bound.method),
                **asdict(canary.counts),
                "threshold": canary.threshold.value,
                "mu_eff": canary.mu_eff,
                "exact_rule": None if canary.rule is None else canary.rule.midpoint,
                "exact_attack": None if canary.supremum is None else canary.supremum.midpoint,
                "exact_mechanism": each.ladder.mechanism.epsilon,
                "delta": self.mechanism.delta,
            }
            for each in self.attacks
            for canary in each.canaries
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the ladder of the one attack with matplotlib, as bars from top to bottom, and return the axes.

        The range of each rung is a whisker. Left out, the axes are new ones.
        """
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        rungs, colours = self.ladder.rungs, {"accounted": "#7c8696", "expected": "#e0957a", "observed": "#c2410c"}
        values = [rung.epsilon for rung in rungs]
        ends = [(max(0.0, rung.epsilon - rung.low), max(0.0, rung.high - rung.epsilon)) for rung in rungs]
        bars = ax.barh(
            [rung.name for rung in rungs],
            values,
            xerr=list(zip(*ends, strict=True)),
            color=[colours.get(rung.name, "#0b5fa5") for rung in rungs],
            error_kw={"elinewidth": 1.2, "capsize": 3},
        )
        ax.bar_label(bars, labels=[f"{value:.3f}" for value in values], padding=6)
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.set_xlabel(f"epsilon at delta {self.mechanism.delta:g}")
        ax.set_title(f"{self.only.attack}, {self.trials:,} trials a hypothesis, {self.headline.method}")
        return ax

    def _repr_html_(self) -> str:
        return "".join(self._attack_html(each) for each in self.attacks)

    def _attack_html(self, each: AttackResult) -> str:
        rungs = "".join(
            f"<tr><th scope='row'>{rung.name}</th><td>{rung.epsilon:.3f}</td><td>{escape(rung.source)}</td></tr>"
            for rung in each.ladder.rungs
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in (*each.notes, *self.notes))
        claim = (
            f"epsilon &ge; {each.headline.epsilon:.3f} with {100 * each.headline.confidence:g}% confidence, by the "
            f"method {escape(each.headline.method)}, {self.trials:,} trials of each hypothesis, {len(each.canaries)} "
            f"canaries, delta {self.mechanism.delta:g}"
        )
        return (
            f"<div><p><strong>{escape(each.attack)}</strong>: {claim}</p><table><thead><tr><th scope='col'>rung</th>"
            f"<th scope='col'>epsilon</th><th scope='col'>where it comes from</th></tr></thead><tbody>{rungs}</tbody>"
            f"</table>{notes}</div>"
        )
