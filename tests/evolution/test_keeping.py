from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolution import (
    Choice,
    Keep,
    KeepAboveNoise,
    KeepByVotes,
    KeepClusters,
    KeepProjected,
    KeepTop,
    Kept,
    Published,
    Round,
    Spent,
    apply_keeper,
    project,
    split,
)
from canarybank.evolution.keeping import draw_by_weight
from canarybank.mechanism import Bank
from canarybank.registry import KEEPERS

SPENT = Spent(1, 1.0, 1.0, 1e-5)


def choice(votes, size, *, noise=1.0, vectors=None, seed=0) -> Choice:
    votes = np.asarray(votes, dtype=np.float64)
    vectors = np.eye(len(votes), dtype=np.float32) if vectors is None else np.asarray(vectors, dtype=np.float32)
    return Choice(votes, vectors, ("",) * len(votes), noise, size, 0, seed)


def naive_projection(votes, total):
    """Find by bisection what every vote loses."""
    low, high = min(votes) - total, max(votes)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(v - middle, 0) for v in votes) > total else (low, middle)
    return [max(v - low, 0) for v in votes]


@pytest.mark.parametrize("seed", range(20))
def test_the_projection_is_the_one_that_bisection_finds_and_no_histogram_is_nearer(seed):
    rng = np.random.default_rng(seed)
    votes, total = rng.normal(size=rng.integers(1, 9)) * 3, float(rng.random() * 10 + 1e-3)
    found = project(votes, total)
    assert found == pytest.approx(naive_projection(votes, total), abs=1e-9)
    assert found.sum() == pytest.approx(total)
    others = rng.dirichlet(np.ones(len(votes)), size=200) * total
    assert ((others - votes) ** 2).sum(axis=1).min() >= ((found - votes) ** 2).sum() - 1e-9


def test_the_projection_in_closed_form():
    assert project([3.0, 1.0, -2.0], 2.0).tolist() == [2.0, 0.0, 0.0]
    assert project([3.0, 2.0, -2.0], 2.0).tolist() == [1.5, 0.5, 0.0]
    assert project([1.0, -1.0], 0.0).tolist() == [0.0, 0.0]


def test_draws_by_weight_follow_the_law_of_draws_one_after_another():
    weights, count = np.array([5.0, 2.0, 1.0, 0.0]), 20_000
    rng = np.random.default_rng(0)
    seen = Counter(tuple(draw_by_weight(rng, weights, 2).tolist()) for _ in range(count))
    law = {(i, j): weights[i] / 8 * weights[j] / (8 - weights[i]) for i, j in permutations(range(3), 2)}
    assert set(seen) == set(law)
    # Six cells, five degrees of freedom: the statistic exceeds 26 with probability 9e-5.
    assert sum((seen[pair] - count * law[pair]) ** 2 / (count * law[pair]) for pair in law) < 26


def test_where_few_weights_are_positive_the_rest_is_drawn_from_the_others():
    rng = np.random.default_rng(0)
    seen = Counter(int(draw_by_weight(rng, [0, 3.0, 0, 0], 2)[1]) for _ in range(3000))
    assert set(seen) == {0, 2, 3}
    assert min(seen.values()) > 800  # each 1,000 with a deviation of 26
    assert {int(draw_by_weight(rng, [0, 3.0, 0, 0], 1)[0]) for _ in range(50)} == {1}


def test_votes_above_the_noise_are_kept_and_weighed_by_what_they_have_above_it():
    kept = KeepAboveNoise(2.0)(choice([1.9, 5.0, -7.0, 2.5, 3.0], 2, noise=1.0))
    assert (kept.indices.tolist(), kept.weights.tolist()) == ([1, 4], [3.0, 1.0])
    kept = KeepAboveNoise(2.0)(choice([1.9, 5.0, -7.0, 2.5, 3.0], 5, noise=1.4))
    assert (kept.indices.tolist(), kept.weights.tolist()) == ([1, 4], pytest.approx([2.2, 0.2]))
    quiet = KeepAboveNoise(2.0)(choice([0.1, 0.4, 0.2], 3))
    assert (quiet.indices.tolist(), quiet.weights.tolist()) == ([1], [0.0])


def test_the_projection_keeps_the_largest_of_what_it_leaves():
    votes = [6.0, -3.0, 4.0, -2.0, 3.0, 1.0]
    left = naive_projection(votes, sum(votes))
    expected = [i for i in sorted(range(6), key=lambda i: -votes[i]) if left[i] > 0]
    kept = KeepProjected()(choice(votes, 6))
    assert kept.indices.tolist() == expected
    assert kept.weights == pytest.approx([left[i] for i in expected])
    assert 5 not in kept.indices  # positive, but no more than noise adds
    assert KeepProjected()(choice(votes, 2)).indices.tolist() == [0, 2]


def test_who_stays_by_votes_is_drawn_in_proportion_to_positive_votes():
    votes = np.array([4.0, -9.0, 3.0, 1.0])
    seen = Counter(int(KeepByVotes()(choice(votes, 1, seed=seed)).indices[0]) for seed in range(4000))
    assert set(seen) == {0, 2, 3}
    # Deviations are below 32 of 2,000, 1,500 and 500: 4.5 of them are passed with probability 2e-5 in all.
    assert all(abs(seen[i] - 500 * votes[i]) < 143 for i in seen)
    everybody = KeepByVotes()(choice(votes, 4))
    assert (everybody.indices.tolist(), everybody.weights.tolist()) == ([0, 2, 3], [4.0, 3.0, 1.0])
    assert len(KeepByVotes()(choice([-1.0, -2.0], 2)).indices) == 1


def naive_medoids(vectors, votes, size):
    """Keep what adds most, step by step, with every sum computed anew."""
    kept: list[int] = []
    loud = [i for i in range(len(votes)) if votes[i] > 0]

    def covered(medoids):
        return sum(votes[i] * max([0.0, *(float(vectors[i] @ vectors[m]) for m in medoids)]) for i in loud)

    while len(kept) < min(size, len(loud)):
        kept.append(max((i for i in loud if i not in kept), key=lambda i: (round(covered([*kept, i]), 9), -i)))
    return kept


@pytest.mark.parametrize("seed", range(8))
def test_clusters_are_those_of_the_naive_greedy_search(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(25, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    votes = rng.normal(size=25) * 2
    kept = KeepClusters(0.5)(choice(votes, 6, vectors=vectors))
    above = np.maximum(votes - 0.5, 0)
    assert kept.indices.tolist() == naive_medoids(np.float32(vectors).astype(float), above, 6)
    owners = [
        max(range(len(kept.indices)), key=lambda m, i=i: vectors[i] @ vectors[kept.indices[m]]) for i in range(25)
    ]
    masses = [sum(above[i] for i in range(25) if owners[i] == m) for m in range(len(kept.indices))]
    assert kept.weights == pytest.approx(masses)


def test_a_minority_that_the_top_loses_stays_with_clusters():
    rng = np.random.default_rng(3)
    many, few = (np.eye(8)[at] + 0.1 * rng.normal(size=(count, 8)) for at, count in ((0, 40), (5, 4)))
    vectors = np.concatenate([many, few])
    votes = np.concatenate([rng.random(40) + 9, rng.random(4) + 4])
    top, clusters = (keeper(choice(votes, 5, vectors=vectors)).indices for keeper in (KeepTop(), KeepClusters(2.0)))
    assert (top < 40).all()
    assert (clusters >= 40).any()
    assert (clusters < 40).any()


@pytest.mark.parametrize("name", KEEPERS.places)
def test_no_keeper_keeps_a_probe_or_a_barred_entry(name):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(30, 4))
    reserved, barred = (1, 7, 29), tuple(range(8, 20))
    population, probes = split(Bank(vectors, tuple(f"t{i}" for i in range(30)), reserved=reserved))
    published = Published.of(population, probes, barred=barred)
    release = rng.random(30) + 5
    release[list(reserved + barred)] = 100.0
    for keep in (Keep(0.1), Keep(0.5), Keep(1.0)):
        done = Round.of(0, published, release, keep, SPENT, keeper=KEEPERS.find(name)(), noise=0.1)
        assert not set(done.kept.tolist()) & {*reserved, *barred}
        assert 1 <= len(done.kept) <= min(keep.of(30), 15)
        assert [population.texts[i] for i in done.kept_candidates] == [f"t{i}" for i in done.kept]
        assert done.weights.shape == done.kept.shape


@pytest.mark.parametrize(
    ("kept", "wrong"),
    [
        ([0, 1, 2], "returned a list"),
        (Kept([], []), "kept 0 candidates"),
        (Kept([0, 1, 2, 3], [1, 1, 1, 1]), "at most 3"),
        (Kept([0, 0], [1, 1]), "different candidates"),
        (Kept([0, 4], [1, 1]), "from 0 to 3"),
        (Kept([-1], [1]), "from 0 to 3"),
        (Kept([0, 1], [1]), "finite weight"),
        (Kept([0], [-1]), "finite weight"),
        (Kept([0], [np.nan]), "finite weight"),
    ],
)
def test_what_a_keeper_must_not_answer_is_refused_in_words(kept, wrong):
    with pytest.raises(InputError, match=wrong):
        apply_keeper(lambda _: kept, choice([1.0, 2.0, 3.0, 4.0], 3))


@pytest.mark.parametrize("keeper", [KeepAboveNoise, KeepClusters])
@pytest.mark.parametrize("threshold", [-1.0, float("nan")])
def test_a_threshold_is_at_least_0(keeper, threshold):
    with pytest.raises(InputError, match="threshold"):
        keeper(threshold)
