import numpy as np
import pytest
from scipy.stats import norm

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.score import LinearScore, Moments, RoundLaw, tail


def test_a_perfect_canary_has_the_papers_gaussian_laws() -> None:
    law = RoundLaw.perfect(Mechanism(sigma=1.25, q=0.2))
    d = 0.8
    llr = np.linspace(-3, 5, 9)
    assert np.allclose(law.absent(llr).lower, norm.sf((llr + d * d / 2) / d), rtol=1e-12)
    assert np.allclose(law.included(llr).upper, norm.sf((llr - d * d / 2) / d), rtol=1e-12)
    rates = law.rates(llr)
    assert np.allclose(rates.tpr.lower, 0.8 * law.absent(llr).lower + 0.2 * law.included(llr).lower, rtol=1e-12)
    assert np.allclose(rates.tnr.lower, norm.cdf((llr + d * d / 2) / d), rtol=1e-12)
    assert np.allclose(rates.fnr.upper, 1.0 - rates.tpr.lower, rtol=1e-10)


def test_the_figures_of_the_best_threshold_hold() -> None:
    law = RoundLaw.perfect(Mechanism())
    assert float(law.absent(3.139).lower) == pytest.approx(1.37e-4, rel=3e-3)
    assert float(law.absent(3.804).lower) == pytest.approx(8.37e-6, rel=3e-3)


def test_the_law_of_a_score_is_that_of_its_trials() -> None:
    # Three rates by 200,000 trials each; five-sigma bands have a false alarm in fewer than 1 of 1e5 runs; fixed seed.
    rng = np.random.default_rng(11)
    mechanism = Mechanism(clip=0.5, sigma=0.8, q=0.3)
    users = rng.random((25, 3)) * (rng.random((25, 3)) < 0.5)
    users *= 0.5 / np.maximum(np.linalg.norm(users, axis=1, keepdims=True), 0.5)
    canary = np.array([0.3, 0.4, 0.0])
    score = LinearScore(canary, Moments.estimate(users, mechanism, 25))
    law = RoundLaw.of(score, users, canary, mechanism)
    n = 200_000
    background = (rng.random((n, 25)) < mechanism.q) @ users + rng.normal(0.0, mechanism.noise, (n, 3))
    coin = rng.random((n, 1)) < mechanism.q
    for contribution, survival in ((0.0 * canary, law.absent), (canary, law.included), (coin * canary, law.eligible)):
        for llr in (-1.0, 0.5, 2.0):
            share = (score.llr(background + contribution) > llr).mean()
            lower, upper = survival(llr)
            assert abs(share - lower) < 5.0 * np.sqrt(upper * (1.0 - lower) / n)


def test_absent_is_the_tail_at_the_offset() -> None:
    weights = np.random.default_rng(0).normal(size=30) * 0.2
    law = RoundLaw(weights, 0.7, 0.5, 0.25, 0.1)
    for one, other in zip(law.absent([0.1, 2.0]), tail(weights, 0.1, 0.7, [0.35, 2.25]), strict=True):
        assert (one == other).all()
    fpr, tpr = law.point(1.0)
    assert law.absent(1.0).lower <= fpr <= law.absent(1.0).upper
    assert law.eligible(1.0).lower <= tpr <= law.eligible(1.0).upper


@pytest.mark.parametrize("mass", [1e-3, 1e-9, 1e-15])
def test_outside_of_its_reach_a_score_hardly_falls(mass: float) -> None:
    weights = np.random.default_rng(0).gamma(0.3, size=40)
    for law in (RoundLaw(weights, 0.7, 0.5, 0.25, 0.1), RoundLaw.perfect(Mechanism())):
        low, high = law.reach(mass)
        assert law.included(high).upper <= mass
        assert law.rates(low).tnr.upper <= mass
        assert law.rates(low).fnr.upper <= mass


def test_a_score_without_weights_is_silent() -> None:
    law = RoundLaw.of(
        LinearScore(np.zeros(2), Moments(np.ones(2), np.eye(2))), np.ones((4, 2)), np.zeros(2), Mechanism()
    )
    assert law.silent
    assert law.blind
    assert (law.absent([-1.0, 0.0, 1.0]).lower == [1.0, 0.0, 0.0]).all()
    assert (law.rates([-1.0, 1.0]).fnr.upper == [0.0, 1.0]).all()
    assert law.reach(1e-5) == (-1.0, 1.0)


def test_bad_laws_are_refused() -> None:
    with pytest.raises(InputError, match="positive finite"):
        RoundLaw(np.ones(1), 0.0, 0.0, 0.0, 0.1)
    with pytest.raises(InputError, match="positive finite"):
        RoundLaw(np.zeros(1), 0.0, 1.0, 0.0, 0.1)
    with pytest.raises(InputError, match="must be finite"):
        RoundLaw(np.ones(1), 1.0, np.nan, 0.0, 0.1)
    score = LinearScore(np.ones(2), Moments(np.zeros(2), np.eye(2)))
    with pytest.raises(InputError, match="restrict it"):
        RoundLaw.of(score, np.ones((1, 2)), np.ones(3), Mechanism())
