"""Judge every prefix of rounds: what theory allows, what the attack could spend exactly, and what trials show.

The figures of a prefix of t rounds are about the sum of the first t rounds' mixture scores. Each prefix has a threshold
of its own, frozen on calibration users before anything is evaluated.

The T prefixes are T claims. ``Claims.EACH`` makes each at the whole level, as the paper's figure does: any one of them,
picked without looking, fails with probability at most alpha. ``Claims.TOGETHER`` splits alpha evenly over them, so
that with probability at least 1 - alpha none of them fails; only then may the largest be picked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from canarybank.audit import (
    AlphaLedger,
    Bound,
    Counts,
    ExpectedBound,
    Settings,
    Supremum,
    Target,
    Threshold,
    ThresholdMode,
    at_most,
    best_threshold,
    calibrated,
    epsilon_at,
    epsilon_lower,
    expected_bound,
    supremum,
)
from canarybank.engine import Engine
from canarybank.errors import InputError, MissingError
from canarybank.evolve.summed_trials import SummedTrials, count_prefixes
from canarybank.mechanism import Mechanism, epsilon, prv_epsilon
from canarybank.progress import SILENT, Progress
from canarybank.score import Bounds, Interval, RoundLaw, SummedLaw

Path = tuple[str | int, ...]
STEP = 1.25e-5

__all__ = ["STEP", "Claims", "Prefix", "Rule", "freeze_prefixes", "judge_prefix", "judge_prefixes"]


class Claims(StrEnum):
    """How alpha covers the prefixes."""

    EACH = "each"
    TOGETHER = "together"

    @property
    def statement(self) -> str:
        """Say what the bounds claim, taken as a family."""
        return _STATEMENTS[self]

    def ledgers(self, alpha: float, rounds: int) -> tuple[AlphaLedger, ...]:
        """Return where the prefixes' levels come from: a ledger for each of them, or one for all."""
        names = [_name(t) for t in range(1, rounds + 1)]
        families = [[name] for name in names] if self is Claims.EACH else [names]
        return tuple(AlphaLedger.split(alpha, family) for family in families)


_STATEMENTS = {
    Claims.EACH: (
        "Each prefix is a claim of its own at the whole of alpha; that several of them hold at once, or that the "
        "largest does, is not claimed."
    ),
    Claims.TOGETHER: "Alpha is split evenly over the prefixes: all of them hold at once with probability 1 - alpha.",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What is frozen for the first ``rounds`` rounds: "present" where their summed score exceeds the threshold."""

    rounds: int
    threshold: Threshold
    alpha: float
    """The level of the bound that the rule's counts will give."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What the first ``rounds`` rounds allow, could show and did show."""

    rounds: int
    theory: float
    """The exact epsilon of so many releases of the mechanism, from the privacy loss distribution."""
    accounted: float | None
    """What Opacus's PRV accountant states for them, an upper end; None where it states none or is not installed."""
    exact: Supremum
    """The exact epsilon of this attack on the evaluation cohort, over all thresholds: point and certified interval."""
    threshold: Threshold
    rule: Interval
    """The exact epsilon of the frozen threshold on the evaluation cohort."""
    fpr: Interval
    """The exact false positive rate of the frozen rule."""
    tpr: Interval
    """The exact true positive rate of the frozen rule."""
    expected: ExpectedBound
    """The law of the bound that those rates give with so many trials."""
    counts: Counts
    bound: Bound
    """The bound that the trials gave."""

    def __str__(self) -> str:
        return (
            f"{_name(self.rounds)}: theory {self.theory:.4f}, exact {self.exact.point:.4f} in {self.exact.interval}, "
            f"expected {self.expected.median:.3f}, {self.bound}"
        )


def freeze_prefixes(
    calibration: Sequence[RoundLaw],
    mechanism: Mechanism,
    settings: Settings,
    *,
    claims: Claims = Claims.EACH,
    canaries: int = 1,
    trials: SummedTrials | None = None,
    path: Path = (),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> tuple[Rule, ...]:
    """Freeze a threshold for every prefix from the laws of the rounds' scores on the calibration users.

    An analytic threshold is the one whose exact rates promise the best bound, a calibrated one that whose counts gave
    the best; trials follow the laws unless given. ``canaries`` is the number of canaries, each with a run of its own,
    that share alpha.
    """
    settings.method.require_alone()
    source = SummedTrials.of(calibration) if trials is None else trials
    ledgers = claims.ledgers(settings.alpha / canaries, len(calibration))
    shares = [share for ledger in ledgers for _, share in ledger.entries]
    rules = []
    with progress.stage("thresholds", total=len(shares), unit="prefixes") as stage:
        for t, alpha in enumerate(shares, start=1):
            target = Target(settings.trials, mechanism.delta, alpha, settings.method)
            if settings.threshold is ThresholdMode.ANALYTIC:
                value, expected = best_threshold(SummedLaw(calibration[:t]).point, target)
                threshold = Threshold(value, ThresholdMode.ANALYTIC, expected)
            else:
                threshold = calibrated(
                    source.prefix(t),
                    target,
                    number=settings.trials,
                    seed=settings.seed,
                    path=(*path, _name(t)),
                    engine=engine,
                )
            rules.append(Rule(t, threshold, alpha))
            stage.advance()
    return tuple(rules)


def judge_prefixes(
    rules: Sequence[Rule],
    laws: Sequence[RoundLaw],
    mechanism: Mechanism,
    settings: Settings,
    *,
    trials: SummedTrials | None = None,
    step: float = STEP,
    path: Path = (),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> tuple[Prefix, ...]:
    """Play the trials of all prefixes, bound epsilon from their counts, and set the exact figures beside them.

    ``laws`` are those of the rounds' scores on the evaluation users; trials follow them unless given. ``step`` is the
    width of the cells behind the certified intervals: they narrow, and take longer, in proportion to it.
    """
    source = SummedTrials.of(laws) if trials is None else trials
    if not len(rules) == len(laws) == len(source.rounds):
        raise InputError(
            f"There are {len(rules)} rules, {len(laws)} laws and {len(source.rounds)} rounds of trials; every round "
            "needs one of each."
        )
    thresholds = [rule.threshold.value for rule in rules]
    counted = count_prefixes(
        source,
        thresholds,
        settings.trials,
        seed=settings.seed,
        path=(*path, "evaluation"),
        engine=engine,
        progress=progress,
    )
    prefixes = []
    with progress.stage("exact evaluation", total=len(rules), unit="prefixes") as stage:
        for rule, counts in zip(rules, counted, strict=True):
            prefixes.append(judge_prefix(rule, SummedLaw(laws[: rule.rounds], step), counts, mechanism, settings))
            stage.advance()
    return tuple(prefixes)


def judge_prefix(rule: Rule, law: SummedLaw, counts: Counts, mechanism: Mechanism, settings: Settings) -> Prefix:
    """Bound epsilon from the counts of one prefix, and evaluate it exactly."""
    delta, at = mechanism.delta, rule.threshold.value
    rates, (fpr, tpr) = law.rates(at), law.point(at)
    exact, theory = supremum(law, delta), epsilon(mechanism, rule.rounds)
    return Prefix(
        rounds=rule.rounds,
        theory=theory,
        accounted=_accounted(mechanism, rule.rounds),
        exact=replace(exact, interval=at_most(exact.interval, theory), point=min(exact.point, theory)),
        threshold=rule.threshold,
        rule=at_most(epsilon_at(law, at, delta), theory),
        fpr=_interval(rates.fpr),
        tpr=_interval(rates.tpr),
        expected=expected_bound(
            np.clip(tpr, 0.0, 1.0),
            np.clip(fpr, 0.0, 1.0),
            settings.trials,
            delta=delta,
            alpha=rule.alpha,
            method=settings.method,
        ),
        counts=counts,
        bound=epsilon_lower(
            counts.tp, counts.fp, counts.n1, counts.n0, delta=delta, alpha=rule.alpha, method=settings.method
        ),
    )


def _accounted(mechanism: Mechanism, rounds: int) -> float | None:
    try:
        return prv_epsilon(mechanism, rounds)
    except (InputError, MissingError):  # it stands beside the exact figure, for parity alone
        return None


def _interval(ends: Bounds) -> Interval:
    return Interval(float(ends.lower), float(ends.upper))


def _name(rounds: int) -> str:
    return "round 1" if rounds == 1 else f"rounds 1 to {rounds}"
