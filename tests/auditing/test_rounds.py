"""An attack on the rounds of a realised evolution, through the pipeline, against laws made from nothing kept."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from canarybank.attack import ATTACKS, Design, design, follow, nonce_canary, nonce_pool
from canarybank.auditing import (
    AttackResult,
    Auditor,
    Case,
    Claims,
    MemoryTally,
    Routes,
    Settings,
    ThresholdMode,
    TrialEngine,
    route_cohorts,
    transcript_scores,
)
from canarybank.encode import HashingEncoder
from canarybank.errors import CohortError, InputError
from canarybank.evolution import Evolution, Keep, evolve
from canarybank.generate import ScriptedGenerator
from canarybank.mechanism import Bank, Mechanism, Routed, contributions, route
from canarybank.score import LinearScore, Moments, RoundLaw, SummedLaw
from canarybank.users import Auxiliary, Calibration, Cohorts, Evaluation, Users

MECHANISM = Mechanism(k=3, clip=0.2, sigma=0.8, q=0.3, delta=1e-3)
SETTINGS = Settings(trials=20_000, alpha=0.05, threshold=ThresholdMode.ANALYTIC, seed=2)
ROUNDS = 3
ENCODER = HashingEncoder(32)
WORDS = tuple(f"{a}{b}" for a in ("river", "stone", "cloud") for b in ("song", "yard", "door", "cup", "coat", "way"))


@dataclass
class Audited:
    """A designed attack, the cohorts, and the simulated run on the evaluation cohort with the probes in it."""

    cohorts: Cohorts
    design: Design
    run: Evolution

    def routes(self, rounds: int = ROUNDS, cohorts: Cohorts | None = None) -> list[Routes]:
        banks = [each.bank for each in self.run.rounds[:rounds]]
        return [route_cohorts(cohorts or self.cohorts, bank, MECHANISM.k) for bank in banks]

    def frozen(self, auditor: Auditor, routes: list[Routes]) -> tuple[Case, ...]:
        eligible = len(self.cohorts.evaluation)
        designs = [follow(self.design, over.bank, over.auxiliary, MECHANISM, eligible=eligible) for over in routes]
        return auditor.freeze([Case.of(0, *designs, summed=True)], auditor.calibration(routes))

    def audit(self, rounds: int = ROUNDS, claims: Claims = Claims.EACH, **changes: object) -> tuple[AttackResult, ...]:
        routes, auditor, tally = self.routes(rounds), made(claims=claims, **changes), MemoryTally()
        cases, evaluation = self.frozen(auditor, routes), auditor.evaluation(routes)
        auditor.play(cases, evaluation, tally)
        releases = [each.release for each in self.run.rounds[:rounds]]
        own = {case.place: transcript_scores(case.designs, releases, MECHANISM.q) for case in cases}
        return auditor.judge(cases, evaluation, tally, run_scores=own)


def made(claims: Claims = Claims.EACH, **changes: object) -> Auditor:
    return Auditor(MECHANISM, replace(SETTINGS, **changes), 44, claims=claims, step=2e-4)


def sentence(seed: int) -> str:
    return f"I saw the {' '.join(np.random.default_rng(seed).choice(WORDS, size=6))}."


def crowd(count: int) -> Users:
    """Return users with six short texts each, of words that most of them share."""
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(WORDS, size=5)) for _ in range(6 * count)]
    return Users(tuple(map(str, range(count))), np.repeat(np.arange(count), 6), vectors=ENCODER.encode(texts))


@pytest.fixture(scope="module")
def audited() -> Audited:
    people = crowd(100)
    cohorts = Cohorts(
        Auxiliary(people.take(range(30))),
        Calibration(people.take(range(30, 55))),
        Evaluation(people.take(range(55, 99))),
    )
    texts = tuple(sentence(10_000 + i) for i in range(24))
    bank = Bank(ENCODER.encode(texts), texts).reserve(6, 1)
    attack = design(
        ATTACKS["nonce-mueff"],
        nonce_canary(6, ENCODER.encode, seed=4),
        bank,
        Routed.build(cohorts.auxiliary, bank, MECHANISM.k),
        MECHANISM,
        eligible=len(cohorts.evaluation),
        pool=nonce_pool(ENCODER.encode),
        pool_size=40,
        seed=4,
    )
    generator = ScriptedGenerator(lambda request: sentence(request.seed))
    arguments = (attack.bank, MECHANISM, ENCODER, generator, ROUNDS)
    run = evolve(cohorts.evaluation.users, *arguments, keep=Keep(share=0.25), insecure_seed=5)
    return Audited(cohorts, attack, run)


@pytest.fixture(scope="module")
def found(audited: Audited) -> tuple[AttackResult, ...]:
    return audited.audit()


def naive_law(audited: Audited, bank: Bank) -> RoundLaw:
    """The law of a round's score on the evaluation cohort, from whole routes over that bank and nothing kept."""

    def table(users: Users) -> np.ndarray:
        routes = route(users.vectors, bank, MECHANISM.k)
        return contributions(routes, users.owners, len(users), bank.size, MECHANISM.clip).toarray()

    places = list(audited.design.inspected)
    own = table(Users.from_vectors([audited.design.canary.vectors]))[0, places]
    eligible = len(audited.cohorts.evaluation)
    moments = Moments.estimate(table(audited.cohorts.auxiliary.users)[:, places], MECHANISM, eligible)
    return RoundLaw.of(LinearScore(own, moments), table(audited.cohorts.evaluation.users)[:, places], own, MECHANISM)


def test_every_prefix_is_judged_on_the_realised_banks(audited: Audited, found: tuple[AttackResult, ...]) -> None:
    laws = [naive_law(audited, each.bank) for each in audited.run.rounds]
    assert [each.rounds for each in found] == [1, 2, 3]
    assert [each.canaries[0].bank_hash for each in found] == [each.bank.hash for each in audited.run.rounds]
    assert len({each.canaries[0].bank_hash for each in found}) == ROUNDS
    for t, prefix in enumerate(found, start=1):
        (canary,), theory = prefix.canaries, prefix.ladder.mechanism.epsilon
        fpr, tpr = SummedLaw(laws[:t]).point(canary.threshold.value)
        assert canary.absent_rate.lower - 1e-9 <= fpr <= canary.absent_rate.upper + 1e-9
        assert canary.eligible_rate.lower - 1e-9 <= tpr <= canary.eligible_rate.upper + 1e-9
        assert 0 < canary.supremum.upper <= theory + 0.02
        assert canary.supremum.lower <= canary.exact <= theory + 1e-5
        # Within 5 standard deviations: a false alarm in 6e-7 of runs, 6 comparisons.
        for rate, positives in ((fpr, canary.counts.fp), (tpr, canary.counts.tp)):
            assert abs(positives - SETTINGS.trials * rate) < 5 * np.sqrt(SETTINGS.trials * rate * (1 - rate))
    assert found[-1].canaries[0].exact > found[0].canaries[0].exact


def test_probes_stand_in_every_bank_and_the_first_round_is_the_design(
    audited: Audited, found: tuple[AttackResult, ...]
) -> None:
    places = list(audited.design.inspected)
    for each in audited.run.rounds:
        assert np.array_equal(each.bank.vectors[places], audited.design.bank.vectors[places])
    separations = [each.canaries[0].mu_eff for each in found]
    assert separations[0] == audited.design.mu_eff
    assert len(set(separations)) > 1  # later banks change the canary's votes or the background


def test_the_run_has_a_score_of_its_own(audited: Audited, found: tuple[AttackResult, ...]) -> None:
    (case,) = audited.frozen(made(), audited.routes())
    total = 0.0
    for each, score, prefix in zip(audited.run.rounds, case.scores, found, strict=True):
        llr = float(score.llr(each.release[list(audited.design.inspected)]))
        total += np.log(1 - MECHANISM.q + MECHANISM.q * np.exp(llr))
        assert prefix.canaries[0].run_score == pytest.approx(total)


def test_literal_trials_agree_with_projected_ones(audited: Audited, found: tuple[AttackResult, ...]) -> None:
    other = audited.audit(2, engine=TrialEngine.LITERAL, seed=9)
    for one, two in zip(found[:2], other, strict=True):
        (projected,), (literal,) = one.canaries, two.canaries
        # The calibration stand-ins are drawn by seed.
        assert abs(projected.threshold.value - literal.threshold.value) < 0.05
        for rate, positives in (
            (literal.eligible_rate.midpoint, literal.counts.tp),
            (literal.absent_rate.midpoint, literal.counts.fp),
        ):
            # Within 5 standard deviations: a false alarm in 6e-7 of runs, 4 comparisons.
            assert abs(positives - SETTINGS.trials * rate) < 5 * np.sqrt(SETTINGS.trials * rate)


@pytest.mark.parametrize("mode", ThresholdMode)
def test_nothing_is_frozen_by_the_evaluation_users_beyond_their_number(audited: Audited, mode: ThresholdMode) -> None:
    users = audited.cohorts.evaluation.users
    others = replace(audited.cohorts, evaluation=Evaluation(users.with_vectors(users.vectors[::-1].copy())))
    (first,), (second,) = (
        audited.frozen(made(threshold=mode), audited.routes(2, each)) for each in (audited.cohorts, others)
    )
    assert first.thresholds == second.thresholds
    assert [score.offset for score in first.scores] == [score.offset for score in second.scores]


def test_claims_made_together_share_alpha(audited: Audited) -> None:
    together = audited.audit(2, Claims.TOGETHER)
    assert [each.headline.confidence for each in together] == pytest.approx([1 - 0.05 / 2] * 2)
    assert sum(each.ledger.spent for each in together) == pytest.approx(0.05)


def test_thresholds_can_be_calibrated_by_trials(audited: Audited) -> None:
    prefixes = audited.audit(2, threshold=ThresholdMode.CALIBRATED)
    assert {each.canaries[0].threshold.mode for each in prefixes} == {ThresholdMode.CALIBRATED}


def test_what_does_not_fit_is_refused(audited: Audited) -> None:
    bank = audited.run.rounds[1].bank
    moved = replace(bank, vectors=bank.vectors[::-1].copy())
    auxiliary = Routed.build(audited.cohorts.auxiliary, moved, MECHANISM.k)
    with pytest.raises(InputError, match="other entries than the design's probes"):
        follow(audited.design, moved, auxiliary, MECHANISM, eligible=44)
    routes = audited.routes(1)
    with pytest.raises(CohortError, match="judged on the evaluation cohort, not on Calibration"):
        made().evaluation([replace(routes[0], evaluation=routes[0].calibration)])
    with pytest.raises(CohortError, match="frozen on the calibration cohort, not on Evaluation"):
        audited.frozen(made(), [replace(routes[0], calibration=routes[0].evaluation)])
    (case,) = audited.frozen(made(), routes)
    known = replace(case, canary=audited.cohorts.evaluation.users.ids[0])
    with pytest.raises(CohortError, match="is also an evaluation user"):
        made().evaluation(routes)(known)


def test_the_evaluation_users_are_not_seen_before_the_rule_is_frozen(audited: Audited) -> None:
    routes = audited.routes(1)
    auditor, case = made(), Case.of(0, audited.design, summed=True)
    with pytest.raises(CohortError, match="nonce-mueff canary 0 has no frozen rule yet"):
        auditor.freeze([case], auditor.evaluation(routes))
