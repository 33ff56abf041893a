"""Hold composed releases to what is known exactly: no sampling, and two releases as one integral."""

import math

import mpmath
import numpy as np
import pytest

from canarybank.mechanism import Mechanism, epsilon, one_round_epsilon
from canarybank.mechanism.composition import RELATIVE_ERROR

SIGMAS = (1e-3, 0.02, 0.3, 1.0, 30.0, 1e3)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.4])
@pytest.mark.parametrize("rounds", [2, 9])
def test_rounds_without_sampling_are_one_round_with_less_noise(sigma: float, delta: float, rounds: int) -> None:
    exact = one_round_epsilon(Mechanism(sigma=sigma / rounds**0.5, q=1.0, delta=delta))
    found = epsilon(Mechanism(sigma=sigma, q=1.0, delta=delta), rounds)
    assert -1e-9 * exact <= found - exact <= RELATIVE_ERROR * exact


def two_rounds_delta(sigma: float, q: float, epsilon: float) -> float:
    """Return delta of two releases for removing the user: one's own curve, averaged over the loss of the other."""
    mu = 1 / sigma
    z = np.linspace(-12.0, mu + 12.0, 400_001)
    weight = ((1 - q) * np.exp(-z * z / 2) + q * np.exp(-((z - mu) ** 2) / 2)) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    left = epsilon - np.logaddexp(math.log1p(-q), math.log(q) + mu * z - mu * mu / 2)
    from scipy.special import ndtr

    sure = left <= math.log1p(-q)
    at = (left[~sure] + np.log(-np.expm1(math.log1p(-q) - left[~sure])) - math.log(q)) / mu + mu / 2
    curve = -np.expm1(np.minimum(left, 0.0))
    curve[~sure] = (1 - q) * ndtr(-at) + q * ndtr(mu - at) - np.exp(left[~sure]) * ndtr(-at)
    return float(weight @ curve)


@pytest.mark.parametrize(("sigma", "q"), [(0.3, 0.02), (1.0, 0.1), (1.0, 0.9), (4.0, 0.5)])
@pytest.mark.parametrize("delta", [1e-7, 1e-5, 1e-2])
def test_two_rounds_are_the_integral_of_one_over_the_other(sigma: float, q: float, delta: float) -> None:
    found = epsilon(Mechanism(sigma=sigma, q=q, delta=delta), 2)
    if found == 0:
        assert two_rounds_delta(sigma, q, 0.0) <= delta * (1 + 1e-6)
        return
    assert two_rounds_delta(sigma, q, found) <= delta * (1 + 1e-6)
    assert two_rounds_delta(sigma, q, found * (1 - 2 * RELATIVE_ERROR)) >= delta * (1 - 1e-6)


@pytest.mark.parametrize("sigma", [1e-3, 0.01, 0.02, 1.0, 1e3])
@pytest.mark.parametrize("q", [1e-9, 0.1, 1.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.4])
def test_one_round_is_the_curve_at_fifty_digits(sigma: float, q: float, delta: float) -> None:
    found = epsilon(Mechanism(sigma=sigma, q=q, delta=delta))
    with mpmath.workdps(50):
        mu = 1 / mpmath.mpf(sigma)

        def curve(e: mpmath.mpf) -> mpmath.mpf:
            z = mpmath.log((mpmath.exp(e) - 1 + mpmath.mpf(q)) / q) / mu + mu / 2
            upper = mpmath.erfc(z / mpmath.sqrt(2)) / 2
            return (1 - mpmath.mpf(q) - mpmath.exp(e)) * upper + q * mpmath.erfc((z - mu) / mpmath.sqrt(2)) / 2

        if found == 0:
            assert curve(mpmath.mpf("1e-40")) <= delta
        else:
            assert (
                curve(mpmath.mpf(found) * (1 - mpmath.mpf("1e-9")))
                > delta
                > curve(mpmath.mpf(found) * (1 + mpmath.mpf("1e-9")))
            )


def test_without_a_delta_no_epsilon_is_finite() -> None:
    assert epsilon(Mechanism(delta=0.0)) == epsilon(Mechanism(delta=0.0, q=1.0), 5) == math.inf
