"""Turn audits into runs: configuration, run folder, stages, commitment, resumption, verification, gate and plan.

Names are imported when they are first used, so that the configuration alone costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from canarybank.experiment.commitment import AttackCommitment, CanaryCommitment, Commitment
    from canarybank.experiment.config import Config
    from canarybank.experiment.evolution import run_evolution
    from canarybank.experiment.gating import Cause, GateOutcome, gate
    from canarybank.experiment.inputs import Inputs, gather
    from canarybank.experiment.listing import RunEntry, list_runs
    from canarybank.experiment.manifest import Manifest
    from canarybank.experiment.origins import Resolved, differences, fields, flatten, resolve
    from canarybank.experiment.planning import Plan, plan
    from canarybank.experiment.power import FrozenPower, Power
    from canarybank.experiment.presets import PRESETS
    from canarybank.experiment.results import EvolutionFacts, Results
    from canarybank.experiment.run_folder import Run, open_run
    from canarybank.experiment.running import mechanism_of, run_audit, settings_of
    from canarybank.experiment.selftests import Check, SelfTest, selftest
    from canarybank.experiment.starter_file import starter
    from canarybank.experiment.sweep import Axis, Point, grid, read_axis, run_sweep
    from canarybank.experiment.verification import Verification, verify

__all__ = [
    "PRESETS",
    "AttackCommitment",
    "Axis",
    "CanaryCommitment",
    "Cause",
    "Check",
    "Commitment",
    "Config",
    "EvolutionFacts",
    "FrozenPower",
    "GateOutcome",
    "Inputs",
    "Manifest",
    "Plan",
    "Point",
    "Power",
    "Resolved",
    "Results",
    "Run",
    "RunEntry",
    "SelfTest",
    "Verification",
    "differences",
    "fields",
    "flatten",
    "gate",
    "gather",
    "grid",
    "list_runs",
    "mechanism_of",
    "open_run",
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
    "evolution": ("run_evolution",),
    "gating": ("Cause", "GateOutcome", "gate"),
    "inputs": ("Inputs", "gather"),
    "listing": ("RunEntry", "list_runs"),
    "manifest": ("Manifest",),
    "origins": ("Resolved", "differences", "fields", "flatten", "resolve"),
    "planning": ("Plan", "plan"),
    "power": ("FrozenPower", "Power"),
    "presets": ("PRESETS",),
    "results": ("EvolutionFacts", "Results"),
    "run_folder": ("Run", "open_run"),
    "running": ("mechanism_of", "run_audit", "settings_of"),
    "selftests": ("Check", "SelfTest", "selftest"),
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
