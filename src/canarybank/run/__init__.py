"""Keep the contract on disk: a run's folder, manifest, commitment, trials, results; verify it and gate it.

Names are imported when they are first used, so that a command loads only what it needs.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
    from canarybank.run.commitment import AttackCommitment, CanaryCommitment, Commitment
    from canarybank.run.folder import Manifest, Run, open_run
    from canarybank.run.gating import Cause, FrozenPower, GateOutcome, Power, gate
    from canarybank.run.listing import RunEntry, list_runs
    from canarybank.run.results import EvolutionFacts, Results
    from canarybank.run.verification import Verification, verify

__all__ = [
    "AttackCommitment",
    "CanaryCommitment",
    "Cause",
    "Commitment",
    "EvolutionFacts",
    "FrozenPower",
    "GateOutcome",
    "Manifest",
    "Power",
    "Results",
    "Run",
    "RunEntry",
    "Verification",
    "gate",
    "list_runs",
    "open_run",
    "verify",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "commitment": ("AttackCommitment", "CanaryCommitment", "Commitment"),
        "folder": ("Manifest", "Run", "open_run"),
        "gating": ("Cause", "FrozenPower", "GateOutcome", "Power", "gate"),
        "listing": ("RunEntry", "list_runs"),
        "results": ("EvolutionFacts", "Results"),
        "verification": ("Verification", "verify"),
    },
)
