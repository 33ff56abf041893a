import math

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_delta, one_round_epsilon
from canarybank.mechanism.one_round import log_delta_add, log_delta_remove

mechanisms = st.builds(
    Mechanism,
    sigma=st.floats(math.log(0.2), math.log(50)).map(math.exp),
    q=st.floats(math.log(1e-4), 0.0).map(math.exp).map(lambda q: min(q, 1.0)) | st.just(1.0),
    delta=st.floats(math.log(1e-12), math.log(0.1)).map(math.exp),
)


def naive_delta(mechanism: Mechanism, epsilon: float) -> mpmath.mpf:
    """Take the worse of the two directions."""
    return max(naive_directions(mechanism, epsilon))


def naive_directions(mechanism: Mechanism, epsilon: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Evaluate both directions, removing and adding, as they stand in a textbook, in 120 digits."""
    with mpmath.workdps(120):
        mu, q, e = 1 / mpmath.mpf(mechanism.sigma), mpmath.mpf(mechanism.q), mpmath.mpf(epsilon)

        def upper(z: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(z / mpmath.sqrt(2)) / 2

        def where_loss_is(loss: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log((mpmath.exp(loss) - (1 - q)) / q) / mu + mu / 2

        z = where_loss_is(e)
        removed = (1 - q) * upper(z) + q * upper(z - mu) - mpmath.exp(e) * upper(z)
        if mpmath.exp(-e) <= 1 - q:
            return removed, mpmath.mpf(0)
        z = where_loss_is(-e)
        added = upper(-z) - mpmath.exp(e) * ((1 - q) * upper(-z) + q * upper(mu - z))
        return removed, added


@settings(deadline=None)
@given(mechanisms, st.floats(0, 40) | st.floats(0, 1e-3))
def test_delta_equals_the_textbook_in_many_digits(mechanism: Mechanism, epsilon: float) -> None:
    expected = naive_delta(mechanism, epsilon)
    found = one_round_delta(mechanism, epsilon)
    assert 0 <= found <= 1
    # The relative error grows with the exponent z²/2 of the tail, some 1e3 where delta is near 1e-300.
    assert found == pytest.approx(float(expected), rel=2e-11, abs=1e-300)


@settings(deadline=None)
@example(Mechanism(sigma=math.exp(-1.5), q=1.0), 38.0)
@example(Mechanism(sigma=0.025, q=1.0), 800.0)
@example(Mechanism(sigma=0.025, q=0.9), 800.0)
@example(Mechanism(sigma=0.2, q=1 - 2**-53), 36.5)
@example(Mechanism(sigma=0.2, q=1 - 2**-53), 53 * math.log(2))
@given(mechanisms, st.floats(0, 40) | st.floats(0, 1e-3))
def test_each_direction_equals_the_textbook(mechanism: Mechanism, epsilon: float) -> None:
    removed, added = naive_directions(mechanism, epsilon)
    assert math.exp(log_delta_remove(mechanism, epsilon)) == pytest.approx(float(removed), rel=2e-11, abs=1e-300)
    # Where exp(-epsilon) is all but 1 - q, adding the user has hardly any weight, and few digits of it.
    assert math.exp(log_delta_add(mechanism, epsilon)) == pytest.approx(float(added), rel=2e-11, abs=1e-14)


def test_delta_equals_the_integral_over_all_outcomes() -> None:
    for mechanism, epsilon in ((Mechanism(), 1.0), (Mechanism(q=0.9, sigma=0.7), 0.5), (Mechanism(q=1.0), 2.0)):
        q, mu = mechanism.q, 1 / mechanism.sigma

        def excess(z: mpmath.mpf, q: float = q, mu: float = mu, epsilon: float = epsilon) -> mpmath.mpf:
            without, within = mpmath.npdf(z), (1 - q) * mpmath.npdf(z) + q * mpmath.npdf(z, mu)
            return max(within - math.exp(epsilon) * without, mpmath.mpf(0))

        kinks = mpmath.linspace(-12, 16, 113)
        assert one_round_delta(mechanism, epsilon) == pytest.approx(float(mpmath.quad(excess, kinks)), rel=1e-4)


@settings(deadline=None)
@example(Mechanism(sigma=math.exp(3.5), q=0.00012340980408667956, delta=math.exp(-20.0)))
@given(mechanisms)
def test_epsilon_solves_for_delta_everywhere(mechanism: Mechanism) -> None:
    epsilon = one_round_epsilon(mechanism)
    if epsilon == 0:
        assert naive_delta(mechanism, 0) <= mechanism.delta * (1 + 1e-12)
    else:
        # An epsilon right to 1e-11 of itself: just below it delta is too large, just above it small enough.
        assert naive_delta(mechanism, epsilon * (1 - 1e-11)) > mechanism.delta * (1 - 1e-13)
        assert naive_delta(mechanism, epsilon * (1 + 1e-11)) < mechanism.delta * (1 + 1e-13)


def test_reference_figures() -> None:
    assert one_round_epsilon(Mechanism()) == pytest.approx(1.6845438, abs=5e-8)
    assert one_round_epsilon(Mechanism(sigma=1.1088)) == pytest.approx(1.3346819, abs=5e-8)


def test_without_sampling_it_is_the_gaussian_mechanism() -> None:
    def upper(z: float) -> float:
        return math.erfc(z / math.sqrt(2)) / 2

    for sigma in (0.5, 1.0, 4.0):
        epsilon = one_round_epsilon(Mechanism(sigma=sigma, q=1.0))
        z, mu = epsilon * sigma + 1 / (2 * sigma), 1 / sigma
        assert upper(z - mu) - math.exp(epsilon) * upper(z) == pytest.approx(1e-5, rel=1e-9)


def test_both_directions_count() -> None:
    # Adding the user weighs as much as removing it at epsilon 0, and nothing once epsilon exceeds -log(1 - q).
    mechanism = Mechanism(q=0.4)
    assert log_delta_add(mechanism, 0.0) == pytest.approx(log_delta_remove(mechanism, 0.0))
    assert log_delta_add(mechanism, -math.log1p(-0.4)) == -math.inf
    assert log_delta_add(mechanism, 0.3) < log_delta_remove(mechanism, 0.3)


def test_delta_that_covers_all_needs_no_epsilon() -> None:
    assert one_round_epsilon(Mechanism(sigma=50, q=1e-4, delta=0.1)) == 0.0


def test_extreme_noise_levels_do_not_overflow() -> None:
    assert one_round_epsilon(Mechanism(sigma=1e-3, q=1.0)) == pytest.approx(5e5, rel=0.02)
    assert 0 < one_round_epsilon(Mechanism(sigma=1e4, q=1.0, delta=1e-12)) < 1e-3


@pytest.mark.parametrize("epsilon", [-0.1, float("inf"), float("nan")])
def test_refuses_what_is_no_epsilon(epsilon: float) -> None:
    with pytest.raises(InputError, match="finite and not negative"):
        one_round_delta(Mechanism(), epsilon)
