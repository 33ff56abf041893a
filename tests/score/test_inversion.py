from collections.abc import Callable
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from canarybank.score import inversion
from canarybank.score.cumulants import NoisySum
from canarybank.score.inversion import Tilt

Truth = Callable[..., mp.mpf]
WEIGHTS = (0.3, -0.8, 1.1, 0.6)


@pytest.fixture
def law() -> NoisySum:
    return NoisySum.of(WEIGHTS, 0.3, 1.0)


@pytest.fixture
def truths(enumerated: Truth) -> dict[float, mp.mpf]:
    return {t: enumerated([(w, 1) for w in WEIGHTS], 0.3, 1.0, t) for t in (0.0, 0.7, 2.0, 5.0, 9.0)}


def contained(tilt: Tilt, truths: dict[float, mp.mpf]) -> bool:
    lower, upper = tilt.upper_tail(np.array(list(truths)))
    return all(mp.mpf(a) <= p <= mp.mpf(b) for a, b, p in zip(lower, upper, truths.values(), strict=True))


@pytest.mark.parametrize("h", [0.05, 0.5, 1.0, 3.0, 8.0])
def test_every_tilt_is_right_for_every_threshold(law: NoisySum, truths: dict[float, mp.mpf], h: float) -> None:
    assert contained(Tilt.build(law, h, 0.0, 5.0, 5.0), truths)


@pytest.mark.parametrize("factor", [2.0, 4.0, 6.0, 9.0])
def test_aliases_of_a_step_too_wide_are_inside(law: NoisySum, truths: dict[float, mp.mpf], factor: float) -> None:
    tilt = Tilt.build(law, 1.0, 0.0, 5.0, 3.0)
    coarse = replace(tilt, step=float(np.float32(factor * tilt.step)))
    assert contained(coarse, truths)


def test_without_the_alias_term_a_wide_step_would_be_wrong(
    law: NoisySum, truths: dict[float, mp.mpf], monkeypatch: pytest.MonkeyPatch
) -> None:
    tilt = Tilt.build(law, 1.0, 0.0, 5.0, 3.0)
    monkeypatch.setattr(Tilt, "_aliases", lambda *_: 0.0)
    assert not contained(replace(tilt, step=float(np.float32(6.0 * tilt.step))), truths)


@pytest.mark.parametrize("digits", [0.5, 2.0, 6.0, 15.0])
def test_the_truncated_rest_is_inside(
    law: NoisySum, truths: dict[float, mp.mpf], digits: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tilt = Tilt.build(law, 1.0, 0.0, 5.0, 3.0)
    monkeypatch.setattr(inversion, "DIGITS", digits)
    assert contained(replace(tilt), truths)
    monkeypatch.setattr(inversion, "exp1", lambda _: 0.0)
    assert not contained(replace(tilt), truths)


def finite_sum(law: NoisySum, tilt: Tilt, threshold: float) -> mp.mpf:
    """The very sum that the tilt adds up, at 60 digits."""
    with mp.workdps(60):
        h, q, s = mp.mpf(tilt.h), mp.mpf(law.q), mp.mpf(law.noise)
        total = mp.mpf(0)
        for k, frequency in enumerate(tilt._frequencies):
            w = mp.mpf(float(frequency))
            phi = mp.exp(-((s * w) ** 2) / 2) * mp.expj(w * (h * s * s - mp.mpf(float(threshold))))
            for weight in law.weights:
                a = mp.mpf(float(weight))
                phi *= (1 - q + q * mp.exp(h * a) * mp.expj(w * a)) / (1 - q + q * mp.exp(h * a))
            total += mp.re(phi / mp.mpc(h, w)) / (2 if k == 0 else 1)
        return total * mp.mpf(tilt.step) / mp.pi


@pytest.mark.parametrize("threshold", [0.7, 1e6, 1e10])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_the_rounding_of_the_sum_is_inside(scale: float, threshold: float) -> None:
    law = NoisySum.of(scale * np.array(WEIGHTS), 0.3, 1.0)
    tilt = Tilt.build(law, 1.0 / scale, 0.0, 5.0 * scale, 3.0 / scale)
    value, error = tilt._sum(np.array([threshold]))
    actual = abs(mp.mpf(float(value[0])) - finite_sum(law, tilt, threshold))
    assert 0 < actual <= error[0]
    # Idle bounds would pass too; these are within a factor of what rounding does in the worst case.
    assert error[0] < 1e-12 * (1.0 + 1e-2 * threshold)


def test_a_thousand_users_cost_few_digits(enumerated: Truth) -> None:
    law = NoisySum.of(np.repeat([0.05, -0.02], [900, 4]), 0.1, 1.0)
    tilt = Tilt.build(law, 2.0, law.mean, law.mean + 6.0, 4.0)
    thresholds = law.mean + np.array([0.0, 4.0])
    lower, upper = tilt.upper_tail(thresholds)
    for i, t in enumerate(thresholds):
        truth = enumerated([(0.05, 900), (-0.02, 4)], 0.1, 1.0, t)
        assert mp.mpf(lower[i]) <= truth <= mp.mpf(upper[i])
        assert upper[i] - lower[i] < 1e-9 * truth


def test_panels_and_direct_sums_agree(law: NoisySum) -> None:
    tilt = Tilt.build(law, 1.0, 0.0, 5.0, 3.0)
    thresholds = np.random.default_rng(0).uniform(-1.0, 6.0, 3000)
    many, error = tilt._sum(thresholds)
    few = tilt._direct(thresholds - tilt._lag)
    assert (np.abs(many - few) <= 2.0 * error).all()
    assert error.max() < 1e-11
    assert not (many == few).all()


def test_a_tilt_that_needs_too_many_frequencies_says_so() -> None:
    law = NoisySum.of([1e9, 2e9], 0.5, 1.0)
    tilt = Tilt.build(law, 1e-9, law.mean, 3e9, 1e-9)
    assert not tilt.resolved
    lower, upper = tilt.upper_tail(np.array([1.6e9, 1e12]))
    assert (lower == 0.0).all()
    assert upper[0] == 1.0
    assert 0.0 < upper[1] < 1e-100
