"""Do what a command does: gather inputs, audit, evolve, sweep, plan.

Names are imported when they are first used, so that a command loads only what it needs.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
    from canarybank.flow.audit import Axis, Point, grid, mechanism_of, read_axis, run_audit, run_sweep, settings_of
    from canarybank.flow.evolution import run_evolution
    from canarybank.flow.foreign import audit_system
    from canarybank.flow.inputs import Inputs, gather
    from canarybank.flow.planning import Plan, plan
    from canarybank.flow.selftests import Check, SelfTest, selftest
    from canarybank.flow.zoo import ZooTable, measure_zoo, recorded_zoo

__all__ = [
    "Axis",
    "Check",
    "Inputs",
    "Plan",
    "Point",
    "SelfTest",
    "ZooTable",
    "audit_system",
    "gather",
    "grid",
    "measure_zoo",
    "mechanism_of",
    "plan",
    "read_axis",
    "recorded_zoo",
    "run_audit",
    "run_evolution",
    "run_sweep",
    "selftest",
    "settings_of",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "audit": (
            "Axis",
            "Point",
            "grid",
            "mechanism_of",
            "read_axis",
            "run_audit",
            "run_sweep",
            "settings_of",
        ),
        "evolution": ("run_evolution",),
        "foreign": ("audit_system",),
        "inputs": (
            "Inputs",
            "gather",
        ),
        "planning": (
            "Plan",
            "plan",
        ),
        "selftests": (
            "Check",
            "SelfTest",
            "selftest",
        ),
        "zoo": (
            "ZooTable",
            "measure_zoo",
            "recorded_zoo",
        ),
    },
)
