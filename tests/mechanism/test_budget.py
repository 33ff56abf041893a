import math
from dataclasses import replace

import pytest

from canarybank.errors import BudgetError, InputError
from canarybank.mechanism import (
    Mechanism,
    affordable_rounds,
    composition_bound,
    epsilon,
    one_round_delta,
    q_for_users,
    sigma_for_epsilon,
)


@pytest.mark.parametrize(
    ("target", "q", "delta", "rounds"), [(2.0, 0.1, 1e-5, 6), (1.0, 1.0, 1e-5, 2), (0.1, 0.01, 1e-6, 1)]
)
def test_sigma_is_the_smallest_that_stays_within_the_target(target: float, q: float, delta: float, rounds: int) -> None:
    sigma = sigma_for_epsilon(target, q=q, delta=delta, rounds=rounds)
    mechanism = Mechanism(sigma=sigma, q=q, delta=delta)
    assert epsilon(mechanism, rounds) <= target
    assert epsilon(replace(mechanism, sigma=sigma * (1 - 2e-4)), rounds) > target
    assert float(f"{sigma:.5g}") == sigma


def test_sigma_inverts_the_known_single_release() -> None:
    assert sigma_for_epsilon(1.684545, q=0.1, delta=1e-5) == pytest.approx(1.0, abs=1.5e-4)


def test_a_huge_target_is_met_by_the_smallest_sigma_tried() -> None:
    assert sigma_for_epsilon(1e4, q=0.5, delta=1e-5) == 0.05


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_a_target_must_be_positive_and_finite(target: float) -> None:
    with pytest.raises(InputError, match="positive and finite"):
        sigma_for_epsilon(target, q=0.1, delta=1e-5)


def test_a_target_out_of_reach_is_refused() -> None:
    with pytest.raises(BudgetError, match="No sigma up to"):
        sigma_for_epsilon(1e-9, q=1.0, delta=1e-12)


def test_q_gives_the_users_per_round_on_average() -> None:
    assert q_for_users(100, 1000) == 0.1
    assert q_for_users(8, 8) == 1.0


@pytest.mark.parametrize("per_round", [0, -3, 1001, math.nan])
def test_users_per_round_must_be_among_the_users(per_round: float) -> None:
    with pytest.raises(InputError, match="users per round"):
        q_for_users(per_round, 1000)


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_the_composition_bound_adds_up_single_rounds_and_lies_above_the_exact_epsilon(rounds: int) -> None:
    mechanism = Mechanism(sigma=1.1088)
    bound = composition_bound(mechanism, rounds)
    # Each round spends delta/rounds at a rounds-th of the bound: the closed form says so.
    assert one_round_delta(mechanism, bound / rounds) == pytest.approx(1e-5 / rounds, rel=1e-9)
    assert bound >= epsilon(mechanism, rounds) - 1e-6
    if rounds == 1:
        assert bound == pytest.approx(1.3346819, abs=1e-6)


def test_affordable_rounds_are_those_within_the_budget() -> None:
    mechanism = Mechanism(sigma=1.1088)
    assert affordable_rounds(mechanism, 1.0, 10) == 0
    assert affordable_rounds(mechanism, 1.68, 10) == 3
    assert affordable_rounds(mechanism, epsilon(mechanism, 4), 10) == 4
    assert affordable_rounds(mechanism, 100.0, 10) == 10
