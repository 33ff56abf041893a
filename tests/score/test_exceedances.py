from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, kstest, norm

from canarybank.errors import InputError
from canarybank.score import exceedances, tail
from canarybank.score.cumulants import NoisySum
from canarybank.score.exceedances import Exceedances, chernoff_cut

CHANCE = 1e-6


def law_of(seed, users=40, q=0.1, spread=0.3, noise=1.0):
    weights = np.random.default_rng(seed).normal(0.05, spread, users)
    return weights, NoisySum.of(weights, q, noise)


def literal(weights, q, noise, size, rng):
    """Draw every trial in full: the twin."""
    return (rng.random((size, len(weights))) < q) @ weights + noise * rng.standard_normal(size)


@pytest.mark.parametrize("q", [1e-3, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("deviations", [-1.0, 0.5, 2.0, 3.5, 5.0])
def test_the_number_above_a_cut_has_its_exact_law(q, seed, deviations):
    # 60 exact binomial tests at 1e-6 each: a false alarm in fewer than 1 of 10,000 runs, if the seed were not fixed.
    weights, law = law_of(seed, q=q)
    cut = float(np.ldexp(law.mean + deviations * law.deviation, law.exponent))
    size = 2_000_000 if deviations > 3 else 20_000
    found = Exceedances.above(law, cut).draw(size, np.random.default_rng(seed))
    assert (found > cut).all()
    lower, upper = tail(weights, q, 1.0, cut)
    assert binomtest(len(found), size, (float(lower) + float(upper)) / 2).pvalue > CHANCE


@pytest.mark.parametrize("noise", [0.003, 1.0, 700.0])
def test_scores_above_a_cut_have_their_exact_law(noise):
    # The chance of a score above x, given one above the cut, is the ratio of two tails. 3 tests at 1e-6.
    weights, law = law_of(5, spread=0.3 * noise, noise=noise)
    cut = float(np.ldexp(law.mean + 2.5 * law.deviation, law.exponent))
    scores = Exceedances.above(law, cut).draw(3_000_000, np.random.default_rng(8))
    base = float(tail(weights, 0.1, noise, cut)[0])
    assert kstest(scores, lambda x: 1 - tail(weights, 0.1, noise, x)[0] / base).pvalue > CHANCE


def test_full_trials_agree():
    # Counts above three cuts, and the mean above each, against the twin's: 6 tests at about 1e-6.
    weights, law = law_of(11)
    full = literal(weights, 0.1, 1.0, 400_000, np.random.default_rng(3))
    for place, cut in enumerate((1.0, 2.0, 3.0)):
        ours, theirs = Exceedances.above(law, cut).draw(400_000, np.random.default_rng(place)), full[full > cut]
        assert abs(len(ours) - len(theirs)) < 5 * np.sqrt(len(ours) + len(theirs))
        error = np.hypot(ours.std() / np.sqrt(len(ours)), theirs.std() / np.sqrt(len(theirs)))
        assert abs(ours.mean() - theirs.mean()) < 5 * error


@pytest.mark.parametrize("times", [0.0, 0.3, 0.9, 1.2])
def test_any_tilt_gives_the_same_law(times):
    weights, law = law_of(2)
    best = Exceedances.above(law, 2.5)
    other = replace(best, h=times * best.h)
    assert other.survival >= best.survival
    found = other.draw(300_000, np.random.default_rng(4))
    assert binomtest(len(found), 300_000, float(tail(weights, 0.1, 1.0, 2.5)[0])).pvalue > CHANCE


def test_the_best_tilt_draws_hardly_more_than_it_keeps():
    _, law = law_of(2)
    for deviations in (2.0, 4.0, 6.0):
        cut = law.mean + deviations * law.deviation
        best = Exceedances.above(law, float(np.ldexp(cut, law.exponent)))
        assert best.survival < 15 * norm.sf(deviations) * np.exp(0.2 * deviations**2)
        assert best.survival <= min(replace(best, h=h).survival for h in (0.8 * best.h, 1.2 * best.h))


def test_users_of_one_weight_are_drawn_together_by_the_same_law():
    weights = np.repeat([0.11, -0.07, 0.4], [500, 90, 3])
    law = NoisySum.of(weights, 0.1, 1.0)
    cut = float(np.ldexp(law.mean + 2 * law.deviation, law.exponent))
    found = Exceedances.above(law, cut).draw(200_000, np.random.default_rng(1))
    assert binomtest(len(found), 200_000, float(tail(weights, 0.1, 1.0, cut)[0])).pvalue > CHANCE


@pytest.mark.parametrize("coins", [1, 120, 2_000, 1 << 18])
def test_tilted_coins_are_those_of_a_plain_loop_to_the_bit_in_any_blocks(coins, monkeypatch):
    monkeypatch.setattr(exceedances, "_COINS", coins)
    weights, law = law_of(3)
    drawn = replace(Exceedances.above(law, 2.0), h=0.7)
    tossed = np.random.default_rng(5).random((200, len(law.weights)))
    heads = law.q * np.exp(0.7 * law.weights) / (1 - law.q + law.q * np.exp(0.7 * law.weights))
    plain = np.array([np.where(row < heads, law.weights, 0.0).sum() for row in tossed])
    assert len(law.weights) == len(weights)
    assert np.array_equal(drawn._tilted_sums(200, np.random.default_rng(5)), plain)


def test_nothing_lies_above_infinity_and_everything_above_its_negative():
    _, law = law_of(0)
    rng = np.random.default_rng(0)
    assert len(Exceedances.above(law, np.inf).draw(1_000, rng)) == 0
    assert len(Exceedances.above(law, -np.inf).draw(1_000, rng)) == 1_000
    with pytest.raises(InputError, match="NaN"):
        Exceedances.above(law, np.nan)


def test_a_cut_within_rounding_of_the_mean_is_drawn():
    _, law = law_of(6, users=300)
    mean = float(np.ldexp(law.mean, law.exponent))
    for step in range(-60, 61):
        found = Exceedances.above(law, mean + step * 1e-16).draw(20, np.random.default_rng(0))
        assert len(found) <= 20


@pytest.mark.parametrize("cut", [1e5, 1e155, 1e300])
def test_a_cut_beyond_everybody_is_exceeded_by_nobody(cut):
    _, law = law_of(6)
    found = Exceedances.above(law, cut)
    assert found.survival == 0.0
    assert len(found.draw(10**6, np.random.default_rng(0))) == 0


@pytest.mark.parametrize("q", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("scale", [1e-9, 1e3, 1e9, 1e13, 1e16])
def test_weights_of_any_size_have_their_law(scale, q):
    # With weights far larger than the noise the tail is that of the coins alone: 15 tests at 1e-6.
    weights = scale * np.array([1.0, -2.0, 3.0])
    law = NoisySum.of(weights, q, 1.0)
    found = Exceedances.above(law, 0.5 * scale).draw(20_000, np.random.default_rng(2))
    patterns = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    chances = np.where(patterns == 1, q, 1 - q).prod(axis=1)
    truth = float(chances @ norm.sf(0.5 * scale - patterns @ weights))
    assert binomtest(len(found), 20_000, min(1.0, truth)).pvalue > CHANCE


def test_a_fault_of_the_exact_tails_is_not_one_of_the_trials(monkeypatch):
    weights, law = law_of(4)
    cut = float(np.ldexp(law.mean + 3 * law.deviation, law.exponent))
    truth = float(tail(weights, 0.1, 1.0, cut)[0])
    right = NoisySum.cumulant
    monkeypatch.setattr(NoisySum, "cumulant", lambda self, h: right(self, h) + 0.2)
    wrong = float(tail(weights, 0.1, 1.0, cut)[0])
    found = len(Exceedances.above(law, cut).draw(2_000_000, np.random.default_rng(3)))
    assert binomtest(found, 2_000_000, truth).pvalue > CHANCE
    assert binomtest(found, 2_000_000, wrong).pvalue < CHANCE


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-6, 0.99), st.floats(1e-3, 1.0), st.floats(1e-3, 1e3))
def test_no_more_than_its_share_lies_above_the_cut_of_chernoff(seed, share, q, noise):
    weights, law = law_of(seed, q=q, spread=0.2 * noise, noise=noise)
    cut = chernoff_cut(law, share)
    assert float(tail(weights, q, noise, cut)[0]) <= share
    assert Exceedances.above(law, cut).survival == pytest.approx(share, rel=1e-3)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        chernoff_cut(law_of(0)[1], share)


def test_weights_that_drown_the_noise_have_no_cut():
    with pytest.raises(InputError, match="draw all trials"):
        chernoff_cut(NoisySum.of([1e200], 0.1, 1.0), 0.5)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e7, 1e9])
def test_no_more_is_drawn_where_the_noise_is_small_against_the_weights(scale):
    """The tilt is then many orders of magnitude below what the noise alone allows."""
    weights = np.abs(np.random.default_rng(0).normal(size=200))
    law = NoisySum.of(scale * weights, q=0.1, noise=1.0)
    assert Exceedances.above(law, chernoff_cut(law, 1e-4)).survival == pytest.approx(1e-4, rel=1e-3)
    far = Exceedances.above(law, scale * (0.1 * weights.sum() + 4 * np.sqrt(0.09 * np.square(weights).sum())))
    assert 1e-3 < far.survival < 1e-2
