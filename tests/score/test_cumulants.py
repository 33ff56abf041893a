import mpmath as mp
import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.score.cumulants import NoisySum


def exact_cumulant(law: NoisySum, h: float) -> mp.mpf:
    with mp.workdps(60):
        q, x = mp.mpf(law.q), mp.mpf(h)
        users = [
            int(c) * mp.log(1 - q + q * mp.exp(x * mp.mpf(float(w))))
            for w, c in zip(law.weights, law.counts, strict=True)
        ]
        return (x * mp.mpf(law.noise)) ** 2 / 2 + mp.fsum(users)


@pytest.mark.parametrize("seed", range(60))
def test_the_cumulants_error_is_within_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = np.repeat(rng.normal(size=40) * 10 ** rng.uniform(-3, 2), rng.integers(1, 50, 40))
    law = NoisySum.of(weights, float(rng.choice([1e-9, 0.1, 0.5, 1 - 1e-9, 1.0])), 10 ** rng.uniform(-2, 2))
    for h in rng.normal(size=3) * 3:
        error = abs(mp.mpf(law.cumulant(h)) - exact_cumulant(law, h))
        assert error <= law.cumulant_error(h)
        assert law.cumulant_error(h) < 1e-11 * (10.0 + abs(h) * law.reach)


def test_slope_and_coins_are_derivatives_of_the_cumulant() -> None:
    law = NoisySum.of([0.5, -1.0, -1.0, 2.0], 0.3, 0.7)
    for h in (-1.0, 0.0, 0.8):
        difference = (law.cumulant(h + 1e-5) - law.cumulant(h - 1e-5)) / 2e-5
        assert law.slope(h) == pytest.approx(difference, rel=1e-7)
    assert law.slope(0.0) == pytest.approx(law.mean)
    curvature = (law.slope(1e-5) - law.slope(-1e-5)) / 2e-5
    assert law.deviation**2 == pytest.approx(curvature, rel=1e-7)
    up, down = law.tilted_coins(0.8)
    assert np.allclose(up + down, 1.0)


def test_equal_weights_are_grouped_and_zeros_dropped() -> None:
    law = NoisySum.of([0.5, 0.0, 0.5, -0.0, 1.0], 0.3, 3.0)
    assert law.exponent == 1
    assert law.noise == 1.5
    assert (law.weights == [0.25, 0.5]).all()
    assert (law.counts == [2, 1]).all()
    assert law.users == 3
    assert law.mirrored.mean == -law.mean


@pytest.mark.parametrize(
    ("weights", "q", "noise", "message"),
    [
        ([np.nan], 0.1, 1.0, "NaN"),
        ([np.inf], 0.1, 1.0, "NaN"),
        ([[1.0]], 0.1, 1.0, "one number a user"),
        ([1.0], 0.0, 1.0, r"\(0, 1\]"),
        ([1.0], 1.5, 1.0, r"\(0, 1\]"),
        ([1.0], 0.1, 0.0, "positive finite"),
        ([1.0], 0.1, -1.0, "positive finite"),
        ([1.0], 0.1, np.inf, "positive finite"),
        ([1.0], 0.1, np.nan, "positive finite"),
    ],
)
def test_bad_sums_are_refused(weights: list[float], q: float, noise: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        NoisySum.of(weights, q, noise)
