"""Compute where sampling alone puts each attack's bound in a finished run, for its threshold mode, and keep it."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from canarybank.audit import Prepared, Settings, Target, ThresholdMode, evaluation_law
from canarybank.audit.spread import LEVEL, Canary, calibrated_spread, frozen_spread
from canarybank.audit.threshold import stand_in
from canarybank.errors import StoreError
from canarybank.experiment.designs import Case
from canarybank.experiment.folder import Run
from canarybank.experiment.origins import Resolved
from canarybank.experiment.plugins import build_engine
from canarybank.experiment.results import AttackRecord, Results
from canarybank.experiment.running import frozen_audit, mechanism_of, settings_of
from canarybank.mechanism import Mechanism
from canarybank.progress import SILENT, Progress
from canarybank.score import Interval, RoundLaw
from canarybank.store import read_checked, write_checked

__all__ = ["run_spreads"]

Spreads = Mapping[str, Interval]
_WAY = 3
"""Counts the ways in which intervals have been computed: one kept from an earlier way is computed again."""


def run_spreads(run: Run, resolved: Resolved, kept: Path, *, progress: Progress = SILENT) -> Spreads:
    """Return each attack's interval, reading it from the file ``kept`` where that is of the same run.

    For thresholds from a law they are the run's own, and the interval is exact. Thresholds by trials would fall
    elsewhere in another calibration, so for these the calibration is part of what is repeated.
    """
    facts = {"commitment": run.results.commitment, "level": LEVEL, "way": _WAY}
    if kept.exists():
        with contextlib.suppress(StoreError, KeyError, TypeError):  # what is not as it was written is computed again
            document = read_checked(kept)
            if all(document.get(name) == value for name, value in facts.items()):
                return {record.attack: Interval(*document["attacks"][record.attack]) for record in run.results.attacks}
    found = _computed(run.results, resolved, progress)
    ends = {name: [each.lower, each.upper] for name, each in found.items()}
    write_checked(kept, {**facts, "attacks": ends})
    return found


def _computed(results: Results, resolved: Resolved, progress: Progress) -> dict[str, Interval]:
    mechanism, settings = mechanism_of(resolved.config), settings_of(resolved.config)
    if settings.threshold is ThresholdMode.ANALYTIC:
        return {
            record.attack: _frozen(record, settings.target(mechanism, len(record.canaries)))
            for record in results.attacks
        }
    ready = frozen_audit(resolved, progress=progress)
    names = [record.attack for record in results.attacks]
    found = {}
    engine = build_engine(resolved.config.run)
    with progress.stage("sampling", total=len(names), unit="attacks") as stage:
        for index, interval in engine.run(
            lambda name: _calibrated(ready.cases[name], ready.prepared, mechanism, settings), names
        ):
            found[names[index]] = interval
            stage.advance(1, note=names[index])
    return {name: found[name] for name in names}


def _frozen(record: AttackRecord, target: Target) -> Interval:
    return frozen_spread([(_middle(c.eligible_rate), _middle(c.absent_rate)) for c in record.canaries], target)


def _calibrated(cases: Sequence[Case], prepared: Prepared, mechanism: Mechanism, settings: Settings) -> Interval:
    canaries = []
    for case in cases:
        design = case.frozen.design
        users = stand_in(prepared.calibration, design.bank, mechanism, eligible=prepared.eligible, seed=settings.seed)
        canaries.append(
            Canary(
                RoundLaw.of(design.score, design.restrict(users), design.contribution, mechanism),
                evaluation_law(design, prepared.evaluation, mechanism),
            )
        )
    target = settings.target(mechanism, len(cases))
    return calibrated_spread(canaries, target, number=settings.trials, seed=settings.seed)


def _middle(ends: object) -> float:
    lower, upper = getattr(ends, "lower"), getattr(ends, "upper")  # noqa: B009, both kinds of record have them
    return 0.5 * (float(lower) + float(upper))
