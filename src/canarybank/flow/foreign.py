"""Audit somebody else's system from Python: in memory, or in a folder that is resumed, verified, gated and reported."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from canarybank.auditing import Settings
from canarybank.auditing.declaration import Declaration, Evidence, Scoring
from canarybank.auditing.settings import one_of
from canarybank.auditing.system import SystemResult
from canarybank.config.loading import Resolved, fields
from canarybank.config.model import RECEIVED, Config
from canarybank.errors import InputError
from canarybank.flow.audit import hold_to
from canarybank.flow.system import SystemWork
from canarybank.mechanism import Claim, Mechanism
from canarybank.progress import SILENT, Progress
from canarybank.registry import SYSTEMS
from canarybank.run.folder import Run
from canarybank.run.plant import SCHEDULE, Plant
from canarybank.run.verification import refuse_unverified
from canarybank.score import LinearScore
from canarybank.store import write_atomic
from canarybank.systems.command import schedule_text
from canarybank.systems.trials import playing

__all__ = ["audit_system"]

Scores = LinearScore | Sequence[LinearScore] | Mapping[str, LinearScore | Sequence[LinearScore]]


def audit_system(
    system: Any,
    score: Scores | None = None,
    claim: Claim | Mechanism | None = None,
    settings: Settings | None = None,
    *,
    canaries: Sequence[str] = ("canary",),
    apart: int | None = None,
    evidence: Evidence | str | Sequence[Evidence | str] = (),
    batch: int | None = None,
    stop_when_refuted: bool = False,
    folder: Path | str | None = None,
    name: str | None = None,
    progress: Progress = SILENT,
    committed: Callable[[str], None] | None = None,
) -> SystemResult:
    """Audit any system by its runs; with a folder, the same call resumes an audit that was stopped.

    The system is run with the canary absent and with it eligible, in random order. Some runs are set apart: a score is
    learnt from their releases, and thresholds are fitted. The others are judged. Give a resumed audit the very system
    that it began with: its name is recorded, and its code cannot be checked. `canarybank verify`, `gate` and `report`
    read the folder, and so does ``open_run``; none of them imports the system.

    Args:
        system: A function of (eligible, size, rng) that returns a release a row, a thing with such a ``release``, or
            one with ``play(trials, rng)`` (see ``canarybank.systems.trials``). Whether runs are independent is checked.
        score: A score that was designed beforehand, or one a round, or one of these for each canary. It is used beside
            the one that is learnt.
        claim: What is tested: a claim, or a mechanism, which claims its exact epsilon.
        settings: The judged runs of each hypothesis of each canary (``trials``), alpha, method and seed.
        canaries: The canaries' names, where the system has several.
        apart: The runs of each hypothesis of each canary to fit on; by default half as many as are judged.
        evidence: Bound, curve and betting; by default bound, and curve where the claim names a mechanism.
        batch: The runs that the system is asked for at once.
        stop_when_refuted: End as soon as betting, which must be among the evidence, refutes the claim.
        folder: The run's folder; left out, nothing stays on disk. Only one process may work on it.
        name: What the folder calls the system; by default the module and name of its class or function.
        progress: Where progress is shown.
        committed: Called with the commitment's hash once it is on disk, before the system is first run.

    Example:
        >>> import numpy as np
        >>> canary = np.array([0.1, 0.0])
        >>> def release(eligible, size, rng):  # noise of half the size that is claimed
        ...     return rng.normal(0.0, 0.05, (size, 2)) + eligible * canary
        >>> found = audit_system(release, claim=Mechanism(q=1.0, sigma=1.0), settings=Settings(trials=300))
        >>> str(found.verdict)
        'refuted'
    """
    if claim is None:
        raise InputError("Say what the system claims: claim=Claim(epsilon, delta), or claim=Mechanism(...).")
    if not isinstance(claim, Claim | Mechanism):
        raise InputError(f"The claim must be a Claim or a Mechanism, not {claim!r}; Claim(epsilon, delta) makes one.")
    stated = Claim.of(claim) if isinstance(claim, Mechanism) else claim
    kinds = (evidence,) if isinstance(evidence, str) else evidence
    designed = _designed(score, canaries)
    declared = Declaration(
        claim=stated,
        settings=settings or Settings(trials=500),
        canaries=tuple(canaries),
        apart=apart or 0,
        scores=(*([Scoring.DESIGNED] if designed else []), Scoring.FITTED),
        evidence=tuple(one_of(Evidence, each, "evidence") for each in kinds),
        batch=batch or 0,
    )
    resolved = _resolved(declared, name or _name(system))
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory())) / "run" if folder is None else Path(folder)
        run = stack.enter_context(Run.held(resolved, place, "", "system"))
        if run.is_finished:
            refuse_unverified(run, rewritten=True)
            return run.system_results.found
        schedule = schedule_text(declared.schedule)
        plant = Plant.of(declared, resolved.config, designed, {SCHEDULE: schedule.encode()})
        write_atomic(run.folder / SCHEDULE, schedule)
        hold_to(run, plant, committed)
        work = SystemWork(run, plant, progress)
        work.play(playing(system), stop_when_refuted=stop_when_refuted)
        return work.finish().found


def _designed(score: Scores | None, canaries: Sequence[str]) -> dict[str, tuple[LinearScore, ...]]:
    """Return the designed scores of each canary, one a round."""
    if score is None:
        return {}
    given = score if isinstance(score, Mapping) else dict.fromkeys(canaries, score)
    if set(given) != set(canaries):
        raise InputError(f"Scores are given for {sorted(given)}, and the canaries are {sorted(canaries)}.")
    return {name: (each,) if isinstance(each, LinearScore) else tuple(each) for name, each in given.items()}


def _resolved(declared: Declaration, name: str) -> Resolved:
    """Return the configuration that the folder keeps: the defaults, with what this audit was given."""
    if SYSTEMS.has(name):
        raise InputError(
            f"{name!r} names a registered system, or has its form module:name; choose another name, for this one is "
            "written down and never imported."
        )
    settings, claim = declared.settings, declared.claim
    given: dict[str, Any] = {
        "mechanism": {} if claim.mechanism is None else claim.mechanism.to_json(),
        "audit": {
            "alpha": settings.alpha,
            "method": settings.method.name,
            "accounted": claim.epsilon if math.isfinite(claim.epsilon) else None,
        },
        "system": {
            "name": name,
            "mechanism": claim.mechanism is not None,
            "neighbours": claim.neighbours,
            "rounds": claim.rounds,
            "canaries": len(declared.canaries),
            "runs": settings.trials,
            "apart": declared.apart,
            "batch": declared.batch,
            "scores": tuple(map(str, declared.scores)),
            "evidence": tuple(map(str, declared.evidence)),
        },
        "run": {"seed": settings.seed},
    }
    config = Config.model_validate(given, context=dict(RECEIVED))
    keys = {f"{section}.{key}" for section, values in given.items() for key in values}
    return Resolved(config, {key: "audit_system" if key in keys else "default" for key in fields()})


def _name(system: Any) -> str:
    """Return the module and name of a system's class, or of the function that stands behind it."""
    of = getattr(system, "function", system)
    named = of if hasattr(of, "__qualname__") else type(of)
    return f"{named.__module__}.{named.__qualname__}"
