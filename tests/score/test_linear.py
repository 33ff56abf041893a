import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.score import LinearScore, Moments, mixture, unmix

Q = st.floats(1e-6, 1.0)


def some_moments(rng: np.random.Generator, r: int) -> Moments:
    root = rng.normal(size=(r, r))
    return Moments(rng.normal(size=r), root @ root.T + np.eye(r))


@pytest.mark.parametrize("seed", range(5))
def test_the_score_is_equation_three(seed: int) -> None:
    rng = np.random.default_rng(seed)
    moments, canary, releases = some_moments(rng, 4), rng.normal(size=4), rng.normal(size=(7, 4))
    score = LinearScore(canary, moments)
    inverse = np.linalg.inv(moments.covariance)
    for release, llr in zip(releases, score.llr(releases), strict=True):
        assert llr == pytest.approx(canary @ inverse @ (release - moments.mean - canary / 2), rel=1e-9)
        assert float(score.llr(release)) == pytest.approx(llr, rel=1e-12)
    assert score.mu_eff == pytest.approx(np.sqrt(canary @ inverse @ canary), rel=1e-10)


def test_the_score_is_the_logarithm_of_the_densities_ratio() -> None:
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(9)
    moments, canary = some_moments(rng, 3), rng.normal(size=3)
    release = rng.normal(size=3)
    included = multivariate_normal(moments.mean + canary, moments.covariance).logpdf(release)
    absent = multivariate_normal(moments.mean, moments.covariance).logpdf(release)
    assert float(LinearScore(canary, moments).llr(release)) == pytest.approx(included - absent, rel=1e-10)


def test_projection_adds_up_to_the_score() -> None:
    rng = np.random.default_rng(2)
    score = LinearScore(rng.normal(size=3), some_moments(rng, 3))
    users = rng.normal(size=(6, 3)) * (rng.random((6, 3)) < 0.5)
    numbers = score.project(users)
    assert np.allclose(score.project(csr_array(users)), numbers)
    assert float(score.llr(users.sum(axis=0))) == pytest.approx(numbers.sum() - score.offset, rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sigma=st.floats(0.2, 5.0),
    clip=st.floats(0.01, 2.0),
    q=st.floats(0.01, 1.0),
    r=st.integers(1, 6),
)
def test_mu_eff_never_exceeds_one_over_sigma(seed: int, sigma: float, clip: float, q: float, r: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.abs(rng.normal(size=(8, r)))
    rows *= clip * rng.random((8, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    canary = np.abs(rng.normal(size=r))
    canary *= clip / np.linalg.norm(canary)
    mechanism = Mechanism(clip=clip, sigma=sigma, q=q)
    score = LinearScore(canary, Moments.estimate(rows, mechanism, 20))
    assert score.mu_eff <= (1 + 1e-12) / sigma


def test_a_canary_that_casts_no_vote_scores_nothing() -> None:
    score = LinearScore(np.zeros(2), Moments(np.ones(2), np.eye(2)))
    assert score.mu_eff == 0.0
    assert score.offset == 0.0
    assert (score.llr(np.ones((3, 2))) == 0.0).all()


def test_bad_scores_are_refused() -> None:
    moments = Moments(np.zeros(2), np.eye(2))
    with pytest.raises(InputError, match="restrict both"):
        LinearScore(np.ones(3), moments)
    with pytest.raises(InputError, match="NaN"):
        LinearScore(np.array([1.0, np.nan]), moments)
    with pytest.raises(InputError, match="positive definite"):
        _ = LinearScore(np.ones(2), Moments(np.zeros(2), -np.eye(2))).weights
    score = LinearScore(np.ones(2), moments)
    with pytest.raises(InputError, match="do not end in"):
        score.llr(np.ones((2, 3)))
    with pytest.raises(InputError, match="not a table"):
        score.project(np.ones((2, 3)))


@given(llr=st.floats(-30, 30), q=Q)
def test_mixture_is_the_papers_where_that_can_be_computed(llr: float, q: float) -> None:
    assert float(mixture(llr, q)) == pytest.approx(np.log((1 - q) + q * np.exp(llr)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_mixture_holds_at_the_ends(q: float) -> None:
    with np.errstate(divide="ignore"):
        floor = np.log1p(-q)
    assert float(mixture(-np.inf, q)) == floor
    assert float(mixture(np.inf, q)) == np.inf
    assert float(mixture(1e6, q)) == pytest.approx(1e6 + np.log(q))
    assert float(mixture(0.0, q)) == pytest.approx(0.0, abs=1e-15)
    assert (unmix([floor, floor - 1.0, floor - 1e5, -np.inf], q) == -np.inf).all()
    assert float(unmix(np.inf, q)) == np.inf


@given(llr=st.floats(-8, 800), q=st.floats(0.01, 1.0))
def test_unmix_inverts(llr: float, q: float) -> None:
    assert float(unmix(mixture(llr, q), q)) == pytest.approx(llr, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("q", [0.0, -0.1, 1.1, float("nan")])
def test_a_q_that_is_no_probability_is_refused(q: float) -> None:
    for function in (mixture, unmix):
        with pytest.raises(InputError, match=r"\(0, 1\]"):
            function(0.0, q)
