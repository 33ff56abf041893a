"""Audit somebody else's system, in memory or in a folder that can be resumed, verified, gated and reported.

The rule of such a system is not known before the system runs, for its threshold is fitted on the system's own trials.
So a folder takes two steps where an audit of our own mechanism takes one. ``commitment.json`` holds everything that is
decided beforehand and the recipe of the fit, and is on disk before the system is first called. After the calibration
trials ``sealed.json`` holds the fitted threshold and the commitment's hash; ``trials.log`` begins with the seal's hash.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from canarybank.auditing import Settings, SystemAudit, SystemResult
from canarybank.auditing import audit_system as audit_in_memory
from canarybank.config.loading import Resolved, decisive, fields, flatten
from canarybank.config.model import RECEIVED, Config
from canarybank.engine import Engine, Serial
from canarybank.errors import InputError, StoreError
from canarybank.flow.audit import hold_to, lost_documents, restore
from canarybank.mechanism import Claim, Mechanism, epsilon
from canarybank.progress import SILENT, Progress
from canarybank.registry import SYSTEMS
from canarybank.run.commitment import Commitment, Seal, commit, finite
from canarybank.run.folder import RESULTS, SEALED, TRIALS, Run
from canarybank.run.results import Results
from canarybank.run.trials_log import ShardLog
from canarybank.run.verification import refuse_unverified
from canarybank.score import LinearScore
from canarybank.store import hash_json
from canarybank.systems import System

__all__ = ["audit_system"]

NOTE = (
    "The releases are those of a system that is not canarybank's own. Its threshold was fitted on {trials:,} trials of "
    "each hypothesis of the system itself, after the commitment and before the evaluation; sealed.json holds it. The "
    "bound assumes that releases are independent from call to call."
)


def audit_system(
    system: System,
    score: LinearScore,
    claim: Claim | Mechanism,
    settings: Settings,
    *,
    folder: Path | str | None = None,
    name: str | None = None,
    engine: Engine | None = None,
    progress: Progress = SILENT,
    committed: Callable[[str], None] | None = None,
) -> SystemResult:
    """Audit one canary of any system by trials; with a folder, the same call resumes an audit that was stopped.

    Give a resumed audit the very system that it began with: its name is recorded, and its code cannot be checked. Where
    the system draws from the generator that it is given, a resumed audit gives the same bytes. Once
    ``sealed.json`` is written the threshold is never fitted again. `canarybank verify`, `gate` and `report` read the
    folder, and so does ``open_run``; none of them imports the system.

    Args:
        system: What releases, with the canary absent or eligible; releases must be independent from call to call.
        score: The score of a release, designed for the mechanism that the system claims to run.
        claim: That mechanism, or a claim that names it.
        settings: Trials, alpha, method and seed, declared before the system is called.
        folder: The run's folder; left out, everything stays in memory. Only one process may work on it.
        name: What the folder calls the system; by default the module and name of its class or function.
        engine: Where trials run; by default the system is called once at a time.
        progress: Where progress is shown.
        committed: Called with the commitment's hash once it is on disk, before the system is first called.

    Example:
        >>> import numpy as np
        >>> from canarybank.score import Moments
        >>> from canarybank.systems import CallableSystem
        >>> mechanism = Mechanism(q=1.0)
        >>> canary = np.array([mechanism.clip, 0.0])
        >>> score = LinearScore(canary, Moments(np.zeros(2), mechanism.noise**2 * np.eye(2)))
        >>> def release(eligible, size, rng):
        ...     return rng.normal(0.0, mechanism.noise, (size, 2)) + eligible * canary
        >>> found = audit_system(CallableSystem(release, 2), score, mechanism, Settings(trials=20_000))
        >>> found.violation
        False
    """
    if folder is None:
        return audit_in_memory(system, score, claim, settings, engine=engine, progress=progress)
    work = SystemAudit(system, score, claim, settings, engine=engine or Serial(), progress=progress)
    resolved = _resolved(work, name or _name(system))
    with Run.held(resolved, Path(folder), "", "audit") as run:
        if lost := lost_documents(run):
            made = _commitment(work, resolved.config)
            restore(run, lost, made, lambda: _results(run, work, resolved.config, made))
        elif run.is_finished:
            refuse_unverified(run, rewritten=True)
        else:
            commitment = hold_to(run, _commitment(work, resolved.config), committed)
            run.write(RESULTS, _results(run, work, resolved.config, commitment))
            run.finish(commitment=commitment.hash)
        results = run.results
    return SystemResult(results.attacks, results.mechanism, 0, settings.trials, settings.seed, results.notes)


def _results(run: Run, work: SystemAudit, config: Config, commitment: Commitment) -> Results:
    """Seal the threshold, play the trials that are left, judge them, and return all that was found."""
    seal = _sealed(run, work, commitment)
    found = work.finish([seal.applied(work.case)], ShardLog(run.folder / TRIALS, seal.hash, run.require_folder))
    return Results(
        commitment=commitment.hash,
        mechanism=work.mechanism,
        audit=config.audit,
        seed=work.settings.seed,
        epsilon=epsilon(work.mechanism),
        attacks=found.attacks,
        notes=(NOTE.format(trials=work.settings.trials),),
    )


def _sealed(run: Run, work: SystemAudit, commitment: Commitment) -> Seal:
    """Return the thresholds that are sealed in the folder, or fit and seal them."""
    if (run.folder / SEALED).exists():
        seal = run.sealed
        if seal.commitment != commitment.hash:
            raise StoreError(
                f"{SEALED} in {str(run.folder)!r} was written under another commitment than the one beside it; it was "
                "altered, so restore it."
            )
        return seal
    if (run.folder / TRIALS).exists():
        raise StoreError(
            f"The run in {str(run.folder)!r} has its {TRIALS} but no {SEALED}: its threshold is lost, and it is not "
            "fitted again once trials were played. Restore the file, or start another run."
        )
    seal = Seal.of(commitment, work.freeze())
    run.write(SEALED, seal)
    return seal


def _commitment(work: SystemAudit, config: Config) -> Commitment:
    exact, settings = epsilon(work.mechanism), work.settings
    recipe = (
        f"threshold {settings.threshold}: play {settings.trials:,} trials of each hypothesis through the system, from "
        f"the seed's streams {'/'.join(map(str, work.address))}/calibration, and take the threshold at which their "
        f"rates give the best {settings.method.name} bound"
    )
    return commit(
        work.auditor,
        [work.case],
        None,
        settings_hash=hash_json(decisive(flatten(config))),
        encoder="",
        bank_hash="",
        reserved=(),
        method=config.audit.method,
        system=config.audit.system,
        recipe=recipe,
        exact=finite(exact),
        claimed=finite(exact if config.audit.accounted is None else config.audit.accounted),
    )


def _resolved(work: SystemAudit, name: str) -> Resolved:
    """Return the configuration that the folder keeps: the defaults, with what this audit was given."""
    if SYSTEMS.has(name):
        raise InputError(
            f"{name!r} names a registered system, or has its form module:name; choose another name, for this one is "
            "written down and never imported."
        )
    settings, stated = work.settings, work.stated
    given = {
        "mechanism": asdict(work.mechanism),
        "audit": {
            "trials": settings.trials,
            "alpha": settings.alpha,
            "method": settings.method.name,
            "threshold": str(settings.threshold),
            "engine": str(settings.engine),
            "accounted": stated if stated is not None and math.isfinite(stated) else None,
            "system": name,
        },
        "run": {"seed": settings.seed},
    }
    config = Config.model_validate(given, context=dict(RECEIVED))
    keys = {f"{section}.{key}" for section, values in given.items() for key in values}
    return Resolved(config, {key: "audit_system" if key in keys else "default" for key in fields()})


def _name(system: System) -> str:
    """Return the module and name of a system's class, or of the function that stands behind it."""
    of = getattr(system, "function", system)
    named = of if hasattr(of, "__qualname__") else type(of)
    return f"{named.__module__}.{named.__qualname__}"
