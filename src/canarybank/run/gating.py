"""Hold a run against a claimed epsilon: what is computed, what the trials show, and what they could have shown.

A claim fails for up to three causes. The mechanism's exact epsilon exceeds it; the exact epsilon of an attack does, at
the lower end that is certified; or a bound from the trials does. The first two are computed and need no trial.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from canarybank.auditing import AttackResult, Bound, Settings, attack_bound
from canarybank.errors import ConfigError, StoreError
from canarybank.mechanism import attained_epsilon
from canarybank.run.commitment import Epsilon, Figure, Record
from canarybank.run.folder import Run
from canarybank.run.power import FrozenPower, Power, fresh_power, frozen_power, power_text, shown_epsilon
from canarybank.run.results import Results
from canarybank.run.verification import declared, refuse_unverified, trust_methods

__all__ = [
    "AttackGate",
    "Cause",
    "GateOutcome",
    "as_printed",
    "attained_epsilon",
    "compare",
    "exceeded_ledger",
    "failing_claims",
    "gate",
]

OWN_SYSTEM: Final = "mechanism"
"""The name of our own system, whose power is known."""
PRINTED: Final = (3, 4, 5, 6)
"""The decimals with which an epsilon is printed somewhere; below 1, significant digits after the first."""


class AttackGate(Record):
    """What one attack says: its trials at their share of alpha, and its exact epsilon, which needs none."""

    attack: str
    """The attack's name."""
    alpha: float
    """Its share of alpha."""
    bound: Bound
    """Its bound, made again from the counts at that share."""
    exact: Epsilon
    """The certified lower end of its exact epsilon, over all thresholds; 0 where nothing is known."""


class Cause(Record):
    """Why a claim fails: an epsilon that exceeds it, and where that epsilon comes from."""

    kind: Literal["mechanism", "attack", "trials"]
    """What exceeds the claim: the mechanism's exact epsilon, an attack's, or a bound from trials."""
    epsilon: Figure
    """The epsilon that exceeds the claim."""
    attack: str | None
    """The attack that it comes from; null for the mechanism."""
    confidence: float | None
    """The confidence of the bound; null for what is computed."""


class GateOutcome(Record):
    """Whether a claim stands, why not, at which level, and what size of violation the run could have seen."""

    ok: bool
    """Whether nothing that is computed or measured exceeds the claim."""
    causes: tuple[Cause, ...]
    """Everything that exceeds the claim: trials, mechanism, attacks."""
    statement: str
    """The outcome as a sentence."""
    claimed: Epsilon
    """The claimed epsilon; null where the run claims the exact one and that is infinite."""
    exact: Epsilon
    """The exact epsilon of the mechanism as it is configured; null where infinite."""
    attained: Figure
    """The exact epsilon at the largest contribution that votes can make, min(clip, k^-1/2): a claim below it is
    false."""
    epsilon: float
    """The largest of the attacks' bounds."""
    attack: str
    """The attack that gave it."""
    method: str
    """The method that was declared beforehand."""
    confidence: float
    """Where the assumption holds, a bound exceeds the truth at most one minus this often."""
    trials: int
    """The trials of each hypothesis of each canary."""
    rounds: int = 1
    """The releases that the claim is about."""
    attacks: tuple[AttackGate, ...]
    """Each attack's bound at its share of alpha."""
    power: Power | None
    """The smallest violation that as many trials would typically show at thresholds set for it, if any."""
    frozen_power: FrozenPower | None
    """The smallest violations that this run's own frozen thresholds would typically show."""
    commitment: str
    """The sha256 of the commitment that the run was held to."""


def gate(
    run: Run | Path | str, claimed: float, commitment_hash: str | None = None, *, trust: Iterable[str] = ()
) -> GateOutcome:
    """Verify a finished run, against the published hash where it is given, and compare it with a claimed epsilon.

    A run that `verify` finds fault with is refused with what was found: nothing is gated that was altered. So is one
    whose bounds are by a plug-in method, unless ``trust`` names it: nothing is imported because a folder names it.
    """
    trust_methods(trust)
    run = run if isinstance(run, Run) else Run.open(run)
    if not 0 <= claimed < math.inf:
        raise ConfigError(f"The claimed epsilon must be finite and at least 0, not {claimed!r}.")
    refuse_unverified(run, commitment_hash)
    return compare(run, claimed)


def compare(run: Run, claimed: float) -> GateOutcome:
    """Compare a finished run with a claimed epsilon, taking its files as they are; `gate` checks them first.

    Every attack is given its share of alpha from the ledger of the commitment, so with probability at least 1 - alpha
    no bound exceeds the true epsilon. The exact figures hold for certain, so a true claim fails at most that often.
    """
    results, settings = run.results, declared(run.results)
    if not results.attacks:
        raise StoreError(
            f"The {run.noun} in {str(run.folder)!r} was not audited, so no claim can be held against it; audit an "
            "evolution with --audit and --insecure-seed."
        )
    shares = dict(run.commitment.gate.entries)
    if results.commitment != run.commitment_hash or not {each.attack for each in results.attacks} <= set(shares):
        raise StoreError(
            f"The results in {str(run.folder)!r} are of another commitment than the one beside them; `canarybank "
            "verify` says more."
        )
    mechanism = results.mechanism
    read = tuple(_read(each, results, settings, shares[each.attack]) for each in results.final)
    worst = max(read, key=lambda each: each.bound.epsilon)
    attained = attained_epsilon(mechanism, results.rounds)
    causes = _causes(claimed, attained, read, 1 - settings.alpha)
    power, own = None, None
    own_releases = results.audit.system == OWN_SYSTEM
    if own_releases and results.rounds == 1 and all(each.ladder.attack is not None for each in results.attacks):
        power = fresh_power(results, mechanism, settings, claimed, shares)
        own = frozen_power(results, mechanism, settings, claimed, shares)
    seen = power_text(own, power, mechanism)
    return GateOutcome(
        ok=not causes,
        causes=causes,
        statement=_statement(claimed, results, worst, causes, 1 - settings.alpha, seen),
        claimed=claimed,
        exact=results.epsilon,
        attained=attained,
        epsilon=worst.bound.epsilon,
        attack=worst.attack,
        method=settings.method.name,
        confidence=1 - settings.alpha,
        trials=settings.trials,
        rounds=results.rounds,
        attacks=read,
        power=power,
        frozen_power=own,
        commitment=results.commitment or "",
    )


def failing_claims(runs: Mapping[str, Run]) -> dict[str, str]:
    """Return a sentence for each run, by its name, whose own claim is below what is computed or measured."""
    outcomes = {name: compare(run, run.results.claim) for name, run in runs.items()}
    return {name: f"{name}: {outcome.statement}" for name, outcome in outcomes.items() if not outcome.ok}


@dataclass(frozen=True, slots=True)
class LedgerExcess:
    """A prefix of rounds that shows more than the ledger states: by trials, or computed without any."""

    by_trials: bool
    sentence: str


def exceeded_ledger(results: Results) -> LedgerExcess | None:
    """Say which prefix's bound, or certified exact epsilon, exceeds what its ledger states; None where none does.

    Every attack and prefix has an even share of alpha, so a true ledger is exceeded by trials at most alpha often.
    """
    if results.evolution is None or not results.attacks:
        return None
    settings = declared(results)
    shared = replace(settings, alpha=settings.alpha / len(results.attacks))
    ledger = {each.round: each.epsilon for each in results.evolution.rounds}
    for each in results.attacks:
        stated, after = ledger.get(each.rounds, math.inf), f"after {each.rounds} round{'s' * (each.rounds != 1)}"
        shown = attack_bound([canary.counts for canary in each.canaries], results.mechanism, shared).epsilon
        if shown > stated:
            return LedgerExcess(
                by_trials=True,
                sentence=f"Violation detected: {after} the trials of {each.attack} show at least "
                f"{shown_epsilon(shown)}, above the ledger's {shown_epsilon(stated)}, with "
                f"{100 * (1 - settings.alpha):.6g}% confidence over all attacks and rounds",
            )
        if each.ladder.attack is not None and as_printed(each.ladder.attack.low) > stated:
            return LedgerExcess(
                by_trials=False,
                sentence=f"The ledger is too small: {after} the exact epsilon of {each.attack} is at least "
                f"{shown_epsilon(each.ladder.attack.low)}, above {shown_epsilon(stated)}",
            )
    return None


def as_printed(epsilon: float) -> float:
    """Return the least figure that is printed for an epsilon: itself, or as ``shown_epsilon`` rounds it.

    A claim that repeats the exact epsilon as a page or a table shows it must not fail for having been rounded down. It
    is never below the epsilon by more than a two-thousandth of it.
    """
    if math.isinf(epsilon):
        return epsilon
    return min(epsilon, *(float(shown_epsilon(epsilon, decimals)) for decimals in PRINTED))


def _read(record: AttackResult, results: Results, settings: Settings, share: float) -> AttackGate:
    """Return what an attack says: its bound over all releases, and the largest exact epsilon after any of them."""
    counts = [canary.counts for canary in record.canaries]
    exact = [each.ladder.attack.low for each in results.attacks if each.attack == record.attack and each.ladder.attack]
    return AttackGate(
        attack=record.attack,
        alpha=share,
        bound=attack_bound(counts, results.mechanism, replace(settings, alpha=share)),
        exact=max(exact, default=0.0),
    )


def _causes(claimed: float, attained: float, read: tuple[AttackGate, ...], confidence: float) -> tuple[Cause, ...]:
    """Return everything that exceeds a claim, the trials' bounds first."""
    shown = [
        Cause(kind="trials", epsilon=each.bound.epsilon, attack=each.attack, confidence=confidence)
        for each in sorted(read, key=lambda each: -each.bound.epsilon)
        if each.bound.epsilon > claimed
    ]
    computed = [("mechanism", None, attained), *(("attack", each.attack, each.exact) for each in read)]
    return (
        *shown,
        *(
            Cause.model_validate({"kind": kind, "epsilon": epsilon, "attack": attack, "confidence": None})
            for kind, attack, epsilon in computed
            if as_printed(epsilon) > claimed
        ),
    )


def _statement(
    claimed: float, results: Results, worst: AttackGate, causes: tuple[Cause, ...], confidence: float, power: str
) -> str:
    """Return the outcome as a few sentences."""
    found, delta = (
        f"the bound {worst.bound.epsilon:.3f} ({worst.attack}, {worst.bound.method})",
        results.mechanism.delta,
    )
    attained = shown_epsilon(attained_epsilon(results.mechanism, results.rounds))
    if not causes:
        quiet = (
            f"No violation detected at this power: {found} does not exceed the claimed epsilon {claimed:g} at "
            f"confidence {confidence:g}."
        )
        unattained = (
            f"The claim lies below the epsilon {shown_epsilon(results.epsilon)} that clip and noise prove by "
            f"themselves; it is not refuted, for votes of 1/k never reach the clip: what they attain is {attained}."
        )
        return " ".join([quiet, *([unattained] if claimed < as_printed(results.epsilon) else []), power])
    reached = [f"{each.attack} at least {shown_epsilon(each.epsilon)}" for each in causes if each.kind == "attack"]
    said = {
        "trials": f"Violation: {found} exceeds the claimed epsilon {claimed:g} at confidence {confidence:g}, delta "
        f"{delta:g}.",
        "mechanism": f"The claim is too small: this mechanism's exact epsilon, computed without trials, is {attained} "
        f"at delta {delta:g}, and the claimed epsilon is {claimed:g}.",
        "attack": "The claim is too small for what attacks reach by their exact epsilon, computed without trials: "
        f"{', '.join(reached)}.",
    }
    return " ".join(said[kind] for kind in dict.fromkeys(each.kind for each in causes))
