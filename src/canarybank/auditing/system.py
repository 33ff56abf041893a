"""Audit the runs of any system: declare, play, fit on runs set apart, seal, judge the others.

The rule of somebody else's system cannot be frozen before it runs: its score may be learnt from its releases, and its
threshold is fitted to them. So a schedule of runs is declared first, in random order. Its first part is set apart:
score, threshold and bets are fitted there and sealed. Only the second part is judged. Nothing is assumed of the system
but that a run is independent of the others, and that is looked for before any bound is stated.

Each kind of evidence on each score has its share of alpha, declared beforehand:

- *bound*: a lower bound on epsilon from counts, by the declared method;
- *curve*: a refutation of the claimed mechanism, by its whole trade-off curve; it needs far fewer runs;
- *betting*: a bound that is valid whenever one stops, so an audit may end as soon as the claim is refuted.

Scores are *designed* for the claimed mechanism, *fitted* to releases alone, or the *length* of what was released.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank import seeds
from canarybank.auditing.betting import Bets, BettingResult, Wealth, aim_bet, betting_power, plan_bets
from canarybank.auditing.curve import (
    MOST,
    CurveTest,
    aim_curve,
    claimed_curve,
    curve_power,
    curve_test,
    least_factor,
    perfect_roc,
)
from canarybank.auditing.independence import Independence, check_independence
from canarybank.auditing.methods import Bound
from canarybank.auditing.settings import AlphaLedger, Settings, Target, attack_bound
from canarybank.auditing.trials import Counts
from canarybank.errors import InputError
from canarybank.mechanism import Claim
from canarybank.score import LinearScore, mixture
from canarybank.systems.trials import Hypothesis, Leak, Releases, Split, Trial

__all__ = ["Declaration", "Evidence", "Rule", "Scoring", "Shown", "SystemResult", "Verdict", "fit_rules", "judge_runs"]

Scores = NDArray[np.float64]
GRID, FINEST, LARGEST_BET = 0.05, 400, 200.0
"""The step between the epsilons that are bet against, their largest number, and the largest claim of a bet."""
LEAST = 8
"""The fewest runs of a hypothesis from which a score and a threshold are fitted, or a rate is judged."""
TIE = 1e-6
"""A threshold keeps this share of the gap around it away from every score that it was fitted to."""
FALSE_ALARM = 1e-3
"""How often independent runs are said to depend on each other."""
ABSENT, ELIGIBLE, FIT, JUDGE = Hypothesis.ABSENT, Hypothesis.ELIGIBLE, Split.FIT, Split.JUDGE


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


class Verdict(StrEnum):
    """What an audit says of a claim."""

    STANDS = "stands"
    REFUTED = "refuted"
    DEPENDENT = "dependent"


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
        for split, groups in ((FIT, self.apart), (JUDGE, self.settings.trials)):
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


@dataclass(frozen=True, slots=True)
class Shown:
    """What one kind of evidence on one score says of the claim, over all canaries."""

    score: Scoring
    """What the runs were scored by."""
    evidence: Evidence
    """How counts became a statement."""
    refutes: str
    """What it would refute, or refutes."""
    refuted: bool
    """Whether it does: of a true claim at most as often as its share of alpha, where its assumption holds."""
    epsilon: float | None
    """The lower bound on epsilon that it gives; null where it gives none."""
    alpha: float
    """Its share of alpha."""
    assumption: str
    """What it relies on."""
    power: str
    """The smallest violation that so many runs would show."""
    statement: str
    """What it says, in a sentence or two."""
    counts: tuple[Counts, ...]
    """What was counted, one entry a canary; lost runs count against a refutation."""
    bound: Bound | None = None
    """The bound, where this is one."""
    curve: CurveTest | None = None
    """The test of the curve, where this is one."""
    betting: BettingResult | None = None
    """The bets and their wealth, where this is betting."""


@dataclass(frozen=True, slots=True, repr=False)
class SystemResult:
    """What the runs of a system showed of its claim."""

    claim: Claim
    """What was tested."""
    verdict: Verdict
    """Whether the claim stands, is refuted, or could not be judged since runs depend on each other."""
    statement: str
    """The verdict in a sentence or two."""
    shown: tuple[Shown, ...]
    """What each kind of evidence on each score says; none where runs depend on each other."""
    independence: Independence
    """Whether runs look independent."""
    leaks: tuple[Leak, ...]
    """Canaries whose runs released different numbers of values."""
    runs: int
    """The runs that were declared."""
    judged: int
    """The judged runs of each hypothesis of each canary: fewer than declared where the audit stopped early."""
    lost: int
    """The runs that were lost."""
    alpha: float
    """A true claim is refuted at most this often, where the assumptions hold."""

    @property
    def refuted(self) -> bool:
        """Say whether the claim is refuted."""
        return self.verdict is Verdict.REFUTED

    @property
    def epsilon(self) -> float | None:
        """Return the largest lower bound on epsilon, at confidence 1 - alpha; None where none is stated."""
        return max((each.epsilon for each in self.shown if each.epsilon is not None), default=None)

    def __repr__(self) -> str:
        return f"SystemResult({self.statement})"


def judge_runs(declared: Declaration, rules: Rules, releases: Releases) -> SystemResult:
    """Judge the runs that were not set apart, by sealed rules.

    Where runs depend on each other, no bound is stated. Of a true claim, and independent runs, the probability of
    "refuted" is at most alpha.
    """
    independence = _independence(declared, rules, releases)
    judged = min(releases.planned(canary, each, JUDGE) for canary in declared.canaries for each in Hypothesis)
    # A bound from fewer runs than were declared would be another claim; betting may stop whenever it likes.
    kinds = [each for each in declared.evidence if each is Evidence.BETTING or judged == declared.settings.trials]
    shown = tuple(
        _shown(declared, rules, score, evidence, releases)
        for score in rules.scores
        for evidence in kinds
        if independence.ok
    )
    leaks = releases.leaks(declared.settings.alpha)
    verdict, statement = _verdict(declared, shown, independence, judged)
    if verdict is Verdict.STANDS:
        statement = " ".join([statement, *(each.statement for each in leaks if each.depends_on_canary)])
    return SystemResult(
        claim=declared.claim,
        verdict=verdict,
        statement=statement,
        shown=shown,
        independence=independence,
        leaks=leaks,
        runs=len(declared.schedule),
        judged=judged,
        lost=len(releases.lost),
        alpha=declared.settings.alpha,
    )


def is_refuted_by_betting(declared: Declaration, rules: Rules, releases: Releases) -> bool:
    """Say whether the bets on the runs so far refute the claim: the one look that may be taken before all are made."""
    return any(_shown(declared, rules, score, Evidence.BETTING, releases).refuted for score in rules.scores)


def positives(rule: Rule, evidence: Evidence, releases: Releases, hypothesis: Hypothesis) -> NDArray[np.bool_]:
    """Return which judged runs count as positive, in schedule order; a lost run counts against a refutation.

    A lost eligible run counts as a miss and a lost absent run as a hit, whatever made it get lost.
    """
    kept, scores = rule.of(releases, hypothesis, JUDGE)
    if len(kept) == releases.planned(rule.canary, hypothesis, JUDGE):
        return scores > rule.thresholds[evidence]
    above = dict(zip((each.run for each in kept), scores > rule.thresholds[evidence], strict=True))
    wanted = (rule.canary, hypothesis, JUDGE)
    mine = (each.run for each in releases.trials if (each.canary, each.hypothesis, each.split) == wanted)
    return np.array([above.get(run, hypothesis is ABSENT) for run in mine], dtype=bool)


def _independence(declared: Declaration, rules: Rules, releases: Releases) -> Independence:
    """Look for dependence among all runs of each canary, those set apart too; the strongest finding stands for all."""
    found: list[Independence] = []
    rng = seeds.stream(declared.settings.seed, "ties")
    for canary in declared.canaries:
        own = [each for each in rules.rules if each.canary == canary]
        rule = max(own, key=lambda each: each.score is not Scoring.LENGTH)
        parts = [(hypothesis, split) for hypothesis in Hypothesis for split in Split]
        scored = [rule.of(releases, *part) for part in parts]
        if rule.score is Scoring.FITTED and sum(rule.widths) > 1:
            # A score fitted to several values sets its own runs further apart than others: compare within a split.
            scored = [(kept, _places(scores, rng)) for kept, scores in scored]
        runs = [trial.run for kept, _ in scored for trial in kept]
        lost = [each.hypothesis for each in releases.lost if each.canary == canary]
        found.append(
            check_independence(
                np.concatenate([releases.table(canary, *part) for part in parts]),
                [trial.hypothesis is ELIGIBLE for kept, _ in scored for trial in kept],
                scores=np.concatenate([scores for _, scores in scored]),
                order=runs,
                batches=[max(1, declared.batch // len(declared.canaries))],
                lost_absent=lost.count(ABSENT),
                lost_eligible=lost.count(ELIGIBLE),
                alpha=FALSE_ALARM / len(declared.canaries),
            )
        )
    return next((each for each in found if not each.ok), found[0])


def _places(scores: Scores, rng: np.random.Generator) -> Scores:
    """Return the place of each score among all, in (0, 1).

    Equal scores share their places at random: a mean place would depend on the number of runs, and read as drift.
    """
    order = np.lexsort((rng.random(len(scores)), scores))
    return np.asarray((np.argsort(order) + 1) / (len(scores) + 1))


def _shown(declared: Declaration, rules: Rules, score: Scoring, evidence: Evidence, releases: Releases) -> Shown:
    claim, alpha, own = declared.claim, declared.share(rules.scores), rules.of(score)
    arms = [[positives(rule, evidence, releases, each) for each in (ELIGIBLE, ABSENT)] for rule in own]
    counts = tuple(Counts(int(e.sum()), int(a.sum()), len(e), len(a)) for e, a in arms)
    common: dict[str, Any] = {
        "score": score,
        "evidence": evidence,
        "alpha": alpha,
        "counts": counts,
        "refutes": f"epsilon is at most {claim.epsilon:.4g} at delta {claim.delta:g}",
    }
    if evidence is Evidence.CURVE:
        test = curve_test(counts, claimed_curve(claim), alpha=alpha)
        return Shown(
            **common | {"refutes": "this is the claimed mechanism"},
            refuted=test.refuted,
            epsilon=None,
            assumption=test.assumption,
            power=power_of(declared, evidence, alpha),
            statement=test.statement,
            curve=test,
        )
    if evidence is Evidence.BETTING:
        pairs = min(len(arm) for arm in (arms_ for each in arms for arms_ in each))
        hits, alarms = (np.stack([each[side][:pairs] for each in arms]) for side in (0, 1))
        bet = Wealth.start(rules.bets[score]).play(hits, alarms).result(claim.epsilon)
        return Shown(
            **common,
            refuted=bet.refuted,
            epsilon=bet.epsilon_lower,
            assumption=bet.assumption,
            power=power_of(declared, evidence, alpha),
            statement=bet.statement,
            betting=bet,
        )
    settings = replace(declared.settings, alpha=alpha)
    bound = attack_bound(counts, claim, settings)
    return Shown(
        **common,
        refuted=bound.epsilon > claim.epsilon,
        epsilon=bound.epsilon,
        assumption=bound.assumption,
        power=power_of(declared, evidence, alpha),
        statement=f"{'Refuted' if bound.epsilon > claim.epsilon else 'Not refuted'}: {str(bound).rstrip('.')}.",
        bound=bound,
    )


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


def _verdict(
    declared: Declaration, shown: Sequence[Shown], independence: Independence, judged: int
) -> tuple[Verdict, str]:
    claim = declared.claim
    if not independence.ok:
        return Verdict.DEPENDENT, independence.statement
    if claim.refutation is not None:
        return Verdict.REFUTED, claim.refutation
    against = [each for each in shown if each.refuted]
    confidence = f"{100 * (1 - declared.settings.alpha):.6g}% confidence over all evidence"
    if against:
        best = max(against, key=lambda each: (each.epsilon or 0.0, -1.0 if each.curve is None else -each.curve.p_value))
        return Verdict.REFUTED, (
            f"The claim is refuted: {claim}. The {best.score} score and its {best.evidence} refute that "
            f"{best.refutes}, with {confidence}. {best.statement}"
        )
    bounds = [each.epsilon for each in shown if each.epsilon is not None]
    largest = f"The largest lower bound on epsilon is {max(bounds):.3f}. " if bounds else ""
    power = " ".join(dict.fromkeys(each.power for each in shown))
    return Verdict.STANDS, (
        f"No violation detected at this power: {claim}, {judged:,} judged runs of each hypothesis, {confidence}. "
        f"{largest}{power}"
    )


def _is_curved(claim: Claim) -> bool:
    """Say whether a claim names a mechanism whose trade-off curve is known."""
    return claim.mechanism is not None and (claim.neighbours == "add-remove" or claim.mechanism.q == 1)


def _plain(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(each) for each in values)
