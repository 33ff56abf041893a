import math
import os

import numpy as np
import pytest
from scipy import stats

from canarybank.evolve import SystemEntropy, round_randomness, snapped
from canarybank.seeds import stream


def test_system_values_have_their_laws() -> None:
    # Nothing here can be seeded, so each threshold is set for a false alarm once in 1e9 runs.
    entropy = SystemEntropy()
    assert stats.kstest(entropy.random(200_000), "uniform").pvalue > 1e-9
    assert stats.kstest(entropy.standard_normal(200_000), "norm").pvalue > 1e-9


def test_system_gaussians_are_independent_of_their_neighbours() -> None:
    values = SystemEntropy().standard_normal(100_000)
    assert stats.pearsonr(values[1:], values[:-1]).pvalue > 1e-9
    assert stats.pearsonr(np.abs(values[1:]), np.abs(values[:-1])).pvalue > 1e-9


def test_no_two_draws_are_alike() -> None:
    assert not np.array_equal(SystemEntropy().standard_normal(8), SystemEntropy().standard_normal(8))
    assert isinstance(round_randomness(0), SystemEntropy)


@pytest.mark.parametrize(("word", "expected"), [(0, -9.1553), (1, 9.1553), (2**64 - 1, 0.0), (2**63, -0.6745)])
def test_extreme_words_give_finite_gaussians(monkeypatch: pytest.MonkeyPatch, word: int, expected: float) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: word.to_bytes(8, "little") * (count // 8))
    value = SystemEntropy().standard_normal(1)[0]
    assert value == pytest.approx(expected, abs=1e-3)


def test_uniform_values_stay_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"\xff" * count)
    assert SystemEntropy().random(1)[0] == 1 - 2.0**-53


def test_a_release_never_touches_a_seeded_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or real(count))
    entropy = SystemEntropy()
    entropy.random(10)
    entropy.standard_normal(20)
    assert asked == [80, 160]


def test_an_insecure_seed_repeats_each_round_and_separates_rounds() -> None:
    first = round_randomness(0, 5).standard_normal(4)
    assert np.array_equal(first, round_randomness(0, 5).standard_normal(4))
    assert np.array_equal(first, stream(5, "evolve", "release", 0).standard_normal(4))
    assert not np.array_equal(first, round_randomness(1, 5).standard_normal(4))
    assert not np.array_equal(first, round_randomness(0, 6).standard_normal(4))


@pytest.mark.parametrize("noise", [0.1, 1.0, 3e-5, 7e4])
def test_snapping_rounds_to_a_power_of_two_far_below_the_noise(noise: float) -> None:
    values = np.random.default_rng(1).normal(0, noise, 1000)
    rounded = snapped(values, noise)
    step = 2.0 ** math.floor(math.log2(noise / 4096))
    assert noise / 8192 < step <= noise / 4096
    assert np.array_equal(rounded / step, np.rint(rounded / step))
    assert np.abs(rounded - values).max() <= step / 2
    assert np.array_equal(snapped(rounded, noise), rounded)


def test_snapping_hides_differences_in_the_lowest_bits() -> None:
    values = np.random.default_rng(2).normal(0, 0.1, 1000)
    assert np.array_equal(snapped(values, 0.1), snapped(np.nextafter(values, 1.0), 0.1))


def test_snapping_leaves_no_signed_zero() -> None:
    assert not np.signbit(snapped(np.array([-1e-9]), 0.1))[0]
