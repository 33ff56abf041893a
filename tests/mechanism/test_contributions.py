from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism import Grid, Mechanism, contributions, route, whole_contributions
from canarybank.mechanism import contributions as contributions_function
from canarybank.mechanism.contributions import shrink_rows

Population = tuple[NDArray[np.int64], NDArray[np.int64], int, int]


@st.composite
def populations(draw: st.DrawFn) -> Population:
    """Draw routes, owners, users and bank size: few or many records a user, few or many entries to vote for."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    users, k = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    bank_size = draw(st.integers(k, 40))
    records = rng.integers(1, draw(st.sampled_from([2, 9, 70])), users)
    records[0] = draw(st.sampled_from([1, 3, 200]))
    owners = np.repeat(np.arange(users), records)
    if draw(st.booleans()):
        owners = rng.permutation(owners)
    favourites = draw(st.integers(k, bank_size))
    routes = np.array([rng.permutation(favourites)[:k] for _ in owners])
    return routes, owners, users, bank_size


def naive(routes: Any, owners: Any, users: int, bank_size: int, clip: float) -> NDArray[np.float64]:
    result = np.zeros((users, bank_size))
    for user in range(users):
        mine = [tuple(row) for row, owner in zip(routes.tolist(), owners.tolist(), strict=True) if owner == user]
        histogram = Counter(entry for row in mine for entry in row)
        for entry, votes in histogram.items():
            result[user, entry] = votes / (len(mine) * len(routes[0]))
        result[user] *= min(1.0, clip / np.linalg.norm(result[user]))
    return result


def capped(population: Population, clip: float, cap: float) -> NDArray[np.float64]:
    """Cap the votes of each user, which sum to 1, entry by entry; then clip."""
    result = np.minimum(naive(*population, 9.0), cap)
    return result * np.minimum(1.0, clip / np.linalg.norm(result, axis=1, keepdims=True))


def exact_square(values: Any) -> Fraction:
    return sum((Fraction(float(v)) ** 2 for v in values), Fraction(0))


@settings(deadline=None)
@given(populations(), st.floats(1e-6, 1.5))
def test_equals_the_naive_twin(population: Population, clip: float) -> None:
    found = contributions(*population, clip)
    assert found.shape == population[2:]
    assert np.allclose(found.toarray(), naive(*population, clip), rtol=1e-12, atol=0)
    assert found.has_canonical_format
    assert (found.data > 0).all()


@settings(deadline=None)
@given(populations(), st.floats(1e-6, 1.5))
def test_every_norm_is_at_most_clip_exactly(population: Population, clip: float) -> None:
    for row in contributions(*population, clip).toarray():
        assert exact_square(row) <= Fraction(clip) ** 2
        assert np.linalg.norm(row) <= clip
        assert np.sqrt(sum(float(v) * float(v) for v in row)) <= clip


@settings(deadline=None)
@given(populations(), st.floats(0.01, 1.5), st.data())
def test_adding_or_removing_one_user_moves_the_sum_by_at_most_clip(
    population: Population, clip: float, data: st.DataObject
) -> None:
    routes, owners, users, bank_size = population
    gone = data.draw(st.integers(0, users - 1))
    everyone = contributions(*population, clip).toarray()
    others = np.delete(everyone, gone, axis=0)
    if users > 1:
        kept = owners != gone
        renumbered = owners[kept] - (owners[kept] > gone)
        alone = contributions(routes[kept], renumbered, users - 1, bank_size, clip).toarray()
        assert np.array_equal(alone, others)
    moved = [
        sum(map(Fraction, everyone[:, j].tolist())) - sum(map(Fraction, others[:, j].tolist()))
        for j in range(bank_size)
    ]
    assert sum(m**2 for m in moved) <= Fraction(clip) ** 2


@settings(deadline=None)
@given(populations(), st.floats(1e-3, 1.5), st.floats(1e-4, 1.0))
def test_the_entry_cap_equals_its_naive_twin_and_keeps_the_clip(
    population: Population, clip: float, cap: float
) -> None:
    found = contributions(*population, clip, entry_cap=cap)
    assert np.allclose(found.toarray(), capped(population, clip, cap), rtol=1e-12, atol=0)
    assert found.data.max() <= cap
    grid = Grid.of(Mechanism(clip=clip))
    whole = whole_contributions(*population, grid, entry_cap=cap)
    assert whole.data.max() <= cap / grid.step
    for row, steps in zip(found.toarray(), whole.toarray().tolist(), strict=True):
        assert exact_square(row) <= Fraction(clip) ** 2
        # However many entries share a user's votes, capped ones have a norm of at most the root of the cap.
        assert exact_square(row) <= Fraction(cap) * (1 + Fraction(1, 10**12))
        assert sum(step**2 for step in steps) <= grid.radius**2


def test_a_cap_of_one_changes_nothing_and_a_cap_that_enough_entries_share_takes_nothing() -> None:
    rng = np.random.default_rng(0)
    routes, owners = rng.integers(0, 40, (60, 1)), np.repeat(np.arange(6), 10)
    free, capped_at_one = (contributions(routes, owners, 6, 40, 0.1, entry_cap=cap) for cap in (None, 1.0))
    assert np.array_equal(free.toarray(), capped_at_one.toarray())
    # (C / cap)² = 16 entries reach the clip, 15 do not: C = 0.1, cap = 0.025.
    norms = {}
    for entries in (15, 16, 64):
        spread = np.arange(entries)[:, None]
        row = contributions(spread, np.zeros(entries, int), 1, 80, 0.1, entry_cap=0.025)
        norms[entries] = float(np.sqrt(np.square(row.data).sum()))
    assert norms[15] == pytest.approx(0.025 * 15**0.5)
    assert norms[16] == pytest.approx(0.1)
    assert norms[64] == pytest.approx(0.1)


def test_a_concentrated_user_is_clipped_and_a_spread_one_is_not() -> None:
    concentrated, spread = np.tile(np.arange(5), (64, 1)), np.arange(320).reshape(64, 5)
    owners = np.repeat([0, 1], 64)
    found = contributions(np.concatenate((concentrated, spread)), owners, 2, 400, 0.1)
    norms = np.sqrt(np.square(found.toarray()).sum(axis=1))
    assert norms[0] == pytest.approx(0.1, rel=1e-13)
    assert found[0, 0] == pytest.approx(0.1 / 5**0.5, rel=1e-13)
    assert found.toarray()[1, :320].tolist() == [1 / 320] * 320


def test_the_clip_counts_coordinates_that_nobody_inspects() -> None:
    # One vote on entry 0, nine on entry 9: on entry 0 alone the norm would be far below the clip.
    routes = np.array([[0]] + [[9]] * 9)
    found = contributions(routes, np.zeros(10, dtype=int), 1, 10, 0.1).toarray()[0]
    assert found[0] == pytest.approx(0.1 / 82**0.5)
    assert found[9] == pytest.approx(0.9 / 82**0.5)


def test_padding_and_one_long_sort_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(30), rng.integers(1, 40, 30))
    routes = route(rng.normal(size=(len(owners), 4)), rng.normal(size=(50, 4)), 5)
    results = []
    for most in (0, 10**9):
        monkeypatch.setitem(contributions_function.__globals__, "MOST_PADDING", most)
        results.append(contributions(routes, owners, 30, 50, 0.1))
    one, other = results
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(one, part), getattr(other, part))


ROUTES = np.array([[0, 1], [1, 2], [0, 2]])
OWNERS = np.array([0, 0, 1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"routes": np.empty((0, 2), dtype=int), "owners": np.empty(0, dtype=int)}, "non-empty table"),
        ({"routes": ROUTES.astype(float)}, "whole numbers, not float64"),
        ({"routes": ROUTES[0]}, r"shape \(2,\)"),
        ({"routes": ROUTES - 1}, "run from -1 to 1, outside a bank of 3"),
        ({"bank_size": 2}, "run from 0 to 2, outside a bank of 2"),
        ({"bank_size": 2**40}, "too large"),
        ({"owners": OWNERS[:2]}, r"each of the 3 records, not int64 of shape \(2,\)"),
        ({"owners": OWNERS.astype(float)}, "each of the 3 records, not float64"),
        ({"owners": OWNERS - 1}, "run from -1 to 0, outside the 2 users"),
        ({"users": 1}, "run from 0 to 1, outside the 1 users"),
        ({"users": 3}, "User 2 has no records"),
        ({"clip": 0.0}, "clip must be positive and finite, not 0.0"),
        ({"clip": float("inf")}, "clip must be positive and finite, not inf"),
        ({"clip": float("nan")}, "clip must be positive and finite, not nan"),
    ],
)
def test_refuses_what_makes_no_contribution(change: dict[str, Any], words: str) -> None:
    arguments = {"routes": ROUTES, "owners": OWNERS, "users": 2, "bank_size": 3, "clip": 0.1} | change
    with pytest.raises(InputError, match=words):
        contributions(**arguments)


# --- on the grid -----------------------------------------------------------------------------------------------------


def test_whole_contributions_are_those_of_float64_rounded_towards_zero() -> None:
    rng = np.random.default_rng(8)
    owners = np.repeat(np.arange(40), rng.integers(1, 30, 40))
    routes = rng.integers(0, 50, (len(owners), 4))
    for mechanism in (Mechanism(), Mechanism(sigma=0.01), Mechanism(clip=3e-4, sigma=50.0)):
        grid = Grid.of(mechanism)
        whole = whole_contributions(routes, owners, 40, 50, grid)
        exact = contributions(routes, owners, 40, 50, mechanism.clip)
        assert whole.dtype == np.int64
        lost = exact.toarray() / grid.step - whole.toarray()
        assert lost.min() >= -1e-3
        assert lost.max() <= 2
        assert all(sum(int(n) ** 2 for n in row) <= grid.radius**2 for row in whole.toarray())
        # Nothing but the grid is lost: a clipped row is within one step an entry of the radius.
        assert max(sum(int(n) ** 2 for n in row) for row in whole.toarray()) >= (grid.radius - 60) ** 2


def test_rows_past_the_radius_are_shrunk_until_whole_numbers_say_that_they_fit() -> None:
    table = csr_array(np.array([[3, 4, 0], [3, 4, 1], [-9, 0, 9], [5, 0, 0]], dtype=np.int64))
    shrink_rows(table, 5)
    assert table.toarray().tolist() == [[3, 4, 0], [2, 3, 0], [-3, 0, 3], [5, 0, 0]]
