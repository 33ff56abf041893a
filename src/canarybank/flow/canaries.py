"""Say how many canaries one run carries, and refuse what one run cannot test."""

import math

from canarybank.auditing.one_run import LEAST, Coins, RunDeclaration, RunEvidence
from canarybank.config.model import Config
from canarybank.errors import ConfigError
from canarybank.mechanism import Claim

__all__ = ["count_canaries", "declare_run", "refuse_untestable"]


def count_canaries(config: Config, size: int) -> int:
    """Return how many canaries an audit of one run has in a bank of this size, each with ``mechanism.k`` probes."""
    asked, share, k = config.one_run.canaries, config.one_run.share, config.mechanism.k
    if asked is not None:
        if (asked + 1) * k > size:
            raise ConfigError(
                f"{asked:,} canaries with {k} probes each need {asked * k:,} of the bank's {size:,} entries, and at "
                f"least {k} must stay. Set {_fitting(size, k)}."
            )
        return asked
    count = math.floor(share * size / k)
    if count < LEAST or (count + 1) * k > size:
        raise ConfigError(
            f"one_run.share is {share:g} of a bank of {size:,} entries: room for {math.floor(share * size):,} probes, "
            f"and an audit needs at least {LEAST} canaries with {k} of them each, while {k} other entries stay. Set "
            f"{_fitting(size, k)}."
        )
    return count


def _fitting(size: int, k: int) -> str:
    """Say what would fit into a bank of this size."""
    if (LEAST + 1) * k > size:
        return f"bank.size to {(LEAST + 1) * k:,} or more, or mechanism.k to less"
    return f"one_run.canaries to a number from {LEAST} to {size // k - 1:,}, or enlarge the bank"


def declare_run(config: Config, claim: Claim, canaries: int, shift: float) -> RunDeclaration:
    """Return what a configuration declares of one run; evidence that the claim or the coins do not allow is refused."""
    return RunDeclaration(
        claim=claim,
        canaries=canaries,
        coins=Coins(config.one_run.coins),
        shift=shift,
        evidence=tuple(map(RunEvidence, config.one_run.evidence)),
        alpha=config.audit.alpha,
    )


def refuse_untestable(config: Config, claim: Claim) -> None:
    """Refuse a claim about somebody else's system that one run says nothing about, before anything is read."""
    if config.system.neighbours == "replace":
        raise ConfigError(
            "system.neighbours is replace, and one run shows what adding or removing a user does. Set it to "
            "add-remove, or design an audit of many runs: leave system.one_run out."
        )
    if config.system.by_label:
        raise ConfigError(
            "system.by_label asks for a bank for each label, and the canaries of one run share one bank. Leave it out "
            "and audit the system of one label, or leave system.one_run out."
        )
    declare_run(config, claim, config.one_run.canaries or LEAST, 1.0)
