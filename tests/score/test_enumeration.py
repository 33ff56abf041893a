from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from canarybank.score.cumulants import NoisySum
from canarybank.score.enumeration import enumerated_tail, outcomes

Truth = Callable[..., mp.mpf]


@pytest.mark.parametrize("seed", range(25))
def test_added_up_outcomes_contain_the_truth(seed: int, enumerated: Truth) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=4) * 10 ** rng.uniform(-2, 4)
    counts = rng.integers(1, 4, 4)
    q = float(rng.choice([1e-9, 0.1, 0.5, 0.999, 1.0]))
    law = NoisySum.of(np.repeat(weights, counts), q, 1.0)
    thresholds = np.concatenate((weights.sum() * rng.random(2), rng.normal(size=3) * 9, [38.0, -38.0]))
    lower, upper = enumerated_tail(law, thresholds)
    for i, threshold in enumerate(thresholds):
        truth = enumerated(zip(weights, counts, strict=True), q, 1.0, threshold)
        assert mp.mpf(lower[i]) <= truth <= mp.mpf(upper[i]) * (1 + mp.mpf(10) ** -50)
        if truth > 1e-300:
            assert upper[i] - lower[i] <= 1e-9 * float(truth)


@pytest.mark.parametrize("seed", range(5))
def test_sums_that_cancel_are_rounded_outwards(seed: int, enumerated: Truth) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(1e9, 2e9, 5)
    thresholds = weights.sum() + np.array([-1.0, 0.5, 2.0])
    lower, upper = enumerated_tail(NoisySum.of(weights, 0.3, 1.0), thresholds)
    for i, threshold in enumerate(thresholds):
        truth = enumerated([(w, 1) for w in weights], 0.3, 1.0, threshold)
        assert mp.mpf(lower[i]) <= truth <= mp.mpf(upper[i])
        assert upper[i] - lower[i] < 1e-3 * truth


@pytest.mark.parametrize("q", [0.1, 0.3, 0.7])
def test_the_chances_of_many_coins_are_rounded_outwards(q: float, enumerated: Truth) -> None:
    thresholds = 12.0 * q + np.array([3.0, 6.0])
    lower, upper = enumerated_tail(NoisySum.of(np.full(3000, 0.004), q, 1.0), thresholds)
    for i, threshold in enumerate(thresholds):
        truth = enumerated([(0.004, 3000)], q, 1.0, threshold)
        assert mp.mpf(lower[i]) <= truth <= mp.mpf(upper[i])
        assert upper[i] - lower[i] < 1e-10 * truth


def test_outcomes_are_counted_by_groups() -> None:
    assert outcomes(NoisySum.of([], 0.1, 1.0)) == 1
    assert outcomes(NoisySum.of([1.0, 1.0, 2.0], 0.1, 1.0)) == pytest.approx(6)
    assert outcomes(NoisySum.of(np.arange(1.0, 3000.0), 0.1, 1.0)) > 1e300
    assert outcomes(NoisySum.of(np.arange(1.0, 3000.0), 1.0, 1.0)) == 1


def test_no_thresholds_give_no_ends() -> None:
    lower, upper = enumerated_tail(NoisySum.of([1.0], 0.1, 1.0), np.empty(0))
    assert lower.shape == upper.shape == (0,)
