"""Reduce a run to a plain summary: everything that a page, a table or a text shows, named and cleaned once.

All text that came from users, models or files is cleaned here, and nowhere else is it taken from the run.
"""

from pathlib import Path
from typing import Any

from canarybank.experiment.commitment import finite
from canarybank.experiment.folder import COMMITMENT, RESULTS, Run
from canarybank.experiment.results import (
    AttackRecord,
    BoundRecord,
    CanaryRecord,
    IntervalRecord,
    LadderRecord,
    RungRecord,
)
from canarybank.mechanism import Mechanism
from canarybank.report.numbers import rule_upper
from canarybank.report.statements import assumptions, generator_line, limits, written_lines
from canarybank.report.text import clean, label
from canarybank.report.verdict import strongest, verdict
from canarybank.store import hash_file

__all__ = ["summarise_run"]

_COMMAND = 2000


def summarise_run(run: Run) -> dict[str, Any]:
    """Return the summary of a finished run, as plain values."""
    results = run.results
    mechanism, found = Mechanism(**results.mechanism.model_dump()), verdict(run)
    return {
        "name": clean(run.folder.resolve().name, 80),
        "version": results.canarybank,
        "verdict": {"tone": found.tone.value, "sentence": found.sentence, "beside": list(found.beside)},
        "strongest": strongest(results),
        "epsilon": results.epsilon,
        "accounted": results.epsilon if results.audit.accounted is None else results.audit.accounted,
        "claimed": results.audit.accounted is not None,
        "mechanism": results.mechanism.model_dump(),
        "audit": results.audit.model_dump(),
        "facts": _facts(run),
        "attacks": [_attack(attack, mechanism) for attack in results.attacks],
        "notes": [clean(note, 600) for note in results.notes],
        "gate": _ledger(run.commitment.gate.total, run.commitment.gate.entries),
        "assumptions": assumptions(results),
        "limits": limits(results),
        "statement": results.statement,
        "provenance": _provenance(run),
    }


def _facts(run: Run) -> list[tuple[str, str]]:
    results, config = run.results, run.manifest.config
    setup, mechanism, audit = results.setup, results.mechanism, results.audit
    return [
        ("Users", f"{clean(Path(str(config.get('users.source', '?'))).name, 120)}; {setup.evaluation:,} eligible"),
        ("Records", f"at most {setup.records:,} a user"),
        ("Set aside", f"{setup.auxiliary:,} auxiliary users, {setup.calibration:,} calibration users"),
        ("Canaries", f"{setup.canaries:,} an attack"),
        ("Encoder", f"{clean(setup.encoder, 80)}, {setup.dimension:,} dimensions"),
        ("Bank", f"{setup.bank:,} entries, {setup.probes:,} positions for probes"),
        *((name.capitalize(), line) for name, line in written_lines(results).items()),
        *(("Generator", line) for line in [generator_line(run.manifest)] if line),
        ("Mechanism", f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}"),
        ("Delta", f"{mechanism.delta:g}, add or remove one user, one release"),
        ("Trials", f"{audit.trials:,} of each hypothesis of each canary"),
        ("Method", f"{audit.method}, alpha {audit.alpha:g} an attack, threshold {audit.threshold}"),
    ]


def _attack(attack: AttackRecord, mechanism: Mechanism) -> dict[str, Any]:
    return {
        "name": label(attack.attack),
        "description": clean(attack.description),
        "headline": _bound(attack.headline),
        "pooled": None if attack.pooled is None else _bound(attack.pooled),
        "canaries": [_canary(canary, mechanism, attack.ladder.mechanism.epsilon) for canary in attack.canaries],
        "shown": attack.headline_canary,
        "ladder": [_rung(attack.ladder, name) for name in type(attack.ladder).model_fields],
        "ledger": _ledger(attack.ledger.total, attack.ledger.entries),
        "notes": [clean(note, 600) for note in attack.notes],
        "evidence": _evidence(attack.evidence),
    }


def _bound(bound: BoundRecord) -> dict[str, Any]:
    return bound.model_dump() | {"warning": None if bound.warning is None else clean(bound.warning, 600)}


def _canary(canary: CanaryRecord, mechanism: Mechanism, most: float | None) -> dict[str, Any]:
    return {
        "id": label(canary.canary),
        "bank_hash": canary.bank_hash,
        "inspected": len(canary.inspected),
        "probes": len(canary.selected),
        "mu_eff": canary.mu_eff,
        "probe_norm": canary.probe_norm,
        "threshold": canary.threshold.value,
        "counts": canary.counts.model_dump(),
        "bound": _bound(canary.bound),
        "upper": rule_upper(canary, mechanism),
        "rule": _interval(canary.rule, most),
        "supremum": _interval(canary.supremum, most),
        "fpr": canary.absent_rate.model_dump(),
        "tpr": canary.eligible_rate.model_dump(),
    }


def _rung(ladder: LadderRecord, name: str) -> dict[str, Any]:
    rung: RungRecord = getattr(ladder, name)
    shown = rung.model_dump() | {"source": clean(rung.source, 600), "is_least": False}
    if name not in {"attack", "rule"}:
        return shown
    value, is_least = ladder.reached("attack" if name == "attack" else "rule")
    high = _least(rung.high, ladder.mechanism.epsilon)
    return shown | {"epsilon": finite(value), "high": high, "is_least": is_least}


def _interval(of: IntervalRecord, most: float | None) -> dict[str, Any]:
    """Return a certified interval of an epsilon that is at most the mechanism's."""
    return {"lower": of.lower, "upper": _least(of.upper, most)}


def _least(*ends: float | None) -> float | None:
    return min((end for end in ends if end is not None), default=None)


def _ledger(total: float, entries: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    return {"total": total, "entries": [(clean(name, 80), share) for name, share in entries]}


def _evidence(evidence: dict[str, Any]) -> dict[str, Any]:
    if not evidence:
        return {}
    votes = evidence["votes"]
    entries = [
        entry | {"text": None if entry["text"] is None else clean(str(entry["text"]))} for entry in votes["entries"]
    ]
    return evidence | {"canary": label(str(evidence["canary"])), "votes": votes | {"entries": entries}}


def _provenance(run: Run) -> dict[str, Any]:
    manifest, results = run.manifest, run.results
    around = manifest.surroundings
    return {
        "command": clean(manifest.command, _COMMAND) or "(run from Python)",
        "started": manifest.started,
        "seed": results.seed,
        "versions": [
            ("canarybank", manifest.canarybank),
            ("commit", around.commit or "not run from a checkout"),
            ("python", around.python),
            *sorted(around.packages.items()),
        ],
        "hardware": f"{clean(around.platform, 120)}; {clean(around.processor, 80)}, {around.cores} cores",
        "hashes": [
            (COMMITMENT, run.commitment_hash),
            (RESULTS, hash_file(run.folder / RESULTS)),
            ("bank before any probe", results.setup.bank_hash),
            ("encoder", results.setup.encoder_fingerprint),
            *((f"{name} cohort", digest) for name, digest in sorted(run.commitment.cohorts.items())),
        ],
        "config": [
            (key, clean(_written(value), 120), clean(manifest.origins.get(key, ""), 120))
            for key, value in sorted(manifest.config.items())
        ],
    }


def _written(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "—"
    return str(value)
