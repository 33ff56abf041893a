"""Judge one run: many canaries at once, each with probes of its own, and what its releases show of the claim.

A system that runs in production runs once. So many synthetic users are put into that one run, and the evidence comes
from comparing them with each other. A canary's score in a release is a number of deviation 1 under the claim, and of
mean ``shift`` more where the canary took part. There are two protocols:

- *known* coins: every canary is in, and the sampler says which of them took part in which release. Where everybody
  always takes part, half of them are left out by a fair coin of the auditor's;
- *fair* coins: each canary is in or out of the whole run by a fair coin of the auditor's; nobody says who took part.

And three kinds of evidence, each with its share of alpha, declared beforehand:

- *known-coins*: a lower bound on the shift, from scores in against scores out, and one on the sampler's rate; together
  they bound epsilon inside the family of subsampled Gaussian releases;
- *order-statistics*: the errors among the most confident guesses who was in, against what the family allows;
- *guessing*: the same guesses against what any (epsilon, delta) allows. It assumes nothing of the system.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from canarybank.auditing.curve import MOST, least_factor
from canarybank.auditing.guessing import (
    best_guesses,
    expected_guesses,
    guessing_lower,
    order_statistics_lower,
    wrong_guesses,
)
from canarybank.auditing.known_coins import (
    Expected,
    Shift,
    Way,
    declared_ways,
    expected_known_coins,
    family_epsilon,
    rate_lower,
    shift_between,
    shift_within,
    typically_exceeds,
)
from canarybank.auditing.settings import AlphaLedger
from canarybank.auditing.system import Verdict
from canarybank.errors import InputError
from canarybank.mechanism import Claim
from canarybank.score.counts import lower_end

__all__ = ["Background", "Certificate", "Coins", "RunDeclaration", "RunEvidence", "RunScores", "RunShown", "judge_run"]

SAMPLER_SHARE = 0.2
"""The share of the alpha of known coins that the test of the sampler has."""
SAMPLER = "known-coins/sampler"
LEAST = 8
"""The fewest canaries of one run."""
FAMILY = "Poisson-subsampled releases with Gaussian noise, alike in all canaries and releases"
ANY = "any system"
COMPARISONS = {"between": shift_between, "within": shift_within}


class Coins(StrEnum):
    """Who decides which canaries take part, and what the auditor is told of it."""

    KNOWN = "known"
    FAIR = "fair"


class Background(StrEnum):
    """How the votes of others for the probes enter the scores."""

    CONTROLS = "control canaries"
    """They stay in: canaries that did not take part show what they do."""
    EXACT = "exact tails"
    """They are known, as in a simulation, and each score is made normal by the exact tail of its law without the
    canary."""


class RunEvidence(StrEnum):
    """A way from the scores of one run to a statement about the claim."""

    KNOWN_COINS = "known-coins"
    ORDER_STATISTICS = "order-statistics"
    GUESSING = "guessing"


NEEDS = {
    RunEvidence.KNOWN_COINS: "It needs to know who took part: choose known coins, and a claim with a mechanism.",
    RunEvidence.ORDER_STATISTICS: "It needs canaries left out: choose fair coins, and a claim with a mechanism.",
    RunEvidence.GUESSING: "It needs canaries left out: choose fair coins.",
}
"""What each kind of evidence asks for."""
ASSUMPTIONS = {
    RunEvidence.KNOWN_COINS: "It holds inside its family. Noise is Gaussian, and independent between canaries or "
    "between releases. The coins are the sampler's true ones, drawn independently of everything else.",
    RunEvidence.ORDER_STATISTICS: "It holds inside its family, with the claimed rate of taking part. Canaries are "
    "independent of each other, and none stands out more than a perfect one. Others vote for the probes no less than "
    "the design expects.",
    RunEvidence.GUESSING: "The auditor's coins are fair, independent and secret until the run is over. Nothing is "
    "assumed of the system.",
}
"""What each kind of evidence relies on."""
EXACT_TAILS = (
    "Background by exact tails: who may vote, and for which probes, is known, and each score is normal under the "
    "claimed noise and rate. A refutation needs no more of the background than that users who vote for the probes of "
    "several canaries are few; a bound on epsilon holds as far as noise and rate are the claimed ones."
)
CONTROL_CANARIES = " Votes of others for the probes are alike, canaries in or out."


def possible_evidence(claim: Claim, coins: Coins) -> tuple[RunEvidence, ...]:
    """Return the kinds of evidence that a protocol allows, the usual ones first.

    Where everybody always takes part, the auditor's coins are the sampler's too, and everything is known.
    """
    known = (RunEvidence.KNOWN_COINS,) if claim.mechanism is not None else ()
    guesses = (*([RunEvidence.ORDER_STATISTICS] if claim.mechanism is not None else []), RunEvidence.GUESSING)
    if claim.mechanism is not None and claim.q == 1:
        return (*known, *guesses) if coins is Coins.KNOWN else (*guesses, *known)
    return known if coins is Coins.KNOWN else guesses


@dataclass(frozen=True)
class RunDeclaration:
    """What is declared before the run.

    ``shift`` is what the canaries were designed to have on average, in deviations of the claimed noise. Alpha is split
    evenly over the kinds of evidence.
    """

    claim: Claim
    canaries: int
    coins: Coins
    shift: float
    evidence: tuple[RunEvidence, ...] = ()
    alpha: float = 0.05
    background: Background = Background.CONTROLS

    def __post_init__(self) -> None:
        object.__setattr__(self, "coins", Coins(self.coins))
        object.__setattr__(self, "background", Background(self.background))
        possible = possible_evidence(self.claim, self.coins)
        usual = possible[: 1 if self.coins is Coins.KNOWN else 2]
        kinds = tuple(dict.fromkeys(RunEvidence(each) for each in self.evidence or usual))
        object.__setattr__(self, "evidence", kinds)
        if self.claim.neighbours != "add-remove":
            raise InputError(
                "One run tests adding or removing a user: its canaries are in or out. For a claim about replacing one, "
                "make many runs."
            )
        if self.canaries < LEAST:
            raise InputError(f"One run needs at least {LEAST} canaries to show anything, not {self.canaries}.")
        if not 0 < self.alpha < 1:
            raise InputError(f"Alpha must lie strictly between 0 and 1, not be {self.alpha!r}.")
        if not (math.isfinite(self.shift) and self.shift > 0):
            raise InputError(
                f"The canaries are designed to shift their scores by {self.shift:g}; they must stand out at all. "
                "Choose other canaries, or another bank."
            )
        if others := [each for each in kinds if each not in possible]:
            raise InputError(
                f"{others[0].value} is no evidence here: with {self.coins.value} coins "
                f"{'and this claim ' * (self.claim.mechanism is None)}there is "
                f"{' and '.join(possible) or 'none'}. {NEEDS[others[0]]}"
            )
        if not kinds:
            raise InputError(
                "Known coins bound the shift inside a family, so they need a mechanism in the claim; name it, or "
                "choose fair coins."
            )

    @property
    def ways(self) -> tuple[Way, ...]:
        """Return the ways in which scores in and out are compared, where coins are known."""
        return declared_ways(self.claim.rounds, self.claim.q)

    @property
    def uses_coins(self) -> bool:
        """Say whether scores may depend on other canaries' coins: where nothing is guessed from the release alone."""
        return set(self.evidence) == {RunEvidence.KNOWN_COINS}

    def assumption(self, kind: RunEvidence) -> str:
        """Return what a kind of evidence relies on; guesses rely on nothing that makes their scores."""
        if kind is RunEvidence.GUESSING:
            return ASSUMPTIONS[kind]
        if self.background is Background.EXACT:
            return f"{ASSUMPTIONS[kind]} {EXACT_TAILS}"
        return ASSUMPTIONS[kind] + CONTROL_CANARIES * (kind is RunEvidence.KNOWN_COINS)

    @property
    def limit(self) -> float:
        """Return the largest shift that the claimed mechanism allows, in deviations of its noise.

        It holds for every honest system that clips, as ``claimed_curve`` does: also for one whose votes are not
        normalised, and reach a clip that is larger than k^-1/2.
        """
        return math.inf if self.claim.mechanism is None else 1 / self.claim.mechanism.sigma

    @property
    def guessed_by(self) -> float:
        """Return the shift that guesses assume: the largest that the claim allows, where it names a mechanism.

        A rule for a smaller one errs more often than it could at the largest, and fewer votes of others than expected
        would make up for it: a true claim would then be refuted too often.
        """
        return self.shift if self.claim.mechanism is None else self.limit

    @property
    def ledger(self) -> AlphaLedger:
        """Return the share of alpha of each test."""
        ledger, each = AlphaLedger(self.alpha), self.alpha / len(self.evidence)
        for kind in self.evidence:
            if kind is not RunEvidence.KNOWN_COINS:
                ledger = ledger.spend(kind.value, each)
                continue
            sampler = SAMPLER_SHARE * each if self.claim.q < 1 else 0.0
            for way in self.ways:
                ledger = ledger.spend(_of(way), (each - sampler) / len(self.ways))
            if sampler:
                ledger = ledger.spend(SAMPLER, sampler)
        return ledger

    @cached_property
    def guesses(self) -> dict[RunEvidence, int]:
        """Return how many of the most confident guesses each kind of evidence counts."""
        shares = dict(self.ledger.entries)
        return {
            kind: best_guesses(
                self.canaries,
                q=self.claim.q,
                shift=self.guessed_by,
                rounds=self.claim.rounds,
                alpha=shares[kind.value],
                delta=self.claim.delta,
                method=kind.value,
            )
            for kind in self.evidence
            if kind is not RunEvidence.KNOWN_COINS
        }

    @property
    def power(self) -> tuple[str, ...]:
        """Say, before the run, what each kind of evidence would typically show, and which violations."""
        return tuple(run_power(self, kind) for kind in self.evidence)

    @property
    def can_show(self) -> bool:
        """Say whether any kind of evidence typically shows something: a bound above 0, one run in twenty."""
        return any(self.expected(kind).q95 > 0 for kind in self.evidence)

    def expected(self, kind: RunEvidence, noise: float = 1.0) -> Expected:
        """Return what a kind of evidence will typically bound epsilon by, if the noise is divided by so much."""
        shares, claim, shift = dict(self.ledger.entries), self.claim, noise * self.shift
        if kind is RunEvidence.KNOWN_COINS:
            return expected_known_coins(
                self.canaries,
                q=claim.q,
                shift=shift,
                rounds=claim.rounds,
                delta=claim.delta,
                between=shares[_of("between")],
                within=shares.get(_of("within")),
                sampler=shares.get(SAMPLER),
            )
        return expected_guesses(
            self.canaries,
            q=claim.q,
            shift=shift,
            rounds=claim.rounds,
            delta=claim.delta,
            alpha=shares[kind.value],
            method="guessing" if kind is RunEvidence.GUESSING else "order-statistics",
            guesses=self.guesses[kind],
            designed=self.guessed_by,
        )


@dataclass(frozen=True, eq=False)
class RunScores:
    """The scores of all canaries in all releases of one run, and what is known of who took part."""

    scores: NDArray[np.float64]
    """One row a canary, one column a release."""
    eligible: NDArray[np.bool_]
    """Which canaries were in."""
    took: NDArray[np.bool_] | None = None
    """Which canary took part in which release; None where nobody says."""

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, np.float64)
        if scores.ndim != 2 or not scores.size or not np.isfinite(scores).all():  # noqa: PLR2004, a table has two axes
            raise InputError(
                "The scores of a run are a table of finite numbers, one row a canary and one column a release."
            )
        eligible = np.asarray(self.eligible, np.bool_)
        took = None if self.took is None else np.asarray(self.took, np.bool_)
        if eligible.shape != scores.shape[:1] or (took is not None and took.shape != scores.shape):
            raise InputError(
                f"Scores of {scores.shape[0]} canaries in {scores.shape[1]} releases need as many coins; found "
                f"{eligible.shape} for who was in{'' if took is None else f' and {took.shape} for who took part'}."
            )
        if took is not None and took[~eligible].any():
            raise InputError("A canary that was left out is said to have taken part; the coins are of another run.")
        for name, value in (("scores", scores), ("eligible", eligible), ("took", took)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class RunShown:
    """What one kind of evidence says of the claim."""

    evidence: RunEvidence
    """How scores became a statement."""
    epsilon: float
    """A lower bound on the epsilon of all releases together."""
    one_release: float | None
    """A lower bound on that of one release, where rounds are pooled."""
    at_claimed_rate: float | None
    """The bound for all releases if the claimed rate of taking part is taken as given; null where it is anyway."""
    refuted: bool
    """Whether the claim is refuted: a true one at most as often as ``alpha``, where the assumption holds."""
    alpha: float
    """Its share of alpha."""
    family: str
    """Inside which family of systems it holds."""
    assumption: str
    """What it relies on."""
    statement: str
    """What it says, in a sentence or two."""
    shift: float | None = None
    """A lower bound on what taking part adds to a score, in deviations of the noise."""
    rate: float | None = None
    """A lower bound on the sampler's rate."""
    shifts: tuple[Shift, ...] = ()
    """How scores in and out were compared."""
    guesses: int = 0
    """The guesses that were counted."""
    correct: int = 0
    """Those that were right."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What one run showed of its claim."""

    claim: Claim
    """What was tested."""
    coins: Coins
    """Who decided which canaries take part, and what was told of it."""
    canaries: int
    """The canaries."""
    eligible: int
    """Those that were in."""
    took: int | None
    """How often one of them took part, over all releases; null where nobody says."""
    alpha: float
    """A true claim is refuted at most this often, where the assumptions hold."""
    verdict: Verdict
    """Whether the claim stands or is refuted."""
    statement: str
    """The verdict in a sentence or two."""
    shown: tuple[RunShown, ...]
    """What each kind of evidence says."""

    @property
    def refuted(self) -> bool:
        """Say whether the claim is refuted."""
        return self.verdict is Verdict.REFUTED

    @property
    def epsilon(self) -> float:
        """Return the largest lower bound on epsilon, at confidence 1 - alpha."""
        return max(each.epsilon for each in self.shown)


def judge_run(declared: RunDeclaration, run: RunScores) -> Certificate:
    """Say what the scores of one run show of the claim: its certificate.

    The formula: Steinke, Nasr and Jagielski (2023, https://arxiv.org/abs/2305.08846).

    Args:
        declared: What was declared before the run.
        run: The scores of the canaries that the run carried.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Claim
        >>> declared = RunDeclaration(Claim(1.0, 1e-5), 400, Coins.FAIR, 1.0)
        >>> rng = np.random.default_rng(0)
        >>> is_in = rng.random(400) < 0.5
        >>> judge_run(declared, RunScores(6.0 * is_in[:, None] + rng.normal(size=(400, 1)), is_in)).refuted
        True
    """
    rounds = declared.claim.rounds
    if run.scores.shape != (declared.canaries, rounds):
        raise InputError(
            f"The run has scores of {run.scores.shape[0]} canaries in {run.scores.shape[1]} releases, and "
            f"{declared.canaries} in {rounds} were declared."
        )
    took = run.took
    if took is None and declared.claim.q == 1:
        took = np.repeat(run.eligible[:, None], rounds, axis=1)
    shown = tuple(
        _known_coins(declared, run, took) if kind is RunEvidence.KNOWN_COINS else _guessed(declared, run, kind)
        for kind in declared.evidence
    )
    refuted = [each for each in shown if each.refuted]
    return Certificate(
        claim=declared.claim,
        coins=declared.coins,
        canaries=declared.canaries,
        eligible=int(run.eligible.sum()),
        took=None if took is None else int(took.sum()),
        alpha=declared.alpha,
        verdict=Verdict.REFUTED if refuted else Verdict.STANDS,
        statement=_statement(declared, refuted, shown),
        shown=shown,
    )


def _known_coins(declared: RunDeclaration, run: RunScores, took: NDArray[np.bool_] | None) -> RunShown:
    """Bound the shift by comparing scores in and out, the rate by the coins, and epsilon by both."""
    claim, shares = declared.claim, dict(declared.ledger.entries)
    if took is None:
        raise InputError(
            "Known coins need to know who took part in which release, and the run does not say it; give the coins."
        )
    rounds = claim.rounds
    shifts = tuple(COMPARISONS[way](run.scores, took, shares[_of(way)]) for way in declared.ways)
    shift = max(each.lower for each in shifts)
    rate = rate_lower(took, run.eligible, shares[SAMPLER]) if SAMPLER in shares else 1.0
    epsilon = family_epsilon(rate, shift, rounds, claim.delta)
    one = family_epsilon(rate, shift, 1, claim.delta)
    reasons = []
    if shift > declared.limit:
        reasons.append(
            f"taking part adds at least {shift:.4g} deviations of the noise to a score, and the claimed mechanism "
            f"allows {declared.limit:.3g}: there is less noise, or a larger contribution, than is claimed"
        )
    if rate > claim.q and SAMPLER in shares:
        reasons.append(f"a canary takes part with probability {rate:.3g} at least, and {claim.q:.3g} is claimed")
    if epsilon > claim.epsilon:
        reasons.append(f"epsilon is at least {epsilon:.4g}, and {claim.epsilon:.4g} is claimed")
    counts = f"{shifts[0].included:,} scores of canaries that took part against {shifts[0].left_out:,} of others"
    said = (
        f"Refuted by {counts}: {'; '.join(reasons)}."
        if reasons
        else f"Shown by {counts}: a shift of at least {shift:.3g} of {declared.limit:.3g}"
        f"{f', a rate of at least {rate:.3g} of {claim.q:.3g},' * (SAMPLER in shares)} and so an epsilon of at least "
        f"{epsilon:.4g}."
    )
    return RunShown(
        evidence=RunEvidence.KNOWN_COINS,
        epsilon=epsilon,
        one_release=one if rounds > 1 else None,
        at_claimed_rate=family_epsilon(claim.q, shift, rounds, claim.delta) if SAMPLER in shares else None,
        refuted=bool(reasons),
        alpha=declared.alpha / len(declared.evidence),
        family=FAMILY,
        assumption=declared.assumption(RunEvidence.KNOWN_COINS),
        statement=said,
        shift=shift,
        rate=rate,
        shifts=shifts,
    )


def _guessed(declared: RunDeclaration, run: RunScores, kind: RunEvidence) -> RunShown:
    """Guess which canaries were in, count the most confident guesses, and bound epsilon by how many are right."""
    claim, alpha, guesses = declared.claim, dict(declared.ledger.entries)[kind.value], declared.guesses[kind]
    wrong = wrong_guesses(run.scores, run.eligible, guesses=guesses, q=claim.q, designed=declared.guessed_by)
    correct = guesses - wrong
    counted = f"{correct:,} of the {guesses:,} most confident guesses who was in are right"
    shift: float | None = None
    if kind is RunEvidence.GUESSING:
        epsilon = guessing_lower(declared.canaries, guesses, correct, delta=claim.delta, alpha=alpha)
        refuted = epsilon > claim.epsilon
    else:
        shift = order_statistics_lower(
            declared.canaries,
            guesses,
            wrong,
            q=claim.q,
            designed=declared.guessed_by,
            rounds=claim.rounds,
            alpha=alpha,
        )
        epsilon = family_epsilon(claim.q, shift, claim.rounds, claim.delta)
        refuted = epsilon > claim.epsilon or shift > declared.limit
    return RunShown(
        evidence=kind,
        epsilon=epsilon,
        one_release=None,
        at_claimed_rate=None,
        refuted=refuted,
        alpha=alpha,
        family=FAMILY if kind is RunEvidence.ORDER_STATISTICS else ANY,
        assumption=declared.assumption(kind),
        statement=f"{'Refuted: ' * refuted}{counted}, so epsilon is at least {epsilon:.4g}"
        f"{f', and {claim.epsilon:.4g} is claimed' * refuted}.",
        shift=shift,
        guesses=guesses,
        correct=correct,
    )


@lru_cache(maxsize=64)
def run_power(declared: RunDeclaration, kind: RunEvidence) -> str:
    """Say what one run would typically show by one kind of evidence: of epsilon, and of violations of the claim."""
    claim, typical = declared.claim, declared.expected(kind)
    level = declared.alpha / len(declared.evidence)
    what = f"One run with {declared.canaries:,} canaries, by {kind.value} at alpha {level:.3g}"
    if typical.q95 == 0:
        return f"{what}, would typically show nothing: a bound above 0 has a chance below 5%."
    ends = f"{typical.q05:.3g} to {typical.q95:.3g} in 90 of 100 runs"
    seen = f"would typically show an epsilon of {typical.median:.3g} ({ends})"
    factors = [f"noise divided by {each:.2f}" for each in [_least_noise(declared, kind)] if each is not None]
    if kind is RunEvidence.KNOWN_COINS and claim.q < 1:
        rate = _least_rate(declared)
        factors += [] if rate is None else [f"q multiplied by {rate:.2f}"]
    refutes = f"would refute {' or '.join(factors)}" if factors else "would refute no violation of noise or sampling"
    return f"{what}, {seen}, and {refutes}."


def _least_noise(declared: RunDeclaration, kind: RunEvidence) -> float | None:
    """Return the least factor that the noise must be divided by for one run to refute the claim half of the time."""
    claim, shares = declared.claim, dict(declared.ledger.entries)

    def shows(factor: float) -> bool:
        if kind is not RunEvidence.KNOWN_COINS:
            return declared.expected(kind, factor).median > claim.epsilon
        return typically_exceeds(
            declared.limit,
            declared.canaries,
            q=claim.q,
            shift=factor * declared.shift,
            rounds=claim.rounds,
            between=shares[_of("between")],
            within=shares.get(_of("within")),
        )

    return least_factor(shows, MOST)


def _least_rate(declared: RunDeclaration) -> float | None:
    """Return the least factor of the sampler's rate that one run refutes half of the time."""
    coins, q = declared.canaries * declared.claim.rounds, declared.claim.q
    gamma = dict(declared.ledger.entries)[SAMPLER]

    def shows(factor: float) -> bool:
        return bool(lower_end(round(coins * min(1.0, factor * q)), coins, gamma) > q)

    return least_factor(shows, 1 / q)


def _statement(declared: RunDeclaration, refuted: list[RunShown], shown: tuple[RunShown, ...]) -> str:
    """Return the verdict in a sentence or two."""
    claim, level = declared.claim, f"at confidence {1 - declared.alpha:g}"
    if refuted:
        return f"The claim is refuted by one run {level}: {claim}. {' '.join(each.statement for each in refuted)}"
    best = max(shown, key=lambda each: each.epsilon)
    releases = f"{claim.rounds} {'release' if claim.rounds == 1 else 'releases'}"
    return (
        f"One run of {releases} with {declared.canaries:,} canaries shows an epsilon of at least {best.epsilon:.4g} "
        f"({best.evidence.value}) {level}, and does not refute the claim: {claim}."
    )


def _of(way: Way) -> str:
    return f"{RunEvidence.KNOWN_COINS.value}/{way}"
