"""Hold composed releases to what is known exactly: no sampling, two releases as one integral, several as another."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from canarybank.mechanism import Mechanism, composed_epsilon, epsilon, one_round_epsilon
from canarybank.mechanism.composition import RELATIVE_ERROR

SIGMAS = (1e-3, 0.02, 0.3, 1.0, 30.0, 1e3)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.4])
@pytest.mark.parametrize("rounds", [2, 9])
def test_rounds_without_sampling_are_one_round_with_less_noise(sigma: float, delta: float, rounds: int) -> None:
    exact = one_round_epsilon(Mechanism(sigma=sigma / rounds**0.5, q=1.0, delta=delta))
    found = epsilon(Mechanism(sigma=sigma, q=1.0, delta=delta), rounds)
    assert 0 <= found - exact <= RELATIVE_ERROR * exact


def two_rounds_delta(sigma: float, q: float, epsilon: float) -> mpmath.mpf:  # noqa: C901, one formula a line
    """Return delta of two releases at forty digits: one's own curve, averaged over the loss of the other.

    It is the larger of both directions, removing the user and adding the user.
    """
    with mpmath.workdps(40):
        mu, share, e = 1 / mpmath.mpf(sigma), mpmath.mpf(q), mpmath.mpf(epsilon)
        lowest = mpmath.log(1 - share)

        def above(z: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(z / mpmath.sqrt(2)) / 2

        def loss(z: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(1 - share + share * mpmath.exp(mu * z - mu * mu / 2))

        def place(at: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log((mpmath.exp(at) - 1 + share) / share) / mu + mu / 2

        def removing(left: mpmath.mpf) -> mpmath.mpf:
            if left <= lowest:
                return 1 - mpmath.exp(left)
            z = place(left)
            return (1 - share) * above(z) + share * above(z - mu) - mpmath.exp(left) * above(z)

        def adding(left: mpmath.mpf) -> mpmath.mpf:
            if -left <= lowest:
                return mpmath.mpf(0)
            z = place(-left)
            return above(-z) - mpmath.exp(left) * ((1 - share) * above(-z) + share * above(mu - z))

        def average(value: Any, centres: tuple[Any, ...], kink: mpmath.mpf) -> mpmath.mpf:
            ends = sorted({centre + 2 * i for centre in centres for i in range(-6, 7)})
            ends = sorted([*ends, *([kink] if ends[0] < kink < ends[-1] else [])])
            return mpmath.re(mpmath.quad(value, ends, maxdegree=4))  # at a kink the logarithm of what rounds below 0

        def present(z: mpmath.mpf) -> mpmath.mpf:
            return (1 - share) * mpmath.npdf(z) + share * mpmath.npdf(z - mu)

        found = average(lambda z: present(z) * removing(e - loss(z)), (mpmath.mpf(0), mu), place(e - lowest))
        if e < -2 * lowest:
            kink = place(-lowest - e)
            found = max(found, average(lambda z: mpmath.npdf(z) * adding(e + loss(z)), (mpmath.mpf(0),), kink))
        return found


@pytest.mark.parametrize(
    ("sigma", "q", "delta"),
    [
        (1.0, 1e-9, 1e-12),
        (0.3, 0.02, 1e-7),
        (1.0, 0.1, 1e-12),
        (5.0, 0.9, 0.01),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in product((0.1, 1.0, 30.0), (1e-9, 1e-6, 1e-3, 0.1, 0.9), (3e-12, 1e-9, 1e-5, 0.1))
        ),
    ],
)
def test_two_rounds_are_the_integral_of_one_over_the_other(sigma: float, q: float, delta: float) -> None:
    found = composed_epsilon(Mechanism(sigma=sigma, q=q, delta=delta), 2)
    assert two_rounds_delta(sigma, q, found) <= delta  # never below the exact epsilon
    if found > 0:
        # At most a millionth above it, where delta is short by what counts as an infinite loss.
        assert two_rounds_delta(sigma, q, found * (1 - RELATIVE_ERROR)) > delta * (1 - 1e-11)


def contour_delta(sigma: float, q: float, rounds: int, epsilon: float, *, removing: bool) -> float:
    """Return delta of several releases as an integral over a line of the complex plane, which rounds no loss.

    For c > 0, max(0, 1 - exp(e - s)) is 1/(2 pi i) times the integral of exp(u (s - e)) / (u (u + 1)) over the line
    Re u = c. So delta is that of M(u)^rounds exp(-u e) / (u (u + 1)), M(u) being the mean of exp(u loss) over a round.
    """
    mu = 1 / sigma
    z = np.arange(-14, mu + 14, min(0.02, 0.05 * sigma))
    odds = mu * z - mu * mu / 2
    ratio = np.log1p(q * np.expm1(odds)) if q < 1 else odds
    mass = (z[1] - z[0]) * np.exp(-z * z / 2 + (ratio if removing else 0.0)) / math.sqrt(2 * math.pi)
    loss = ratio if removing else -ratio
    usable = mass > 0

    def exponent(u: np.ndarray) -> np.ndarray:
        parts = [
            np.exp(np.outer(part, loss[usable]) + np.log(mass[usable])).sum(axis=1) for part in np.array_split(u, 16)
        ]
        return rounds * np.log(np.concatenate(parts)) - u * epsilon - np.log(u * (u + 1))

    def height(log_u: float) -> float:
        return float(exponent(np.array([math.exp(log_u)] * 16))[0])

    centre = math.exp(minimize_scalar(height, bounds=(-3, 5), method="bounded").x)
    top, shift = height(math.log(centre)), 1e-3 * centre
    around = [height(math.log(centre + side * shift)) for side in (-1, 1)]
    t = np.arange(0, 60, 0.02) * shift / math.sqrt(around[0] - 2 * top + around[1])
    values = np.exp(exponent(centre + 1j * t) - top).real
    assert abs(values[-100:]).max() < 1e-6, "the integral has not come to its end"
    return math.exp(top) * float(values.sum() - values[0] / 2) * float(t[1]) / math.pi


@pytest.mark.parametrize(
    ("sigma", "q", "delta", "rounds"),
    [
        (1.0, 0.1, 1e-5, 10),
        (1.0, 0.1, 1e-12, 10),
        (0.3, 0.5, 1e-12, 10),
        (2.0, 0.5, 1e-12, 1000),
        (5.0, 0.02, 1e-6, 1000),
        (0.5, 0.1, 1e-12, 3),
    ],
)
def test_several_rounds_are_an_integral_over_a_line(sigma: float, q: float, delta: float, rounds: int) -> None:
    found = composed_epsilon(Mechanism(sigma=sigma, q=q, delta=delta), rounds)
    directions = (True, False) if found < -rounds * math.log1p(-q) else (True,)
    most = max(contour_delta(sigma, q, rounds, found, removing=removing) for removing in directions)
    assert most < delta
    nearly = found * (1 - RELATIVE_ERROR)
    assert max(contour_delta(sigma, q, rounds, nearly, removing=removing) for removing in directions) > delta


@pytest.mark.parametrize(
    ("sigma", "q", "delta", "rounds"), [(1.0, 1e-3, 1e-7, 10), (4.0, 1e-4, 1e-7, 30), (1.0, 1e-6, 1e-9, 5)]
)
@pytest.mark.slow
def test_rare_sampling_lies_between_losses_rounded_down_and_up(
    sigma: float, q: float, delta: float, rounds: int
) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    found = composed_epsilon(Mechanism(sigma=sigma, q=q, delta=delta), rounds)
    ends = [
        pld.from_gaussian_mechanism(
            sigma,
            sampling_prob=q,
            value_discretization_interval=found / 2e4,
            pessimistic_estimate=pessimistic,
            use_connect_dots=False,
        )
        .self_compose(rounds)
        .get_epsilon_for_delta(delta)
        for pessimistic in (False, True)
    ]
    assert ends[0] <= found <= ends[1]
    assert ends[1] - ends[0] < 0.01 * found


@pytest.mark.parametrize("sigma", [0.3355, 10.0])
@pytest.mark.parametrize("rounds", [219, 1000])
def test_many_rounds_without_sampling(sigma: float, rounds: int) -> None:
    exact = one_round_epsilon(Mechanism(sigma=sigma / rounds**0.5, q=1.0, delta=1.33e-9))
    assert 0 <= epsilon(Mechanism(sigma=sigma, q=1.0, delta=1.33e-9), rounds) - exact <= RELATIVE_ERROR * exact


def test_rounds_that_delta_covers_cost_nothing() -> None:
    # 35 losses of about 1e-7 each differ from none by less than delta. dp-accounting's lattice says 3.4e-6.
    assert epsilon(Mechanism(sigma=4.357, q=1.2e-7, delta=7.62e-8), 35) == 0


def test_grows_with_rounds_and_q_and_falls_with_sigma_and_delta() -> None:
    for sigma, q, delta in ((0.05, 1e-3, 1e-11), (1.0, 1e-6, 1e-10), (40.0, 0.3, 1e-12)):
        at = Mechanism(sigma=sigma, q=q, delta=delta)
        more = [epsilon(at, 3), epsilon(at, 4), epsilon(at, 50)]
        assert more == sorted(more)
        for change in ({"q": q * 1.1}, {"sigma": sigma / 1.1}, {"delta": delta / 2}):
            assert epsilon(replace(at, **change), 3) >= more[0] > 0


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
