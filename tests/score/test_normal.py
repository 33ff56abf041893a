"""Normal scores: exactly N(0, 1) without the canary, and never above a shifted normal with it."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri
from scipy.stats import kstest, norm

from canarybank.errors import InputError
from canarybank.score import normal_scores

FEW = np.array([0.9, 0.4, -0.3, 1.0, 0.9])


def enumerated(x, weights, q, noise):
    """Return P(X <= x) and P(X > x) by all subsets of users, one after the other."""
    below = above = 0.0
    for coins in itertools.product([0, 1], repeat=len(weights)):
        chance = np.prod([q if coin else 1 - q for coin in coins])
        below += chance * norm.cdf(x, np.dot(coins, weights), noise)
        above += chance * norm.sf(x, np.dot(coins, weights), noise)
    return below, above


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_a_normal_score_is_the_quantile_of_all_outcomes_of_the_coins(q, noise):
    places = np.array([-9.0, -2.0, 0.1, 0.8, 1.7, 3.0, 10.0])
    found = normal_scores(places[None], FEW[:, None], q, noise)[0]
    for x, z in zip(places, found, strict=True):
        below, above = enumerated(x, FEW, q, noise)
        naive = ndtri(below) if below < above else -ndtri(above)
        assert z == pytest.approx(naive, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("shift", [0.3, 1.0, 2.5])
def test_with_the_canary_no_score_is_more_often_large_than_that_of_a_perfect_one(q, shift):
    # Exact: x is increasing in z, so P(z > t | in) = P(X > x(t) - s), and both are known at every x.
    noise, places = 0.7, np.linspace(-6, 10, 161)
    z = normal_scores(places[None], FEW[:, None], q, noise)[0]
    assert (np.diff(z) > 0).all()
    power = np.array([enumerated(x - shift, FEW, q, noise)[1] for x in places])
    most = ndtr(shift / noise - z)
    assert (power <= most * (1 + 1e-9)).all()
    if q == 1:
        assert power == pytest.approx(most, rel=1e-9)
    else:
        assert (power < most - 0.01).any()


@pytest.mark.parametrize(("q", "users"), [(0.5, 40), (0.1, 222), (1.0, 40)])
def test_drawn_scores_are_normal_without_the_canary_and_below_a_shifted_normal_with_it(q, users):
    rng, canaries, runs, shift, noise = np.random.default_rng(0), 12, 4000, 1.0, 1.0
    votes = rng.random((users, canaries)) * (rng.random((users, canaries)) < 0.2)
    coins = rng.random((runs, users)) < q
    x = (coins @ votes + noise * rng.standard_normal((runs, canaries))).T
    out = normal_scores(x, csr_array(votes), q, noise)
    inside = normal_scores(x + shift, votes, q, np.full(canaries, noise))
    # Seeds are fixed; were they not, one of 12 canaries would fail with a chance of 1e-4.
    assert min(kstest(row, "norm").pvalue for row in out) > 1e-5
    assert min(kstest(row, norm(shift).cdf, alternative="less").pvalue for row in inside) > 1e-5
    if q < 1:  # the raw scores, whitened by the noise alone as without a population, are not normal
        assert max(kstest(row / noise, "norm").pvalue for row in x) < 1e-5
        assert inside.mean() < shift


def test_a_score_without_background_keeps_its_value_and_at_q_1_the_background_is_taken_off():
    scores = np.array([[-80.0, 0.3, 2e5]])
    assert np.array_equal(normal_scores(scores, csr_array((7, 1)), 0.3, 2.0), scores / 2)
    assert np.array_equal(normal_scores(scores, [[1.0], [0.5]], 1.0, 2.0), (scores - 1.5) / 2)
    assert np.array_equal(normal_scores(scores, np.empty((0, 1)), 0.5, 2.0), scores / 2)


def test_scores_stay_finite_and_in_order_where_no_tail_is_computed():
    places = np.concatenate([np.linspace(-60, 60, 2401), [1e4]])
    z = normal_scores(places[None], [[0.3], [0.2], [-0.2]], 0.3, 1.0)[0]
    assert np.isfinite(z).all()
    assert (np.diff(z) >= -0.02).all()  # at the seam itself, beyond 37 deviations
    assert (np.abs(z - places) <= 0.5).all()
    assert z[-1] == pytest.approx(1e4 - 0.5)


def test_a_law_that_cannot_be_resolved_is_refused():
    with pytest.raises(InputError, match="so little noise"):
        normal_scores([5.0], np.linspace(1, 2, 40)[:, None], 0.5, 1e-9)


@pytest.mark.parametrize("canaries", [2, 4])
def test_a_background_of_other_canaries_is_refused(canaries):
    with pytest.raises(InputError, match="a column for each canary"):
        normal_scores(np.zeros(3), np.zeros((5, canaries)), 0.5, 1.0)
