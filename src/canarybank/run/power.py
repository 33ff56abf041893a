"""Say which violation a run would typically have seen: with its own frozen thresholds, and with fresh ones."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from canarybank.auditing import (
    AttackResult,
    CanaryResult,
    Settings,
    best_threshold,
    perfect_rates,
)
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.run.commitment import Epsilon, Figure, Record
from canarybank.run.results import Results
from canarybank.wording import shown_epsilon

__all__ = [
    "FrozenPower",
    "Power",
    "Shown",
    "fresh_power",
    "frozen_power",
    "frozen_rates",
    "power_text",
    "separation",
    "unclipped_rates",
]

_WIDEST = 1e4
"""Noise that is this many times too small is the worst that is asked about."""
_STEPS = 600

Array = NDArray[np.float64]
RatesOf: TypeAlias = Callable[[CanaryResult, Mechanism, Array], tuple[Array, Array]]
"""A frozen rule, the declared mechanism and sizes of a violation, to FPR and TPR under each."""


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
