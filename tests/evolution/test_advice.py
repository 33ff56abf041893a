"""What is predicted before a run: the survival of the true top, the clip and the noise it buys, the setting to take."""

import itertools
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from canarybank.errors import InputError
from canarybank.evolution import (
    Choice,
    KeepAboveNoise,
    KeepByVotes,
    KeepClusters,
    KeepProjected,
    KeepTop,
    Setting,
    StandIns,
    best_settings,
    choose_setting,
    predict_setting,
    predict_survival,
)
from canarybank.evolution.advice import TESTED, covering_tests, simulate_keeper, spare_noise, surviving_share
from canarybank.evolution.advice import vote_sums as sums_of
from canarybank.measure import selection_fidelity
from canarybank.mechanism import Bank, Mechanism, contributions, route

TOOLS = Path(__file__).parents[2] / "tools"
MECHANISM = Mechanism(k=2, clip=0.3, sigma=1.5, q=0.4)


def made_up_votes(seed=0, people=8, entries=12, records=5, k=2):
    rng = np.random.default_rng(seed)
    vectors, bank = rng.normal(size=(people * records, 3)), rng.normal(size=(entries, 3))
    return (
        vectors,
        np.repeat(np.arange(people), records),
        bank,
        StandIns.of(vectors, np.repeat(np.arange(people), records), bank, k),
    )


# --- the formula ------------------------------------------------------------------------------------------------------


def test_two_levels_of_votes_have_a_closed_form():
    """With half the entries at a, the others at b and one deviation s, t is their middle: survival is Phi((a-b)/2s)."""
    for gap, deviation in ((1.0, 0.5), (1.0, 2.0), (0.01, 3.0)):
        votes = np.repeat([gap, 0.0], 50)
        found = surviving_share(votes, votes, np.full(100, deviation), 50)
        assert found == pytest.approx(float(ndtr(gap / 2 / deviation)), abs=1e-9)


def test_noise_alone_leaves_chance_and_no_noise_leaves_all():
    votes = np.arange(80.0)[::-1]
    assert surviving_share(votes, np.zeros(80), np.ones(80), 4) == pytest.approx(4 / 80)
    assert surviving_share(votes, votes, np.full(80, 1e-6), 4) == pytest.approx(1.0)
    assert surviving_share(votes, votes, np.full(80, 5.0), 80) == 1.0
    with pytest.raises(InputError, match="positive standard deviation"):
        surviving_share(votes, votes, np.zeros(80), 4)


def test_the_surviving_share_is_that_of_its_naive_twin():
    """Draw every entry, rank, and count: over 4,000 draws the twin's error is below 0.002, the threshold's as large."""
    rng = np.random.default_rng(1)
    votes = rng.gamma(0.7, 3.0, size=600)
    mean, deviation = 0.3 * votes + rng.normal(0, 1.0, 600), rng.uniform(0.5, 2.0, 600)
    drawn = mean + deviation * rng.standard_normal((4000, 600))
    chosen = np.argsort(-drawn, axis=1)[:, :30]
    twin = np.isin(chosen, np.argsort(-votes, kind="stable")[:30]).mean()
    assert surviving_share(votes, mean, deviation, 30) == pytest.approx(twin, abs=0.01)
    assert 0.2 < twin < 0.8


def test_mean_and_variance_of_the_release_are_those_of_all_coins():
    """All 2^8 outcomes of eight people's coins, each with its probability, give the very same moments."""
    vectors, owners, bank, people = made_up_votes()
    rows = contributions(route(vectors, bank, 2), owners, 8, 12, MECHANISM.clip).toarray()
    coins = np.array(list(itertools.product((0, 1), repeat=8)))
    chances = np.prod(np.where(coins, MECHANISM.q, 1 - MECHANISM.q), axis=1)
    totals = coins @ rows
    mean = chances @ totals
    votes, cast, squares = sums_of(people, MECHANISM, 8)
    assert votes == pytest.approx(contributions(route(vectors, bank, 2), owners, 8, 12, 1.0).toarray().sum(axis=0))
    assert MECHANISM.q * cast == pytest.approx(mean)
    assert MECHANISM.q * (1 - MECHANISM.q) * squares == pytest.approx(chances @ (totals - mean) ** 2)


@pytest.mark.parametrize("cap", [None, 0.15])
def test_stand_ins_are_clipped_as_the_mechanism_clips(cap):
    vectors, owners, bank, people = made_up_votes(seed=3)
    wanted = contributions(route(vectors, bank, 2), owners, 8, 12, 0.3, entry_cap=cap).toarray()
    assert people.clipped(0.3, cap).toarray() == pytest.approx(wanted)
    assert people.norms == pytest.approx(np.sqrt((people.votes.toarray() ** 2).sum(axis=1)))
    assert people.clipped_share(0.3) == (people.norms > 0.3).mean() > 0


# --- against simulation -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(TOOLS))
    try:
        yield runpy.run_path(str(TOOLS / "tune_study.py"))
    finally:
        sys.path.remove(str(TOOLS))


@pytest.mark.parametrize("name", ["chitchat", "technical", "forms"])
def test_the_prediction_agrees_with_simulation_on_people_it_never_saw(study, name):
    """Predict from one half of a user set what releases over the other half keep, and the other way round: within 0.05.

    Everything is seeded, and a simulated share has a standard error of about 0.01 over 12 releases. From the very
    people who are simulated, the formula is right to 0.03.
    """
    found = list(study["compare"](study["load_halves"](name), (5,), (1.0,), ((1.1088, 0.1), (1.5, 1.0)), draws=12))
    assert max(abs(each.predicted - each.kept) for each in found) < 0.05, found
    assert max(abs(each.own - each.kept) for each in found) < 0.03, found
    assert len(found) == 4
    kept = [each.kept for each in found]
    assert max(kept) > 3 * min(kept)  # from little more than chance to much more: agreement is no accident


def test_fewer_people_are_drawn_from_the_stand_ins_and_more_are_scaled_up():
    rng = np.random.default_rng(5)
    vectors, bank = rng.normal(size=(300 * 4, 8)), Bank(rng.normal(size=(200, 8)))
    owners, mechanism = np.repeat(np.arange(300), 4), Mechanism(k=2, clip=0.4, sigma=0.3, q=0.5)
    everybody = StandIns.of(vectors, owners, bank, 2)
    few = predict_survival(everybody, mechanism, people=75, top=10)
    drawn = [
        selection_fidelity(
            vectors[a * 4 : b * 4], owners[: (b - a) * 4], bank, mechanism, top=10, reference_clip=1.0
        ).kept
        for a, b in ((0, 75), (75, 150), (150, 225), (225, 300))
    ]
    assert few == pytest.approx(np.mean(drawn), abs=0.05)
    grown = [predict_survival(everybody, mechanism, people=count, top=10) for count in (75, 300, 1200, 4800)]
    assert grown == sorted(grown)
    assert grown[-1] > grown[0] + 0.2


def test_secret_shares_are_refused_not_guessed():
    with pytest.raises(InputError, match="secret share of"):
        predict_survival(made_up_votes()[3], replace(MECHANISM, share=0.5), people=8, top=2)


# --- other keepers ----------------------------------------------------------------------------------------------------

ENTRIES, TOP, QUIET = 200, 40, Mechanism(k=2, clip=0.4, sigma=2.0, q=0.5)


@pytest.fixture(scope="module")
def crowd():
    """Return the vectors of 120 people's records, whose they are, a bank's, and the people's votes over it."""
    rng = np.random.default_rng(11)
    centres = rng.normal(size=(12, 8))
    tastes = rng.integers(12, size=120)
    vectors = np.repeat(centres[tastes], 4, axis=0) + 0.8 * rng.normal(size=(480, 8))
    bank = centres[rng.integers(12, size=ENTRIES)] + 0.9 * rng.normal(size=(ENTRIES, 8))
    owners = np.repeat(np.arange(120), 4)
    return vectors, owners, bank, StandIns.of(vectors, owners, bank, 2)


def twin(crowd, keeper, people, draws=50):
    """Draw releases the long way: a row and a coin for every person, and the keeper on each; count what stays."""
    vectors, owners, bank, _ = crowd
    routes = route(vectors, bank, 2)
    votes, cast = (contributions(routes, owners, 120, ENTRIES, clip).toarray() for clip in (1.0, QUIET.clip))
    rng, found = np.random.default_rng(99), []
    for draw in range(draws):
        who = np.concatenate([rng.permutation(120) for _ in range(-(-people // 120))])[:people]
        release = np.zeros(ENTRIES)
        for person in who:
            release += cast[person] * (rng.random() < QUIET.q)
        release += rng.normal(0, QUIET.sigma * QUIET.clip, ENTRIES)
        true = set(np.argsort(-votes[who].sum(axis=0), kind="stable")[:TOP].tolist())
        kept = keeper(Choice(release, bank.astype(np.float32), ("",) * ENTRIES, QUIET.noise, TOP, 0, 1000 + draw))
        found.append((len(true & set(kept.indices.tolist())) / TOP, len(kept.indices)))
    return np.mean(found, axis=0), np.std(found, axis=0)


@pytest.mark.parametrize("people", [50, 420])
@pytest.mark.parametrize(
    "keeper",
    [KeepTop(), KeepByVotes(), KeepAboveNoise(2.0), KeepProjected(), KeepClusters(2.0)],
    ids=repr,
)
def test_what_a_keeper_keeps_is_predicted_as_its_naive_twin_draws_it(crowd, keeper, people):
    """For fewer people than stand-ins and for more: survival to 0.05, and how many stay to the error of 10 draws."""
    found = simulate_keeper(crowd[3], QUIET, keeper, crowd[2], people=people, top=TOP)
    (survival, kept), (_, spread) = twin(crowd, keeper, people)
    assert found.survival == pytest.approx(survival, abs=0.05)
    assert found.kept == pytest.approx(kept, abs=0.01 + 2.5 * spread / 10**0.5)
    assert 0 < found.error < 0.04


def test_a_setting_is_predicted_for_its_own_keeper(crowd):
    """Other keepers keep less of the true top than the formula, which is for ``top``, says; some keep fewer too."""
    asked = {"people": 420, "top": TOP, "vectors": crowd[2]}
    formula = predict_survival(crowd[3], QUIET, people=420, top=TOP)
    top = predict_setting(crowd[3], QUIET, **asked)
    assert (top.survival, top.keeper, top.kept_share, top.error) == (formula, "top", 1.0, 0.0)
    for sigma in (0.01, 2.0):  # at the first nearly all that varies is who takes part
        mechanism = replace(QUIET, sigma=sigma, q=0.1)
        drawn = simulate_keeper(crowd[3], mechanism, KeepTop(), crowd[2], people=420, top=TOP)
        assert drawn.survival == pytest.approx(predict_survival(crowd[3], mechanism, people=420, top=TOP), abs=0.05)
        assert drawn.survival < 0.9
    for keeper, name in ((KeepByVotes(), "votes"), (KeepClusters(0.0), "clusters"), (KeepAboveNoise(5.0), "threshold")):
        found = predict_setting(crowd[3], QUIET, keeper=keeper, **asked)
        assert (found.keeper, found.failure) == (name, "")
        assert found.survival < formula - 0.1
        (best,) = best_settings(crowd[3], [QUIET], keeper=keeper, **asked)
        assert best == predict_setting(crowd[3], best.mechanism, keeper=keeper, **asked)
    assert found.kept_share < 0.8


def test_a_keeper_sees_labels_and_one_that_fails_leaves_the_prediction_for_top(crowd):
    def by_label(choice):
        if set(choice.labels) != {"a", "b"}:
            raise ValueError("no labels")
        return KeepTop()(choice)

    labels = ("a", "b") * (ENTRIES // 2)
    asked = {"people": 120, "top": TOP, "vectors": crowd[2], "keeper": by_label}
    seen = predict_setting(crowd[3], QUIET, labels=labels, **asked)
    assert seen.failure == ""
    assert seen.keeper.endswith("by_label")
    failed = predict_setting(crowd[3], QUIET, **asked)
    assert failed.keeper == "top"
    assert failed.survival == predict_survival(crowd[3], QUIET, people=120, top=TOP)
    assert failed.failure.endswith("failed on simulated votes: ValueError: no labels")
    with pytest.raises(InputError, match="secret share of"):
        simulate_keeper(crowd[3], replace(QUIET, share=0.5), by_label, crowd[2], people=8, top=2)


# --- what was tested --------------------------------------------------------------------------------------------------


def test_an_error_is_claimed_only_between_tests_that_were_no_easier():
    """Behind every claim are tests with no more stand-ins, one for as many people or more and one for as many or fewer.

    No test on either side that found less is passed over, and the larger of the two errors is claimed.
    """
    for people, own in itertools.product(
        (10, 224, 225, 300, 301, 3000, 4000, 4001, 10**6), (20, 50, 225, 300, 450, 5000)
    ):
        more = [each.error for each in TESTED if each.stand_ins <= own and each.most >= people]
        fewer = [each.error for each in TESTED if each.stand_ins <= own and each.fewest <= people]
        errors = [each.error for each in covering_tests(people, own)]
        assert sorted(set(errors)) == (sorted({min(more), min(fewer)}) if more and fewer else [])
        assert errors == sorted(errors, reverse=True)
    assert [each.error for each in covering_tests(250, 225)] == [0.05]
    assert [each.error for each in covering_tests(300, 60)] == [0.13]
    assert covering_tests(200, 5000) == covering_tests(5000, 5000) == ()


# --- advice -----------------------------------------------------------------------------------------------------------


def test_a_clip_above_all_norms_buys_its_factor_of_noise_for_nothing():
    """The same people at the largest norm as clip: nobody's votes change, and the noise is smaller by the factor."""
    people = made_up_votes()[3]
    wide = replace(MECHANISM, clip=0.9)
    factor = spare_noise(people.norms, wide.clip)
    narrow = replace(wide, clip=wide.clip / factor)
    assert factor == pytest.approx(0.9 / people.norms.max())
    assert factor > 1
    assert people.clipped(narrow.clip).toarray() == pytest.approx(people.clipped(wide.clip).toarray())
    assert wide.noise / narrow.noise == pytest.approx(factor)
    assert spare_noise(people.norms, people.norms.max() / 2) == 1.0


def test_the_best_clip_is_at_most_the_largest_norm_and_as_good_as_any():
    people = made_up_votes(seed=2, people=60, entries=40)[3]
    (found,) = best_settings(people, [MECHANISM], people=60, top=4)
    tried = [
        predict_survival(people, replace(MECHANISM, clip=clip), people=60, top=4) for clip in np.linspace(0.1, 1.0, 40)
    ]
    assert found.survival >= max(tried) - 0.03
    assert found.mechanism.clip <= people.norms.max() * 1.01
    assert found.clipped == (people.norms > found.mechanism.clip).mean()
    assert found.chance == 0.1


def setting(bank, survival, q=0.5, k=5):
    return Setting(bank, Mechanism(k=k, q=q), bank // 20, survival, 0.1)


def test_the_largest_bank_that_reaches_the_goal_is_chosen():
    rising = [setting(100, 0.95), setting(200, 0.8), setting(400, 0.71), setting(800, 0.5)]
    assert choose_setting(rising, goal=0.7).bank == 400
    assert choose_setting(rising, goal=0.9).bank == 100
    assert choose_setting(rising, goal=0.99).survival == 0.95
    with pytest.raises(InputError, match="no setting"):
        choose_setting([], goal=0.5)


def test_of_equally_good_settings_the_one_with_fewer_people_and_smaller_k_is_chosen():
    near = [setting(100, 0.90, q=1.0, k=2), setting(100, 0.895, q=0.2, k=8), setting(100, 0.89, q=0.2, k=5)]
    far = [setting(100, 0.85, q=0.05, k=1)]
    chosen = choose_setting([*near, *far], goal=0.5)
    assert (chosen.mechanism.q, chosen.mechanism.k) == (0.2, 5)
