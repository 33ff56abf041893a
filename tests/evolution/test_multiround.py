from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from canarybank.attack import ATTACKS, Design, design, nonce_canary, nonce_pool
from canarybank.auditing import Settings, ThresholdMode, TrialEngine
from canarybank.encode import HashingEncoder
from canarybank.errors import CohortError, IncompleteError, InputError
from canarybank.evolution import Evolution, Keep, evolve
from canarybank.evolve.multiround import (
    CONDITIONAL,
    DEFAULTS,
    MultiRound,
    evolve_audit,
    freeze_rounds,
    judge_rounds,
)
from canarybank.evolve.prefixes import Claims
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

    def short(self) -> Evolution:
        return replace(self.run, rounds=self.run.rounds[:2])


def simulated(cohorts: Cohorts, design: Design, rounds: int, folder: Path | None = None) -> Evolution:
    generator = ScriptedGenerator(lambda request: sentence(request.seed))
    arguments = (design.bank, MECHANISM, ENCODER, generator, rounds)
    return evolve(cohorts.evaluation.users, *arguments, keep=Keep(share=0.25), insecure_seed=5, folder=folder)


@pytest.fixture(scope="module", autouse=True)
def _no_opacus() -> Iterator[None]:
    """Leave the other accountant out: it takes seconds to load and has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("canarybank.evolve.prefixes.prv_epsilon", lambda *_: 9.0)
        yield


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
    made = design(
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
    return Audited(cohorts, made, simulated(cohorts, made, ROUNDS))


@pytest.fixture(scope="module")
def result(audited: Audited) -> MultiRound:
    return evolve_audit(audited.run, audited.design, audited.cohorts, settings=SETTINGS, step=2e-4)


def naive_law(audited: Audited, bank: Bank) -> RoundLaw:
    """The law of a round's score on the evaluation cohort, from whole routes over that bank and nothing kept."""

    def table(users: Users) -> np.ndarray:
        routes = route(users.vectors, bank, MECHANISM.k)
        return contributions(routes, users.owners, len(users), bank.size, MECHANISM.clip).toarray()

    places = list(audited.design.inspected)
    canary = audited.design.canary
    own = table(Users.from_vectors([canary.vectors]))[0, places]
    eligible = len(audited.cohorts.evaluation)
    moments = Moments.estimate(table(audited.cohorts.auxiliary.users)[:, places], MECHANISM, eligible)
    return RoundLaw.of(LinearScore(own, moments), table(audited.cohorts.evaluation.users)[:, places], own, MECHANISM)


def test_every_prefix_is_judged_on_the_realised_banks(audited: Audited, result: MultiRound) -> None:
    laws = [naive_law(audited, each.bank) for each in audited.run.rounds]
    assert result.banks == tuple(each.bank.hash for each in audited.run.rounds)
    assert len({*result.banks}) == ROUNDS
    for t, prefix in enumerate(result.prefixes, start=1):
        fpr, tpr = SummedLaw(laws[:t]).point(prefix.threshold.value)
        assert prefix.fpr.lower - 1e-9 <= fpr <= prefix.fpr.upper + 1e-9
        assert prefix.tpr.lower - 1e-9 <= tpr <= prefix.tpr.upper + 1e-9
        assert 0 < prefix.exact.interval.upper <= prefix.theory + 0.02
        assert prefix.exact.interval.lower <= prefix.exact.point <= prefix.theory + 1e-5
        # Within 5 standard deviations: a false alarm in 6e-7 of runs, 6 comparisons.
        for rate, positives in ((fpr, prefix.counts.fp), (tpr, prefix.counts.tp)):
            assert abs(positives - SETTINGS.trials * rate) < 5 * np.sqrt(SETTINGS.trials * rate * (1 - rate))
    assert result.prefixes[-1].exact.point > result.prefixes[0].exact.point


def test_probes_stand_in_every_bank_and_the_first_round_is_the_design(audited: Audited, result: MultiRound) -> None:
    places = list(audited.design.inspected)
    for each in audited.run.rounds:
        assert np.array_equal(each.bank.vectors[places], audited.design.bank.vectors[places])
    assert result.mu_eff[0] == audited.design.mu_eff
    assert len(set(result.mu_eff)) > 1  # later banks change the canary's votes or the background


def test_the_run_has_a_score_of_its_own(audited: Audited, result: MultiRound) -> None:
    frozen = freeze_rounds(audited.run, audited.design, audited.cohorts, settings=SETTINGS)
    total = 0.0
    for each, made, score in zip(audited.run.rounds, frozen.designs, result.run_scores, strict=True):
        llr = float(made.score.llr(each.release[list(audited.design.inspected)]))
        total += np.log(1 - MECHANISM.q + MECHANISM.q * np.exp(llr))
        assert score == pytest.approx(total)


def test_the_result_says_what_it_stands_on(result: MultiRound) -> None:
    assert CONDITIONAL in result.notes
    assert "conditional on the banks" in str(result)
    assert any("not differentially private" in note for note in result.notes)
    assert any("seeded with 5" in note for note in result.notes)
    assert result.insecure_seed == 5
    assert Claims.EACH.statement in result.notes
    plain = result.to_dict()
    assert plain["prefixes"][2]["rounds"] == 3
    assert plain["attack"] == "nonce-mueff"


def test_the_paper_is_the_default() -> None:
    assert (DEFAULTS.trials, DEFAULTS.alpha, DEFAULTS.method) == (5_000_000, 0.01, "paper")


def test_a_folder_serves_as_well_and_a_real_run_is_said_to_be_one(audited: Audited, tmp_path: Path) -> None:
    simulated(audited.cohorts, audited.design, 1, tmp_path / "run")
    loaded = evolve_audit(tmp_path / "run", audited.design, audited.cohorts, settings=SETTINGS, step=2e-4)
    one = replace(audited.run, rounds=audited.run.rounds[:1])
    assert loaded == evolve_audit(one, audited.design, audited.cohorts, settings=SETTINGS, step=2e-4)
    real = evolve_audit(replace(one, insecure_seed=None), audited.design, audited.cohorts, settings=SETTINGS, step=2e-4)
    assert any("operating system" in note for note in real.notes)


def test_literal_trials_agree_with_projected_ones(audited: Audited, result: MultiRound) -> None:
    literal = replace(SETTINGS, engine=TrialEngine.LITERAL, seed=9)
    other = evolve_audit(audited.short(), audited.design, audited.cohorts, settings=literal, step=2e-4)
    for one, two in zip(result.prefixes[:2], other.prefixes, strict=True):
        assert abs(one.threshold.value - two.threshold.value) < 0.05  # the calibration stand-ins are drawn by seed
        rate = two.tpr.midpoint
        # Within 5 standard deviations: a false alarm in 6e-7 of runs, 3 comparisons.
        assert abs(two.counts.tp - SETTINGS.trials * rate) < 5 * np.sqrt(SETTINGS.trials * rate)


def test_nothing_is_frozen_by_the_evaluation_users_beyond_their_number(audited: Audited) -> None:
    cohorts = audited.cohorts
    shuffled = cohorts.evaluation.users
    others = Evaluation(shuffled.with_vectors(shuffled.vectors[::-1].copy()))
    first, second = (
        freeze_rounds(audited.short(), audited.design, each, settings=SETTINGS)
        for each in (cohorts, replace(cohorts, evaluation=others))
    )
    assert first.rules == second.rules
    assert [d.score.offset for d in first.designs] == [d.score.offset for d in second.designs]


def test_claims_can_be_made_together(audited: Audited) -> None:
    frozen = freeze_rounds(audited.short(), audited.design, audited.cohorts, settings=SETTINGS, claims=Claims.TOGETHER)
    assert [rule.alpha for rule in frozen.rules] == pytest.approx([0.05 / 2] * 2)
    found = judge_rounds(audited.short(), frozen, audited.cohorts.evaluation, settings=SETTINGS, step=2e-4)
    assert [p.bound.confidence for p in found.prefixes] == pytest.approx([1 - 0.05 / 2] * 2)
    assert found.ledgers[0].spent == pytest.approx(0.05)


def test_thresholds_can_be_calibrated_by_trials(audited: Audited) -> None:
    settings = replace(SETTINGS, threshold=ThresholdMode.CALIBRATED)
    found = evolve_audit(audited.short(), audited.design, audited.cohorts, settings=settings, step=2e-4)
    assert {prefix.threshold.mode for prefix in found.prefixes} == {ThresholdMode.CALIBRATED}


def test_what_does_not_fit_is_refused(audited: Audited) -> None:
    run, made, cohorts = audited.run, audited.design, audited.cohorts
    with pytest.raises(InputError, match="starts from the design's own bank"):
        freeze_rounds(replace(run, rounds=run.rounds[1:]), made, cohorts, settings=SETTINGS)
    with pytest.raises(IncompleteError, match="no release yet"):
        freeze_rounds(replace(run, rounds=()), made, cohorts, settings=SETTINGS)
    known = replace(made, canary=replace(made.canary, id=cohorts.evaluation.users.ids[0]))
    with pytest.raises(CohortError, match="also in the cohort Evaluation"):
        freeze_rounds(run, known, cohorts, settings=SETTINGS)
    frozen = freeze_rounds(run, made, cohorts, settings=SETTINGS)
    with pytest.raises(InputError, match="other banks"):
        judge_rounds(replace(run, rounds=run.rounds[:2]), frozen, cohorts.evaluation, settings=SETTINGS)
    with pytest.raises(CohortError, match="not on Calibration"):
        judge_rounds(run, frozen, cohorts.calibration, settings=SETTINGS)  # type: ignore[arg-type]
