"""What a secret share leaves to attackers: against enumeration, quadrature and closed forms."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from canarybank.defend import (
    ShareVotes,
    core_epsilon,
    cores_reach,
    equal_ranking_ratio,
    equal_ranking_reach,
    filtered_reach,
    spread_epsilon,
)
from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, contributions, one_round_epsilon, route, route_within
from canarybank.score import Moments

Floats = NDArray[np.float64]


def every_set(size: int, share: float) -> tuple[NDArray[np.bool_], Floats]:
    """Return all sets of so many entries, and the probability of each."""
    sets = np.array(list(product([False, True], repeat=size)))
    return sets, np.prod(np.where(sets, share, 1 - share), axis=1)


@pytest.mark.parametrize(("k", "probes", "share"), [(1, 1, 0.5), (1, 6, 0.3), (2, 7, 0.5), (5, 9, 0.25), (3, 2, 0.9)])
def test_the_recursion_over_ranks_is_the_average_over_all_sets(k: int, probes: int, share: float) -> None:
    releases = np.random.default_rng(0).normal(size=(20, probes)) * 2
    sets, chances = every_set(probes, share)
    votes = 0.7 * (sets & (np.cumsum(sets, axis=1) <= k))
    expected = (chances * np.exp(releases @ votes.T - np.square(votes).sum(axis=1) / 2)).sum(axis=1)
    assert np.allclose(equal_ranking_ratio(releases, 0.7, k, share), expected, rtol=1e-12)


def test_figures_of_the_best_known_attacks() -> None:
    """At q = 0.1, sigma = 1, delta = 1e-5; shares 0.5, 0.25 and 0.1."""
    shares = (0.5, 0.25, 0.1)
    assert [round(spread_epsilon(Mechanism(share=f)), 3) for f in shares] == [0.769, 0.369, 0.161]
    assert [round(core_epsilon(Mechanism(share=f)), 2) for f in shares] == [0.88, 0.46, 0.16]
    for share, expected in zip(shares, (1.040, 0.595, 0.268), strict=True):
        found = equal_ranking_reach(Mechanism(k=1, share=share))
        assert found.interval.lower <= expected <= found.interval.upper
        assert found.interval.upper - found.interval.lower < 0.02
        assert found.interval.lower > spread_epsilon(Mechanism(k=1, share=share))
        assert "best known attack" in str(found)


def test_closed_forms_fall_together_without_a_share() -> None:
    exact = one_round_epsilon(Mechanism())
    assert spread_epsilon(Mechanism()) == pytest.approx(exact)
    assert core_epsilon(Mechanism(k=1), records=7) == pytest.approx(exact)
    # One core probe is one entry: a cap bounds what it gets.
    capped = one_round_epsilon(Mechanism(q=0.05, sigma=1 / 0.2))
    assert core_epsilon(Mechanism(k=1, share=0.5, entry_cap=0.02)) == pytest.approx(capped)


def quadrature(mechanism: Mechanism, step: float = 0.02) -> float:
    """Return the epsilon at which the hockey-stick divergence of two ranked probes, k = 1, equals delta."""
    axis = np.arange(-7, 9, step)
    mass = np.outer(norm.pdf(axis), norm.pdf(axis)).ravel() * step**2
    first, second = (np.exp(y / mechanism.sigma - 1 / (2 * mechanism.sigma**2)) for y in np.meshgrid(axis, axis))
    f, q = mechanism.share, mechanism.q
    ratio = (1 - q + q * (f * first + f * (1 - f) * second + (1 - f) ** 2)).ravel()
    low, high = 0.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        over = (mass * np.maximum(ratio - np.exp(middle), 0)).sum()
        low, high = (middle, high) if over > mechanism.delta else (low, middle)
    return low


@pytest.mark.parametrize(("share", "q"), [(0.5, 0.1), (0.1, 0.5)])
def test_two_probes_are_as_quadrature_has_them(share: float, q: float) -> None:
    mechanism = Mechanism(k=1, share=share, q=q)
    found = equal_ranking_reach(mechanism, probes=2)
    exact = quadrature(mechanism)
    assert found.interval.lower <= exact <= found.interval.upper + 0.004


def test_intervals_of_one_probe_hold_its_closed_form() -> None:
    # One probe in the set with chance f is a canary that takes part with chance q f. At the best threshold a rule shows
    # that epsilon; a chosen one shows at most so much. Of 30 intervals at 95%, more than 6 miss with a chance of 1e-3.
    exact = one_round_epsilon(Mechanism(q=0.025))
    found = [
        equal_ranking_reach(Mechanism(k=1, share=0.25), probes=1, samples=1 << 13, confidence=0.95, seed=seed)
        for seed in range(30)
    ]
    assert sum(each.interval.lower > exact for each in found) <= 4
    assert sum(not each.interval.lower <= exact <= each.interval.upper + 0.01 for each in found) <= 6
    assert np.mean([each.epsilon for each in found]) == pytest.approx(exact, abs=0.01)


@pytest.fixture(scope="module")
def small() -> tuple[Bank, Floats, Mechanism]:
    rng = np.random.default_rng(4)
    return Bank(rng.normal(size=(7, 3))), rng.normal(size=(5, 3)), Mechanism(k=2, clip=0.3, share=0.4, entry_cap=0.35)


def test_drawn_votes_have_the_law_of_all_sets(small: tuple[Bank, Floats, Mechanism]) -> None:
    bank, records, mechanism = small
    inspected = [0, 2, 5]
    sets, chances = every_set(7, 0.4)
    every = np.array(
        [
            contributions(
                route_within(records, np.zeros(5, int), bank, 2, row[None]), [0] * 5, 1, 7, 0.3, entry_cap=0.35
            ).toarray()[0, inspected]
            for row in sets
        ]
    )
    votes = ShareVotes.of(records, [0] * 5, bank, inspected, mechanism)
    drawn = votes.draw(0, 20_000, np.random.default_rng(0))
    found, counts = np.unique(drawn.round(9), axis=0, return_counts=True)
    rows, place = np.unique(every.round(9), axis=0, return_inverse=True)
    assert np.array_equal(found, rows)
    expected = np.bincount(place.ravel(), weights=chances)
    assert np.abs(counts / 20_000 - expected).max() < 5 * 0.5 / 20_000**0.5
    # Everybody votes within a set of their own, by a coin of q: the mean of the sum is that of one, q times the users.
    crowd = ShareVotes.of(np.tile(records, (3, 1)), np.repeat(np.arange(3), 5), bank, inspected, mechanism)
    mean = crowd.background(20_000, np.random.default_rng(1)).mean(axis=0)
    assert np.allclose(mean, 3 * 0.1 * chances @ every, atol=5 * 0.3 * 0.6 / 20_000**0.5)


def test_deep_rankings_are_cut_where_nobody_looks() -> None:
    rng = np.random.default_rng(0)
    bank, records = Bank(rng.normal(size=(400, 4))), rng.normal(size=(6, 4))
    mechanism = Mechanism(k=3, clip=0.2, share=0.5)
    votes = ShareVotes.of(records, [0, 0, 0, 1, 1, 1], bank, [1, 2, 399], mechanism)
    assert votes.ranked[0].shape[1] < 100
    whole = ShareVotes.of(records, [0, 0, 0, 1, 1, 1], bank, route(records, bank, 3)[0], replace(mechanism, share=1.0))
    expected = contributions(route(records, bank, 3), [0, 0, 0, 1, 1, 1], 2, 400, 0.2).toarray()
    for user in (0, 1):
        drawn = whole.draw(user, 4, rng)
        assert np.allclose(drawn, expected[user, route(records, bank, 3)[0]], rtol=1e-9)
    nobody = ShareVotes.of(records, [0] * 6, bank.bar([7]), [7], mechanism)
    assert len(nobody.touching) == 0
    assert not nobody.background(5, rng).any()


def drawn_votes(k: int, probes: int, share: float, shift: float, size: int, rng: np.random.Generator) -> Floats:
    sets = rng.random((size, probes)) < share
    return shift * (sets & (np.cumsum(sets, axis=1) <= k))


def test_filters_over_drawn_sets_reach_no_more_than_the_optimal_one() -> None:
    mechanism = Mechanism(k=1, share=0.5)
    quiet = Moments(np.zeros(12), mechanism.noise**2 * np.eye(12))
    found = filtered_reach(
        lambda size, rng: drawn_votes(1, 12, 0.5, mechanism.clip, size, rng),
        lambda size, _: np.zeros((size, 12)),
        quiet,
        mechanism,
        samples=1 << 14,
        sets=256,
    )
    assert found.filter == "likelihood"
    assert found.interval.lower < 1.041
    assert found.interval.upper > 1.0
    # A linear filter sees the same canary less well, and a background hides it further.
    wide = Moments(np.zeros(12), 4 * mechanism.noise**2 * np.eye(12))
    hidden = filtered_reach(
        lambda size, rng: drawn_votes(1, 12, 0.5, mechanism.clip, size, rng),
        lambda size, rng: 3**0.5 * mechanism.noise * rng.standard_normal((size, 12)),
        wide,
        mechanism,
        samples=1 << 14,
        sets=256,
    )
    assert hidden.epsilon < 0.3 < found.epsilon


def test_without_a_contribution_nothing_is_reached() -> None:
    moments = Moments(np.zeros(2), np.eye(2))
    nothing = filtered_reach(lambda n, _: np.zeros((n, 2)), lambda n, _: np.zeros((n, 2)), moments, Mechanism())
    assert (nothing.epsilon, nothing.interval.upper) == (0.0, 0.0)


def test_refuses_no_confidence_and_a_bank_that_is_too_small() -> None:
    with pytest.raises(InputError, match="confidence must lie strictly between 0 and 1"):
        equal_ranking_reach(Mechanism(share=0.5), samples=64, confidence=1.0)
    with pytest.raises(InputError, match="only 2 entries to choose from"):
        ShareVotes.of(np.ones((1, 2)), [0], Bank(np.eye(2)), [0], Mechanism(k=3, share=0.5))


@pytest.mark.parametrize(("k", "share", "records"), [(5, 0.5, 32), (5, 0.25, 64), (1, 0.5, 32)])
def test_one_core_is_its_closed_form(k: int, share: float, records: int) -> None:
    mechanism = Mechanism(k=k, share=share)
    found = cores_reach(mechanism, 1, records=records)
    assert found.interval.lower - 0.01 <= core_epsilon(mechanism, records) <= found.interval.upper + 0.01


def test_two_cores_agree_with_quadrature() -> None:
    mechanism, delta = Mechanism(k=2, share=0.3, q=0.5, delta=1e-3), 1e-3
    # Two records. One core in the set gets 1/2, and two other entries 1/4 each; two get 1/2 each. All are clipped.
    one, both = 0.1 * 0.5 / np.sqrt(0.25 + 2 / 16) / 0.1, 0.1 / np.sqrt(2) / 0.1
    grid = np.linspace(-9, 11, 1201)
    x, y = np.meshgrid(grid, grid)
    cell = (grid[1] - grid[0]) ** 2
    base = norm.pdf(x) * norm.pdf(y)
    ratio = 0.49 + 0.21 * (np.exp(one * x - one**2 / 2) + np.exp(one * y - one**2 / 2))
    ratio += 0.09 * np.exp(both * (x + y) - both**2)
    order = np.argsort(-ratio, axis=None)
    fpr = np.cumsum(base.ravel()[order]) * cell
    rate = np.cumsum((base * ratio).ravel()[order]) * cell
    exact = np.log(np.max((0.5 * fpr + 0.5 * rate - delta) / fpr))
    found = cores_reach(mechanism, 2, records=2)
    assert found.interval.lower - 0.01 <= exact <= found.interval.upper + 0.01


def test_few_cores_do_better_than_one_behind_a_small_share() -> None:
    mechanism = Mechanism(share=0.1)
    few = cores_reach(mechanism, 4)
    assert few.interval.lower > core_epsilon(mechanism)
    assert few.interval.lower > equal_ranking_reach(mechanism).interval.upper
    with pytest.raises(InputError, match="from 1 to k = 5 cores, not 6"):
        cores_reach(mechanism, 6)


@pytest.mark.parametrize("sigma", [0.3, 0.2, 0.07])
def test_with_little_noise_the_simulation_still_finds_what_one_core_shows(sigma: float) -> None:
    mechanism = Mechanism(k=1, share=0.5, sigma=sigma)
    exact = core_epsilon(mechanism)
    assert cores_reach(mechanism, 1).epsilon == pytest.approx(exact, rel=0.02)
    assert equal_ranking_reach(mechanism, probes=8).epsilon > 0.98 * exact


def test_what_cannot_be_simulated_is_refused_and_what_was_not_found_is_not_called_nothing() -> None:
    with pytest.raises(InputError, match="use more noise"):
        cores_reach(Mechanism(k=1, share=0.5, sigma=0.01), 1)
    few = equal_ranking_reach(Mechanism(share=0.5), samples=256)
    assert few.interval.lower == 0.0
    assert few.interval.upper == one_round_epsilon(Mechanism())
