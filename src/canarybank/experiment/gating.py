"""Hold a run against a claimed epsilon: what is computed, what the trials show, and what they could have shown.

A claim fails for up to three causes. The mechanism's exact epsilon exceeds it; the exact epsilon of an attack does, at
the lower end that is certified; or a bound from the trials does. The first two are computed and need no trial.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import Field

from canarybank.audit import Settings, attack_bound
from canarybank.errors import ConfigError, StoreError
from canarybank.experiment.commitment import Epsilon, Figure, Record
from canarybank.experiment.evolution_results import EvolutionResults
from canarybank.experiment.folder import Run
from canarybank.experiment.power import FrozenPower, Power, fresh_power, frozen_power, power_text, shown_epsilon
from canarybank.experiment.results import AttackRecord, BoundRecord, Results
from canarybank.experiment.verification import declared, recounted, refuse_unverified, trust_methods
from canarybank.mechanism import Mechanism, one_round_epsilon

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
    "stated_claim",
]

PRINTED: Final = (3, 4, 5, 6)
"""The decimals with which an epsilon is printed somewhere; below 1, significant digits after the first."""
ROUNDING: Final = 1e-9
"""What a computed epsilon may be wrong by for rounding in float64, relative to itself: far more than it is."""


class AttackGate(Record):
    """What one attack says: its trials at their share of alpha, and its exact epsilon, which needs none."""

    attack: str = Field(description="The attack's name.")
    alpha: float = Field(description="Its share of alpha.")
    bound: BoundRecord = Field(description="Its bound, made again from the counts at that share.")
    exact: Figure = Field(description="The certified lower end of its exact epsilon, over all thresholds.")


class Cause(Record):
    """Why a claim fails: an epsilon that exceeds it, and where that epsilon comes from."""

    kind: Literal["mechanism", "attack", "trials"] = Field(
        description="What exceeds the claim: the mechanism's exact epsilon, an attack's, or a bound from trials."
    )
    epsilon: Figure = Field(description="The epsilon that exceeds the claim.")
    attack: str | None = Field(description="The attack that it comes from; null for the mechanism.")
    confidence: float | None = Field(description="The confidence of the bound; null for what is computed.")


class GateOutcome(Record):
    """Whether a claim stands, why not, at which level, and what size of violation the run could have seen."""

    ok: bool = Field(description="Whether nothing that is computed or measured exceeds the claim.")
    causes: tuple[Cause, ...] = Field(description="Everything that exceeds the claim: trials, mechanism, attacks.")
    statement: str = Field(description="The outcome as a sentence.")
    claimed: Epsilon = Field(
        description="The claimed epsilon; null where the run claims the exact one and that is infinite."
    )
    exact: Epsilon = Field(description="The exact epsilon of the mechanism as it is configured; null where infinite.")
    attained: Figure = Field(
        description="The exact epsilon at the largest contribution that votes can make, min(clip, k^-1/2): a claim "
        "below it is false."
    )
    epsilon: float = Field(description="The largest of the attacks' bounds.")
    attack: str = Field(description="The attack that gave it.")
    method: str = Field(description="The method that was declared beforehand.")
    confidence: float = Field(
        description="Where the assumption holds, a bound exceeds the truth at most one minus this often."
    )
    trials: int = Field(description="The trials of each hypothesis of each canary.")
    attacks: tuple[AttackGate, ...] = Field(description="Each attack's bound at its share of alpha.")
    power: Power | None = Field(
        description="The smallest violation that as many trials would typically show at thresholds set for it, if any."
    )
    frozen_power: FrozenPower = Field(
        description="The smallest violations that this run's own frozen thresholds would typically show."
    )
    commitment: str = Field(description="The sha256 of the commitment that the run was held to.")


def gate(run: Run, claimed: float, commitment_hash: str | None = None, *, trust: Iterable[str] = ()) -> GateOutcome:
    """Verify a finished run, against the published hash where it is given, and compare it with a claimed epsilon.

    A run that `verify` finds fault with is refused with what was found: nothing is gated that was altered. So is one
    whose bounds are by a plug-in method, unless ``trust`` names it: nothing is imported because a folder names it.
    """
    trust_methods(trust)
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
    shares = dict(run.commitment.gate.entries)
    if results.commitment != run.commitment_hash or not {each.attack for each in results.attacks} <= set(shares):
        raise StoreError(
            f"The results in {str(run.folder)!r} are of another commitment than the one beside them; `canarybank "
            "verify` says more."
        )
    if not results.attacks:
        raise StoreError(f"The run in {str(run.folder)!r} has no attack, so no claim can be held against it.")
    mechanism = Mechanism(**results.mechanism.model_dump())
    read = tuple(_read(record, mechanism, settings, shares[record.attack]) for record in results.attacks)
    worst = max(read, key=lambda each: each.bound.epsilon)
    attained = attained_epsilon(mechanism)
    causes = _causes(claimed, attained, read, 1 - settings.alpha)
    power = fresh_power(results, mechanism, settings, claimed, shares)
    own = frozen_power(results, mechanism, settings, claimed, shares)
    return GateOutcome(
        ok=not causes,
        causes=causes,
        statement=_Words(claimed, results.epsilon, mechanism, settings, worst, causes, power, own).statement(),
        claimed=claimed,
        exact=results.epsilon,
        attained=attained,
        epsilon=worst.bound.epsilon,
        attack=worst.attack,
        method=settings.method.name,
        confidence=1 - settings.alpha,
        trials=settings.trials,
        attacks=read,
        power=power,
        frozen_power=own,
        commitment=results.commitment,
    )


def stated_claim(results: Results) -> float:
    """Return the claim that results are held against unless another is given: the accountant's, or the exact one."""
    return results.epsilon if results.audit.accounted is None else results.audit.accounted


def failing_claims(runs: Mapping[str, Run]) -> dict[str, str]:
    """Return a sentence for each run, by its name, whose own claim is below what is computed or measured."""
    outcomes = {name: compare(run, stated_claim(run.results)) for name, run in runs.items()}
    return {name: f"{name}: {outcome.statement}" for name, outcome in outcomes.items() if not outcome.ok}


def exceeded_ledger(results: EvolutionResults) -> str:
    """Say which prefix's bound, or certified exact epsilon, exceeds what its ledger states; nothing where none does."""
    ledger = {each.round: each.epsilon for each in results.rounds}
    for each in results.audit.prefixes if results.audit is not None else ():
        stated = ledger.get(each.rounds)
        if stated is None:
            continue
        if each.bound.epsilon > stated:
            return (
                f"Violation detected: after {each.rounds} rounds the trials show at least "
                f"{shown_epsilon(each.bound.epsilon)} with {100 * each.bound.confidence:.6g}% confidence, above the "
                f"ledger's {shown_epsilon(stated)}"
            )
        if as_printed(_number(each.exact_interval.lower)) > stated:
            return (
                f"The ledger is too small: after {each.rounds} rounds the attack's exact epsilon is at least "
                f"{shown_epsilon(each.exact_interval.lower)}, above {shown_epsilon(stated)}"
            )
    return ""


def attained_epsilon(mechanism: Mechanism) -> float:
    """Return the exact epsilon of one release at the largest contribution that votes can make, from below.

    A user's votes are 1/k for at most k entries in all, so their norm is at most k^-1/2 and the clip of C cuts them to
    min(C, k^-1/2). This is attained: all records of a user may vote alike. Where the clip is larger than any votes, the
    epsilon of the clip itself is proven but never attained. Rounding in float64 is taken off, so that the figure does
    not exceed the truth.
    """
    slack = max(1.0, mechanism.clip * math.sqrt(mechanism.k))
    return one_round_epsilon(replace(mechanism, sigma=mechanism.sigma * slack)) * (1 - ROUNDING)


def as_printed(epsilon: float) -> float:
    """Return the least figure that is printed for an epsilon: itself, or as ``shown_epsilon`` rounds it.

    A claim that repeats the exact epsilon as a page or a table shows it must not fail for having been rounded down. It
    is never below the epsilon by more than a two-thousandth of it.
    """
    if math.isinf(epsilon):
        return epsilon
    return min(epsilon, *(float(shown_epsilon(epsilon, decimals)) for decimals in PRINTED))


def _read(record: AttackRecord, mechanism: Mechanism, settings: Settings, share: float) -> AttackGate:
    bound = attack_bound(recounted(record), mechanism, replace(settings, alpha=share))
    ends = (canary.supremum.lower for canary in record.canaries)
    return AttackGate(
        attack=record.attack,
        alpha=share,
        bound=BoundRecord.model_validate(bound),
        exact=max(math.inf if end is None else end for end in ends),
    )


def _causes(claimed: float, attained: float, read: tuple[AttackGate, ...], confidence: float) -> tuple[Cause, ...]:
    """Return everything that exceeds a claim, the trials' bounds first."""
    shown = [
        Cause(kind="trials", epsilon=each.bound.epsilon, attack=each.attack, confidence=confidence)
        for each in sorted(read, key=lambda each: -each.bound.epsilon)
        if each.bound.epsilon > claimed
    ]
    computed = [("mechanism", None, attained), *(("attack", each.attack, _number(each.exact)) for each in read)]
    return (
        *shown,
        *(
            Cause.model_validate({"kind": kind, "epsilon": epsilon, "attack": attack, "confidence": None})
            for kind, attack, epsilon in computed
            if as_printed(epsilon) > claimed
        ),
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """What there is to say of an outcome."""

    claimed: float
    exact: float
    mechanism: Mechanism
    settings: Settings
    worst: AttackGate
    causes: tuple[Cause, ...]
    power: Power | None
    own: FrozenPower

    def statement(self) -> str:
        """Return the outcome as a few sentences."""
        if not self.causes:
            power = power_text(self.own, self.power, self.mechanism)
            return " ".join(filter(None, (self._quiet(), self._unattained(), power)))
        kinds = {cause.kind for cause in self.causes}
        said = [self._violation()] if "trials" in kinds else []
        if "mechanism" in kinds:
            said.append(
                f"The claim is too small: this mechanism's exact epsilon, computed without trials, is "
                f"{shown_epsilon(attained_epsilon(self.mechanism))} at delta {self.mechanism.delta:g}, and the claimed "
                f"epsilon is {self.claimed:g}."
            )
        if "attack" in kinds:
            reached = [f"{c.attack} at least {shown_epsilon(c.epsilon)}" for c in self.causes if c.kind == "attack"]
            said.append(
                f"The claim is too small for what attacks reach by their exact epsilon, computed without trials: "
                f"{', '.join(reached)}."
            )
        return " ".join(said)

    def _found(self) -> str:
        bound = self.worst.bound
        return f"the bound {bound.epsilon:.3f} ({self.worst.attack}, {bound.method})"

    def _violation(self) -> str:
        return (
            f"Violation: {self._found()} exceeds the claimed epsilon {self.claimed:g} at confidence "
            f"{1 - self.settings.alpha:g}, delta {self.mechanism.delta:g}."
        )

    def _quiet(self) -> str:
        return (
            f"No violation detected at this power: {self._found()} does not exceed the claimed epsilon "
            f"{self.claimed:g} at confidence {1 - self.settings.alpha:g}."
        )

    def _unattained(self) -> str:
        if self.claimed >= as_printed(self.exact):
            return ""
        return (
            f"The claim lies below the epsilon {shown_epsilon(self.exact)} that clip and noise prove by themselves; it "
            f"is not refuted, for votes of 1/k never reach the clip: what they attain is "
            f"{shown_epsilon(attained_epsilon(self.mechanism))}."
        )


def _number(value: float | None) -> float:
    return math.inf if value is None else value
