import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import ks_2samp

from canarybank.auditing import Branch, Projected, Tail, Target, analytic, calibrated, draw, draw_above
from canarybank.auditing.settings import stand_in_rows, tail_cut
from canarybank.errors import CanarybankError
from canarybank.mechanism import Mechanism, Routed
from canarybank.score import RoundLaw
from canarybank.users import Auxiliary, Calibration

PAPER = Mechanism()
TARGET = Target(100_000, PAPER.delta, 0.01)
LAW = RoundLaw.perfect(PAPER)


def test_analytic_is_the_best_of_a_fine_grid():
    found = analytic(LAW, TARGET)
    grid = np.linspace(-4, 8, 6_001)
    fpr, tpr = LAW.point(grid)
    bounds = TARGET.bound(tpr, fpr)
    assert found.expected >= bounds.max() - 1e-6
    assert found.value == pytest.approx(grid[np.argmax(bounds)], abs=0.01)


def test_calibrated_is_the_best_of_every_score():
    # The naive twin tries each score of both hypotheses as threshold; candidates are a log-spaced subset, so ours may
    # fall short by a little, never exceed.
    number = 4_000
    target = Target(number, PAPER.delta, 0.05)
    law = RoundLaw(np.empty(0), 2.0, 4.0, 2.0, 0.5)
    found = calibrated(Projected(law), target, number=number, seed=6)
    absent, eligible = draw(Projected(law), number, seed=6, path=("calibration",))
    every = np.concatenate([absent, eligible])
    fpr = (absent[None, :] > every[:, None]).mean(axis=1)
    tpr = (eligible[None, :] > every[:, None]).mean(axis=1)
    best = target.bound(tpr, fpr).max()
    assert best - 0.05 < found.expected <= best
    assert found.value in every


def test_calibrated_comes_near_analytic():
    # At 100,000 trials the calibrated threshold scatters by tenths; six of them apart is beyond 1e-6.
    assert abs(calibrated(Projected(LAW), TARGET, number=100_000, seed=1).value - analytic(LAW, TARGET).value) < 2.0


def test_a_threshold_of_the_tail_is_the_best_of_every_score_above():
    # The twin tries each of the scores that were drawn; all of a threshold's exceedances are among them.
    number = 1_000_000
    target = Target(number, PAPER.delta, 0.01)
    found = calibrated(Tail(LAW), target, number=number, seed=6)
    absent, eligible = draw_above(Tail(LAW), tail_cut(LAW, number), number, seed=6, path=("calibration", "tail of 1"))
    every = np.concatenate([absent, eligible])
    fpr = (absent[None, :] > every[:, None]).sum(axis=1) / number
    tpr = (eligible[None, :] > every[:, None]).sum(axis=1) / number
    best = target.bound(tpr, fpr).max()
    assert best - 0.05 < found.expected <= best
    assert found.value in every


def test_thresholds_of_the_tail_scatter_as_those_of_all_trials():
    # 40 thresholds each at 300,000 trials; two samples of one law differ this much in 1 of 10^6 pairs.
    target = Target(300_000, PAPER.delta, 0.01)
    ours, all_drawn = (
        [calibrated(kind(LAW), target, number=300_000, seed=seed).value for seed in range(40)]
        for kind in (Tail, Projected)
    )
    assert ks_2samp(ours, all_drawn).pvalue > 1e-6


@pytest.mark.parametrize(
    ("law", "branch"),
    [
        (RoundLaw(np.full(50, 0.01), 1.0, 0.02, 0.0, 0.1), None),  # so weak that the best threshold is in the middle
        (RoundLaw.perfect(Mechanism(q=1.0)), None),  # where the reverse branch may be the better one
        (LAW, Branch.REVERSE),
        (RoundLaw(np.zeros(2), 0.0, 0.0, 0.1, 0.1), None),
    ],
    ids=["weak", "everybody", "reverse", "silent"],
)
def test_where_the_tail_does_not_decide_all_trials_are_drawn(law, branch):
    target = Target(200_000, PAPER.delta, 0.01)
    ours, all_drawn = (
        calibrated(kind(law), target, number=200_000, seed=2, branch=branch) for kind in (Tail, Projected)
    )
    assert ours == all_drawn


@pytest.fixture(scope="module")
def calibration(people, bank, mechanism):
    return Routed.build(Calibration(people.take(range(10))), bank, mechanism.k)


@pytest.mark.parametrize("eligible", [10, 25, 30, 7])
def test_a_cohort_of_another_size_stands_for_the_eligible_users(calibration, bank, mechanism, eligible):
    own = calibration.contributions(bank, mechanism).toarray()
    rows = stand_in_rows(calibration, eligible, 3)
    stood = own[rows]
    times = np.array([(np.abs(stood - row).max(axis=1) == 0).sum() for row in own])
    assert len(stood) == eligible == times.sum()
    assert set(times) <= {eligible // 10, -(-eligible // 10)}
    assert np.array_equal(rows, stand_in_rows(calibration, eligible, 3))


def test_another_cohort_cannot_calibrate(people, bank, mechanism):
    wrong = Routed.build(Auxiliary(people.take(range(10))), bank, mechanism.k)
    with pytest.raises(CanarybankError, match="frozen on the calibration cohort, not on Auxiliary"):
        stand_in_rows(wrong, 5, 0)


def test_a_score_that_sees_nothing_still_gets_a_threshold():
    silent = RoundLaw.of(_zero_score(), csr_array(np.zeros((3, 2))), np.zeros(2), PAPER)
    assert analytic(silent, TARGET).expected == 0.0
    assert calibrated(Projected(silent), TARGET, number=1_000, seed=0).expected == 0.0


def _zero_score():
    from canarybank.score import LinearScore, Moments

    return LinearScore(np.zeros(2), Moments(np.zeros(2), np.eye(2)))
