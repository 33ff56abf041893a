import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from canarybank.errors import InputError
from canarybank.mechanism import (
    NO_ENTRY,
    Bank,
    Grid,
    Mechanism,
    contributions,
    route,
    route_within,
    shares,
    whole_contributions,
)
from canarybank.mechanism.shares import first_chosen, ranks_needed


def naive(
    records: NDArray[np.float64], owners: NDArray[np.int64], bank: Bank, k: int, chosen: NDArray[np.bool_]
) -> list:
    """Rank the whole bank for each record, and walk down the ranking."""
    everything = route(records, Bank(bank.vectors), bank.size)
    return [
        ([e for e in row if chosen[owner, e] and e not in bank.barred] + [NO_ENTRY] * k)[:k]
        for row, owner in zip(everything.tolist(), owners, strict=True)
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.1, 0.5, 0.9]), st.integers(1, 5), st.booleans())
def test_a_record_votes_for_the_nearest_entries_of_its_owners_set(
    seed: int, share: float, k: int, barred: bool
) -> None:
    rng = np.random.default_rng(seed)
    bank = Bank(np.round(rng.normal(size=(int(rng.integers(6, 300)), 3))))
    bank = bank.bar(rng.permutation(bank.size)[:5]) if barred and bank.size > 5 + k else bank
    owners = np.sort(rng.integers(0, 6, size=20))
    records = np.round(rng.normal(size=(20, 3)))
    chosen = rng.random((6, bank.size)) < share
    chosen[0] = False  # somebody may vote for nothing, and somebody for everything
    chosen[1] = True
    found = route_within(records, owners, bank, k, chosen)
    assert found.tolist() == naive(records, owners, bank, k, chosen)


def test_the_whole_bank_gives_the_usual_routes() -> None:
    rng = np.random.default_rng(0)
    bank, records = Bank(rng.normal(size=(50, 4))), rng.normal(size=(9, 4))
    assert np.array_equal(route_within(records, range(9), bank, 5, np.ones((9, 50), bool)), route(records, bank, 5))


def test_however_deep_rankings_go_no_more_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, held = np.random.default_rng(1), list[int]()
    bank, records, owners = Bank(rng.normal(size=(400, 3))), rng.normal(size=(90, 3)), np.repeat(np.arange(3), 30)
    chosen = rng.random((3, 400)) < [[0.02], [0.05], [0.0]]

    def counted(vectors: NDArray[np.float64], bank: Bank, depth: int) -> NDArray[np.int64]:
        held.append(len(vectors) * depth)
        return route(vectors, bank, depth)

    monkeypatch.setattr(shares, "route", counted)
    whole = route_within(records, owners, bank, 4, chosen)
    assert max(held) >= 30 * 400
    held.clear()
    for most in (4000, 100):  # ten records at a time, and one
        monkeypatch.setattr(shares, "MOST_RANKS", most)
        assert np.array_equal(route_within(records, owners, bank, 4, chosen), whole)
        assert max(held) <= max(most, 400)
        held.clear()


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_one_search_is_deep_enough_but_once_in_a_million(share: float, k: int) -> None:
    assert binom.cdf(k - 1, ranks_needed(k, share), share) < 1e-6
    assert ranks_needed(k, 1.0) == k


def test_first_chosen_keeps_the_order_and_fills_up() -> None:
    ranked = np.array([[4, 2, 9], [4, 2, 9]])
    inside = np.array([[False, True, True], [False, False, True]])
    assert first_chosen(ranked, inside, 2).tolist() == [[2, 9], [9, NO_ENTRY]]
    assert first_chosen(ranked, inside, 4)[0].tolist() == [2, 9, NO_ENTRY, NO_ENTRY]


def test_votes_that_are_not_cast_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first user casts three of four votes, the second none at all, the third all four.
    routes = np.array([[0, 1], [1, NO_ENTRY], [NO_ENTRY] * 2, [NO_ENTRY] * 2, [2, 3], [3, 0]])
    owners = np.repeat(np.arange(3), 2)
    expected = [[1 / 3, 2 / 3, 0, 0], [0] * 4, [0.25, 0, 0.25, 0.5]]
    for most in (0, 10**9):
        monkeypatch.setitem(contributions.__globals__, "MOST_PADDING", most)
        assert np.allclose(contributions(routes, owners, 3, 4, 2.0).toarray(), expected, rtol=1e-15, atol=0)
    nothing = np.full((2, 3), NO_ENTRY)
    assert contributions(nothing, [0, 1], 2, 4, 0.1).nnz == 0
    grid = Grid.of(Mechanism())
    assert whole_contributions(nothing, [0, 1], 2, 4, grid).nnz == 0
    assert whole_contributions(routes, owners, 3, 4, grid).toarray()[1].tolist() == [0] * 4


def test_refuses_sets_of_another_bank() -> None:
    with pytest.raises(InputError, match=r"table \(users, 4\) of true and false, not bool of shape \(2, 5\)"):
        route_within(np.ones((2, 3)), [0, 1], Bank(np.eye(4, 3)), 1, np.ones((2, 5), bool))
