from collections import Counter

import numpy as np
import pytest

from canarybank.attack import Canary, Pool
from canarybank.attack.selection import spread, uniform
from canarybank.errors import InputError


def pool_of(sources: list[int]) -> Pool:
    return Pool(np.zeros((len(sources), 2)), sources=tuple(sources))


def canary_of(records: int, name: str = "c") -> Canary:
    return Canary(np.zeros((records, 2)), id=name)


def naive_spread(sources: list[int], order: list[int], count: int) -> list[int]:
    waiting = {i: [j for j, source in enumerate(sources) if source == i] for i in order}
    taken: list[int] = []
    while len(taken) < count:
        for i in order:
            if waiting[i] and len(taken) < count:
                taken.append(waiting[i].pop(0))
    return taken


@pytest.mark.parametrize("case", range(50))
def test_spread_lets_records_take_turns(case: int) -> None:
    rng = np.random.default_rng(case)
    records = int(rng.integers(1, 7))
    sources = [int(i) for i in rng.integers(records, size=int(rng.integers(1, 25)))]
    everything = spread(pool_of(sources), canary_of(records), len(sources), case)
    order = sorted(range(records), key=lambda i: [sources[j] for j in everything].index(i) if i in sources else 99)
    for count in range(1, len(sources) + 1):
        found = spread(pool_of(sources), canary_of(records), count, case)
        assert found == everything[:count]
        votes, supply = Counter(sources[j] for j in found), Counter(sources)
        unfinished = [votes[i] for i in range(records) if votes[i] < supply[i]]
        assert not unfinished or max(votes.values()) - min(unfinished) <= 1
    # The turns within a round follow one order; a record that is absent from the first round has no candidate at all.
    assert everything == naive_spread(sources, order, len(sources))


def test_spread_divides_evenly_and_leaves_the_remainder_to_the_seed() -> None:
    sources = [i % 5 for i in range(40)]
    assert set(Counter(sources[j] for j in spread(pool_of(sources), canary_of(5), 20, 1)).values()) == {4}
    extra = {
        max(Counter(sources[j] for j in spread(pool_of(sources), canary_of(5), 21, s)).items(), key=lambda x: x[1])[0]
        for s in range(60)
    }
    # Chance that 60 fair draws of one of five miss any of them: at most 5 * 0.8^60 = 8e-6.
    assert extra == set(range(5))


def test_uniform_draws_without_replacement_and_evenly() -> None:
    pool = Pool(np.zeros((10, 2)))
    draws = [uniform(pool, canary_of(1), 4, seed) for seed in range(2000)]
    assert all(len(set(draw)) == 4 for draw in draws)
    counts = Counter(j for draw in draws for j in draw)
    # Binomial(2000, 0.4): sd 21.9; six of them over ten entries is a false alarm below 2e-8.
    assert all(abs(counts[j] - 800) < 6 * 21.9 for j in range(10))
    assert uniform(pool, canary_of(1), 4, 7) == draws[7]
    assert uniform(pool, canary_of(1, "other"), 10, 7) != uniform(pool, canary_of(1), 10, 7)


def test_what_cannot_be_selected_is_refused() -> None:
    for rule in (spread, uniform):
        with pytest.raises(InputError, match="3 probes were asked for from a pool of 2"):
            rule(pool_of([0, 0]), canary_of(1), 3, 0)
    with pytest.raises(InputError, match="no sources"):
        spread(Pool(np.zeros((3, 2))), canary_of(1), 2, 0)
    with pytest.raises(InputError, match="rewrites record 4, but the canary has 2"):
        spread(pool_of([0, 4]), canary_of(2), 2, 0)
