from collections import Counter

import numpy as np
import pytest

from canarybank.errors import IncompleteError, InputError
from canarybank.evolution import (
    Evolution,
    Keep,
    Ledger,
    MemoryArchive,
    Population,
    Published,
    Round,
    Spent,
    evolve,
    project,
    sample,
    split,
    vote_shares,
)
from canarybank.evolution.sampling import draw_counts
from canarybank.mechanism import Bank, Mechanism

SPENT = Spent(1, 1.0, 1.0, 1e-5)


def made_round(release, reserved=(), barred=()) -> Round:
    bank = Bank(np.eye(len(release)), tuple(f"t{i}" for i in range(len(release))), reserved=reserved)
    published = Published.of(*split(bank), barred=barred)
    return Round.of(0, published, np.asarray(release, dtype=float), Keep(0.5), SPENT, noise=0.1)


class Coin:
    """A stream that draws one number, the given one."""

    def __init__(self, value):
        self.value = value

    def random(self):
        return self.value


@pytest.mark.parametrize("size", [1, 3, 10, 97])
def test_counts_are_the_expected_ones_rounded_and_right_on_average(size):
    shares, grid = np.array([0.0, 0.5, 0.2, 0.0, 0.26, 0.04, 0.0]), 4000
    counts = np.array([draw_counts(Coin((i + 0.5) / grid), shares, size) for i in range(grid)])
    assert (counts.sum(axis=1) == size).all()
    assert (counts >= np.floor(size * shares + 1e-9)).all()
    assert (counts <= np.ceil(size * shares - 1e-9)).all()
    assert counts.mean(axis=0) == pytest.approx(size * shares, abs=2 / grid)


@pytest.mark.parametrize("coin", [0.0, 1 - 2**-53])
def test_rounding_loses_no_draw_and_gives_none_to_whoever_has_no_share(coin):
    for seed in range(200):
        shares = np.append(np.random.default_rng(seed).random(17) * 1e-9, [0.0, 0.0])
        counts = draw_counts(Coin(coin), shares, 13)
        assert counts[:17].sum() == 13
        assert not counts[17:].any()


def test_shares_are_the_projected_votes_of_the_candidates_that_could_be_voted_for():
    done = made_round([6.0, 50.0, -3.0, 4.0, 90.0, 1.0, -1.0], reserved=(1,), barred=(4,))
    left = project([6.0, -3.0, 4.0, 1.0, -1.0], 7.0)
    assert vote_shares(done).tolist() == pytest.approx([left[0] / 7, 0, left[2] / 7, 0, left[3] / 7, 0])


def test_where_noise_hides_the_total_positive_votes_count_and_else_everybody():
    assert vote_shares(made_round([1.0, -9.0, 3.0])).tolist() == [0.25, 0.0, 0.75]
    assert vote_shares(made_round([-1.0, -9.0, -3.0, -1.0], barred=(0,))).tolist() == pytest.approx([0, *[1 / 3] * 3])


def test_a_sample_follows_the_votes_of_the_last_round_or_of_all(world):
    made = evolve(*world.arguments, 3, keep=world.keep, insecure_seed=1)
    last = dict(zip(made.rounds[-1].population.ids, vote_shares(made.rounds[-1]), strict=True))
    drawn = Counter(each.id for each in sample(made, 5000))
    assert all(abs(drawn[name] - 5000 * share) <= 1 for name, share in last.items())
    naive = Counter()
    for done in made.rounds:
        for name, share in zip(done.population.ids, vote_shares(done), strict=True):
            naive[name] += share / 3
    over_all = Counter(each.id for each in sample(made, 5000, rounds="all"))
    assert set(over_all) - set(last)
    assert all(abs(over_all[name] - 5000 * share) <= 1 for name, share in naive.items())


def test_a_sample_follows_from_its_seed_and_texts_stay_theirs(world):
    made = evolve(*world.arguments, 1, keep=world.keep, insecure_seed=1)
    assert sample(made, 7, seed=3) == sample(made, 7, seed=3)
    assert len({sample(made, 7, seed=seed) for seed in range(20)}) > 1
    known = {each.id: each for each in made.rounds[0].population.candidates}
    assert all(known[each.id] == each for each in sample(made, 40))
    with pytest.raises(InputError, match="size"):
        sample(made, 0)


def test_a_run_without_a_release_has_no_votes_to_draw_by():
    archive = MemoryArchive()
    archive.put_bank(0, Published.of(split(Bank(np.eye(3), ("a", "b", "c")))[0], None))
    with pytest.raises(IncompleteError, match="no release yet"):
        sample(Evolution.gather(archive, Ledger(Mechanism()), Keep()), 3)


def test_a_distinct_sample_draws_no_candidate_twice_and_whoever_has_votes_first(world):
    made = evolve(*world.arguments, 3, keep=world.keep, insecure_seed=1)
    shares = Counter()
    for done in made.rounds:
        shares.update(dict(zip(done.population.ids, vote_shares(done), strict=True)))
    voted = {name for name, share in shares.items() if share > 0}
    few, most, every = (
        {each.id for each in sample(made, size, rounds="all", distinct=True)}
        for size in (5, len(voted) + 1, len(shares))
    )
    assert len(few) == 5
    assert few < voted < most
    assert every == set(shares)
    with pytest.raises(InputError, match="ask for fewer"):
        sample(made, len(shares) + 1, rounds="all", distinct=True)


def test_a_distinct_sample_of_one_follows_the_votes(world):
    made = evolve(*world.arguments, 1, keep=world.keep, insecure_seed=1)
    drawn = Counter(sample(made, 1, seed=seed, distinct=True)[0].id for seed in range(2000))
    shares = dict(zip(made.rounds[0].population.ids, vote_shares(made.rounds[0]), strict=True))
    # Five standard deviations of a binomial count; by chance 1 in 1.7 million each.
    assert all(
        abs(drawn[name] - 2000 * share) <= 5 * (2000 * share * (1 - share)) ** 0.5 for name, share in shares.items()
    )


def test_votes_of_neighbours_are_their_mean_and_reach_the_final_population(world):
    made = evolve(*world.arguments, 2, keep=world.keep, insecure_seed=1)
    vectors, noisy = [], []
    for done in made.rounds:
        vectors += list(done.population.vectors.astype(float))
        noisy += (done.votes / done.votes.sum()).tolist()
    pool = {c.id: v for r in made.rounds for c, v in zip(r.population.candidates, r.population.vectors, strict=True)}
    pool |= dict(zip(made.population.ids, made.population.vectors, strict=True))
    naive = {}
    for name, vector in pool.items():
        order = sorted(range(len(vectors)), key=lambda i: (float(((vectors[i] - vector) ** 2).sum()), i))
        naive[name] = max(0.0, sum(noisy[i] for i in order[:5]) / 5) ** 2
    total = sum(naive.values())
    drawn = Counter(each.id for each in sample(made, 5000, rounds="all", neighbours=5, focus=2))
    assert set(drawn) & (set(made.population.ids) - set(made.rounds[-1].population.ids))
    assert all(abs(drawn[name] - 5000 * weight / total) <= 1 for name, weight in naive.items())


def test_whoever_is_barred_is_in_no_sample_by_neighbours_either():
    done = made_round([6.0, 5.0, 3.0, 4.0], barred=(1,))
    left = Population(tuple(done.population.candidates[i] for i in (0, 2, 3)), done.population.vectors[[0, 2, 3]])
    made = Evolution(left, (done,), Mechanism(), SPENT)
    assert {each.text for each in sample(made, 3, neighbours=4, distinct=True)} == {"t0", "t2", "t3"}
    with pytest.raises(InputError, match="ask for fewer"):
        sample(made, 4, neighbours=4, distinct=True)


def test_wrong_neighbours_and_focus_are_refused(world):
    made = evolve(*world.arguments, 1, keep=world.keep, insecure_seed=1)
    for wrong in ({"neighbours": -1}, {"focus": 0.0}, {"focus": float("nan")}):
        with pytest.raises(InputError, match="neighbours must be"):
            sample(made, 3, **wrong)
