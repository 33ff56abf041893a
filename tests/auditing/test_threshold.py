import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.auditing import Projected, Target, analytic, calibrated, draw
from canarybank.auditing.settings import stand_in_rows
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
