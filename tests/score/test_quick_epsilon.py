"""Tie the fast point value of a law's epsilon to the certified one."""

from dataclasses import replace

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.score import RoundLaw, quick_epsilon, supremum

MECHANISM = Mechanism()


def law(mu: float, weights: object, q: float = 0.1) -> RoundLaw:
    return RoundLaw(np.asarray(weights, dtype=np.float64), mu, mu * mu, 0.5 * mu * mu, q)


@pytest.mark.parametrize(
    ("mu", "count", "scale", "q", "delta"),
    [
        (1.0, 0, 0.0, 0.1, 1e-5),
        (0.9, 40, 0.14, 0.1, 1e-5),
        (1.0, 300, 0.14, 0.1, 1e-5),
        (1.0, 8, 1.0, 0.1, 1e-5),
        (1.0, 20, -0.5, 0.1, 1e-5),
        (0.3, 100, 0.05, 0.1, 1e-5),
        (2.0, 30, 0.3, 0.5, 1e-6),
        (0.7, 10, 0.2, 1.0, 1e-3),
        (0.05, 0, 0.0, 0.1, 1e-5),
    ],
)
def test_the_quick_value_is_the_certified_one_to_six_digits(mu, count, scale, q, delta):
    given = law(mu, scale * 2 * np.random.default_rng(0).random(count), q)
    exact = supremum(given, delta)
    assert quick_epsilon(given, delta) == pytest.approx(exact.point, abs=1e-6)


def test_a_perfect_attack_spends_the_mechanism_s_epsilon():
    assert quick_epsilon(RoundLaw.perfect(MECHANISM), MECHANISM.delta) == pytest.approx(1.6845438, abs=1e-6)


def test_a_law_that_tells_nothing_has_none():
    assert quick_epsilon(replace(law(1.0, [0.1]), shift=0.0), 1e-5) == 0.0
    assert quick_epsilon(RoundLaw(np.empty(0), 0.0, 0.0, 1.0, 0.1), 1e-5) == 0.0
    with pytest.raises(InputError, match="delta must"):
        quick_epsilon(law(1.0, []), 1.0)


def test_repeating_a_law_s_users_is_writing_them_down_again():
    once = law(1.0, [0.1, 0.2, 0.3])
    assert once.repeated(7).weights.tolist() == [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1]
    assert once.repeated(2).weights.tolist() == [0.1, 0.2]
    assert quick_epsilon(once.repeated(7), 1e-5) == pytest.approx(supremum(once.repeated(7), 1e-5).point, abs=1e-6)
