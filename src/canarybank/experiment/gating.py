"""Hold a run against a claimed epsilon, by the declared method, and say what violation it could have seen."""

import math
from dataclasses import replace

from pydantic import Field
from scipy.optimize import brentq

from canarybank.audit import Counts, Method, Settings, Target, attack_bound, best_threshold, perfect_rates
from canarybank.errors import ConfigError, StoreError
from canarybank.experiment.commitment import Record
from canarybank.experiment.folder import Run
from canarybank.experiment.results import AttackRecord, BoundRecord, CanaryRecord, Results
from canarybank.mechanism import Mechanism, one_round_epsilon

__all__ = ["AttackGate", "GateOutcome", "Power", "declared", "gate", "recounted"]

_WIDEST = 1e4
"""Noise that is this many times too small is the worst that is asked about."""
_SLACK = 5e-4
"""Claims are compared with the exact epsilon to what three decimals show."""


class Power(Record):
    """The smallest violation that a run of this size typically sees: its expected bound just exceeds the claim.

    It is a run of the violating mechanism itself, so the threshold is the best one for that mechanism.
    """

    epsilon: float = Field(description="The true epsilon of such a mechanism.")
    sigma: float = Field(description="Its noise multiplier.")
    ratio: float = Field(description="How many times its noise is smaller than declared.")
    attack: str = Field(description="The attack that would see it: the strongest of the run.")
    mu_eff: float = Field(description="That attack's separation under the declared mechanism.")
    separation: float = Field(description="That attack's separation, at least, under the violating mechanism.")


class AttackGate(Record):
    """What one attack says at its share of alpha."""

    attack: str = Field(description="The attack's name.")
    alpha: float = Field(description="Its share of alpha.")
    bound: BoundRecord = Field(description="Its bound, made again from the counts at that share.")


class GateOutcome(Record):
    """Whether a run's bound exceeds a claim, at which level, and what size of violation it could have seen."""

    ok: bool = Field(description="Whether no bound exceeds the claim.")
    statement: str = Field(description="The outcome as a sentence.")
    claimed: float = Field(description="The claimed epsilon.")
    exact: float = Field(description="The exact epsilon of the mechanism as it is configured.")
    epsilon: float = Field(description="The largest of the attacks' bounds.")
    attack: str = Field(description="The attack that gave it.")
    method: str = Field(description="The method that was declared beforehand.")
    confidence: float = Field(
        description="Where the assumption holds, the outcome is wrong at most one minus this often."
    )
    trials: int = Field(description="The trials of each hypothesis of each canary.")
    attacks: tuple[AttackGate, ...] = Field(description="Each attack's bound at its share of alpha.")
    power: Power | None = Field(description="The smallest violation that would typically be seen, if any would.")
    commitment: str = Field(description="The sha256 of the commitment that the run was held to.")


def gate(run: Run, claimed: float) -> GateOutcome:
    """Compare the bounds of a finished run with a claimed epsilon.

    Every attack is given its share of alpha from the ledger of the commitment, so with probability at least 1 - alpha
    no bound exceeds the true epsilon: a claim that holds fails the gate at most that often.
    """
    if not 0 <= claimed < float("inf"):
        raise ConfigError(f"The claimed epsilon must be finite and at least 0, not {claimed!r}.")
    results, settings = run.results, declared(run.results)
    if results.commitment != run.commitment_hash:
        raise StoreError(
            f"The results in {str(run.folder)!r} are of another commitment than the one beside them; `canarybank "
            "verify` says more."
        )
    mechanism = Mechanism(**results.mechanism.model_dump())
    shares = dict(run.commitment.gate.entries)
    read = tuple(_read(record, mechanism, settings, shares[record.attack]) for record in results.attacks)
    worst = max(read, key=lambda each: each.bound.epsilon)
    ok = worst.bound.epsilon <= claimed
    power = _power(results, mechanism, settings, claimed, min(shares.values()))
    return GateOutcome(
        ok=ok,
        statement=_statement(worst, claimed, power, settings.alpha, mechanism, ok=ok)
        + _too_small(claimed, results.epsilon, ok=ok),
        claimed=claimed,
        exact=results.epsilon,
        epsilon=worst.bound.epsilon,
        attack=worst.attack,
        method=settings.method,
        confidence=1 - settings.alpha,
        trials=settings.trials,
        attacks=read,
        power=power,
        commitment=results.commitment,
    )


def declared(results: Results) -> Settings:
    """Return the declaration that results were made under."""
    audit = results.audit
    return Settings(trials=audit.trials, alpha=audit.alpha, method=Method(audit.method), seed=results.seed)


def recounted(record: AttackRecord) -> list[Counts]:
    """Return an attack's counts, one entry a canary."""
    return [Counts(**canary.counts.model_dump()) for canary in record.canaries]


def _read(record: AttackRecord, mechanism: Mechanism, settings: Settings, share: float) -> AttackGate:
    bound = attack_bound(recounted(record), mechanism, replace(settings, alpha=share))
    return AttackGate(attack=record.attack, alpha=share, bound=BoundRecord.model_validate(bound))


def _power(results: Results, mechanism: Mechanism, settings: Settings, claimed: float, share: float) -> Power | None:
    """Return how much too small the noise must be for the strongest attack's expected bound to exceed the claim."""
    pairs = [(record, canary) for record in results.attacks for canary in record.canaries]
    strongest, canary = max(pairs, key=lambda pair: pair[1].mu_eff)
    target = replace(settings, alpha=share).target(mechanism, len(strongest.canaries))

    def beyond(ratio: float) -> float:
        return _expected(mechanism, separation(canary, mechanism, ratio), target) - claimed

    if canary.mu_eff <= 0 or beyond(_WIDEST) <= 0:
        return None
    least = 1 / _WIDEST
    ratio = least if beyond(least) > 0 else float(brentq(lambda r: beyond(r) - 1e-9, least, _WIDEST, xtol=1e-6))
    sigma = mechanism.sigma / ratio
    return Power(
        epsilon=one_round_epsilon(replace(mechanism, sigma=sigma)),
        sigma=sigma,
        ratio=ratio,
        attack=strongest.attack,
        mu_eff=canary.mu_eff,
        separation=separation(canary, mechanism, ratio),
    )


def separation(canary: CanaryRecord, mechanism: Mechanism, ratio: float) -> float:
    """Return a separation that a canary's score has at least when the noise is so many times smaller than declared.

    The score's variance is that of the noise and that of other users' votes, and less noise leaves the votes as they
    are. For weights w, contribution c and covariance S, Cauchy's inequality between w'c and the norm of w shows that
    the separation is at least that of noise and votes alike in all directions. More noise divides it by at most as
    much.
    """
    votes = max(0.0, (canary.probe_norm / canary.mu_eff) ** 2 - mechanism.noise**2)
    with_votes = canary.probe_norm / math.hypot(mechanism.noise / ratio, math.sqrt(votes))
    return min(canary.mu_eff * ratio, with_votes)


def _expected(mechanism: Mechanism, mu: float, target: Target) -> float:
    return best_threshold(perfect_rates(replace(mechanism, sigma=1 / mu)), target)[1]


def _statement(
    worst: AttackGate, claimed: float, power: Power | None, alpha: float, mechanism: Mechanism, *, ok: bool
) -> str:
    found = f"the bound {worst.bound.epsilon:.3f} ({worst.attack}, {worst.bound.method})"
    if not ok:
        return (
            f"Violation: {found} exceeds the claimed epsilon {claimed:g} at confidence {1 - alpha:g}, delta "
            f"{worst.bound.delta:g}."
        )
    seen = "with these attacks and so many trials no size of violation can be named that would typically have been seen"
    if power is not None:
        seen = (
            f"a true epsilon of {power.epsilon:.3f} or more, as by sigma {power.sigma:.3f} where {mechanism.sigma:g} "
            "is declared, would typically have been seen by a run like this one, its threshold set for that sigma"
        )
    return (
        f"No violation detected at this power: {found} does not exceed the claimed epsilon {claimed:g} at confidence "
        f"{1 - alpha:g}; {seen}."
    )


def _too_small(claimed: float, exact: float, *, ok: bool) -> str:
    if not ok or claimed >= exact - _SLACK:
        return ""
    return (
        " The claim is too small all the same: this mechanism's exact epsilon, computed without trials, is "
        f"{exact:.3f}."
    )
