"""List the runs in a folder: what each shows, or why it is damaged. One damaged run hides no other."""

from pathlib import Path
from typing import Any, Literal

from canarybank.auditing.system import Verdict
from canarybank.errors import CanarybankError, ConfigError
from canarybank.run.carried import read_scores
from canarybank.run.commitment import Epsilon, Figure, Record
from canarybank.run.folder import COMMITMENT, MANIFEST, RESULTS, Run
from canarybank.run.gating import compare, exceeded_ledger
from canarybank.run.verification import refuse_unverified
from canarybank.store import folder_user

__all__ = ["LargestBound", "RunEntry", "list_runs"]


class LargestBound(Record):
    """The largest bound of a run, and the claims over which its confidence holds."""

    attack: str
    """The attack that gave it."""
    epsilon: Epsilon
    """The bound; null where it is infinite."""
    method: str
    """How counts became it."""
    confidence: float
    """Its confidence."""
    over: str
    """What that confidence covers."""


class RunEntry(Record):
    """One run of a listing."""

    run: str
    """The run's folder."""
    state: Literal["running", "stopped", "waiting", "finished", "damaged"]
    """How far it is: at work now; stopped before its end, with no process at work on it; waiting for releases that
    somebody else records; finished; or not usable."""
    started: str | None = None
    """When it was first started, in UTC."""
    attacks: int | None = None
    """Its attacks, once it is finished."""
    trials: int | None = None
    """The trials of each hypothesis of each canary: those judged, once a system's audit is finished."""
    largest: LargestBound | None = None
    """Its largest bound, once it is finished."""
    claimed: Figure = None
    """The accounted epsilon, or the exact one, of an audit; the ledger's of an audited evolution; the claimed one of a
    system; null where it is infinite."""
    ok: bool | None = None
    """Whether nothing computed or measured exceeds that claim; null where that is not known."""
    tested: bool | None = None
    """Whether a violation of some size would typically have been seen; null where the claim was not judged."""
    reason: str | None = None
    """Why it is damaged or not finished, or why the claim fails."""


def list_runs(folder: Path) -> tuple[RunEntry, ...]:
    """Return an entry for each run that stands in a folder, in the order of their names.

    Args:
        folder: The folder that holds the folders of runs.

    Example:
        >>> entries = {Path(entry.run).name: entry for entry in list_runs(Path("runs"))}
        >>> entries["demo"].state, entries["demo"].attacks, entries["demo"].largest.attack
        ('finished', 2, 'nonce-norm')
    """
    names = (MANIFEST, COMMITMENT, RESULTS)
    places = sorted({path.parent for name in names for path in folder.glob(f"*/{name}")})
    return tuple(_entry(place) for place in places)


def _entry(place: Path) -> RunEntry:
    try:
        return _read(Run.open(place))
    except CanarybankError as error:
        return RunEntry(run=str(place), state="damaged", reason=str(error))


def _read(run: Run) -> RunEntry:
    trials = run.manifest.config.get("audit.trials")
    audits = run.kind == "audit" or bool(run.manifest.config.get("evolve.audit"))
    user = None if run.is_finished else folder_user(run.folder)
    known: dict[str, Any] = {
        "run": str(run.folder),
        "state": "finished" if run.is_finished else "stopped" if user is None else "running",
        "started": run.manifest.started,
        "trials": (trials if isinstance(trials, int) else None) if audits else 0,
    }
    if run.kind == "one-run" and (run.is_finished or (run.folder / COMMITMENT).exists()):
        return _read_one_run(run, known)
    if run.kind == "system" and (run.is_finished or (run.folder / COMMITMENT).exists()):
        return _read_system(run, known)
    if not run.is_finished:
        return RunEntry(**known, reason=_unfinished(run, user))
    refuse_unverified(run)
    results = run.results
    if not results.attacks:
        return _read_unattacked(run, known)
    # A maximum over attacks is a claim of its own, so it is the gate's, with alpha split over them.
    try:
        found = compare(run, results.claim)
    except ConfigError as error:  # its method is a plug-in, which is not imported because a folder names it
        return RunEntry(**known, attacks=len(results.final), reason=str(error))
    exceeded = exceeded_ledger(results)
    return RunEntry(
        **known,
        attacks=len(results.final),
        largest=LargestBound(
            attack=found.attack if results.rounds == 1 else f"{found.attack}, {results.rounds} rounds",
            epsilon=found.epsilon,
            method=found.method,
            confidence=found.confidence,
            over="over all attacks",
        ),
        claimed=found.claimed,
        ok=found.ok and not exceeded,
        tested=found.is_tested,
        reason=f"{exceeded.sentence}." if exceeded else None if found.ok else found.statement,
    )


def _unfinished(run: Run, user: str | None) -> str:
    """Say who is at work on a run, or that nobody is, and what to do then."""
    if user is not None:
        return f"At work: {user}."
    left = run.kind == "audit" and (run.folder / RESULTS).exists()
    why = f"{RESULTS} is there, but {MANIFEST} says that the run is not finished" if left else "No process is at work"
    return f"{why}; run the same command again, and it goes on where it stopped."


def _read_unattacked(run: Run, known: dict[str, Any]) -> RunEntry:
    """Return the entry of an evolution without attacks: what its own canaries showed, where it carried any."""
    results = run.results
    if results.evolution is None or results.evolution.certificate is None:
        return RunEntry(**known)
    found = compare(run, results.epsilon)
    return RunEntry(
        **known,
        largest=LargestBound(
            attack="its own canaries",
            epsilon=found.epsilon,
            method=found.method,
            confidence=found.confidence,
            over="over all evidence",
        ),
        claimed=results.epsilon,
        ok=found.ok,
        tested=found.ok and read_scores(run)[0].declaration.can_show,
        reason=None if found.ok else found.statement,
    )


def _waiting(known: dict[str, Any]) -> dict[str, str]:
    """Return the state of a design that was not judged yet: it waits for releases, unless a process is at work."""
    return {} if known["state"] == "running" else {"state": "waiting"}


def _read_system(run: Run, known: dict[str, Any]) -> RunEntry:
    """Return the entry of a system's audit, with how far it is where it was not judged yet."""
    plant = run.plant
    known |= {"trials": plant.trials, "claimed": plant.claim.epsilon}
    if not run.is_finished:
        return RunEntry(**known | _waiting(known), reason=f"Not judged yet: {run.so_far}.")
    refuse_unverified(run)
    found = run.system_results.found
    known["trials"] = found.judged
    bounds = [each for each in found.shown if each.epsilon is not None]
    worst = max(bounds, key=lambda each: each.epsilon or 0.0, default=None)
    return RunEntry(
        **known,
        largest=None
        if worst is None
        else LargestBound(
            attack=f"{worst.score} score",
            epsilon=worst.epsilon or 0.0,
            method=plant.method if worst.bound is not None else str(worst.evidence),
            confidence=1 - found.alpha,
            over="over all evidence",
        ),
        ok=None if found.verdict is Verdict.DEPENDENT else not found.refuted,
        tested=None if found.verdict is Verdict.DEPENDENT else plant.can_refute,
        reason=None if found.verdict is Verdict.STANDS else found.statement,
    )


def _read_one_run(run: Run, known: dict[str, Any]) -> RunEntry:
    """Return the entry of an audit of one run, with what is due where it was not judged yet."""
    known |= {"trials": 1, "claimed": run.one_run.claim.epsilon}
    if not run.is_finished:
        return RunEntry(**known | _waiting(known), reason=f"Not judged yet: {run.so_far}.")
    refuse_unverified(run)
    found = run.one_run_results.found
    worst = max(found.shown, key=lambda each: each.epsilon)
    return RunEntry(
        **known,
        largest=LargestBound(
            attack=f"{found.canaries:,} canaries in one run",
            epsilon=worst.epsilon,
            method=str(worst.evidence),
            confidence=1 - found.alpha,
            over="over all evidence",
        ),
        ok=not found.refuted,
        tested=run.one_run.declaration.can_show,
        reason=found.statement if found.refuted else None,
    )
