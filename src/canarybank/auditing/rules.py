"""Fit the rules of a system's audit on the runs set apart: scores, thresholds and bets, sealed before the others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canarybank.auditing.betting import Bets, aim_bet, plan_bets
from canarybank.auditing.curve import aim_curve, claimed_curve
from canarybank.auditing.declaration import LEAST, Declaration, Evidence, Scoring
from canarybank.auditing.settings import Target
from canarybank.errors import InputError
from canarybank.score import LinearScore, mixture
from canarybank.systems.trials import Hypothesis, Releases, Split, Trial

__all__ = ["Rule", "Rules", "fit_rules", "refuse_other_shapes"]

Scores = NDArray[np.float64]
GRID, FINEST = 0.05, 400
"""The step between the epsilons that are bet against, and their largest number."""
TIE = 1e-6
"""A threshold keeps this share of the gap around it away from every score that it was fitted to."""
ABSENT, ELIGIBLE, FIT = Hypothesis.ABSENT, Hypothesis.ELIGIBLE, Split.FIT


@dataclass(frozen=True, slots=True)
class Rule:
    """A frozen rule on one canary's runs: its score, and what each kind of evidence does with it.

    The score of a run is the sum of its rounds' scores, or of their mixture scores where ``q`` is given; a fitted one
    reads all rounds as one. A rule on the length reads no value at all: it counts the inspected ones, or all that were
    released where ``widths`` is empty, and its weight is 1 where a canary makes a release longer, else -1.
    """

    score: Scoring
    canary: str
    weights: tuple[tuple[float, ...], ...]
    """The weight of each released value, round by round."""
    offsets: tuple[float, ...]
    """What is subtracted in each round."""
    q: float | None
    """The probability of taking part, where rounds are scored as mixtures."""
    separation: float
    """How far apart the score puts a canary and its absence, in deviations, by the runs set apart."""
    widths: tuple[int, ...]
    """How many values of each round it reads; what a run did not release counts as 0."""
    thresholds: dict[Evidence, float]
    """A run counts as positive where its score exceeds this, for each kind of evidence."""

    def of(self, releases: Releases, hypothesis: Hypothesis, split: Split) -> tuple[tuple[Trial, ...], Scores]:
        """Return the runs that were not lost, and their scores."""
        trials = releases.trials_of(self.canary, hypothesis, split)
        if self.score is Scoring.LENGTH:
            counted = releases.lengths if self.widths else releases.released
            lengths = dict(zip((each.run for each in releases.trials), counted, strict=True))
            return trials, self.weights[0][0] * np.array([sum(lengths[each.run] or ()) for each in trials], np.float64)
        return trials, self.values(releases.table(self.canary, hypothesis, split, self.widths))

    def values(self, table: NDArray[np.float64]) -> Scores:
        """Return the scores of runs, one a row, rounds joined."""
        total, at = np.zeros(len(table)), 0
        for weights, offset in zip(self.weights, self.offsets, strict=True):
            one = table[:, at : at + len(weights)] @ np.array(weights) - offset
            total += one if self.q is None else mixture(one, self.q)
            at += len(weights)
        return total


@dataclass(frozen=True, slots=True)
class Rules:
    """What was fitted on the runs set apart, and is sealed before any other run is looked at."""

    rules: tuple[Rule, ...]
    """The rule of each score and canary."""
    bets: dict[Scoring, Bets]
    """The bets on each score, where betting was declared."""

    @property
    def scores(self) -> tuple[Scoring, ...]:
        """Return the scores that runs are judged by."""
        return tuple(dict.fromkeys(rule.score for rule in self.rules))

    def of(self, score: Scoring) -> tuple[Rule, ...]:
        """Return the rules of one score, one a canary."""
        return tuple(rule for rule in self.rules if rule.score is score)


def fit_rules(
    declared: Declaration, releases: Releases, designed: Mapping[str, Sequence[LinearScore]] | None = None
) -> Rules:
    """Return the rules of all scores and canaries, from the releases of the runs set apart.

    ``designed`` has the scores of each canary that were designed beforehand, one a round. Where runs released different
    numbers of values, that number is a score too, and alpha is split over it as well: the judged runs had no say in it.

    Args:
        declared: What was declared before the first run.
        releases: The releases of the runs set apart.
        designed: The scores of each canary that were designed beforehand, one a round.

    Example:
        >>> import numpy as np
        >>> from canarybank.auditing import Declaration, Settings
        >>> from canarybank.mechanism import Claim
        >>> from canarybank.systems import Hypothesis, Releases, Split
        >>> declared = Declaration(Claim(0.5, 1e-5), Settings(trials=100))
        >>> rng = np.random.default_rng(0)
        >>> released = [rng.normal(3.0 * (run.hypothesis is Hypothesis.ELIGIBLE), 1.0, 2) for run in declared.schedule]
        >>> apart = [i for i, run in enumerate(declared.schedule) if run.split is Split.FIT]
        >>> fitted_on = Releases.of([declared.schedule[i] for i in apart], [released[i] for i in apart])
        >>> len(fit_rules(declared, fitted_on).rules)
        1
    """
    refuse_other_shapes(declared, releases, designed)
    ragged = any(releases.lengths_differ(canary) for canary in declared.canaries)
    scores = (*declared.scores, *([Scoring.LENGTH] if ragged and Scoring.LENGTH not in declared.scores else []))
    share = declared.share(scores)
    rules: list[Rule] = []
    bets: dict[Scoring, Bets] = {}
    for score in scores:
        rates: list[tuple[float, float]] = []
        for canary in declared.canaries:
            rule = _scored(declared, releases, score, canary, (designed or {}).get(canary, ()))
            thresholds, pair = _aimed(declared, rule, releases, share)
            rules.append(replace(rule, thresholds=thresholds))
            rates.append(pair)
        if Evidence.BETTING in declared.evidence:
            tpr, fpr = zip(*rates, strict=True)
            bets[score] = plan_bets(tpr, fpr, declared.claim.delta, _grid(declared.claim.epsilon), alpha=share)
    return Rules(tuple(rules), bets)


def _grid(claimed: float) -> tuple[float, ...]:
    """Return the epsilons that are bet against: the claimed one among even steps up to twice it, or to 5."""
    most = max(5.0, 2 * claimed)
    steps = np.arange(0.0, most + GRID, max(GRID, most / FINEST))
    return tuple(sorted({*(round(float(each), 6) for each in steps), float(claimed)}))


def refuse_other_shapes(
    declared: Declaration, releases: Releases, designed: Mapping[str, Sequence[LinearScore]] | None = None
) -> None:
    """Refuse releases of other rounds than the claim is about, or on other values than a designed score reads."""
    rounds = declared.claim.rounds
    for canary in releases.canaries:
        widths = releases.widths(canary)
        if widths and len(widths) != rounds:
            raise InputError(
                f"A run made {len(widths)} release{'s' * (len(widths) != 1)}, and the claim is about {rounds}; give "
                "one vector a round (a column round in files)."
            )
        reads = tuple(len(each.canary) for each in (designed or {}).get(canary, ()))
        joined = len(reads) == 1 and reads == (sum(widths),)
        if widths and reads and not (releases.is_ragged(canary) or joined or widths == reads):
            raise InputError(
                f"A run released {widths} values, round by round, and the designed score reads {reads}; release the "
                "inspected positions, all of them and no others."
            )


def _scored(
    declared: Declaration, releases: Releases, score: Scoring, canary: str, designed: Sequence[LinearScore]
) -> Rule:
    """Return a rule without thresholds."""
    mechanism, rounds = declared.claim.mechanism, declared.claim.rounds
    widths = releases.widths(canary)
    absent, eligible = (releases.table(canary, each, FIT) for each in (ABSENT, ELIGIBLE))
    if min(len(absent), len(eligible)) < LEAST:
        raise InputError(
            f"Of the runs set apart for the canary {canary!r}, {len(absent)} absent and {len(eligible)} eligible ones "
            f"are there, and {LEAST} of each are needed; run the lost ones again in a new audit."
        )
    if score is Scoring.LENGTH:
        rule = Rule(score, canary, ((1.0,),), (0.0,), None, 0.0, widths if releases.is_ragged(canary) else (), {})
        without, with_canary = (float(rule.of(releases, each, FIT)[1].mean()) for each in (ABSENT, ELIGIBLE))
        return rule if with_canary >= without else replace(rule, weights=((-1.0,),))
    if score is Scoring.FITTED:
        learnt = LinearScore.fit(absent, eligible)
        weights, offset = (_plain(learnt.weights),), (float(learnt.offset),)
        return Rule(score, canary, weights, offset, None, float(learnt.mu_eff), widths, {})
    if len(designed) not in {1, rounds}:
        raise InputError(
            f"The claim is about {rounds} releases, and {len(designed)} scores are designed for the canary {canary!r}; "
            "give one score a round, or one of all rounds joined, or have it fitted."
        )
    reads = tuple(len(each.canary) for each in designed)
    if len(designed) < rounds and reads == (sum(widths),):
        reads = widths
    q = mechanism.q if mechanism is not None and len(designed) > 1 else None
    directions = tuple(_plain(each.weights) for each in designed)
    offsets = tuple(float(each.offset) for each in designed)
    separation = math.sqrt(sum(float(each.mu_eff) ** 2 for each in designed))
    return Rule(score, canary, directions, offsets, q, separation, reads, {})


def _aimed(
    declared: Declaration, rule: Rule, releases: Releases, share: float
) -> tuple[dict[Evidence, float], tuple[float, float]]:
    """Return a threshold for each kind of evidence, and the rates (TPR, FPR) that bets are planned for."""
    absent, eligible = (rule.of(releases, each, FIT)[1] for each in (ABSENT, ELIGIBLE))
    claim, trials, canaries = declared.claim, declared.settings.trials, len(declared.canaries)
    thresholds: dict[Evidence, float] = {}
    tpr_at, fpr_at = 0.5, 0.5
    for each in declared.evidence:
        if each is Evidence.CURVE:
            thresholds[each] = aim_curve(absent, eligible, claimed_curve(claim), trials, share / canaries)
        elif each is Evidence.BETTING:
            thresholds[each], tpr_at, fpr_at = aim_bet(absent, eligible, claim.epsilon, claim.delta)
        else:
            method = declared.settings.method
            target = Target(trials, claim.delta, method.share(share, canaries), method, canaries, claim.q)
            scores = np.unique(np.concatenate([absent, eligible]))
            candidates = np.append((scores[1:] + scores[:-1]) / 2, scores[-1])
            tpr, fpr = (_smoothed(values, candidates) for values in (eligible, absent))
            thresholds[each] = float(candidates[np.argmax(target.bound(tpr, fpr))])
    scores = np.unique(np.concatenate([absent, eligible]))
    return {each: _between(scores, at) for each, at in thresholds.items()}, (tpr_at, fpr_at)


def _between(scores: Scores, threshold: float) -> float:
    """Return a threshold that no score equals and that the same scores exceed.

    So no rounding of another machine moves a run across, also where releases, and so scores, are on a lattice.
    """
    number = int(np.searchsorted(scores, threshold, side="right"))
    width = float(scores[-1] - scores[0]) or 1.0
    below = float(scores[number - 1]) if number else float(scores[0]) - width
    above = float(scores[number]) if number < len(scores) else max(threshold, below) + width
    near = min(threshold - below, above - threshold) <= TIE * (above - below)
    return (below + above) / 2 if near else threshold


def _smoothed(scores: Scores, thresholds: Scores) -> Scores:
    """Return how often scores exceed thresholds, no rate being 0 or 1: few runs do not show that."""
    above = len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")
    return np.asarray((above + 0.5) / (len(scores) + 1))


def _plain(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(each) for each in values)
