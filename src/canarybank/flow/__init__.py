"""Do what a command does: gather inputs, audit, evolve, sweep, plan.

Names are imported when they are first used, so that a command loads only what it needs.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
    from canarybank.flow.audit import mechanism_of, run_audit, settings_of
    from canarybank.flow.bank import embedded_bank, embedded_canaries, embedded_pool, read_bank
    from canarybank.flow.caches import CachesUsage, caches_usage, prune_caches
    from canarybank.flow.design import design_plant
    from canarybank.flow.evolution import run_evolution
    from canarybank.flow.foreign import audit_system
    from canarybank.flow.generators import build_generator
    from canarybank.flow.inputs import Inputs, build_engine, cached_encoder, gather
    from canarybank.flow.measuring import measure_texts
    from canarybank.flow.one_run import design_one_run, score_one_run
    from canarybank.flow.planning import Plan, plan
    from canarybank.flow.prove import check_proof, prove_bank
    from canarybank.flow.sample import sample_run
    from canarybank.flow.score import score_plant
    from canarybank.flow.selftests import Check, SelfTest, selftest
    from canarybank.flow.sweeping import Axis, Point, grid, read_axis, run_sweep
    from canarybank.flow.tuning import Advice, Outlook, Tried, outlook, tune
    from canarybank.flow.vet import VettedBank, vet_bank
    from canarybank.flow.zoo import ZooCell, ZooTable, audit_zoo_system, measure_zoo, recorded_zoo

__all__ = [
    "Advice",
    "Axis",
    "CachesUsage",
    "Check",
    "Inputs",
    "Outlook",
    "Plan",
    "Point",
    "SelfTest",
    "Tried",
    "VettedBank",
    "ZooCell",
    "ZooTable",
    "audit_system",
    "audit_zoo_system",
    "build_engine",
    "build_generator",
    "cached_encoder",
    "caches_usage",
    "check_proof",
    "design_one_run",
    "design_plant",
    "embedded_bank",
    "embedded_canaries",
    "embedded_pool",
    "gather",
    "grid",
    "measure_texts",
    "measure_zoo",
    "mechanism_of",
    "outlook",
    "plan",
    "prove_bank",
    "prune_caches",
    "read_axis",
    "read_bank",
    "recorded_zoo",
    "run_audit",
    "run_evolution",
    "run_sweep",
    "sample_run",
    "score_one_run",
    "score_plant",
    "selftest",
    "settings_of",
    "tune",
    "vet_bank",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "audit": ("mechanism_of", "run_audit", "settings_of"),
        "bank": ("embedded_bank", "embedded_canaries", "embedded_pool", "read_bank"),
        "caches": ("CachesUsage", "caches_usage", "prune_caches"),
        "design": ("design_plant",),
        "evolution": ("run_evolution",),
        "foreign": ("audit_system",),
        "generators": ("build_generator",),
        "inputs": ("Inputs", "build_engine", "cached_encoder", "gather"),
        "measuring": ("measure_texts",),
        "one_run": ("design_one_run", "score_one_run"),
        "planning": ("Plan", "plan"),
        "prove": ("check_proof", "prove_bank"),
        "sample": ("sample_run",),
        "score": ("score_plant",),
        "selftests": ("Check", "SelfTest", "selftest"),
        "sweeping": ("Axis", "Point", "grid", "read_axis", "run_sweep"),
        "tuning": ("Advice", "Outlook", "Tried", "outlook", "tune"),
        "vet": ("VettedBank", "vet_bank"),
        "zoo": ("ZooCell", "ZooTable", "audit_zoo_system", "measure_zoo", "recorded_zoo"),
    },
)
