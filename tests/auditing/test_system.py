"""The judge of a system's runs: what a true claim risks, what the judged runs may decide, and what lost runs cost."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from canarybank.auditing import Declaration, Evidence, Scoring, Settings, Verdict, fit_rules, judge_runs
from canarybank.auditing.declaration import power_of
from canarybank.errors import InputError
from canarybank.mechanism import Claim, Mechanism
from canarybank.systems import Hypothesis, Releases, Split

ALL = ("bound", "curve", "betting")
SETTINGS = Settings(trials=40, alpha=0.1, method="clopper-pearson")
ONE = Claim.of(Mechanism(q=1.0, sigma=1.0))


def declare(claim=ONE, seed=0, **options):
    given = {"apart": 20, "evidence": ALL} | options
    return Declaration(claim, replace(SETTINGS, seed=seed), **given)


def released(declared, seed, *, width=4, noise=1.0, q=1.0):
    """Play an honest Gaussian system; the canary "weak" moves a release by less than the clip, all others by all."""
    rng, rounds = np.random.default_rng([seed, 7]), declared.claim.rounds
    shape = (len(declared.schedule), rounds, width)
    eligible = np.array([trial.hypothesis is Hypothesis.ELIGIBLE for trial in declared.schedule])
    moved = np.zeros((len(declared.schedule), 1, width))
    for row, trial in zip(moved, declared.schedule, strict=True):
        row[0, 1:3] = 0.3 if trial.canary == "weak" else 0.0
        row[0, 0] = 0.0 if trial.canary == "weak" else 1.0
    coins = (rng.random((len(declared.schedule), rounds, 1)) < q) & eligible[:, None, None]
    return [tuple(each) for each in rng.normal(0.0, noise, shape) + coins * moved]


def apart(declared, observations):
    """Return what was released by the runs set apart."""
    kept = [(t, o) for t, o in zip(declared.schedule, observations, strict=True) if t.split is Split.FIT]
    return Releases.of(*map(list, zip(*kept, strict=True)))


def judged(declared, observations, *, fitted_on=apart):
    rules = fit_rules(declared, fitted_on(declared, observations))
    return judge_runs(declared, rules, Releases.of(declared.schedule, observations))


def also_judged(declared, observations):
    """Return a mutant's runs to fit on: those that it will judge."""
    kept = [(t, o) for t, o in zip(declared.schedule, observations, strict=True) if t.split is Split.JUDGE]
    return Releases.of([replace(t, split="fit") for t, _ in kept], [o for _, o in kept])


def test_equal_scores_are_no_drift():
    # 60 audits at a rate of 1e-3: more than 2 alarms come by chance with probability below 4e-5.
    settings, chance = replace(SETTINGS, trials=300), np.exp(1.0) / (1.0 + np.exp(1.0))
    alarms = 0
    for seed in range(60):
        declared, rng = (
            Declaration(Claim(2.0, 0.0), replace(settings, seed=seed), apart=60),
            np.random.default_rng(seed),
        )
        bits = [rng.random(2) < (chance if each.hypothesis == "eligible" else 1 - chance) for each in declared.schedule]
        alarms += judged(declared, [(each.astype(float),) for each in bits]).verdict is Verdict.DEPENDENT
    assert alarms <= 2


AUDITS, MOST = 12, 10
"""Audits at each q. A true claim is refuted with probability at most 0.1; more than 10 of 24 with one below 1e-5."""


def refuted(fitted_on):
    found = []
    for q in (0.1, 1.0):
        claim = Claim.of(Mechanism(q=q, sigma=1.0), rounds=2)
        for seed in range(AUDITS):
            declared = declare(claim, seed, canaries=("strong", "weak"))
            found.append(judged(declared, released(declared, seed, width=30, q=q), fitted_on=fitted_on))
    assert Verdict.DEPENDENT not in {each.verdict for each in found}
    return sum(each.refuted for each in found)


def test_a_true_claim_is_refuted_at_most_as_often_as_declared():
    assert binom.sf(MOST, 2 * AUDITS, SETTINGS.alpha) < 1e-5
    assert refuted(apart) <= MOST


def test_a_judge_of_the_runs_that_it_fitted_on_refutes_true_claims():
    """The mutant that the test above is for."""
    assert refuted(also_judged) > MOST


@pytest.mark.parametrize("evidence", [ALL, ALL[:1], ALL[1:]])
@pytest.mark.parametrize("scores", [("fitted",), ("fitted", "length")])
def test_all_evidence_on_all_scores_spends_alpha_once(evidence, scores):
    declared = declare(evidence=evidence, scores=scores)
    observations = released(declared, 0)
    observations[3] = (observations[3][0][:3],)  # of another length, among the runs set apart: one more score
    found = judged(declared, observations)
    assert len(found.shown) == 2 * len(evidence)
    assert sum(each.alpha for each in found.shown) == pytest.approx(SETTINGS.alpha)
    for each in found.shown:
        used = 1 - each.bound.confidence if each.bound else (each.curve or each.betting).alpha
        assert used == pytest.approx(each.alpha)


def test_canaries_share_the_alpha_of_their_evidence():
    """Two canaries with the same counts say less than one of them alone."""
    alone, both = declare(canaries=("a",)), declare(canaries=("a", "b"))
    bounds = []
    for declared in (alone, both):
        shift = [np.array([50.0 * (t.hypothesis is Hypothesis.ELIGIBLE)]) for t in declared.schedule]
        noise = np.random.default_rng(1).normal(size=(len(shift), 1))
        found = judged(declared, [(one,) for one in shift + noise])
        bounds.append({each.evidence: each.epsilon or each.curve.rate for each in found.shown})
    assert all(bounds[1][each] < bounds[0][each] for each in (Evidence.BOUND, Evidence.CURVE))


def test_a_longer_release_of_a_judged_run_decides_no_rule():
    """A length that only judged runs show is reported; no alpha was set aside for it, so nothing is judged by it."""
    declared = declare()
    observations = released(declared, 0)
    place = next(i for i, t in enumerate(declared.schedule) if t.split is Split.JUDGE)
    before = fit_rules(declared, apart(declared, observations))
    observations[place] = (np.append(observations[place][0], 99.0),)
    assert fit_rules(declared, apart(declared, observations)) == before
    found = judged(declared, observations)
    assert {each.score for each in found.shown} == {Scoring.FITTED}
    assert len(found.leaks) == 1


@pytest.mark.parametrize("seed", range(3))
def test_no_lost_run_helps_to_refute(seed):
    """Of a system that is far off, each run that gets lost leaves every figure where it is, or lowers it."""
    declared = declare(Claim.of(Mechanism(q=1.0, sigma=1.0)), seed)
    observations = released(declared, seed, noise=0.4)
    rules = fit_rules(declared, apart(declared, observations))

    def figures():
        shown = judge_runs(declared, rules, Releases.of(declared.schedule, observations)).shown
        return {
            each.evidence: -each.curve.p_value
            if each.curve
            else (each.epsilon, each.betting and each.betting.log_wealth)
            for each in shown
        }

    before, rng = figures(), np.random.default_rng(seed)
    places = [i for i, t in enumerate(declared.schedule) if t.split is Split.JUDGE]
    for place in rng.choice(places, 6, replace=False):
        observations[place] = None
        after = figures()
        assert set(after) == set(before) == set(Evidence)
        for evidence, value in after.items():
            assert value <= before[evidence] or value == pytest.approx(before[evidence]), evidence
        before = after


def test_no_threshold_is_a_score_of_a_run_that_it_was_fitted_to():
    """Releases on a lattice give scores on a lattice: rounding on another machine moves no run across a threshold."""
    declared = declare(canaries=("a", "b"))
    rng = np.random.default_rng(5)
    for _ in range(5):
        whole = [(rng.integers(-2, 3, 2).astype(float),) for _ in declared.schedule]
        releases = apart(declared, whole)
        for rule in fit_rules(declared, releases).rules:
            scores = np.concatenate([rule.of(releases, each, Split.FIT)[1] for each in Hypothesis])
            least = np.diff(np.unique(scores)).min()
            assert set(rule.thresholds) == set(Evidence)
            for threshold in rule.thresholds.values():
                assert np.abs(scores - threshold).min() > 1e-7 * least


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_releases_that_never_vary_are_judged(constant):
    declared = declare(evidence=("bound", "curve"))
    found = judged(declared, [(np.full(2, constant),) for _ in declared.schedule])
    assert found.verdict in {Verdict.STANDS, Verdict.DEPENDENT}


def test_a_score_fitted_to_many_values_calls_no_independent_runs_dependent():
    """Its own runs lie further apart than others; a false-alarm rate of 1e-3 would give one of these in 50 tries."""
    found = []
    for seed in range(20):
        declared = declare(Claim.of(Mechanism(q=0.1)), seed, evidence=("bound",))
        found.append(judged(declared, released(declared, seed, width=80, q=0.1)).verdict)
    assert Verdict.DEPENDENT not in found


def test_the_length_may_be_the_only_score():
    declared = declare(scores=("length",), evidence=("curve",))
    fewer = [(np.ones(5 - (t.hypothesis is Hypothesis.ELIGIBLE)),) for t in declared.schedule]
    noisy = [(one[0] + np.random.default_rng(i).normal(size=len(one[0])),) for i, one in enumerate(fewer)]
    (shown,) = judged(declared, noisy).shown
    assert (shown.score, shown.refuted, shown.counts[0].tp, shown.counts[0].fp) == (Scoring.LENGTH, True, 40, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"apart": 3}, "8 runs of each hypothesis set apart and 8 judged, not 3 and 40"),
        ({"canaries": ("a", "a")}, "each once"),
        ({"claim": Claim(1.0, 1e-5)}, "names no mechanism"),
        ({"claim": Claim(float("inf"), 1e-5), "evidence": ("betting",)}, "Nobody bets against an epsilon of inf"),
        ({"claim": Claim(300.0, 1e-5), "evidence": ("betting",)}, "Nobody bets against an epsilon of 300"),
    ],
)
def test_what_cannot_be_declared_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        declare(**options)


def test_a_method_that_a_schedule_cannot_feed_is_refused():
    with pytest.raises(InputError, match="in which the canary surely takes part"):
        Declaration(ONE, replace(SETTINGS, method="stratified"))


def test_the_power_of_a_bet_that_always_wins_is_said():
    declared = declare(Claim.of(Mechanism(q=1.0, sigma=1.0), rounds=2), evidence=("betting",))
    assert "betting" in power_of(declared, Evidence.BETTING, 0.05)
