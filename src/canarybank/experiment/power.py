"""Say which violation a run would typically have seen: with its own frozen thresholds, and with fresh ones."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from canarybank.audit import Settings, Target, best_threshold, perfect_rates
from canarybank.experiment.commitment import Epsilon, Figure, Record
from canarybank.experiment.results import AttackRecord, CanaryRecord, IntervalRecord, Results
from canarybank.mechanism import Mechanism, one_round_epsilon

__all__ = [
    "FrozenPower",
    "Power",
    "Shown",
    "fresh_power",
    "frozen_power",
    "frozen_rates",
    "power_text",
    "separation",
    "shown_epsilon",
    "unclipped_rates",
]

_WIDEST = 1e4
"""Noise that is this many times too small is the worst that is asked about."""
_STEPS = 600

Array = NDArray[np.float64]
RatesOf: TypeAlias = Callable[[CanaryRecord, Mechanism, Array], tuple[Array, Array]]
"""A frozen rule, the declared mechanism and sizes of a violation, to FPR and TPR under each."""


class Power(Record):
    """The smallest violation that a run of this size typically sees: its expected bound just exceeds the claim.

    It is a run of the violating mechanism itself, so the threshold is the best one for that mechanism.
    """

    epsilon: Epsilon = Field(description="The true epsilon of such a mechanism; null where it is infinite.")
    sigma: float = Field(description="Its noise multiplier.")
    ratio: float = Field(description="How many times its noise is smaller than declared.")
    attack: str = Field(description="The attack that would see it: the strongest of the run.")
    mu_eff: float = Field(description="That attack's separation under the declared mechanism.")
    separation: float = Field(description="That attack's separation, at least, under the violating mechanism.")


class Shown(Record):
    """The smallest violation of one kind that a run's own frozen thresholds would typically have shown.

    A rule can be blind again to a larger violation: less noise also moves a canary's score away from a threshold that
    lies above it. Then ``largest_epsilon`` says where it ends.
    """

    epsilon: Epsilon = Field(description="The true epsilon of the violation; null where it is infinite.")
    ratio: float = Field(description="How many times the noise is too small, or the contribution larger than it was.")
    amount: float = Field(description="The noise multiplier, or the norm of the contribution.")
    attack: str = Field(description="The attack whose rules would show it.")
    largest_epsilon: Figure = Field(description="The true epsilon up to which it is shown; null where there is no end.")


class FrozenPower(Record):
    """What this run's own frozen thresholds would typically have shown: its expected bound exceeds the claim."""

    noise: Shown | None = Field(description="By too little noise; null where no size of it would be shown.")
    contribution: Shown | None = Field(
        description="By a canary whose contribution was not clipped; null where no size of it would be shown."
    )


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


def frozen_power(
    results: Results, mechanism: Mechanism, settings: Settings, claimed: float, shares: Mapping[str, float]
) -> FrozenPower:
    """Return the smallest violations whose expected counts under this run's frozen rules give a bound above the claim.

    Asked about are noise that is too small, and contributions of the canary that are too large, by a factor of up to
    10,000.
    """
    rules = [_Rules(record, mechanism, settings, shares[record.attack]) for record in results.attacks]
    return FrozenPower(
        noise=_smallest(_shown_by(each, frozen_rates, _by_noise, claimed) for each in rules),
        contribution=_smallest(_shown_by(each, unclipped_rates, _by_contribution, claimed) for each in rules),
    )


def _smallest(found: Iterable[Shown | None]) -> Shown | None:
    return min((each for each in found if each is not None), key=lambda each: each.epsilon, default=None)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The frozen rules of one attack, and the level at which its bound is stated."""

    record: AttackRecord
    mechanism: Mechanism
    settings: Settings
    share: float

    def expected(self, rates_of: RatesOf, ratios: Array) -> Array:
        """Return the attack's bound at the counts that are expected under violations of these sizes."""
        canaries = self.record.canaries
        target = replace(self.settings, alpha=self.share).target(self.mechanism, len(canaries))
        rates = np.array([rates_of(canary, self.mechanism, ratios) for canary in canaries])
        if target.method.pools:
            fpr, tpr = rates.mean(axis=0)
            return target.bound(tpr, fpr)
        return np.asarray(target.bound(rates[:, 1], rates[:, 0]).max(axis=0))


def _shown_by(rules: _Rules, rates_of: RatesOf, size: Callable[[_Rules, float], float], claimed: float) -> Shown | None:
    def beyond(ratio: float) -> float:
        return float(rules.expected(rates_of, np.array([ratio]))[0]) - claimed

    def epsilon(ratio: float) -> float:
        """Return the true epsilon: less noise and a larger contribution are alike to it."""
        amount = size(rules, ratio)
        sigma = amount if size is _by_noise else rules.mechanism.noise / amount
        return one_round_epsilon(replace(rules.mechanism, sigma=sigma))

    ratios = np.geomspace(1.0, _WIDEST, _STEPS)
    above = rules.expected(rates_of, ratios) > claimed
    if not above.any():
        return None
    first = int(np.argmax(above))
    blind = np.flatnonzero(~above[first:])
    ratio = 1.0 if first == 0 else float(brentq(beyond, ratios[first - 1], ratios[first], xtol=1e-9))
    end = None
    if blind.size:
        last = first + int(blind[0])
        end = epsilon(float(brentq(beyond, ratios[last - 1], ratios[last], xtol=1e-9)))
    return Shown(
        epsilon=epsilon(ratio),
        ratio=ratio,
        amount=size(rules, ratio),
        attack=rules.record.attack,
        largest_epsilon=end,
    )


def _by_noise(rules: _Rules, ratio: float) -> float:
    return rules.mechanism.sigma / ratio


def _by_contribution(rules: _Rules, ratio: float) -> float:
    # A canary's whole contribution has at most the norm of the clip, whatever of it is inspected.
    return ratio * rules.mechanism.clip


def frozen_rates(canary: CanaryRecord, mechanism: Mechanism, ratios: Array) -> tuple[Array, Array]:
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


def unclipped_rates(canary: CanaryRecord, mechanism: Mechanism, ratios: Array) -> tuple[Array, Array]:
    """Return FPR and TPR of a frozen rule when the canary contributes so many times what it did, at ratio 1 exactly.

    Without the canary nothing changes; with it, the score's mean moves on by as much as it moved before, again and
    again. Backgrounds are taken as Gaussian.
    """
    absent, present = _deviates(canary, mechanism)
    return _eligible(
        np.full_like(ratios, ndtr(-absent)), np.asarray(ndtr(ratios * (absent - present) - absent)), mechanism
    )


def _deviates(canary: CanaryRecord, mechanism: Mechanism) -> tuple[float, float]:
    """Return how many deviations the threshold lies above the score's mean: canary absent, and taking part."""
    fpr, tpr = _middle(canary.absent_rate), _middle(canary.eligible_rate)
    included = (tpr - (1 - mechanism.q) * fpr) / mechanism.q
    absent, present = (-float(ndtri(min(max(rate, 1e-300), 1 - 1e-16))) for rate in (fpr, included))
    return absent, present


def _eligible(fpr: Array, included: Array, mechanism: Mechanism) -> tuple[Array, Array]:
    return fpr, (1 - mechanism.q) * fpr + mechanism.q * included


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


def power_text(own: FrozenPower, fresh: Power | None, mechanism: Mechanism) -> str:
    """Say what a run's own thresholds would typically have shown, and what thresholds set for less noise would."""
    declared = f"{mechanism.sigma:g} is declared"
    said = "This run's own thresholds, frozen for the declared noise, would typically show "
    if own.contribution is None:
        said += "no contribution above the clip, and "
    else:
        least, norm = shown_epsilon(own.contribution.epsilon), f"{own.contribution.amount:.3g}"
        said += (
            f"a true epsilon from {least} on by a contribution above the clip (norm {norm} where the clip is "
            f"{mechanism.clip:g}), and "
        )
    if own.noise is None:
        said += "no violation by too little noise, however little."
    else:
        least = shown_epsilon(own.noise.epsilon)
        said += f"one from {least} on by too little noise (sigma {own.noise.amount:.3f} where {declared})"
        if own.noise.largest_epsilon is not None:
            said += f" up to {own.noise.largest_epsilon:.3f}; to less noise than that they are blind"
        said += "."
    if fresh is None:
        return (
            f"{said} No size of violation can be named that thresholds set for it would typically show: the claim "
            "needs more trials or a stronger attack."
        )
    least = shown_epsilon(fresh.epsilon)
    return (
        f"{said} Thresholds set for too little noise would typically show a true epsilon of {least} or more in as many "
        f"trials (sigma {fresh.sigma:.3f} where {declared})."
    )


def shown_epsilon(epsilon: float | None, decimals: int = 3) -> str:
    """Return an epsilon with three decimals, and below 1 with four significant digits; null stands for infinity.

    So what is shown is within a thousandth of the epsilon, and no positive one is shown as 0.
    """
    if epsilon is None or math.isinf(epsilon):
        return "infinite"
    return f"{epsilon:#.{decimals + 1}g}" if 0 < epsilon < 1 else f"{epsilon:.{decimals}f}"


def _expected(mechanism: Mechanism, mu: float, target: Target) -> float:
    return best_threshold(perfect_rates(replace(mechanism, sigma=1 / mu)), target)[1]


def _middle(interval: IntervalRecord) -> float:
    low, high = (0.0 if end is None else end for end in (interval.lower, interval.upper))
    return (low + high) / 2
