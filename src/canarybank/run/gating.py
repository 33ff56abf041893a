"""Hold a run against a claimed epsilon: what is computed, what the trials show, and what they could have shown.

A claim fails for up to three causes. The mechanism's exact epsilon exceeds it; the exact epsilon of an attack does, at
the lower end that is certified; or a bound from the trials does. The first two are computed and need no trial. Where no
trial shows anything, power (`canarybank.run.power`) says which violation the run would typically have seen.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from canarybank.auditing import (
    AttackResult,
    Bound,
    Settings,
    attack_bound,
)
from canarybank.errors import ConfigError, StoreError
from canarybank.mechanism import Claim, attained_epsilon
from canarybank.run.commitment import Epsilon, Figure, Record
from canarybank.run.folder import Run
from canarybank.run.power import FrozenPower, Power, fresh_power, frozen_power, power_text
from canarybank.run.results import Results
from canarybank.run.verification import declared, refuse_unverified, trust_methods
from canarybank.wording import shown_epsilon

__all__ = [
    "AttackGate",
    "Cause",
    "EvidenceGate",
    "GateOutcome",
    "as_printed",
    "attained_epsilon",
    "claim_of",
    "compare",
    "exceeded_ledger",
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
    is_exact_known: bool = True
    """Whether anything is known of its exact epsilon: of a system that states no law, nothing is."""


class EvidenceGate(Record):
    """What one kind of evidence on one score says of a system: its runs at their share of alpha."""

    score: str
    """What the runs were scored by."""
    evidence: str
    """How counts became a statement: bound, curve or betting."""
    fails: bool
    """Whether the claim fails by it."""
    epsilon: float | None
    """The lower bound on epsilon that it gives; null where it gives none."""
    alpha: float
    """Its share of alpha."""
    assumption: str
    """What it relies on."""
    power: str
    """The smallest violation of the claim that was audited, of those that so many runs would show."""
    statement: str
    """What it says of the claim that was audited."""


class Cause(Record):
    """Why a claim fails: an epsilon that exceeds it, and where that epsilon comes from."""

    kind: Literal["mechanism", "attack", "trials", "betting", "curve"]
    """What exceeds the claim: the mechanism's exact epsilon, an attack's, a bound from trials, or one from bets; or the
    curve: the system is not the mechanism that was claimed."""
    epsilon: Figure
    """The epsilon that exceeds the claim; null where it is infinite, and of a curve."""
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
    claim: str
    """The claim in words: epsilon, delta, neighbours and releases."""
    claimed: Epsilon
    """The claimed epsilon; null where the run claims the exact one and that is infinite."""
    exact: Epsilon
    """The exact epsilon of the mechanism as it is configured; null where infinite, or not known."""
    is_exact_known: bool = True
    """Whether a mechanism is named whose exact epsilon is known."""
    attained: Figure
    """The exact epsilon at the largest contribution that votes can make, min(clip, k^-1/2): a claim below it is
    false."""
    epsilon: Epsilon
    """The largest of the attacks' bounds; null where it is infinite."""
    attack: str
    """The attack that gave it."""
    method: str
    """The method that was declared beforehand."""
    confidence: float
    """Where the assumption holds, a bound exceeds the truth at most one minus this often."""
    trials: int
    """The trials of each hypothesis of each canary; 1 of an audit of one run."""
    canaries: int | None = None
    """The canaries that one run carried, where it alone was judged; null elsewhere."""
    rounds: int = 1
    """The releases that the claim is about."""
    attacks: tuple[AttackGate, ...]
    """Each attack's bound at its share of alpha; none of a system, which has evidence."""
    evidence: tuple[EvidenceGate, ...] = ()
    """What the runs of a system say, by each kind of evidence on each score."""
    power: Power | None
    """The smallest violation that as many trials would typically show at thresholds set for it, if any."""
    frozen_power: FrozenPower | None
    """The smallest violations that this run's own frozen thresholds would typically show."""
    commitment: str
    """The sha256 of the commitment that the run was held to."""

    @property
    def is_tested(self) -> bool:
        """Say whether this run's own thresholds would typically have shown a violation of some size.

        What other thresholds would show does not count: this run did not have them. Where it is not computed, what the
        trials showed says whether they can show anything.
        """
        own = self.frozen_power
        return self.epsilon > 0 if own is None else any((own.noise, own.contribution))


def gate(
    run: Run | Path | str, claimed: float, commitment_hash: str | None = None, *, trust: Iterable[str] = ()
) -> GateOutcome:
    """Compare a finished run with a claimed epsilon; one that `verify` finds fault with is refused with what it found.

    Args:
        run: A run, or its folder.
        claimed: The epsilon that the operator claims for all releases of the run.
        commitment_hash: The hash that was published before the trials, where it was.
        trust: Plug-in methods that may be imported; nothing is imported because a folder names it.

    Example:
        >>> gate("runs/demo", 0.01).ok
        False
    """
    trust_methods(trust)
    run = run if isinstance(run, Run) else Run.open(run)
    if not 0 <= claimed < math.inf:
        raise ConfigError(f"The claimed epsilon must be finite and at least 0, not {claimed!r}.")
    refuse_unverified(run, commitment_hash)
    if run.kind == "one-run":
        from canarybank.run.certificates import compare_one_run

        return compare_one_run(run, claimed)
    if run.kind == "system":
        from canarybank.run.systems import compare_system

        return compare_system(run, claimed)
    return compare(run, claimed)


def compare(run: Run, claimed: float) -> GateOutcome:
    """Compare a finished run with a claimed epsilon, taking its files as they are; `gate` checks them first.

    Every attack is given its share of alpha from the ledger of the commitment, so with probability at least 1 - alpha
    no bound exceeds the true epsilon. The exact figures hold for certain, so a true claim fails at most that often.

    Args:
        run: A finished audit, or an audited evolution.
        claimed: The epsilon that the operator claims for all releases of the run.

    Example:
        >>> run = Run.open("runs/demo")
        >>> compare(run, 5.0).ok, [cause.kind for cause in compare(run, 3.3).causes]
        (True, ['mechanism'])
    """
    results, settings = run.results, declared(run.results)
    if results.evolution is not None and results.evolution.certificate is not None:
        from canarybank.run.carried import held_to
        from canarybank.run.certificates import compare_certificate

        plant = held_to(run.one_run, results.rounds)
        return compare_certificate(results.evolution.certificate, plant.declaration, claimed, results.commitment or "")
    if not results.attacks:
        raise StoreError(
            f"The {run.noun} in {str(run.folder)!r} was not audited, so no claim can be held against it; audit an "
            "evolution with --audit-one-run, or with --audit and --insecure-seed."
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
    return GateOutcome(
        ok=not causes,
        causes=causes,
        statement=_statement(claimed, results, worst, causes, 1 - settings.alpha, power_text(own, power, mechanism)),
        claim=str(claim_of(results, claimed)),
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


def claim_of(results: Results, claimed: float) -> Claim:
    """Return the claim that all releases of a run together have some epsilon, for adding or removing one user."""
    return Claim(claimed, results.mechanism.delta, mechanism=results.mechanism, rounds=max(1, results.rounds))


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
    digits = () if math.isinf(epsilon) else PRINTED
    return min([epsilon, *(float(shown_epsilon(epsilon, decimals)) for decimals in digits)])


def _read(record: AttackResult, results: Results, settings: Settings, share: float) -> AttackGate:
    """Return what an attack says: its bound over all releases, and the largest exact epsilon after any of them."""
    counts = [canary.counts for canary in record.canaries]
    exact = [each.ladder.attack.low for each in results.attacks if each.attack == record.attack and each.ladder.attack]
    return AttackGate(
        attack=record.attack,
        alpha=share,
        bound=attack_bound(counts, results.mechanism, replace(settings, alpha=share)),
        exact=max(exact, default=0.0),
        is_exact_known=bool(exact),
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
    found = f"the bound {worst.bound.epsilon:.3f} ({worst.attack}, {worst.bound.method})"
    delta = results.mechanism.delta
    attained = shown_epsilon(attained_epsilon(results.mechanism, results.rounds))
    about = f"The claim: {claim_of(results, claimed)}."
    if not causes:
        quiet = (
            f"No violation detected at this power: {found} does not exceed the claimed epsilon {claimed:g} at "
            f"confidence {confidence:g}."
        )
        unattained = (
            f"The claim lies below the epsilon {shown_epsilon(results.epsilon)} that clip and noise prove by "
            f"themselves; it is not refuted, for votes of 1/k never reach the clip: what they attain is {attained}."
        )
        return " ".join([quiet, about, *([unattained] if claimed < as_printed(results.epsilon) else []), power])
    reached = [f"{each.attack} at least {shown_epsilon(each.epsilon)}" for each in causes if each.kind == "attack"]
    said = {
        "trials": f"Violation: {found} exceeds the claimed epsilon {claimed:g} at confidence {confidence:g}, delta "
        f"{delta:g}.",
        "mechanism": f"The claim is too small: this mechanism's exact epsilon, computed without trials, is {attained} "
        f"at delta {delta:g}, and the claimed epsilon is {claimed:g}.",
        "attack": "The claim is too small for what attacks reach by their exact epsilon, computed without trials: "
        f"{', '.join(reached)}.",
    }
    return " ".join([*(said[kind] for kind in dict.fromkeys(each.kind for each in causes)), about])
