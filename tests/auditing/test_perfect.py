"""A perfect attack: a canary alone on quiet coordinates with a contribution of norm clip."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.attack import ATTACKS, Canary, CanaryKind, Pool
from canarybank.auditing import (
    Auditor,
    Case,
    MemoryTally,
    Projected,
    Settings,
    ceiling,
    count,
    epsilon_lower,
    expected_bound,
    route_cohorts,
    supremum,
)
from canarybank.mechanism import Bank, Mechanism, epsilon
from canarybank.score import RoundLaw
from canarybank.users import Auxiliary, Calibration, Cohorts, Evaluation, Users

PAPER = Mechanism()


def axis(index, dimension=12):
    return 40.0 * np.eye(dimension)[index]


@pytest.fixture(scope="module")
def routes():
    """Users who all live on the first axes, and a bank with five positions that nobody is near."""
    rng = np.random.default_rng(0)
    near = lambda: np.abs(rng.normal(size=(6, 12))) * (np.arange(12) < 6)  # noqa: E731, a sampler in one line
    people = [Users.from_vectors({f"{role}{i}": near() for i in range(20)}) for role in "ace"]
    cohorts = Cohorts(Auxiliary(people[0]), Calibration(people[1]), Evaluation(people[2]))
    bank = Bank(np.abs(rng.normal(size=(40, 12))) * (np.arange(12) < 6)).reserve(5, seed=0)
    return route_cohorts(cohorts, bank, PAPER.k)


@pytest.fixture(scope="module")
def judged(routes):
    canary = Canary(np.tile(axis(11), (64, 1)), id="nonce-0", kind=CanaryKind.NONCE)
    pool = Pool(np.array([axis(11) * (1 + 0.01 * i) for i in range(5)]))
    auditor = Auditor(PAPER, Settings(trials=1_000_000, alpha=0.01, threshold="analytic", seed=7), 20)
    designed = auditor.design(ATTACKS["nonce-mueff"], canary, pool, routes, 0)
    cases, tally = auditor.freeze([Case.of(0, designed)], auditor.calibration([routes])), MemoryTally()
    evaluation = auditor.evaluation([routes])
    auditor.play(cases, evaluation, tally)
    (found,) = auditor.judge(cases, evaluation, tally)
    return found.canaries[0]


def test_it_spends_the_whole_budget(judged):
    assert judged.mu_eff == pytest.approx(1.0, abs=1e-6)
    assert judged.supremum.width <= 1e-6
    assert judged.supremum.midpoint == pytest.approx(epsilon(PAPER), abs=1e-6) == pytest.approx(1.684544, abs=1e-6)


def test_its_analytic_rule_is_the_one_the_ceiling_names(judged):
    limit = ceiling(PAPER, 1_000_000)
    assert judged.threshold.value == pytest.approx(limit.threshold, abs=0.01) == pytest.approx(3.139, abs=0.01)
    assert judged.threshold.expected == pytest.approx(0.990, abs=1e-3)
    assert judged.rule.midpoint == pytest.approx(1.352, abs=2e-3)
    # The bound scatters with a standard deviation of about 0.09 around 0.99; six of them cover all but 1e-8.
    assert abs(judged.bound.epsilon - 0.99) < 0.55


def test_bounds_from_trials_scatter_as_forecast():
    # 40 runs of 200,000 trials at the ceiling's threshold. Between the forecast's 5% and 95% lie 36 in expectation;
    # fewer than 24 have probability 5e-7, and a mean off by 4.5 standard errors 7e-6.
    limit = ceiling(PAPER, 200_000, method="clopper-pearson")
    trials = Projected(RoundLaw.perfect(PAPER))
    bounds = []
    for run in range(40):
        counts = count(trials, limit.threshold, 200_000, seed=run, path=("perfect",))
        bounds.append(
            epsilon_lower(
                counts.tp, counts.fp, counts.n1, counts.n0, delta=PAPER.delta, alpha=0.01, method="clopper-pearson"
            ).epsilon
        )
    inside = sum(limit.q05 <= bound <= limit.q95 for bound in bounds)
    assert inside >= 24
    assert abs(np.mean(bounds) - limit.mean) < 4.5 * limit.sd / np.sqrt(40)


def test_the_best_of_five_averages_what_the_paper_saw():
    best = ceiling(PAPER, 1_000_000, canaries=5)
    assert best.mean == pytest.approx(1.097, abs=0.002)
    assert best.sd == pytest.approx(0.062, abs=0.002)
    assert best.q05 < 1.110 < best.q95


def test_a_weaker_canary_hardly_ever_looks_like_the_papers_best():
    mechanism = replace(PAPER, sigma=1 / 0.95)
    limit = ceiling(mechanism, 1_000_000, canaries=5)
    assert limit.q95 < 1.110


def test_no_background_is_a_background_of_nobody():
    alone = RoundLaw.perfect(PAPER)
    with_nobody = replace(alone, weights=csr_array((0, 1)).toarray().ravel())
    assert supremum(alone, PAPER.delta).interval == supremum(with_nobody, PAPER.delta).interval


def test_the_forecast_of_equal_canaries_is_the_ceiling():
    limit = ceiling(PAPER, 1_000_000, canaries=5)
    same = expected_bound([limit.tpr] * 5, [limit.fpr] * 5, 1_000_000, delta=PAPER.delta, alpha=0.01)
    assert (same.mean, same.median) == (limit.mean, limit.median)
