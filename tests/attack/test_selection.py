import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from canarybank.attack import Canary, Pool, SelectionContext
from canarybank.attack.selection import select
from canarybank.errors import ConfigError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable
from canarybank.registry import SELECTIONS
from canarybank.users import Auxiliary, Users

spread, uniform, take_all = map(SELECTIONS.find, ("spread", "uniform", "all"))
BANK = Bank(np.eye(2, dtype=np.float32))
AUXILIARY = Routed.build(Auxiliary(Users.from_vectors({"a": np.eye(2), "b": np.eye(2)})), BANK, 1)


def pool_of(sources: list[int]) -> Pool:
    return Pool(np.zeros((len(sources), 2)), sources=tuple(sources))


def canary_of(records: int, name: str = "c") -> Canary:
    return Canary(np.zeros((records, 2)), id=name)


def seen(pool: Pool, canary: Canary, count: int, seed: int) -> SelectionContext:
    table = RouteTable.build(canary.vectors, BANK, 1)
    return SelectionContext(canary, pool, BANK, tuple(range(count)), table, AUXILIARY, Mechanism(k=1), 2, seed)


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
    everything = spread(seen(pool_of(sources), canary_of(records), len(sources), case))
    order = sorted(range(records), key=lambda i: [sources[j] for j in everything].index(i) if i in sources else 99)
    for count in range(1, len(sources) + 1):
        found = spread(seen(pool_of(sources), canary_of(records), count, case))
        assert found == everything[:count]
        votes, supply = Counter(sources[j] for j in found), Counter(sources)
        unfinished = [votes[i] for i in range(records) if votes[i] < supply[i]]
        assert not unfinished or max(votes.values()) - min(unfinished) <= 1
    # The turns within a round follow one order; a record that is absent from the first round has no candidate at all.
    assert everything == naive_spread(sources, order, len(sources))


def test_spread_divides_evenly_and_leaves_the_remainder_to_the_seed() -> None:
    sources = [i % 5 for i in range(40)]
    assert set(Counter(sources[j] for j in spread(seen(pool_of(sources), canary_of(5), 20, 1))).values()) == {4}
    extra = {
        max(
            Counter(sources[j] for j in spread(seen(pool_of(sources), canary_of(5), 21, s))).items(), key=lambda x: x[1]
        )[0]
        for s in range(60)
    }
    # Chance that 60 fair draws of one of five miss any of them: at most 5 * 0.8^60 = 8e-6.
    assert extra == set(range(5))


def test_uniform_draws_without_replacement_and_evenly() -> None:
    pool = Pool(np.zeros((10, 2)))
    draws = [uniform(seen(pool, canary_of(1), 4, seed)) for seed in range(2000)]
    assert all(len(set(draw)) == 4 for draw in draws)
    counts = Counter(j for draw in draws for j in draw)
    # Binomial(2000, 0.4): sd 21.9; six of them over ten entries is a false alarm below 2e-8.
    assert all(abs(counts[j] - 800) < 6 * 21.9 for j in range(10))
    assert uniform(seen(pool, canary_of(1), 4, 7)) == draws[7]
    assert uniform(seen(pool, canary_of(1, "other"), 10, 7)) != uniform(seen(pool, canary_of(1), 10, 7))


def test_what_cannot_be_selected_is_refused() -> None:
    for draw in (spread, uniform):
        with pytest.raises(InputError, match="3 probes were asked for from a pool of 2"):
            draw(seen(pool_of([0, 0]), canary_of(1), 3, 0))
    with pytest.raises(InputError, match="no sources"):
        spread(seen(Pool(np.zeros((3, 2))), canary_of(1), 2, 0))
    with pytest.raises(InputError, match="rewrites record 4, but the canary has 2"):
        spread(seen(pool_of([0, 4]), canary_of(2), 2, 0))


def test_all_is_the_whole_pool_and_needs_a_place_for_each() -> None:
    assert take_all(seen(pool_of([0, 0, 1]), canary_of(2), 5, 0)) == [0, 1, 2]
    with pytest.raises(InputError, match="3 candidates and the bank reserves 2 positions"):
        take_all(seen(pool_of([0, 0, 1]), canary_of(2), 2, 0))


def rule(monkeypatch: pytest.MonkeyPatch, returned: object) -> None:
    """Put a rule of somebody else's at ``my_rules:rule`` that returns this."""
    monkeypatch.setitem(sys.modules, "my_rules", SimpleNamespace(rule=lambda _: returned))


@pytest.mark.parametrize(
    ("returned", "wrong"),
    [
        ([0], "returned 1 pool indices for 2 places and a pool of 4"),
        ([0, 1, 2], "returned 3 pool indices for 2 places"),
        ([1, 1], "a pool index twice"),
        ([0, 4], "the pool index 4, but the pool has 4 candidates"),
        ([-1, 0], "the pool index -1"),
        ([0.0, 1.0], "whole numbers"),
        (None, "returned None; a rule returns pool indices"),
    ],
)
def test_what_a_rule_returns_is_checked(returned: object, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule(monkeypatch, returned)
    with pytest.raises(InputError, match=wrong):
        select("my_rules:rule", seen(pool_of([0, 0, 0, 0]), canary_of(1), 2, 0))


def test_a_rule_may_return_an_array_and_the_whole_of_a_small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    small = seen(pool_of([0, 0, 0]), canary_of(1), 5, 0)
    rule(monkeypatch, np.array([2, 0, 1]))
    assert select("my_rules:rule", small) == [2, 0, 1]
    rule(monkeypatch, [2, 0])
    with pytest.raises(InputError, match="or the whole pool where it is smaller"):
        select("my_rules:rule", small)


def test_a_rule_is_found_by_its_name_or_its_place() -> None:
    context = seen(Pool(np.zeros((10, 2))), canary_of(1), 4, 7)
    assert select("uniform", context) == uniform(context) == select("canarybank.attack.selection:uniform", context)
    with pytest.raises(ConfigError, match="'numpy:pi' is of type float; make it a function of a SelectionContext"):
        select("numpy:pi", context)
