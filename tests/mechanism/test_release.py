"""Each statistical test states how often a correct release would fail it; seeds are fixed."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, contributions, release
from canarybank.mechanism import release as release_function

QUIET = Mechanism(clip=1.0, sigma=1e-9, q=0.3)


class Silence:
    """A generator without noise in whose draws everyone takes part."""

    def standard_normal(self, out: NDArray[np.float64]) -> None:
        out[...] = 0

    def random(self, size: Any) -> NDArray[np.float64]:
        return np.zeros(size)


def within(observed: float, law: Any, alarm: float) -> bool:
    """Say whether an observation lies between the outer quantiles of its law, ``alarm`` in all outside."""
    return bool(law.ppf(alarm / 2) <= observed <= law.isf(alarm / 2))


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_noise_has_the_stated_deviation_and_is_centred() -> None:
    # False alarm 2e-6: a chi-square and a normal interval at 1e-6 each.
    drawn = release(np.ones((3, 500)), Mechanism(clip=0.1, sigma=2.0, q=1.0), rng(1), 400) - 3
    assert within(np.square(drawn / 0.2).sum(), stats.chi2(drawn.size), 1e-6)
    assert within(drawn.sum() / 0.2, stats.norm(0, np.sqrt(drawn.size)), 1e-6)


def test_noise_is_normal_and_uncorrelated() -> None:
    # False alarm below 3e-6: one Kolmogorov-Smirnov test and two sums of products, at 1e-6 each.
    drawn = release(np.zeros((1, 60)), Mechanism(clip=1.0, sigma=1.0), rng(2), 500)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-6
    for one, other in ((drawn[:, 1:], drawn[:, :-1]), (drawn[1:], drawn[:-1])):
        # Each product has variance 1, and there are thousands: the sum is normal to far beyond this accuracy.
        assert within((one * other).sum(), stats.norm(0, np.sqrt(one.size)), 1e-6)


def test_each_user_takes_part_with_probability_q_independently() -> None:
    # False alarm below 3e-6: exact binomial intervals at 1e-6 for singles, pairs of users, pairs of rows.
    taking_part = np.round(release(np.eye(50), QUIET, rng(3), 20_000))
    assert set(np.unique(taking_part)) == {0, 1}
    assert within(taking_part.sum(), stats.binom(taking_part.size, 0.3), 1e-6)
    users = taking_part[:, 0::2] * taking_part[:, 1::2]
    assert within(users.sum(), stats.binom(users.size, 0.09), 1e-6)
    rows = taking_part[0::2] * taking_part[1::2]
    assert within(rows.sum(), stats.binom(rows.size, 0.09), 1e-6)


def test_every_single_user_has_the_same_rate() -> None:
    # False alarm 1e-5: fifty binomial intervals at 2e-7 each.
    rates = np.round(release(csr_array(np.eye(50)), QUIET, rng(4), 2000)).sum(axis=0)
    assert all(within(count, stats.binom(2000, 0.3), 2e-7) for count in rates)


def test_participation_and_noise_are_independent() -> None:
    # False alarm 1e-6: given participation, the sum of the noise over those rows is normal.
    mechanism = Mechanism(clip=1.0, sigma=1.0, q=0.5)
    drawn = release(np.array([[100.0, 0.0]]), mechanism, rng(5), 20_000)
    present = drawn[:, 0] > 50
    assert within(drawn[present, 1].sum(), stats.norm(0, np.sqrt(present.sum())), 1e-6)


def test_q_one_leaves_nobody_out() -> None:
    quiet = Mechanism(clip=1.0, sigma=1e-9, q=1.0)
    assert np.allclose(release(np.eye(20), quiet, rng(6), 100), 1.0, atol=1e-6)


def test_sparse_and_dense_contributions_give_the_same_releases() -> None:
    dense = rng(7).random((30, 12)) * (rng(8).random((30, 12)) < 0.3)
    one, other = (release(table, Mechanism(), rng(9), 50) for table in (dense, csr_array(dense)))
    assert np.allclose(one, other, rtol=0, atol=1e-12)


def test_chunks_keep_the_law_and_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    # False alarm 1e-6: an exact binomial interval over rows of many chunks.
    monkeypatch.setitem(release_function.__globals__, "CHUNK_VALUES", 130)
    drawn = np.round(release(np.eye(50), QUIET, rng(10), 1001))
    assert drawn.shape == (1001, 50)
    assert within(drawn.sum(), stats.binom(drawn.size, 0.3), 1e-6)
    assert len(np.unique(drawn, axis=0)) == 1001


def test_memory_beyond_the_result_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(release_function.__globals__, "CHUNK_VALUES", 1 << 15)
    table = csr_array(np.eye(100, 400))
    tracemalloc.start()
    result = release(table, Mechanism(), rng(11), 5000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - result.nbytes < 8 * 8 * (1 << 15)


@settings(deadline=None)
@given(st.integers(2, 15), st.integers(1, 30), st.floats(0.01, 1.0), st.integers(0, 2**32 - 1))
def test_one_user_moves_the_noiseless_release_by_at_most_clip(users: int, records: int, clip: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    routes, owners = draw.integers(0, 20, (users * records, 1)), np.repeat(np.arange(users), records)
    mechanism, silence = Mechanism(k=1, clip=clip), Silence()
    everyone = contributions(routes, owners, users, 20, clip)
    kept = owners < users - 1
    others = contributions(routes[kept], owners[kept], users - 1, 20, clip)
    moved = release(everyone, mechanism, silence) - release(others, mechanism, silence)  # type: ignore[arg-type]
    # Adding up some dozen numbers below one in float64 may itself err by 1e-14.
    assert np.linalg.norm(moved) <= clip + 1e-14


def test_the_same_stream_gives_the_same_releases() -> None:
    table = np.eye(5)
    assert np.array_equal(release(table, Mechanism(), rng(12), 7), release(table, Mechanism(), rng(12), 7))
    assert not np.array_equal(release(table, Mechanism(), rng(12), 7), release(table, Mechanism(), rng(13), 7))


def test_no_releases_are_an_empty_table() -> None:
    assert release(np.eye(5), Mechanism(), rng(14), 0).shape == (0, 5)


@pytest.mark.parametrize(
    ("table", "size", "words"),
    [
        (np.ones(3), 1, r"shape \(3,\)"),
        (np.ones((0, 3)), 1, "non-empty table"),
        (csr_array((3, 0)), 1, "non-empty table"),
        (np.array([[np.nan]]), 1, "NaN or infinite"),
        (csr_array(np.array([[np.inf]])), 1, "NaN or infinite"),
        (np.ones((2, 2)), -1, "must not be negative, but is -1"),
    ],
)
def test_refuses_what_cannot_be_released(table: Any, size: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        release(table, Mechanism(), rng(15), size)
