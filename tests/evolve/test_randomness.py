import math
import os
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from canarybank.evolve import SystemEntropy, snapped


def test_system_values_have_their_laws() -> None:
    # Nothing here can be seeded, so each threshold is set for a false alarm once in 1e9 runs.
    entropy = SystemEntropy()
    for q in (0.1, 0.5, 0.999):
        assert stats.binomtest(int(entropy.coins(q, 200_000).sum()), 200_000, q).pvalue > 1e-9
    assert stats.kstest(entropy.standard_normal(200_000), "norm").pvalue > 1e-9


def test_system_gaussians_are_independent_of_their_neighbours() -> None:
    values = SystemEntropy().standard_normal(100_000)
    assert stats.pearsonr(values[1:], values[:-1]).pvalue > 1e-9
    assert stats.pearsonr(np.abs(values[1:]), np.abs(values[:-1])).pvalue > 1e-9


def test_no_two_draws_are_alike() -> None:
    assert not np.array_equal(SystemEntropy().standard_normal(8), SystemEntropy().standard_normal(8))


@pytest.mark.parametrize(("word", "expected"), [(0, -9.1553), (1, 9.1553), (2**64 - 1, 0.0), (2**63, -0.6745)])
def test_extreme_words_give_finite_gaussians(monkeypatch: pytest.MonkeyPatch, word: int, expected: float) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: word.to_bytes(8, "little") * (count // 8))
    value = SystemEntropy().standard_normal(1)[0]
    assert value == pytest.approx(expected, abs=1e-3)


def scripted(monkeypatch: pytest.MonkeyPatch, *words: int) -> list[int]:
    """Let the operating system give these 64-bit words, and return a list that fills with how many were asked for."""
    left, asked = list(words), []

    def urandom(count: int) -> bytes:
        asked.append(count // 8)
        return b"".join(left.pop(0).to_bytes(8, "little") for _ in range(count // 8))

    monkeypatch.setattr(os, "urandom", urandom)
    return asked


@pytest.mark.parametrize("q", [0.1, 0.3, 2.0**-11, 1 - 2.0**-53, 0.5])
def test_a_coin_of_64_bits_is_exactly_q(monkeypatch: pytest.MonkeyPatch, q: float) -> None:
    # The float q is a multiple of 2^-64 here, so exactly q·2^64 of the 2^64 words must give True.
    edge = Fraction(q) * 2**64
    assert edge.denominator == 1
    scripted(monkeypatch, 0, int(edge) - 1, int(edge), 2**64 - 1)
    assert SystemEntropy().coins(q, 4).tolist() == [True, True, False, False]


def test_a_coin_with_further_bits_draws_them_only_where_they_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    # q = 2^-64 + 2^-66: the first word decides unless it is 1; then 1/4 of the second words give True.
    q, quarter = 2.0**-64 + 2.0**-66, 2**62
    asked = scripted(monkeypatch, 0, 1, 1, 2, quarter - 1, quarter)
    assert SystemEntropy().coins(q, 4).tolist() == [True, True, False, False]
    assert asked == [4, 2]


def test_a_sure_coin_is_sure() -> None:
    assert SystemEntropy().coins(1.0, 5).all()


def test_a_release_never_touches_a_seeded_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or real(count))
    entropy = SystemEntropy()
    entropy.coins(0.3, 10)
    entropy.standard_normal(20)
    assert asked == [80, 160]


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
