"""List the runs in a folder: what each shows, or why it is damaged. One damaged run hides no other."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from canarybank.errors import CanarybankError, ConfigError
from canarybank.experiment.commitment import Figure, Record
from canarybank.experiment.evolution import EvolutionRun
from canarybank.experiment.folder import COMMITMENT, MANIFEST, RESULTS, Run, is_evolution
from canarybank.experiment.gating import compare, exceeded_ledger, stated_claim
from canarybank.experiment.verification import refuse_unverified

__all__ = ["LargestBound", "RunEntry", "list_runs"]


class LargestBound(Record):
    """The largest bound of a run, and the claims over which its confidence holds."""

    attack: str = Field(description="The attack that gave it.")
    epsilon: float = Field(description="The bound.")
    method: str = Field(description="How counts became it.")
    confidence: float = Field(description="Its confidence.")
    over: str = Field(description="What that confidence covers.")


class RunEntry(Record):
    """One run of a listing."""

    run: str = Field(description="The run's folder.")
    state: Literal["started", "finished", "damaged"] = Field(description="How far it is, or that it is not usable.")
    started: str | None = Field(default=None, description="When it was first started, in UTC.")
    attacks: int | None = Field(default=None, description="Its attacks, once it is finished.")
    trials: int | None = Field(default=None, description="The trials of each hypothesis of each canary.")
    largest: LargestBound | None = Field(default=None, description="Its largest bound, once it is finished.")
    claimed: Figure = Field(
        default=None,
        description="The accounted epsilon, or the exact one, of an audit; the ledger's of an audited evolution; null "
        "where it is infinite.",
    )
    ok: bool | None = Field(default=None, description="Whether nothing computed or measured exceeds that claim.")
    reason: str | None = Field(default=None, description="Why it is damaged or not finished, or why the claim fails.")


def list_runs(folder: Path) -> tuple[RunEntry, ...]:
    """Return an entry for each run that stands in a folder, in the order of their names."""
    names = (MANIFEST, COMMITMENT, RESULTS)
    places = sorted({path.parent for name in names for path in folder.glob(f"*/{name}")})
    return tuple(_entry(place) for place in places)


def _entry(place: Path) -> RunEntry:
    try:
        return _evolution(EvolutionRun.open(place)) if is_evolution(place) else _audit(Run.open(place))
    except CanarybankError as error:
        return RunEntry(run=str(place), state="damaged", reason=str(error))


def _audit(run: Run) -> RunEntry:
    trials = run.manifest.config.get("audit.trials")
    known: dict[str, Any] = {"run": str(run.folder), "state": run.manifest.state, "started": run.manifest.started}
    known["trials"] = trials if isinstance(trials, int) else None
    if not run.is_finished:
        left = (run.folder / RESULTS).exists()
        why = f"{RESULTS} is there, but {MANIFEST} says that the run is not finished; run the same command again."
        return RunEntry(**known, reason=why if left else None)
    refuse_unverified(run)
    results = run.results
    # A maximum over attacks is a claim of its own, so it is the gate's, with alpha split over them.
    try:
        found = compare(run, stated_claim(results))
    except ConfigError as error:  # its method is a plug-in, which is not imported because a folder names it
        return RunEntry(**known, attacks=len(results.attacks), reason=str(error))
    largest = LargestBound(
        attack=found.attack,
        epsilon=found.epsilon,
        method=found.method,
        confidence=found.confidence,
        over="over all attacks",
    )
    return RunEntry(
        **known,
        attacks=len(results.attacks),
        largest=largest,
        claimed=found.claimed,
        ok=found.ok,
        reason=None if found.ok else found.statement,
    )


def _evolution(run: EvolutionRun) -> RunEntry:
    """Return the entry of an evolution: its largest bound is that of its longest prefix."""
    known: dict[str, Any] = {"run": str(run.folder), "state": run.manifest.state, "started": run.manifest.started}
    if not run.is_finished:
        return RunEntry(**known, trials=0)
    run.refuse_altered()
    audit = run.results.audit
    if audit is None or not audit.prefixes:
        return RunEntry(**known, trials=0)
    last = audit.prefixes[-1].bound
    largest = LargestBound(
        attack=f"{audit.attack}, {len(audit.prefixes)} rounds",
        epsilon=last.epsilon,
        method=last.method,
        confidence=last.confidence,
        over="for this number of rounds",
    )
    exceeded = exceeded_ledger(run.results)
    return RunEntry(
        **known,
        attacks=1,
        trials=audit.trials,
        largest=largest,
        claimed=run.results.rounds[-1].epsilon,
        ok=not exceeded,
        reason=f"{exceeded}." if exceeded else None,
    )
