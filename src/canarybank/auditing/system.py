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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank import seeds
from canarybank.auditing.betting import BettingResult, Wealth
from canarybank.auditing.curve import CurveTest, claimed_curve, curve_test
from canarybank.auditing.declaration import Declaration, Evidence, Scoring, power_of
from canarybank.auditing.independence import Independence, check_independence
from canarybank.auditing.methods import Bound
from canarybank.auditing.rules import Rule, Rules
from canarybank.auditing.settings import attack_bound
from canarybank.auditing.trials import Counts
from canarybank.mechanism import Claim
from canarybank.systems.trials import Hypothesis, Leak, Releases, Split

__all__ = ["FALSE_ALARM", "Shown", "SystemResult", "Verdict", "is_refuted_by_betting", "judge_runs"]

Scores = NDArray[np.float64]
FALSE_ALARM = 1e-3
"""How often independent runs are said to depend on each other."""
ABSENT, ELIGIBLE, JUDGE = Hypothesis.ABSENT, Hypothesis.ELIGIBLE, Split.JUDGE


class Verdict(StrEnum):
    """What an audit says of a claim."""

    STANDS = "stands"
    REFUTED = "refuted"
    DEPENDENT = "dependent"


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
    def strongest(self) -> Shown | None:
        """Return the evidence that refutes the claim most strongly; None where none does."""
        return _strongest(self.shown)

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

    Args:
        declared: What was declared before the first run.
        rules: The rules that were sealed.
        releases: The releases of all runs.

    Example:
        >>> import numpy as np
        >>> from canarybank.auditing import Declaration, Settings, fit_rules
        >>> from canarybank.mechanism import Claim
        >>> from canarybank.systems import Hypothesis, Releases, Split
        >>> declared = Declaration(Claim(0.5, 1e-5), Settings(trials=100))
        >>> rng = np.random.default_rng(0)
        >>> released = [rng.normal(3.0 * (run.hypothesis is Hypothesis.ELIGIBLE), 1.0, 2) for run in declared.schedule]
        >>> apart = [i for i, run in enumerate(declared.schedule) if run.split is Split.FIT]
        >>> fitted_on = Releases.of([declared.schedule[i] for i in apart], [released[i] for i in apart])
        >>> rules = fit_rules(declared, fitted_on)
        >>> str(judge_runs(declared, rules, Releases.of(declared.schedule, released)).verdict)
        'refuted'
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
        pairs = min(min(map(len, each)) for each in arms)
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


def _strongest(shown: Sequence[Shown]) -> Shown | None:
    """Return the evidence with the largest bound of those that refute, and of curves that with the least p-value."""
    against = [each for each in shown if each.refuted]
    return max(
        against,
        key=lambda each: (each.epsilon or 0.0, -1.0 if each.curve is None else -each.curve.p_value),
        default=None,
    )


def _verdict(
    declared: Declaration, shown: Sequence[Shown], independence: Independence, judged: int
) -> tuple[Verdict, str]:
    claim = declared.claim
    if not independence.ok:
        return Verdict.DEPENDENT, independence.statement
    if claim.refutation is not None:
        return Verdict.REFUTED, claim.refutation
    confidence = f"{100 * (1 - declared.settings.alpha):.6g}% confidence over all evidence"
    best = _strongest(shown)
    if best is not None:
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
