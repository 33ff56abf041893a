"""Keep the contract on disk: a run's folder, manifest, commitment, trials, results; verify it and gate it.

Names are imported when they are first used, so that a command loads only what it needs.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
    from canarybank.run.clouds import Cloud, Clouds, map_clouds
    from canarybank.run.commitment import AttackCommitment, CanaryCommitment, Commitment
    from canarybank.run.folder import GeneratorRecord, Manifest, Run, open_run
    from canarybank.run.gating import AttackGate, Cause, GateOutcome, compare, gate
    from canarybank.run.listing import RunEntry, list_runs
    from canarybank.run.one_run import OneRunPlant, OneRunResults
    from canarybank.run.plant import DesignedScore, Plant, SealedRules, SystemResults
    from canarybank.run.power import FrozenPower, Power
    from canarybank.run.results import EvolutionFacts, Results
    from canarybank.run.trials_log import ShardLog
    from canarybank.run.verification import Verification, verify

__all__ = [
    "AttackCommitment",
    "AttackGate",
    "CanaryCommitment",
    "Cause",
    "Cloud",
    "Clouds",
    "Commitment",
    "DesignedScore",
    "EvolutionFacts",
    "FrozenPower",
    "GateOutcome",
    "GeneratorRecord",
    "Manifest",
    "OneRunPlant",
    "OneRunResults",
    "Plant",
    "Power",
    "Results",
    "Run",
    "RunEntry",
    "SealedRules",
    "ShardLog",
    "SystemResults",
    "Verification",
    "compare",
    "gate",
    "list_runs",
    "map_clouds",
    "open_run",
    "verify",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "clouds": ("Cloud", "Clouds", "map_clouds"),
        "commitment": ("AttackCommitment", "CanaryCommitment", "Commitment"),
        "folder": ("GeneratorRecord", "Manifest", "Run", "open_run"),
        "gating": ("AttackGate", "Cause", "GateOutcome", "compare", "gate"),
        "power": ("FrozenPower", "Power"),
        "listing": ("RunEntry", "list_runs"),
        "one_run": ("OneRunPlant", "OneRunResults"),
        "plant": ("DesignedScore", "Plant", "SealedRules", "SystemResults"),
        "results": ("EvolutionFacts", "Results"),
        "trials_log": ("ShardLog",),
        "verification": ("Verification", "verify"),
    },
)
