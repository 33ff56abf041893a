"""Declare the audit of a system before its first run: claim, schedule, scores, evidence, and what it could show."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np

from canarybank import seeds
from canarybank.auditing.betting import betting_power
from canarybank.auditing.curve import MOST, claimed_curve, curve_power, least_factor, perfect_roc
from canarybank.auditing.settings import AlphaLedger, Settings
from canarybank.errors import InputError
from canarybank.mechanism import Claim
from canarybank.systems.trials import Hypothesis, Split, Trial

__all__ = ["LEAST", "Declaration", "Evidence", "Scoring", "power_of"]

LARGEST_BET = 200.0
"""The largest epsilon that is bet against."""
LEAST = 8
"""The fewest runs of a hypothesis from which a score and a threshold are fitted, or a rate is judged."""


class Evidence(StrEnum):
    """A way from counts of runs to a statement about the claim."""

    BOUND = "bound"
    CURVE = "curve"
    BETTING = "betting"


class Scoring(StrEnum):
    """Where a score of a run comes from."""

    DESIGNED = "designed"
    FITTED = "fitted"
    LENGTH = "length"


@dataclass(frozen=True)
class Declaration:
    """What is declared before the first run.

    ``settings.trials`` counts the judged runs of each hypothesis of each canary, and ``apart`` those that are set apart
    for fitting. Alpha is split evenly over scores and evidence. A batch is what the system is asked for at once.
    """

    claim: Claim
    settings: Settings
    canaries: tuple[str, ...] = ("canary",)
    apart: int = 0
    scores: tuple[Scoring, ...] = (Scoring.FITTED,)
    evidence: tuple[Evidence, ...] = ()
    batch: int = 0

    def __post_init__(self) -> None:
        claim, trials = self.claim, self.settings.trials
        kinds = self.evidence or (Evidence.BOUND, *([Evidence.CURVE] if _is_curved(claim) else []))
        object.__setattr__(self, "evidence", tuple(dict.fromkeys(Evidence(each) for each in kinds)))
        object.__setattr__(self, "scores", tuple(dict.fromkeys(Scoring(each) for each in self.scores)))
        object.__setattr__(self, "apart", self.apart or max(20, trials // 2))
        group = 2 * len(self.canaries)
        object.__setattr__(self, "batch", -(-(self.batch or 1024) // group) * group)
        if self.settings.method.included:
            raise InputError(
                f"The method {self.settings.method.name!r} counts runs in which the canary surely takes part, and a "
                "schedule has none; choose another method, such as 'clopper-pearson'."
            )
        if Evidence.CURVE in self.evidence:
            claimed_curve(claim)  # refuses a claim that names no curve, in its own words
        if not self.canaries or len(set(self.canaries)) < len(self.canaries):
            raise InputError(f"Name at least one canary, and each once, not {list(self.canaries)}.")
        if min(self.apart, trials) < LEAST:
            raise InputError(
                f"An audit needs {LEAST} runs of each hypothesis set apart and {LEAST} judged, not {self.apart} and "
                f"{trials}."
            )
        if Evidence.BETTING in self.evidence and claim.epsilon > LARGEST_BET:
            raise InputError(
                f"Nobody bets against an epsilon of {claim.epsilon:g}: no run could win. Claim at most "
                f"{LARGEST_BET:g}, or leave betting out of the evidence."
            )

    @cached_property
    def schedule(self) -> tuple[Trial, ...]:
        """Return all runs in order: those set apart first; in each group every hypothesis of every canary once."""
        rng = seeds.stream(self.settings.seed, "schedule")
        trials: list[Trial] = []
        places = [(canary, hypothesis) for canary in self.canaries for hypothesis in Hypothesis]
        for split, groups in ((Split.FIT, self.apart), (Split.JUDGE, self.settings.trials)):
            for _ in range(groups):
                for place in rng.permutation(len(places)):
                    canary, hypothesis = places[place]
                    trials.append(Trial(len(trials) + 1, hypothesis, canary, split))
        return tuple(trials)

    @property
    def batches(self) -> tuple[tuple[Trial, ...], ...]:
        """Return the schedule in committed batches, none of which holds runs of both parts."""
        first = 2 * len(self.canaries) * self.apart
        return tuple(
            part[at : at + self.batch]
            for part in (self.schedule[:first], self.schedule[first:])
            for at in range(0, len(part), self.batch)
        )

    @property
    def ledger(self) -> AlphaLedger:
        """Return the share of alpha of each kind of evidence on each score."""
        return AlphaLedger.split(
            self.settings.alpha, [f"{score}/{each}" for score in self.scores for each in self.evidence]
        )

    @property
    def power(self) -> tuple[str, ...]:
        """Say, before any run, which violations each kind of evidence would typically show."""
        return tuple(power_of(self, each, self.share(self.scores)) for each in self.evidence)

    def share(self, scores: Sequence[Scoring]) -> float:
        """Return the alpha of each kind of evidence on each of these scores, over all canaries."""
        return self.settings.alpha / (len(scores) * len(self.evidence))


def power_of(declared: Declaration, evidence: Evidence, alpha: float) -> str:
    """Say which violation of the claim so many runs would typically show by one kind of evidence."""
    return _power(declared.claim, replace(declared.settings, alpha=alpha, seed=0), len(declared.canaries), evidence)


@lru_cache(maxsize=64)
def _power(claim: Claim, settings: Settings, canaries: int, evidence: Evidence) -> str:
    if evidence is Evidence.CURVE:
        return curve_power(claimed_curve(claim), settings.trials, alpha=settings.alpha, canaries=canaries).statement
    if evidence is Evidence.BOUND:
        return bound_power(claim, settings, canaries)
    if not _is_curved(claim):
        return "How many pairs betting takes depends on the violation; no mechanism is claimed that says it."
    return betting_power(claim, settings.trials, alpha=settings.alpha, canaries=canaries).statement


def bound_power(claim: Claim, settings: Settings, canaries: int) -> str:
    """Say which violation of the claim so many runs would typically show by a bound, at the settings' alpha."""
    target = settings.target(claim, canaries)
    runs = f"{settings.trials:,} runs an arm at alpha {settings.alpha:g}"
    most = float(np.maximum(*target.branches(1.0, 0.0)))
    if most <= claim.epsilon:
        return (
            f"{runs} cannot show more than epsilon {most:.3g} by a {settings.method} bound, whatever the system does, "
            f"so they cannot refute {claim.epsilon:.4g}."
        )
    mechanism = claim.mechanism
    if mechanism is None or claim.neighbours == "replace":
        return f"{runs} can show an epsilon of up to {most:.3g} by a {settings.method} bound, by a perfect attack."

    def shows(shift: float, q: float) -> bool:
        fpr, tpr = perfect_roc(shift, q, claim.rounds)
        return bool((target.bound(tpr, fpr) > claim.epsilon).any())

    shift, q = 1 / mechanism.sigma, mechanism.q
    noise = least_factor(lambda f: shows(f * shift, q), MOST)
    taking = least_factor(lambda g: shows(shift, min(1.0, g * q)), 1 / q)
    factors = (("noise divided by", noise), ("q multiplied by", taking))
    seen = [f"{what} {factor:.2f}" for what, factor in factors if factor is not None]
    if not seen:
        return f"{runs} would typically show no violation of noise or sampling by a {settings.method} bound."
    return f"{runs} would typically show {' or '.join(seen)} by a {settings.method} bound, with a perfect canary."


def _is_curved(claim: Claim) -> bool:
    """Say whether a claim names a mechanism whose trade-off curve is known."""
    return claim.mechanism is not None and (claim.neighbours == "add-remove" or claim.mechanism.q == 1)
