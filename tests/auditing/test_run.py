from dataclasses import replace

import numpy as np
import pytest

from canarybank.attack import ATTACKS
from canarybank.auditing import AuditResult, Settings, audit
from canarybank.errors import CanarybankError
from canarybank.mechanism import Bank, Mechanism, epsilon
from canarybank.users import Auxiliary, Cohorts, CohortSizes, Users, draw_cohorts

TRIALS = 20_000


@pytest.fixture(scope="module")
def run(people, bank, mechanism, sizes):
    def call(attack, **changes):
        options = {"trials": TRIALS, "seed": 5, "sizes": sizes, "canaries": 2, "pool_size": 60} | changes
        return audit(options.pop("users", people), options.pop("bank", bank), mechanism, attack, **options)

    return call


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_runs_and_its_figures_are_in_order(run, attack, mechanism):
    result = run(attack)
    limit = epsilon(mechanism)
    assert len(result.canaries) == 2
    assert result.headline.epsilon == max(c.bound.epsilon for c in result.canaries)
    for canary in result.canaries:
        assert 0 <= canary.rule.lower <= canary.supremum.upper <= limit + 1e-6
        assert canary.mu_eff <= 1 / mechanism.sigma + 1e-9
        assert canary.probe_norm <= mechanism.clip
        assert canary.counts.n1 == canary.counts.n0 == TRIALS
        assert canary.supremum.width <= 1e-6
    names = [rung.name for rung in result.ladder.rungs]
    assert names == ["accounted", "mechanism", "attack", "rule", "expected", "observed"]
    assert result.ladder.expected.low <= result.ladder.expected.epsilon <= result.ladder.expected.high


def test_nonces_beat_the_unchanged_bank(run):
    nonce, ordinary = run("nonce-mueff"), run("ordinary")
    assert nonce.ladder.attack.epsilon > 1.5 > ordinary.ladder.attack.epsilon


@pytest.mark.parametrize("engine", ["literal", "literal-torch", "projected", "tail"])
def test_the_same_seed_gives_the_same_result(run, engine):
    assert run("exact", trial_engine=engine).to_dict() == run("exact", trial_engine=engine).to_dict()


def test_the_repr_is_one_line_and_no_bare_number(run):
    shown = repr(run("ordinary"))
    assert "\n" not in shown
    assert "ordinary: epsilon >= " in shown
    assert "at 95% by paper, 20,000 trials a hypothesis, 2 canaries; exact " in shown


@pytest.mark.parametrize("method", ["paper", "clopper-pearson", "pooled", "stratified", "joint"])
def test_every_method_can_be_the_headline(run, method):
    result = run("nonce", method=method, threshold="analytic")
    assert result.headline.method == method
    assert result.headline.confidence == pytest.approx(0.95)
    assert all(c.bound.confidence == pytest.approx(0.975) for c in result.canaries)
    assert result.ledger.spent == pytest.approx(0.05)


def test_what_was_accounted_is_the_first_rung(run):
    ladder = run("ordinary", accounted=1.695).ladder
    assert ladder.accounted.epsilon == 1.695
    assert ladder.steps[0] == pytest.approx(1.695 - ladder.mechanism.epsilon)


def test_simulated_vectors_are_confessed(run):
    assert run("exact").notes == ()
    assert "simulated" in run("nonce").notes[0]
    assert "simulated" in run("paraphrase").notes[0]


@pytest.mark.parametrize("threshold", ["calibrated", "analytic"])
@pytest.mark.parametrize("attack", ["paraphrase-mueff", "ordinary"])
def test_the_evaluation_cohort_touches_no_probe_and_no_threshold(people, bank, mechanism, sizes, attack, threshold):
    cohorts = draw_cohorts(people, sizes, attacks=[attack], records=12, seed=5)
    users = cohorts.evaluation.users
    rng = np.random.default_rng(0)
    strangers = Users.from_vectors({f"s{i}": rng.normal(size=(12, users.vectors.shape[1])) for i in range(len(users))})
    evaluations = [
        users,
        users.take(rng.permutation(len(users))),
        strangers,
    ]
    results = [
        audit(
            replace(cohorts, evaluation=type(cohorts.evaluation)(group)),
            bank,
            mechanism,
            attack,
            trials=TRIALS,
            seed=5,
            threshold=threshold,
            pool_size=60,
        )
        for group in evaluations
    ]
    first = [(c.selected, c.bank_hash, c.threshold.value, c.mu_eff) for c in results[0].canaries]
    for result in results[1:]:
        assert [(c.selected, c.bank_hash, c.threshold.value, c.mu_eff) for c in result.canaries] == first
    # Permuting changes nothing at all in law; strangers change the exact figure, so the test could see a leak.
    assert results[1].ladder.attack.epsilon == pytest.approx(results[0].ladder.attack.epsilon, abs=1e-6)
    assert abs(results[2].ladder.attack.epsilon - results[0].ladder.attack.epsilon) > 1e-6


def test_arrays_alone_are_enough(mechanism):
    rng = np.random.default_rng(3)
    users = [rng.normal(size=(6, 16)).astype(np.float32) for _ in range(40)]
    result = audit(users, rng.normal(size=(80, 16)), mechanism, "exact", trials=5_000, probes=6, canaries=1)
    assert isinstance(result, AuditResult)


BAD = {
    "unknown attack": ({"attack": "exactly"}, "no attack 'exactly'; did you mean 'exact'"),
    "unknown method": ({"method": "mu-gdp"}, "no method 'mu-gdp'; choose one of paper, "),
    "unknown threshold": ({"threshold": "best"}, "threshold must be one of"),
    "no trials": ({"trials": 0}, "at least one trial"),
    "half a trial": ({"trials": 1.5}, "trials must be whole numbers of at least 0, not 1.5"),
    "no number of trials": ({"trials": None}, "trials must be whole numbers, not None"),
    "seed": ({"seed": 1.5}, "A seed is a whole number of at least 0, not 1.5"),
    "accounted": ({"accounted": float("nan")}, "accounted epsilon must be finite and not negative, but is nan"),
    "alpha": ({"alpha": 1.0}, "alpha must lie strictly between 0 and 1"),
    "pool smaller than r": ({"attack": "nonce", "pool_size": 5}, "5"),
    "too few users": ({"sizes": CohortSizes(50, 50, 50, 2)}, "60 users"),
    "empty cohort": ({"sizes": (0, 1, 1, 1)}, "at least one user"),
    "more probes than positions": ({"bank": "tiny", "attack": "exact"}, "12 candidates and the bank reserves 3"),
    "k larger than the bank": ({"bank": "two"}, "k"),
    "dimensions": ({"bank": "wide"}, "dimension"),
    "NaN in the bank": ({"bank": "nan"}, "NaN"),
    "NaN in a user": ({"users": [np.full((2, 24), np.nan)] * 50}, "NaN or infinite"),
    "a user without records": ({"users": {"a": np.zeros((0, 24))}}, "has no records"),
}


@pytest.mark.parametrize(("change", "complaint"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_the_value_and_the_fix(run, bank, change, complaint):
    banks = {
        "tiny": lambda: Bank(bank.vectors).reserve(3, seed=0),
        "two": lambda: Bank(bank.vectors[:4]).reserve(2, seed=0),
        "wide": lambda: np.ones((200, 25)),
        "nan": lambda: np.full((200, 24), np.nan),
    }

    def attempt():
        options = {"attack": "exact"} | change
        if "bank" in options:
            options["bank"] = banks[options["bank"]]()
        if isinstance(options.get("sizes"), tuple):
            options["sizes"] = CohortSizes(*options["sizes"])
        run(options.pop("attack"), **options)

    with pytest.raises(CanarybankError, match=complaint):
        attempt()


@pytest.mark.parametrize(
    "wrong",
    [{"q": 0.0}, {"q": 1.1}, {"sigma": 0.0}, {"clip": -1.0}, {"delta": 1.0}, {"delta": -1.0}, {"k": 0}],
    ids=str,
)
def test_a_mechanism_refuses_bad_parameters(wrong):
    with pytest.raises(CanarybankError, match=next(iter(wrong))):
        Mechanism(**wrong)


def test_cohorts_cannot_play_each_others_roles(people, sizes):
    cohorts = draw_cohorts(people, sizes, attacks=[], records=12, seed=0)
    with pytest.raises(CanarybankError, match="must be of type Calibration"):
        Cohorts(cohorts.auxiliary, Auxiliary(cohorts.calibration.users), cohorts.evaluation)
    with pytest.raises(CanarybankError, match="share"):
        replace(cohorts, evaluation=type(cohorts.evaluation)(cohorts.auxiliary.users))


def test_what_is_asked_of_canaries_is_what_is_audited(run, people, sizes):
    assert len(run("exact", canaries=1).canaries) == len(run("nonce", canaries=1).canaries) == 1
    assert len(run("exact", canaries=None).canaries) == len(run("nonce", canaries=None).canaries) == 2
    drawn = draw_cohorts(people, sizes, attacks=["exact"], records=12, seed=0)
    assert len(run("exact", users=drawn, canaries=1).canaries) == 1
    with pytest.raises(CanarybankError, match="3 canaries were asked for, but the cohorts hold 2"):
        run("exact", users=drawn, canaries=3)


def test_evaluation_users_with_fewer_records_leave_a_nonce_canary_as_it_was(run, people, sizes):
    cohorts = draw_cohorts(people, sizes, attacks=[], records=12, seed=0)
    users = cohorts.evaluation.users
    short = Users.from_vectors({name: users.vectors[users.owners == i][:5] for i, name in enumerate(users.ids)})
    results = [
        run("nonce-norm", users=replace(cohorts, evaluation=type(cohorts.evaluation)(group)))
        for group in (users, short)
    ]
    first, second = ([(c.selected, c.bank_hash, c.threshold.value) for c in result.canaries] for result in results)
    assert first == second


def test_trials_may_be_written_in_powers_of_ten(run):
    assert run("ordinary", trials=1e3).to_dict() == run("ordinary", trials=1_000).to_dict()


def test_an_unchanged_bank_needs_no_reserved_positions(run, bank):
    few = bank.vectors[:40]
    assert run("ordinary", bank=few, probes=64).canaries[0].bank_hash == Bank(few).hash


def test_a_confidence_is_never_rounded_to_certainty(run):
    assert "at 99.99% by paper" in repr(run("ordinary", alpha=1e-4))


def test_an_alpha_beyond_the_pooled_proof_is_refused_before_the_trials_or_goes_without_it(run):
    assert run("ordinary", alpha=0.6, trials=1_000).pooled is None
    with pytest.raises(CanarybankError, match=r"alpha up to 0\.5, not 0\.6"):
        Settings(alpha=0.6, method="pooled")
