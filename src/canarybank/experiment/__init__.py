"""Turn audits into runs: configuration, run folder, stages, commitment, resumption, verification, gate and plan.

Names are imported when they are first used, so that the configuration alone costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from canarybank.experiment.commitment import AttackCommitment, CanaryCommitment, Commitment
    from canarybank.experiment.config import Config
    from canarybank.experiment.evolution import EvolutionRun, run_evolution
    from canarybank.experiment.evolution_results import EvolutionResults
    from canarybank.experiment.folder import Run
    from canarybank.experiment.gating import Cause, GateOutcome, gate
    from canarybank.experiment.listing import RunEntry, list_runs
    from canarybank.experiment.manifest import Manifest
    from canarybank.experiment.origins import Resolved, differences, fields, flatten, resolve
    from canarybank.experiment.planning import Plan, plan
    from canarybank.experiment.power import FrozenPower, Power
    from canarybank.experiment.presets import PRESETS
    from canarybank.experiment.results import AttackRecord, BoundRecord, CanaryRecord, Results
    from canarybank.experiment.running import mechanism_of, run_audit, settings_of
    from canarybank.experiment.selftests import Check, SelfTest, selftest
    from canarybank.experiment.stage_cache import StageCache
    from canarybank.experiment.starter_file import starter
    from canarybank.experiment.sweep import Axis, Point, grid, read_axis, run_sweep
    from canarybank.experiment.verification import Verification, verify

__all__ = [
    "PRESETS",
    "AttackCommitment",
    "AttackRecord",
    "Axis",
    "BoundRecord",
    "CanaryCommitment",
    "CanaryRecord",
    "Cause",
    "Check",
    "Commitment",
    "Config",
    "EvolutionResults",
    "EvolutionRun",
    "FrozenPower",
    "GateOutcome",
    "Manifest",
    "Plan",
    "Point",
    "Power",
    "Resolved",
    "Results",
    "Run",
    "RunEntry",
    "SelfTest",
    "StageCache",
    "Verification",
    "differences",
    "fields",
    "flatten",
    "gate",
    "grid",
    "list_runs",
    "mechanism_of",
    "plan",
    "read_axis",
    "resolve",
    "run_audit",
    "run_evolution",
    "run_sweep",
    "selftest",
    "settings_of",
    "starter",
    "verify",
]

_HOMES = {
    "commitment": ("AttackCommitment", "CanaryCommitment", "Commitment"),
    "config": ("Config",),
    "evolution": ("EvolutionRun", "run_evolution"),
    "evolution_results": ("EvolutionResults",),
    "folder": ("Run",),
    "gating": ("Cause", "GateOutcome", "gate"),
    "listing": ("RunEntry", "list_runs"),
    "manifest": ("Manifest",),
    "origins": ("Resolved", "differences", "fields", "flatten", "resolve"),
    "planning": ("Plan", "plan"),
    "power": ("FrozenPower", "Power"),
    "presets": ("PRESETS",),
    "results": ("AttackRecord", "BoundRecord", "CanaryRecord", "Results"),
    "running": ("mechanism_of", "run_audit", "settings_of"),
    "selftests": ("Check", "SelfTest", "selftest"),
    "stage_cache": ("StageCache",),
    "starter_file": ("starter",),
    "sweep": ("Axis", "Point", "grid", "read_axis", "run_sweep"),
    "verification": ("Verification", "verify"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
