"""Hold what an audit found: per canary, over canaries, and as a ladder."""

from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from canarybank.audit.ladder import Ladder
from canarybank.audit.ledger import AlphaLedger
from canarybank.audit.methods import Bound
from canarybank.audit.threshold import Threshold
from canarybank.audit.trials import Counts
from canarybank.mechanism import Mechanism
from canarybank.score import Interval

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["AuditResult", "CanaryResult"]


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What one canary's frozen rule showed on the evaluation cohort."""

    canary: str
    bank_hash: str
    """The content hash of the bank with this canary's probes in it: what the server would commit to."""
    inspected: tuple[int, ...]
    selected: tuple[int, ...]
    """The pool indices of the probes, in the order in which they fill the reserved positions."""
    mu_eff: float
    probe_norm: float
    """The L2 norm of the canary's clipped contribution on the inspected coordinates; at most clip."""
    threshold: Threshold
    counts: Counts
    bound: Bound
    supremum: Interval
    """The exact epsilon of this attack on the evaluation cohort, over all thresholds."""
    rule: Interval
    """The exact epsilon of the frozen threshold on the evaluation cohort."""
    absent_rate: Interval
    """The exact false positive rate of the frozen rule."""
    eligible_rate: Interval
    """The exact true positive rate of the frozen rule."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What one attack showed, over its canaries.

    ``headline`` is the one claim declared beforehand, at level alpha. ``pooled`` stands beside it as a claim of its
    own at the same level; taking the larger of the two would be a third claim that nobody made.
    """

    attack: str
    mechanism: Mechanism
    eligible: int
    trials: int
    seed: int
    headline: Bound
    pooled: Bound | None
    canaries: tuple[CanaryResult, ...]
    ladder: Ladder
    ledger: AlphaLedger
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        best, claim = max(canary.supremum.lower for canary in self.canaries), self.headline
        return (
            f"AuditResult({self.attack}: epsilon >= {claim.epsilon:.3f} at {100 * claim.confidence:.6g}% by "
            f"{claim.method}, {self.trials:,} trials a hypothesis, {len(self.canaries)} canaries; "
            f"exact {best:.3f} of {self.ladder.mechanism.epsilon:.3f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as plain values."""
        return asdict(self)

    def to_polars(self) -> "pl.DataFrame":
        """Return a frame with a row for each canary: its counts, its bound, and the exact figures beside it."""
        import polars as pl

        return pl.DataFrame([self._row(canary) for canary in self.canaries])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the ladder with matplotlib, on given axes or new ones, and return the axes."""
        from canarybank.audit.plot import plot_ladder

        return plot_ladder(self, ax)

    def _row(self, canary: CanaryResult) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "canary": canary.canary,
            "bound": canary.bound.epsilon,
            "confidence": canary.bound.confidence,
            "method": str(canary.bound.method),
            "tp": canary.counts.tp,
            "fp": canary.counts.fp,
            "n1": canary.counts.n1,
            "n0": canary.counts.n0,
            "threshold": canary.threshold.value,
            "mu_eff": canary.mu_eff,
            "exact_rule": canary.rule.midpoint,
            "exact_attack": canary.supremum.midpoint,
            "exact_mechanism": self.ladder.mechanism.epsilon,
            "delta": self.mechanism.delta,
        }

    def _repr_html_(self) -> str:
        rungs = "".join(
            f"<tr><th scope='row'>{rung.name}</th><td>{rung.epsilon:.3f}</td><td>{escape(rung.source)}</td></tr>"
            for rung in self.ladder.rungs
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        claim = (
            f"epsilon &ge; {self.headline.epsilon:.3f} with {100 * self.headline.confidence:g}% confidence, by the "
            f"method {escape(self.headline.method)}, {self.trials:,} trials of each hypothesis, {len(self.canaries)} "
            f"canaries, delta {self.mechanism.delta:g}"
        )
        return (
            f"<div><p><strong>{escape(self.attack)}</strong>: {claim}</p><table><thead><tr><th scope='col'>rung</th>"
            f"<th scope='col'>epsilon</th><th scope='col'>where it comes from</th></tr></thead><tbody>{rungs}</tbody>"
            f"</table>{notes}</div>"
        )
