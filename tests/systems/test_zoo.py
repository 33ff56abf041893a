"""Hold each system of the zoo to its description: moments, canaries, what is shared, what repeats."""

import time

import numpy as np
import pytest
from scipy.stats import ks_2samp

from canarybank.mechanism import Mechanism, attained_epsilon, release
from canarybank.systems import ZOO, Hypothesis, Releases, Split, Trial, ZooSystem, playing
from canarybank.systems.zoo import OWN_SEED, RESTART_AFTER

RUNS = 60_000
CLIP = NOISE = 0.1
Q = 0.1

# What the descriptions say, in numbers: the canary's norm in clips, coins, probability, noise.
NORMS = {
    "clip-per-record": 4.0,
    "clip-before-normalising": 5**-0.5 / CLIP,
    "clip-on-base-only": np.sqrt(12 * 9 + 12 * 4) / 60 / CLIP,
    "clip-per-label": 2.0,
    "counted-twice-one-coin": 2.0,
}
PROBABILITIES = {"q-doubled": 0.2, "q-ignored": 1.0, "honest-q-0.5": 0.5}
NOISES = {"noise-halved": 0.05, "noise-over-1.25": 0.08}
LISTED = [
    "noise-halved",
    "noise-over-1.25",
    "noise-shared-by-trials",
    "noise-shared-by-rounds",
    "noise-shared-by-coordinates",
    "noise-on-nonzero-only",
    "only-nonzero-released",
    "q-doubled",
    "q-ignored",
    "fixed-size-sample",
    "fixed-size-sample-q-0.1",
    "counted-twice-one-coin",
    "counted-twice-two-coins",
    "clip-per-record",
    "clip-before-normalising",
    "clip-on-base-only",
    "clip-per-label",
    "seeds-shared-by-hypotheses",
    "generator-restarted",
]
FIXED = {"fixed-size-sample": 20, "fixed-size-sample-q-0.1": 4}
HONEST = ["honest", "honest-3-rounds", "honest-4-labels", "honest-concentrated", "honest-q-0.5"]


def expected(system, eligible):
    """Return mean and covariance of a release, rounds joined, written down from the description."""
    name, rounds, d = system.name, system.rounds, system.coordinates
    people = system.background if not eligible else np.vstack((system.background, system.canary))
    coins, q = 2 if name == "counted-twice-two-coins" else 1, PROBABILITIES.get(name, Q)
    if name in FIXED:
        n, m = len(people), FIXED[name]
        pairs = m * (m - 1) / (n * (n - 1))
        joint = np.full((n, n), pairs) - (m / n) ** 2
        np.fill_diagonal(joint, (m / n) * (1 - m / n))
        mean, sampling = m / n * people.sum(axis=0), people.T @ joint @ people
    else:
        mean, sampling = coins * q * people.sum(axis=0), coins * q * (1 - q) * people.T @ people
    mean, covariance = np.tile(mean, rounds), np.kron(np.eye(rounds), sampling)
    variance = NOISES.get(name, NOISE) ** 2
    if name == "noise-shared-by-trials":
        mean = mean + np.random.default_rng(OWN_SEED).standard_normal(rounds * d) * NOISE
    elif name == "noise-shared-by-rounds":
        covariance = covariance + variance * np.kron(np.ones((rounds, rounds)), np.eye(d))
    elif name == "noise-shared-by-coordinates":
        covariance = covariance + variance * np.kron(np.eye(rounds), np.ones((d, d)))
    elif name in {"noise-on-nonzero-only", "only-nonzero-released"}:
        voted = 1 - np.prod(np.where(people != 0, 1 - q, 1.0), axis=0)
        covariance = covariance + np.diag(np.tile(voted * variance, rounds))
    else:
        covariance = covariance + variance * np.eye(rounds * d)
    return mean, covariance


def check_moments(releases, mean, covariance):
    centred = releases - mean
    error = np.sqrt(np.maximum((centred**2).mean(axis=0), 1e-12) / len(releases))
    assert (np.abs(centred.mean(axis=0)) / error).max() < 5.5
    products = np.einsum("ni,nj->ij", centred, centred) / len(releases)
    fourth = np.einsum("ni,nj->ij", centred**2, centred**2) / len(releases)
    spread = np.sqrt(np.maximum(fourth - products**2, 1e-16) / len(releases))
    assert (np.abs(products - covariance) / spread).max() < 6.5


def test_everything_that_is_promised_is_there():
    assert list(ZOO) == HONEST + LISTED
    assert all(isinstance(system, ZooSystem) and system.name == name for name, system in ZOO.items())
    assert {name for name, system in ZOO.items() if system.breaks == "nothing"} == set(HONEST)
    assert all(len(system.description) > 40 and system.blind for system in ZOO.values())


@pytest.mark.parametrize("name", [name for name in ZOO if name != "generator-restarted"])
@pytest.mark.parametrize("eligible", [False, True])
def test_moments_are_what_the_description_says(name, eligible):
    system = ZOO[name]
    releases = system.release(eligible, RUNS, np.random.default_rng(101))
    check_moments(releases, *expected(system, eligible))


def test_the_check_of_moments_can_fail():
    honest = ZOO["honest"]
    releases = honest.release(True, RUNS, np.random.default_rng(101))
    for other, eligible in (
        ("noise-over-1.25", True),
        ("q-doubled", True),
        ("honest", False),
        ("fixed-size-sample", True),
    ):
        with pytest.raises(AssertionError):
            check_moments(releases, *expected(ZOO[other], eligible))


@pytest.mark.parametrize("name", ZOO)
def test_the_canary_is_as_large_as_the_description_says_and_claimed_to_be_clipped(name):
    system = ZOO[name]
    assert np.linalg.norm(system.canary) == pytest.approx(NORMS.get(name, 1.0) * CLIP, rel=1e-9)
    assert np.linalg.norm(system.claimed_canary) == pytest.approx(CLIP, rel=1e-9)
    assert np.linalg.norm(system.claimed_background, axis=1).max() <= CLIP
    # Broken or not, the canary points the same way: a designed score looks into the right direction.
    cosine = (
        system.canary @ system.claimed_canary / np.linalg.norm(system.canary) / np.linalg.norm(system.claimed_canary)
    )
    assert cosine == pytest.approx(1.0, rel=1e-9)


def test_background_users_vote_for_probes_now_and_then_and_for_popular_entries_always():
    system = ZOO["honest"]
    probes, popular = system.background[:, :24], system.background[:, 24:]
    assert 0.01 < (probes > 0).mean() < 0.2
    assert (popular.sum(axis=1) > 0).all()
    assert (system.canary[:24] > 0).all()
    assert (system.canary[24:] == 0).all()
    assert len(np.unique(system.canary[:24].round(9))) == 2  # unequal, so that noise on all coordinates cancels


@pytest.mark.parametrize("name", HONEST)
def test_honest_systems_have_the_law_of_the_mechanism(name):
    system = ZOO[name]
    rng = np.random.default_rng(31)
    ours = system.release(False, 20_000, np.random.default_rng(32)).reshape(20_000, system.rounds, -1)
    score_of_one_round = system.designed_scores()[0].weights
    for number in range(system.rounds):
        theirs = release(system.background, system.mechanism, rng, 20_000)
        for direction in (score_of_one_round, np.eye(system.coordinates)[0], np.eye(system.coordinates)[-1]):
            assert ks_2samp(ours[:, number] @ direction, theirs @ direction).pvalue > 1e-3
    for number in range(1, system.rounds):
        correlation = np.corrcoef(ours[:, 0] @ score_of_one_round, ours[:, number] @ score_of_one_round)[0, 1]
        assert abs(correlation) < 5 / np.sqrt(20_000)


def test_an_eligible_canary_takes_part_by_a_coin_of_q():
    system = ZOO["noise-shared-by-coordinates"]  # differences of coordinates show it without noise
    contrast = np.zeros(system.coordinates)
    contrast[:24] = system.canary[:24] - system.canary[:24].mean()
    eligible, absent = (system.release(flag, RUNS, np.random.default_rng(6)) @ contrast for flag in (True, False))
    shift = contrast @ system.canary
    took_part = np.isclose(eligible - absent, shift, rtol=1e-6)
    assert np.isclose(eligible, absent, atol=1e-12)[~took_part].all()
    assert took_part.mean() == pytest.approx(Q, abs=5 * np.sqrt(Q * (1 - Q) / RUNS))


def test_shared_noise_cancels():
    rng = np.random.default_rng(9)
    system = ZOO["noise-shared-by-rounds"]
    quiet = int(np.argmin((system.background > 0).sum(axis=0)))  # the probe with the fewest voters
    rounds = system.release(False, 2000, rng).reshape(2000, 3, -1)[:, :, quiet]
    assert np.isclose(rounds[:, 0], rounds[:, 1], atol=1e-12).mean() > 0.5
    assert rounds[:, 0].std() == pytest.approx(NOISE, rel=0.1)
    trials = ZOO["noise-shared-by-trials"].release(False, 2000, rng)[:, quiet]
    assert np.isclose(trials[:1000], trials[1000:], atol=1e-12).mean() > 0.5


def test_probes_without_votes_are_exactly_zero_where_noise_is_on_nonzero_only():
    system = ZOO["noise-on-nonzero-only"]
    absent, eligible = (system.release(flag, 4000, np.random.default_rng(3))[:, :24] for flag in (False, True))
    assert 0.5 < (absent == 0).mean() < 0.99
    full = (eligible != 0).all(axis=1)
    assert full.mean() == pytest.approx(Q, abs=0.03)
    assert not (absent != 0).all(axis=1).any()


def test_lengths_of_sparse_releases_give_the_canary_away_with_200_runs_an_arm():
    system = ZOO["only-nonzero-released"]
    trials = schedule(400)
    (leak,) = Releases.of(trials, system.play(trials, np.random.default_rng(5))).leaks()
    assert leak.depends_on_canary
    honest = schedule(400)
    assert Releases.of(honest, ZOO["honest"].play(honest, np.random.default_rng(5))).leaks() == ()


@pytest.mark.parametrize(("name", "size"), FIXED.items())
def test_a_fixed_sample_has_its_size_and_the_canary_puts_one_out(name, size):
    system = ZOO[name]
    users = len(system.claimed_background)
    uniform = np.random.default_rng(4).random((4000, 1, users + 1))
    planted = np.arange(4000) % 2 == 0
    chosen = system._fixed_sample(uniform, planted)
    assert (chosen.sum(axis=-1) == size).all()
    assert not chosen[~planted, 0, -1].any()
    assert chosen[planted, 0, -1].mean() == pytest.approx(size / (users + 1), abs=0.06)


def schedule(runs):
    return [
        Trial(run, Hypothesis.ELIGIBLE if run % 2 else Hypothesis.ABSENT, "c", Split.JUDGE)
        for run in range(1, runs + 1)
    ]


def test_seeds_shared_by_hypotheses_repeat_releases_and_each_hypothesis_is_honest():
    system = ZOO["seeds-shared-by-hypotheses"]
    trials = schedule(4000)
    releases = Releases.of(trials, system.play(trials, np.random.default_rng(8)))
    absent, eligible = (releases.table("c", hypothesis, Split.JUDGE) for hypothesis in Hypothesis)
    same = (absent == eligible).all(axis=1)
    assert same.mean() == pytest.approx(1 - Q, abs=0.03)
    assert np.allclose(eligible[~same] - absent[~same], system.canary)
    assert len(np.unique(absent, axis=0)) == len(absent)


def test_a_restarted_generator_repeats_at_its_length():
    system = ZOO["generator-restarted"]
    trials = schedule(4 * RESTART_AFTER)
    rows = np.array([found[0] for found in system.play(trials, np.random.default_rng(8))])
    again = np.array([found[0] for found in system.play(trials, np.random.default_rng(9))])
    assert (rows == again).all()
    assert (rows[: 2 * RESTART_AFTER] == rows[2 * RESTART_AFTER :]).all()
    assert len(np.unique(rows[:RESTART_AFTER], axis=0)) == RESTART_AFTER


@pytest.mark.parametrize("name", ["honest", "honest-3-rounds", "honest-4-labels"])
def test_play_and_release_have_one_law_and_shape(name):
    system = ZOO[name]
    assert playing(system) is system
    trials = schedule(20_000)
    releases = Releases.of(trials, system.play(trials, np.random.default_rng(12)))
    score = system.designed_scores()[0]
    for hypothesis in Hypothesis:
        table = releases.table("c", hypothesis, Split.JUDGE)
        again = system.release(hypothesis is Hypothesis.ELIGIBLE, 10_000, np.random.default_rng(13))
        assert table.shape == again.shape == (10_000, system.rounds * system.coordinates)
        for number in range(system.rounds):
            columns = slice(number * system.coordinates, (number + 1) * system.coordinates)
            assert ks_2samp(score.llr(table[:, columns]), score.llr(again[:, columns])).pvalue > 1e-3


def test_positions_name_each_value_by_label_and_entry():
    assert ZOO["honest"].positions == tuple(("", entry) for entry in range(30))
    labelled = ZOO["clip-per-label"]
    assert [label for label, _ in labelled.positions] == [label for label in "abcd" for _ in range(10)]
    assert labelled.positions[10] == ("b", 0)
    assert len(labelled.positions) == labelled.coordinates


def test_claims_are_those_of_the_mechanism_and_true_before_any_trial():
    assert ZOO["honest"].claim.epsilon == pytest.approx(1.68454, abs=1e-4)
    for name in ("honest", "honest-3-rounds"):
        claim = ZOO[name].claim
        assert not claim.is_false
        assert claim.epsilon == pytest.approx(attained_epsilon(Mechanism(), claim.rounds), rel=1e-4)


def test_a_designed_score_is_nearly_perfect_for_the_claimed_mechanism():
    for name, system in ZOO.items():
        scores = system.designed_scores()
        assert len(scores) == system.rounds
        assert [score.mu_eff for score in scores] == pytest.approx([1.0] * system.rounds, rel=0.01), name


@pytest.mark.parametrize(
    ("name", "designed", "best"),
    [
        ("honest", 1.0, 1.0),
        ("noise-halved", 2.0, 2.0),
        ("clip-per-label", 2.0, 2.0),
        ("noise-shared-by-rounds", 1.0, 40.0),
        ("noise-shared-by-coordinates", 0.21, 20.0),
        ("fixed-size-sample", 1.0, 1.3),
    ],
)
def test_what_a_designed_score_can_see_and_what_the_best_linear_score_would(name, designed, best):
    """Separation of a canary that takes part in every round, in standard deviations of absent runs."""
    system = ZOO[name]
    _, covariance = expected(system, eligible=False)
    shift = system.canary - (system.background.mean(axis=0) if name in FIXED else 0)
    once = np.concatenate((shift, np.zeros((system.rounds - 1) * system.coordinates)))  # in the first round only
    weights = np.concatenate((system.designed_scores()[0].weights, np.zeros((system.rounds - 1) * system.coordinates)))
    assert weights @ once / np.sqrt(weights @ covariance @ weights) == pytest.approx(designed, rel=0.05)
    assert np.sqrt(once @ np.linalg.solve(covariance + 1e-9 * np.eye(len(once)), once)) >= 0.95 * best


def test_a_hundred_thousand_runs_take_a_second_or_two():
    trials = schedule(100_000)
    started = time.perf_counter()
    ZOO["honest"].play(trials, np.random.default_rng(1))
    assert time.perf_counter() - started < 10  # 0.6 s on two cores
