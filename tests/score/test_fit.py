"""A score learnt from releases alone: what it finds, what it keeps, and how it is chosen by size."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.score import LinearScore, Moments
from canarybank.score.fit import shrunk_correlation, widened


def separation(score, shift, covariance):
    """Return by how many true standard deviations the score's mean moves: no sampling, so no luck."""
    noise = score.weights @ covariance @ score.weights
    return float(score.weights @ shift / math.sqrt(noise)) if noise > 0.0 else math.inf


def best(shift, covariance):
    return math.sqrt(float(shift @ np.linalg.solve(covariance, shift)))


def gaussian(rng, runs, shift, covariance):
    root = np.linalg.cholesky(covariance)
    absent = rng.normal(size=(runs, len(shift))) @ root.T
    return absent, rng.normal(size=(runs, len(shift))) @ root.T + shift


def held_out_error(score, absent, eligible):
    """Return the share of held-out runs on the wrong side of 0."""
    return 0.5 * (np.mean(score.llr(absent) > 0.0) + np.mean(score.llr(eligible) <= 0.0))


@pytest.mark.parametrize(
    ("coordinates", "runs", "share"), [(5, 400, 0.95), (5, 100, 0.85), (30, 40, 0.45), (100, 30, 0.22)]
)
def test_an_honest_system_loses_little_and_never_shows_more_than_there_is(coordinates, runs, share):
    shift = np.zeros(coordinates)
    shift[:2] = math.sqrt(0.5)
    covariance = np.eye(coordinates)
    found = [
        separation(LinearScore.fit(*gaussian(np.random.default_rng(seed), runs, shift, covariance)), shift, covariance)
        for seed in range(20)
    ]
    # The mean of 20 is above the stated share by more than six of its standard errors at every one of these sizes.
    assert share < np.mean(found)
    assert max(found) <= best(shift, covariance) * (1 + 1e-9)


@pytest.mark.parametrize("runs", [3, 10, 200])
@pytest.mark.parametrize("covariance", ["auto", "full"])
def test_one_scalar_of_noise_for_all_coordinates_is_seen_through(runs, covariance):
    rng = np.random.default_rng(runs)
    shift = np.array([0.3, 0.1, 0.0, 0.0, 0.0])
    draw = lambda: 5.0 * rng.normal(size=(runs, 1)) + np.arange(5.0)  # noqa: E731
    score = LinearScore.fit(draw(), draw() + shift, covariance=covariance)
    assert separation(score, shift, 25.0 * np.ones((5, 5))) > 1e4
    assert held_out_error(score, draw(), draw() + shift) == 0.0
    # What is found is the part of the shift that the shared noise leaves alone.
    assert score.weights / np.linalg.norm(score.weights) == pytest.approx(
        (shift - shift.mean()) / np.linalg.norm(shift - shift.mean()), abs=1e-6
    )


def test_a_score_designed_for_separate_noise_is_blind_to_shared_noise():
    shift = np.array([0.3, 0.1, 0.0, 0.0, 0.0])
    designed = LinearScore(shift, Moments(np.zeros(5), 25.0 * np.eye(5)))
    assert separation(designed, shift, 25.0 * np.ones((5, 5))) == pytest.approx(0.05)


def test_noise_shared_by_rounds_leaves_their_difference_bare():
    # Two rounds of three coordinates with the very same noise; the canary's probes stand elsewhere in the second.
    rng = np.random.default_rng(2)
    shift = np.array([0.2, 0.0, 0.0, 0.0, 0.2, 0.0])
    draw = lambda: np.tile(rng.normal(size=(60, 3)), 2)  # noqa: E731
    score = LinearScore.fit(draw(), draw() + shift)
    assert held_out_error(score, draw(), draw() + shift) == 0.0
    assert score.weights[:3] == pytest.approx(-score.weights[3:], rel=1e-4, abs=1e-4 * abs(score.weights).max())
    one_round = LinearScore.fit(draw()[:, :3], (draw() + shift)[:, :3])
    assert held_out_error(one_round, draw()[:, :3], (draw() + shift)[:, :3]) > 0.3


def test_noise_that_rounds_share_in_part_is_used_without_being_singular():
    rng = np.random.default_rng(3)
    shift = np.array([0.5, 0.0, 0.0, 0.5])
    covariance = np.kron(np.array([[1.0, 0.99], [0.99, 1.0]]), np.eye(2))
    score = LinearScore.fit(*gaussian(rng, 300, shift, covariance))
    assert separation(score, shift, covariance) > 0.95 * best(shift, covariance)
    alone = LinearScore.fit(*gaussian(rng, 300, shift, covariance), covariance="diagonal")
    assert separation(score, shift, covariance) > 4.0 * separation(alone, shift, covariance)


def test_a_sample_of_fixed_size_is_seen_as_a_negative_covariance():
    # 50 of 100 users vote, each for one of three texts; the canary votes for the first, and takes somebody's place.
    rng = np.random.default_rng(4)
    votes = np.eye(3)[rng.integers(0, 3, 100)]

    def play(runs, users):
        chosen = np.argsort(rng.random((runs, len(users))), axis=1)[:, :50]
        return users[chosen].sum(axis=1) + 0.5 * rng.normal(size=(runs, 3))

    canary = np.array([[4.0, 0.0, 0.0]])  # heavier than others, so that the total says who took part
    fitting, judging = [(play(n, votes), play(n, np.vstack([votes, canary]))) for n in (500, 20_000)]
    full, alone = (LinearScore.fit(*fitting, covariance=form) for form in ("full", "diagonal"))
    off = full.moments.covariance[~np.eye(3, dtype=bool)]
    assert (off < 0.0).all()
    power = {
        name: np.mean(score.llr(judging[1]) > np.quantile(score.llr(judging[0]), 0.99))
        for name, score in (("full", full), ("diagonal", alone))
    }
    assert power["full"] > 3.0 * power["diagonal"]


def test_more_coordinates_than_runs_are_no_reason_to_see_a_direction_without_noise():
    # Residuals of 18 degrees of freedom leave 82 of 100 directions empty: an accident of size, not a leak.
    rng = np.random.default_rng(5)
    absent, eligible = rng.normal(size=(10, 100)), rng.normal(size=(10, 100))
    for form in ("auto", "full"):
        score = LinearScore.fit(absent, eligible, covariance=form)
        assert score.mu_eff < 10.0
        assert held_out_error(score, rng.normal(size=(500, 100)), rng.normal(size=(500, 100))) > 0.4


def test_a_coordinate_without_noise_is_found_even_among_more_coordinates_than_runs():
    rng = np.random.default_rng(6)
    shift = np.zeros(100)
    shift[7] = 1e-3

    def play(runs):
        table = rng.normal(size=(runs, 100))
        table[:, 7] = 4.0
        return table

    score = LinearScore.fit(play(10), play(10) + shift)
    assert held_out_error(score, play(500), play(500) + shift) == 0.0


@pytest.mark.parametrize("canary", [0.0, 1.0])
def test_a_system_without_any_noise(canary):
    absent, eligible = np.ones((5, 3)), np.ones((5, 3)) + np.array([canary, 0.0, 0.0])
    for form in ("auto", "full", "diagonal", "scalar"):
        score = LinearScore.fit(absent, eligible, covariance=form)
        assert (score.mu_eff > 1e4) == (canary > 0.0)
        assert (score.llr(eligible)[0] > score.llr(absent)[0]) == (canary > 0.0)


@pytest.mark.parametrize(
    ("coordinates", "runs", "form"),
    [(4, 5, "full"), (4, 4, "scalar"), (30, 40, "full"), (30, 12, "diagonal"), (30, 9, "scalar")],
)
def test_the_form_is_chosen_by_the_degrees_of_freedom(coordinates, runs, form):
    rng = np.random.default_rng(7)
    tables = (rng.normal(size=(2, runs, coordinates)) + rng.normal(size=(2, runs, 1))) * np.arange(1, coordinates + 1)
    chosen, named = LinearScore.fit(*tables), LinearScore.fit(*tables, covariance=form)
    assert np.array_equal(chosen.moments.covariance, named.moments.covariance)
    others = {"full", "diagonal", "scalar"} - {form}
    for other in others:
        assert not np.array_equal(
            chosen.moments.covariance, LinearScore.fit(*tables, covariance=other).moments.covariance
        )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), runs=st.integers(4, 40), coordinates=st.integers(1, 8), singular=st.booleans())
def test_what_a_fit_keeps(seed, runs, coordinates, singular):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(2, runs, 1)) if singular else 0.0
    own = 0.0 if singular else rng.normal(size=(2, runs, coordinates))
    absent, eligible = shared + own + np.zeros((2, runs, coordinates))
    eligible = eligible + rng.normal(size=coordinates)
    score, tries = LinearScore.fit(absent, eligible), rng.normal(size=(6, coordinates))
    truth = score.llr(tries)
    close = {"rel": 1e-3, "abs": 1e-3 * (1.0 + np.abs(truth).max())}

    order = rng.permutation(coordinates)
    assert LinearScore.fit(absent[:, order], eligible[:, order]).llr(tries[:, order]) == pytest.approx(truth, **close)
    rows = rng.permutation(runs)
    assert LinearScore.fit(absent[rows], eligible[rows]).llr(tries) == pytest.approx(truth, **close)
    move = rng.normal(size=coordinates)
    assert LinearScore.fit(absent + move, eligible + move).llr(tries + move) == pytest.approx(truth, **close)
    unit = 2.0 ** rng.integers(-20, 20)
    assert LinearScore.fit(absent * unit, eligible * unit).llr(tries * unit) == pytest.approx(truth, **close)
    assert LinearScore.fit(eligible, absent).llr(tries) == pytest.approx(-truth, **close)
    # The boundary lies in the middle of the two means.
    middle = 0.5 * (absent.mean(axis=0) + eligible.mean(axis=0))
    assert float(score.llr(middle)) == pytest.approx(0.0, abs=1e-3 * (1.0 + score.mu_eff**2))


def test_units_of_single_coordinates_do_not_matter_but_for_the_scalar_form():
    rng = np.random.default_rng(8)
    absent, eligible = rng.normal(size=(2, 50, 4))
    eligible = eligible + np.array([1.0, 0.5, 0.0, 0.0])
    units, tries = np.array([1e-4, 1.0, 3.0, 1e5]), rng.normal(size=(5, 4))
    for form, keeps in (("full", True), ("diagonal", True), ("scalar", False)):
        plain = LinearScore.fit(absent, eligible, covariance=form).llr(tries)
        scaled = LinearScore.fit(absent * units, eligible * units, covariance=form).llr(tries * units)
        assert np.allclose(plain, scaled, rtol=1e-6) == keeps


@pytest.mark.parametrize("seed", range(3))
def test_the_shrunk_correlation_is_its_naive_twin(seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(9, 3)) @ rng.normal(size=(3, 3))
    table -= table.mean(axis=0)
    freedom = 8
    table /= np.sqrt((table**2).sum(axis=0) / freedom)
    variance = squares = 0.0
    plain = np.eye(3)
    for i in range(3):
        for j in range(3):
            if i != j:
                products = [row[i] * row[j] for row in table]
                mean = sum(products) / len(products)
                plain[i, j] = sum(products) / freedom
                variance += sum((p - mean) ** 2 for p in products) / freedom**2
                squares += plain[i, j] ** 2
    share = min(1.0, variance / squares)
    twin = [[plain[i, j] * (1.0 if i == j else 1.0 - share) for j in range(3)] for i in range(3)]
    assert shrunk_correlation(table, freedom) == pytest.approx(np.array(twin), rel=1e-12)


def test_shrinkage_vanishes_with_runs_where_there_is_correlation_and_is_whole_where_there_is_none():
    rng = np.random.default_rng(9)
    root = np.linalg.cholesky(np.full((4, 4), 0.6) + 0.4 * np.eye(4))
    linked = rng.normal(size=(20_000, 4)) @ root.T
    matrix = LinearScore.fit(linked[::2], linked[1::2], covariance="full").moments.covariance
    assert matrix == pytest.approx(root @ root.T, abs=0.05)
    alone = rng.normal(size=(60, 30))
    small = LinearScore.fit(alone[::2], alone[1::2], covariance="full").moments.covariance
    correlation = small / np.sqrt(np.outer(small.diagonal(), small.diagonal()))
    assert np.abs(correlation[~np.eye(30, dtype=bool)]).max() < 0.1


@pytest.mark.parametrize(
    ("absent", "eligible", "says"),
    [
        (np.zeros((1, 2)), np.zeros((5, 2)), "at least two runs"),
        (np.zeros((5, 2)), np.zeros((5, 3)), "2 coordinates and the eligible ones 3"),
        (np.zeros(5), np.zeros((5, 3)), "shape"),
        (np.zeros((5, 0)), np.zeros((5, 0)), "at least one coordinate"),
        (np.full((5, 2), np.nan), np.zeros((5, 2)), "leave lost runs out"),
    ],
)
def test_tables_that_cannot_be_learnt_from_are_refused(absent, eligible, says):
    with pytest.raises(InputError, match=says):
        LinearScore.fit(absent, eligible)


def test_an_unknown_form_is_refused():
    with pytest.raises(InputError, match="auto, full, diagonal, scalar"):
        LinearScore.fit(np.zeros((3, 1)), np.ones((3, 1)), covariance="sparse")


def shared_by_rounds(planted, runs, rng, *, shared=True):
    """Return three rounds of four coordinates, noise shared by the rounds or not, a canary that takes part by coins."""
    noise = rng.normal(size=(runs, 1 if shared else 3, 4))
    coins = planted * (rng.random((runs, 3, 1)) < 0.1)
    return (noise + coins * np.array([1.0, 0.0, 0.0, 0.0]) + rng.normal(0.0, 0.02, (runs, 3, 4))).reshape(runs, -1)


def test_coins_that_widen_a_difference_without_moving_its_mean_are_seen():
    rng = np.random.default_rng(4)
    score = LinearScore.fit(shared_by_rounds(0, 200, rng), shared_by_rounds(1, 200, rng))
    absent, eligible = (score.llr(shared_by_rounds(planted, 20_000, rng)) for planted in (0, 1))
    assert (eligible > np.quantile(absent, 0.9999)).mean() > 0.08
    mean_only = LinearScore.fit(shared_by_rounds(0, 200, rng), shared_by_rounds(1, 200, rng), covariance="full")
    blind = [mean_only.llr(shared_by_rounds(planted, 20_000, rng)) for planted in (0, 1)]
    assert (blind[1] > np.quantile(blind[0], 0.9999)).mean() < 0.05


def test_chance_widens_no_direction_so_far():
    rng = np.random.default_rng(5)
    for runs, coordinates in ((50, 12), (100, 30), (1000, 60), (300, 2)):
        for _ in range(20):
            tables = rng.normal(size=(2, runs, coordinates)) @ rng.normal(size=(coordinates, coordinates))
            assert widened(*tables) is None
    fresh = [shared_by_rounds(planted, 400, rng, shared=False) for planted in (0, 1)]
    assert widened(*fresh) is None


def test_the_widened_direction_knows_no_units_and_has_a_side():
    rng = np.random.default_rng(6)
    units = np.geomspace(1e-3, 1e3, 12)
    absent, eligible = (shared_by_rounds(planted, 300, rng) for planted in (0, 1))
    found, rescaled = widened(absent, eligible), widened(absent * units, eligible * units)
    assert np.allclose(found / np.linalg.norm(found), rescaled * units / np.linalg.norm(rescaled * units), atol=1e-6)
    tail = (eligible - absent.mean(axis=0)) @ found
    assert (tail**3).sum() > 0
