from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.score import Bounds, both_tails, tail
from canarybank.score.tails import complement

Truth = Callable[..., mp.mpf]
HAIR = mp.mpf(10) ** -50


def assert_inside(bounds: Bounds, truths: list[mp.mpf]) -> None:
    for lower, upper, truth in zip(bounds.lower, bounds.upper, truths, strict=True):
        assert 0.0 <= lower <= upper <= 1.0
        assert mp.mpf(lower) <= truth * (1 + HAIR)
        assert truth <= mp.mpf(upper) * (1 + HAIR)


def random_case(seed: int) -> tuple[np.ndarray, np.ndarray, float, float, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 6))
    weights = rng.normal(size=size) * 10 ** rng.uniform(-3, 1.5)
    if rng.random() < 0.3:
        weights = weights * 10 ** rng.uniform(-2, 1, size=size)
    counts = rng.integers(1, 4, size)
    q = float(rng.choice([1e-6, 0.01, 0.1, 0.5, 0.9, 1 - 1e-9, 1.0]))
    noise = 10 ** rng.uniform(-1, 1)
    mean = q * float(weights @ counts)
    deviation = np.sqrt(q * (1 - q) * float(counts @ weights**2) + noise**2)
    steps = np.concatenate((rng.normal(size=2) * 2, rng.uniform(-9, 9, 2)))
    thresholds = np.append(mean + deviation * steps, mean + noise * rng.uniform(-39, 39))
    return weights, counts, q, noise, thresholds


@pytest.mark.parametrize("few", [0, 256])
@pytest.mark.parametrize("seed", range(40))
def test_both_tails_contain_the_truth(seed: int, few: int, enumerated: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    # With few = 0 the coins are never enumerated: everything goes through the inversion.
    monkeypatch.setattr("canarybank.score.tails.FEW_OUTCOMES", few)
    monkeypatch.setattr("canarybank.score.tails.MANY_OUTCOMES", few)
    weights, counts, q, noise, thresholds = random_case(seed)
    above, below = both_tails(np.repeat(weights, counts), q, noise, thresholds)
    assert_inside(above, [enumerated(zip(weights, counts, strict=True), q, noise, t) for t in thresholds])
    assert_inside(below, [enumerated(zip(-weights, counts, strict=True), q, noise, -t) for t in thresholds])


@pytest.mark.parametrize("counts", [(1000,), (400, 7), (40, 12, 5)])
def test_many_users_with_few_weights_are_tight(counts: tuple[int, ...], enumerated: Truth) -> None:
    weights = np.array([0.12, -0.4, 0.9])[: len(counts)]
    users = np.repeat(weights, counts)
    mean, deviation = 0.1 * users.sum(), np.sqrt(0.09 * (users**2).sum() + 1.0)
    thresholds = mean + deviation * np.array([0.0, 1.0, 4.0, 6.9])
    bounds = tail(users, 0.1, 1.0, thresholds)
    truths = [enumerated(zip(weights, counts, strict=True), 0.1, 1.0, t) for t in thresholds]
    assert_inside(bounds, truths)
    assert ((bounds.upper - bounds.lower) / np.array([float(p) for p in truths])).max() < 1e-9


@pytest.mark.parametrize("seed", range(2))
def test_many_users_with_all_weights_distinct_are_tight(seed: int, inverted: Truth) -> None:
    rng = np.random.default_rng(seed)
    users = rng.gamma(0.4, size=120) * rng.choice([0.5, -0.2], size=120)
    mean, deviation = 0.1 * users.sum(), np.sqrt(0.09 * (users**2).sum() + 1.0)
    thresholds = mean + deviation * np.array([-2.0, 0.3, 7.2])
    bounds = tail(users, 0.1, 1.0, thresholds)
    truths = [inverted([(w, 1) for w in users], 0.1, 1.0, t) for t in thresholds]
    assert_inside(bounds, truths)
    assert 1e-14 < float(truths[-1]) < 1e-9
    assert ((bounds.upper - bounds.lower) / bounds.lower).max() < 1e-9


def test_a_tail_of_1e_12_is_known_to_a_billionth_with_thousands_of_users() -> None:
    rng = np.random.default_rng(3)
    users = rng.gamma(0.5, size=5_000) * 0.05
    mean, deviation = 0.1 * users.sum(), np.sqrt(0.09 * (users**2).sum() + 1.0)
    lower, upper = tail(users, 0.1, 1.0, mean + 7.2 * deviation)
    assert 1e-13 < lower < 1e-11
    assert upper - lower < 1e-8 * lower


def test_nobody_gives_the_gaussian() -> None:
    z = np.array([-40.0, -9.0, -1.0, 0.0, 2.0, 8.0, 30.0, 37.2, 40.0, 1e9, 1e308])
    above, below = both_tails([], 0.1, 2.5, 2.5 * z[:-1])
    with mp.workdps(500):
        truths = [mp.erfc(mp.mpf(float(2.5 * x)) / mp.mpf(2.5) / mp.sqrt(2)) / 2 for x in z[:-1]]
        assert_inside(above, truths)
        assert_inside(below, [1 - p for p in truths])
    resolved = np.abs(z[:-1]) < 37.0
    assert ((above.upper - above.lower)[resolved] / above.upper[resolved]).max() < 1e-11


def test_the_shape_of_the_thresholds_is_kept() -> None:
    users = np.random.default_rng(0).normal(size=30)
    grid = np.linspace(-3, 3, 12).reshape(3, 4)
    lower, upper = tail(users, 0.2, 1.0, grid)
    assert lower.shape == upper.shape == (3, 4)
    single = tail(users, 0.2, 1.0, float(grid[1, 2]))
    assert single.lower.shape == ()
    assert single.lower == pytest.approx(lower[1, 2], rel=1e-9)
    assert tail(users, 0.2, 1.0, []).lower.shape == (0,)


def test_the_ends_of_the_line_are_certain() -> None:
    for users in ([], [1.0, 2.0], np.random.default_rng(0).normal(size=40)):
        above, below = both_tails(users, 0.2, 1.0, [-np.inf, np.inf])
        assert (above.lower == above.upper).all()
        assert (above.lower == [1.0, 0.0]).all()
        assert (below.lower == below.upper).all()
        assert (below.lower == [0.0, 1.0]).all()


def test_far_out_only_the_upper_end_is_positive() -> None:
    users = np.random.default_rng(0).normal(size=40)
    lower, upper = tail(users, 0.2, 1.0, [60.0, 1e4, 1e308])
    assert (lower == 0.0).all()
    assert (upper > 0.0).all()
    assert (upper < 1e-200).all()


def test_the_ends_fall_with_the_threshold_and_mirror_each_other() -> None:
    users = np.random.default_rng(1).normal(size=60) * 0.3
    thresholds = np.linspace(-12, 12, 2001)
    above, _ = both_tails(users, 0.1, 1.0, thresholds)
    assert (above.lower[1:] <= above.upper[:-1]).all()
    _, below = both_tails(-users, 0.1, 1.0, -thresholds)
    assert (np.maximum(above.lower, below.lower) <= np.minimum(above.upper, below.upper)).all()


def test_scaling_everything_by_a_power_of_two_changes_nothing() -> None:
    users = np.random.default_rng(4).normal(size=50) * 0.3
    thresholds = np.linspace(-3, 5, 9)
    for scale in (2.0**-900, 2.0**-3, 2.0**800):
        for one, other in zip(
            tail(users, 0.1, 1.0, thresholds), tail(scale * users, 0.1, scale, scale * thresholds), strict=True
        ):
            assert (one == other).all()


def test_noise_far_below_the_weights_gives_wide_ends_never_wrong_ones() -> None:
    users = np.array([2.0**i for i in range(20)])
    thresholds = np.array([-5.0, 3.5, 2.0**19 - 0.5, 2.0**20, 1e9])
    lower, upper = tail(users, 0.5, 1e-7, thresholds)
    # The binary digits make the sum uniform on 0 .. 2^20 - 1.
    truth = np.array([1.0, 1.0 - 4.0 / 2**20, 0.5, 0.0, 0.0])
    assert (lower <= truth + 1e-15).all()
    assert (truth <= upper).all()
    few = tail(users[:12], 0.5, 1e-7, 2.0**11 - 0.5)
    assert few.lower == pytest.approx(0.5, rel=1e-9)
    assert few.upper == pytest.approx(0.5, rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(
    magnitude=st.sampled_from([-320, -150, -5, 0, 2, 10, 150, 307]),
    exponent=st.sampled_from([-323, -300, -5, 0, 5, 300, 308]),
    q=st.sampled_from([1e-300, 1e-12, 0.1, 0.5, 1 - 2.0**-53, 1.0]),
    size=st.sampled_from([0, 1, 3, 15, 40]),
    threshold=st.floats(allow_nan=False),
    seed=st.integers(0, 1000),
)
def test_no_input_gives_anything_but_probabilities(
    magnitude: int, exponent: int, q: float, size: int, threshold: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    users = rng.uniform(-1.0, 1.0, size) * 10.0**magnitude
    noise = 10.0**exponent
    for bounds in both_tails(users, q, noise, [threshold, 0.0, noise, -noise, 1.7e308, -1.7e308]):
        assert np.isfinite(bounds.lower).all()
        assert np.isfinite(bounds.upper).all()
        assert (bounds.lower >= 0.0).all()
        assert (bounds.lower <= bounds.upper).all()
        assert (bounds.upper <= 1.0).all()


def test_a_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        tail([1.0], 0.1, 1.0, [0.0, np.nan])


def test_trials_agree() -> None:
    # 200,000 trials; a five-sigma band has a false alarm in fewer than 1 of 1e6 runs, and the seed is fixed.
    rng = np.random.default_rng(7)
    users = rng.gamma(0.5, size=50) * 0.4
    sums = (rng.random((200_000, 50)) < 0.1) @ users + rng.normal(size=200_000)
    for t in (-0.5, 1.0, 3.0):
        lower, upper = tail(users, 0.1, 1.0, t)
        assert abs((sums > t).mean() - lower) < 5.0 * np.sqrt(upper * (1 - lower) / 200_000)


def test_complements_are_rounded_outwards() -> None:
    rest = complement(Bounds(np.array([0.0, 1e-300, 0.25]), np.array([0.0, 1e-290, 0.25])))
    assert rest.lower[0] == rest.upper[0] == 1.0
    assert rest.lower[1] < 1.0 == rest.upper[1]
    assert rest.lower[2] < 0.75 < rest.upper[2]


def test_a_handful_of_users_at_many_thresholds_is_not_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    # Eight users have 256 outcomes: added up at every end of a lattice's cells they would take minutes.
    users, thresholds = np.random.default_rng(2).gamma(0.4, size=8) * 0.2, np.linspace(-3, 6, 50)
    inverted = tail(users, 0.1, 0.6, thresholds)
    monkeypatch.setattr("canarybank.score.tails.FEW_OUTCOMES", 256)
    enumerated = tail(users, 0.1, 0.6, thresholds)
    assert (np.maximum(inverted.lower, enumerated.lower) <= np.minimum(inverted.upper, enumerated.upper)).all()
    assert ((inverted.upper - inverted.lower) / inverted.upper).max() < 1e-9
    monkeypatch.setattr("canarybank.score.tails.FEW_OUTCOMES", 4)
    monkeypatch.setattr("canarybank.score.tails.enumerated_tail", None)
    assert (tail(users, 0.1, 0.6, thresholds).lower == inverted.lower).all()
