"""Hold a run against a claimed epsilon: what is computed, what the trials show, and what they could have shown.

A claim fails for up to three causes. The mechanism's exact epsilon exceeds it; the exact epsilon of an attack does, at
the lower end that is certified; or a bound from the trials does. The first two are computed and need no trial. Where no
trial shows anything, power says which violation the run would typically have seen: with its own frozen thresholds, and
with fresh ones.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from canarybank.auditing import (
    AttackResult,
    Bound,
    CanaryResult,
    Settings,
    attack_bound,
    best_threshold,
    perfect_rates,
)
from canarybank.errors import ConfigError, StoreError
from canarybank.mechanism import Claim, Mechanism, attained_epsilon, one_round_epsilon
from canarybank.run.commitment import Epsilon, Figure, Record
from canarybank.run.folder import Run
from canarybank.run.results import Results
from canarybank.run.verification import declared, refuse_unverified, trust_methods

__all__ = [
    "AttackGate",
    "Cause",
    "EvidenceGate",
    "FrozenPower",
    "GateOutcome",
    "Power",
    "Shown",
    "as_printed",
    "attained_epsilon",
    "claim_of",
    "compare",
    "exceeded_ledger",
    "frozen_rates",
    "gate",
    "power_text",
    "separation",
    "shown_epsilon",
    "unclipped_rates",
]

OWN_SYSTEM: Final = "mechanism"
"""The name of our own system, whose power is known."""
PRINTED: Final = (3, 4, 5, 6)
"""The decimals with which an epsilon is printed somewhere; below 1, significant digits after the first."""
_WIDEST = 1e4
"""Noise that is this many times too small is the worst that is asked about."""
_STEPS = 600

Array = NDArray[np.float64]
RatesOf: TypeAlias = Callable[[CanaryResult, Mechanism, Array], tuple[Array, Array]]
"""A frozen rule, the declared mechanism and sizes of a violation, to FPR and TPR under each."""


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


class Power(Record):
    """The smallest violation that a run of this size typically sees: its expected bound just exceeds the claim.

    It is a run of the violating mechanism itself, so the threshold is the best one for that mechanism.
    """

    epsilon: Epsilon
    """The true epsilon of such a mechanism; null where it is infinite."""
    sigma: float
    """Its noise multiplier."""
    ratio: float
    """How many times its noise is smaller than declared."""
    attack: str
    """The attack that would see it: the strongest of the run."""
    mu_eff: float
    """That attack's separation under the declared mechanism."""
    separation: float
    """That attack's separation, at least, under the violating mechanism."""


class Shown(Record):
    """The smallest violation of one kind that a run's own frozen thresholds would typically have shown.

    A rule can be blind again to a larger violation: less noise also moves a canary's score away from a threshold that
    lies above it. Then ``largest_epsilon`` says where it ends.
    """

    epsilon: Epsilon
    """The true epsilon of the violation; null where it is infinite."""
    ratio: float
    """How many times the noise is too small, or the contribution larger than it was."""
    amount: float
    """The noise multiplier, or the norm of the contribution."""
    attack: str
    """The attack whose rules would show it."""
    largest_epsilon: Figure
    """The true epsilon up to which it is shown; null where there is no end."""


class FrozenPower(Record):
    """What this run's own frozen thresholds would typically have shown: its expected bound exceeds the claim."""

    noise: Shown | None
    """By too little noise; null where no size of it would be shown."""
    contribution: Shown | None
    """By a canary whose contribution was not clipped; null where no size of it would be shown."""


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


def fresh_power(
    results: Results, mechanism: Mechanism, settings: Settings, claimed: float, shares: Mapping[str, float]
) -> Power | None:
    """Return how much too small the noise must be for the strongest attack's expected bound to exceed the claim.

    The threshold is the best one for that noise, as where the violating system itself is calibrated.
    """
    pairs = [(record, canary) for record in results.attacks for canary in record.canaries]
    strongest, canary = max(pairs, key=lambda pair: pair[1].mu_eff)
    target = replace(settings, alpha=min(shares.values())).target(mechanism, len(strongest.canaries))

    def beyond(ratio: float) -> float:
        rates = perfect_rates(replace(mechanism, sigma=1 / separation(canary, mechanism, ratio)))
        return best_threshold(rates, target)[1] - claimed

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


def frozen_power(
    results: Results, mechanism: Mechanism, settings: Settings, claimed: float, shares: Mapping[str, float]
) -> FrozenPower:
    """Return the smallest violations whose expected counts under this run's frozen rules give a bound above the claim.

    Asked about are noise that is too small, and contributions of the canary that are too large, by a factor of up to
    10,000. A canary's whole contribution has at most the norm of the clip, whatever of it is inspected.
    """

    def smallest(rates_of: RatesOf, *amounts: Callable[[float], float]) -> Shown | None:
        found = [
            _shown_by(record, mechanism, replace(settings, alpha=shares[record.attack]), claimed, rates_of, *amounts)
            for record in results.attacks
        ]
        return min((each for each in found if each is not None), key=lambda each: each.epsilon, default=None)

    return FrozenPower(
        noise=smallest(frozen_rates, lambda ratio: mechanism.sigma / ratio, lambda sigma: sigma),
        contribution=smallest(
            unclipped_rates, lambda ratio: ratio * mechanism.clip, lambda norm: mechanism.noise / norm
        ),
    )


def _shown_by(
    record: AttackResult,
    mechanism: Mechanism,
    settings: Settings,
    claimed: float,
    rates_of: RatesOf,
    amount_of: Callable[[float], float],
    sigma_of: Callable[[float], float],
) -> Shown | None:
    """Return the smallest violation that one attack shows; its size gives an amount, and that the sigma it is like."""
    target = settings.target(mechanism, len(record.canaries))

    def beyond(ratios: Array) -> Array:
        """Return by how much the bound at the counts expected under violations of these sizes exceeds the claim."""
        rates = np.array([rates_of(canary, mechanism, ratios) for canary in record.canaries])
        if target.method.pools:
            fpr, tpr = rates.mean(axis=0)
            return target.bound(tpr, fpr) - claimed
        return np.asarray(target.bound(rates[:, 1], rates[:, 0]).max(axis=0)) - claimed

    def crossing(last: int) -> float:
        """Return the size between this one and the one before it at which the bound is the claim."""
        return float(brentq(lambda ratio: beyond(np.array([ratio]))[0], ratios[last - 1], ratios[last], xtol=1e-9))

    def epsilon(ratio: float) -> float:
        """Return the true epsilon: less noise and a larger contribution are alike to it."""
        return one_round_epsilon(replace(mechanism, sigma=sigma_of(amount_of(ratio))))

    ratios = np.geomspace(1.0, _WIDEST, _STEPS)
    above = beyond(ratios) > 0
    if not above.any():
        return None
    first = int(np.argmax(above))
    ratio = 1.0 if first == 0 else crossing(first)
    blind = first + np.flatnonzero(~above[first:])
    return Shown(
        epsilon=epsilon(ratio),
        ratio=ratio,
        amount=amount_of(ratio),
        attack=record.attack,
        largest_epsilon=epsilon(crossing(int(blind[0]))) if blind.size else None,
    )


def frozen_rates(canary: CanaryResult, mechanism: Mechanism, ratios: Array) -> tuple[Array, Array]:
    """Return FPR and TPR of a frozen rule when the noise is so many times smaller than declared, at ratio 1 exactly.

    The exact rates at the declared noise say how many deviations the threshold lies from the score's two means; less
    noise shrinks the deviation and moves neither mean nor threshold. Other users' votes keep their part of the
    variance, which is known only up to an end (see `separation`): of the two ends, FPR is the larger one and TPR the
    smaller one, so that power is not overstated. Backgrounds are taken as Gaussian.
    """
    absent, present = _deviates(canary, mechanism)
    most_votes = 1 - (mechanism.noise * canary.mu_eff / canary.probe_norm) ** 2 if canary.probe_norm > 0 else 0.0
    votes = min(1.0, max(0.0, most_votes))
    deviations = np.stack([1 / ratios, np.sqrt((1 - votes) / ratios**2 + votes)])
    fpr = ndtr(-absent / deviations).max(axis=0)
    return _eligible(fpr, ndtr(-present / deviations).min(axis=0), mechanism)


def unclipped_rates(canary: CanaryResult, mechanism: Mechanism, ratios: Array) -> tuple[Array, Array]:
    """Return FPR and TPR of a frozen rule when the canary contributes so many times what it did, at ratio 1 exactly.

    Without the canary nothing changes; with it, the score's mean moves on by as much as it moved before, again and
    again. Backgrounds are taken as Gaussian.
    """
    absent, present = _deviates(canary, mechanism)
    fpr, included = np.full_like(ratios, ndtr(-absent)), np.asarray(ndtr(ratios * (absent - present) - absent))
    return _eligible(fpr, included, mechanism)


def _deviates(canary: CanaryResult, mechanism: Mechanism) -> tuple[float, float]:
    """Return how many deviations the threshold lies above the score's mean: canary absent, and taking part."""
    assert canary.absent_rate is not None and canary.eligible_rate is not None  # noqa: PT018, S101, the caller looked
    fpr, tpr = canary.absent_rate.midpoint, canary.eligible_rate.midpoint
    included = (tpr - (1 - mechanism.q) * fpr) / mechanism.q
    absent, present = (-float(ndtri(min(max(rate, 1e-300), 1 - 1e-16))) for rate in (fpr, included))
    return absent, present


def _eligible(fpr: Array, included: Array, mechanism: Mechanism) -> tuple[Array, Array]:
    return fpr, (1 - mechanism.q) * fpr + mechanism.q * included


def separation(canary: CanaryResult, mechanism: Mechanism, ratio: float) -> float:
    """Return a separation that a canary's score has at least when the noise is so many times smaller than declared.

    The score's variance is that of the noise and that of other users' votes, and less noise leaves the votes as they
    are. For weights w, contribution c and covariance S, Cauchy's inequality between w'c and the norm of w shows that
    the separation is at least that of noise and votes alike in all directions. More noise divides it by at most as
    much.
    """
    votes = max(0.0, (canary.probe_norm / canary.mu_eff) ** 2 - mechanism.noise**2)
    with_votes = canary.probe_norm / math.hypot(mechanism.noise / ratio, math.sqrt(votes))
    return min(canary.mu_eff * ratio, with_votes)


def power_text(own: FrozenPower | None, fresh: Power | None, mechanism: Mechanism) -> str:
    """Say what a run's own thresholds would typically have shown, and what thresholds set for less noise would."""
    if own is None:
        return "What size of violation this run would have shown is computed for one release of our own mechanism only."
    noise, contribution, declared = own.noise, own.contribution, f"{mechanism.sigma:g} is declared"
    clipped, quiet = "no contribution above the clip", "no violation by too little noise, however little"
    if contribution is not None:
        clipped = (
            f"a true epsilon from {shown_epsilon(contribution.epsilon)} on by a contribution above the clip (norm "
            f"{contribution.amount:.3g} where the clip is {mechanism.clip:g})"
        )
    if noise is not None:
        least, end = shown_epsilon(noise.epsilon), noise.largest_epsilon
        quiet = f"one from {least} on by too little noise (sigma {noise.amount:.3f} where {declared})"
        quiet += "" if end is None else f" up to {end:.3f}; to less noise than that they are blind"
    fresh_thresholds = (
        "No size of violation can be named that thresholds set for it would typically show: the claim needs more "
        "trials or a stronger attack."
        if fresh is None
        else "Thresholds set for too little noise would typically show a true epsilon of "
        f"{shown_epsilon(fresh.epsilon)} or more in as many trials (sigma {fresh.sigma:.3f} where {declared})."
    )
    return (
        f"This run's own thresholds, frozen for the declared noise, would typically show {clipped}, and {quiet}. "
        f"{fresh_thresholds}"
    )


def shown_epsilon(epsilon: float | None, decimals: int = 3) -> str:
    """Return an epsilon with three decimals, and below 1 with four significant digits; null stands for infinity.

    So what is shown is within a thousandth of the epsilon, and no positive one is shown as 0.
    """
    if epsilon is None or math.isinf(epsilon):
        return "infinite"
    return f"{epsilon:#.{decimals + 1}g}" if 0 < epsilon < 1 else f"{epsilon:.{decimals}f}"
