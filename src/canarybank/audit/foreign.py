"""Audit any system by trials: calibrate through the system itself, then count.

Nothing is assumed of the system but that it gives releases with the canary absent or eligible, independently from
call to call. There are no exact figures: those need our own mechanism's law.
"""

from dataclasses import dataclass

from canarybank.audit.methods import Bound, epsilon_lower
from canarybank.audit.settings import Settings
from canarybank.audit.system import System
from canarybank.audit.threshold import Threshold, calibrated
from canarybank.audit.trials import Counts, Literal, count
from canarybank.engine import Engine, Serial
from canarybank.mechanism import Mechanism, epsilon
from canarybank.progress import SILENT, Progress
from canarybank.score import LinearScore

__all__ = ["SystemResult", "audit_system"]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """What trials showed of a system, beside what its mechanism allows."""

    threshold: Threshold
    counts: Counts
    bound: Bound
    allowed: float

    @property
    def violation(self) -> bool:
        """Say whether the bound exceeds what the declared mechanism allows: by chance at most as often as alpha."""
        return self.bound.epsilon > self.allowed

    def __repr__(self) -> str:
        verdict = "exceeds" if self.violation else "does not exceed"
        return f"SystemResult({self.bound}; {verdict} the {self.allowed:.3f} that the declared mechanism allows)"


def audit_system(
    system: System,
    score: LinearScore,
    mechanism: Mechanism,
    settings: Settings,
    *,
    address: tuple[str | int, ...] = ("system",),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> SystemResult:
    """Audit one canary of a system, with a score designed for the mechanism that the system claims to run.

    The threshold comes from trials of the system itself that are then thrown away; the counts come from fresh ones.
    Without an engine the system is called once at a time: somebody else's may hold state that threads would race for.
    """
    settings.method.require_alone()
    trials, engine = Literal(system, score), engine or Serial()
    aim = settings.target(mechanism, 1)
    number, seed = settings.trials, settings.seed
    threshold = calibrated(trials, aim, number=number, seed=seed, path=address, engine=engine, progress=progress)
    judged = (*address, "evaluation")
    counts = count(trials, threshold.value, number, seed=seed, path=judged, engine=engine, progress=progress)
    bound = epsilon_lower(
        counts.tp, counts.fp, counts.n1, counts.n0, delta=mechanism.delta, alpha=settings.alpha, method=settings.method
    )
    return SystemResult(threshold, counts, bound, epsilon(mechanism))
