from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.measure import selection_fidelity
from canarybank.mechanism import Bank, Mechanism, contributions, route, route_within

QUIET = Mechanism(k=3, clip=0.25, sigma=1e-9, q=1.0)
OWNERS = np.repeat(np.arange(40), 5)


@pytest.fixture(scope="module")
def records() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(200, 4))


@pytest.fixture(scope="module")
def bank() -> Bank:
    return Bank(np.random.default_rng(1).normal(size=(60, 4))).reserve(6, 0)


def test_without_noise_sampling_and_defences_the_whole_top_is_kept(records: NDArray[np.float64], bank: Bank) -> None:
    for sampled in (True, False):
        found = selection_fidelity(records, OWNERS, bank, QUIET, top=10, draws=3, sampled=sampled)
        assert (found.kept, found.votes, found.error) == (1.0, 1.0, 0.0)
    assert found.chance == pytest.approx(10 / 54)
    assert "100.0% of the noiseless top 10 kept" in str(found)


def test_noise_alone_leaves_what_chance_leaves(records: NDArray[np.float64], bank: Bank) -> None:
    found = selection_fidelity(records, OWNERS, bank, replace(QUIET, sigma=1e6), top=10, draws=200)
    # The overlap of two random tens of 54 has a deviation of 0.11; five of its mean's over 200 draws.
    assert found.kept == pytest.approx(10 / 54, abs=5 * 0.115 / 200**0.5)
    assert found.error == pytest.approx(0.11 / 200**0.5, rel=0.3)


def test_it_is_its_naive_twin(records: NDArray[np.float64], bank: Bank) -> None:
    """Draw sets as ``route_within`` takes them, from the same stream, and compare the tops entry by entry."""
    mechanism = replace(QUIET, share=0.4, entry_cap=0.2)
    vetted = bank.bar([3, 11, 40])
    found = selection_fidelity(records, OWNERS, vetted, mechanism, top=8, draws=60, sampled=False)
    plain = contributions(route(records, bank, 3), OWNERS, 40, 60, 0.25).toarray().sum(axis=0)
    best = set(sorted(bank.base.tolist(), key=lambda e: (-plain[e], e))[:8])
    rng, kept = np.random.default_rng(9), []
    for _ in range(60):
        routes = route_within(records, OWNERS, vetted, 3, rng.random((40, 60)) < 0.4)
        votes = contributions(routes, OWNERS, 40, 60, 0.25, entry_cap=0.2).toarray().sum(axis=0)
        free = [e for e in bank.base.tolist() if e not in vetted.barred]
        kept.append(len(best & set(sorted(free, key=lambda e: (-votes[e], e))[:8])) / 8)
    spread = (np.var(kept) / 60) ** 0.5 + found.error
    assert found.kept == pytest.approx(np.mean(kept), abs=5 * spread)
    assert 0.3 < found.kept < 1.0


def test_each_defence_costs_and_probes_are_never_kept(records: NDArray[np.float64], bank: Bank) -> None:
    costs = [
        selection_fidelity(records, OWNERS, bank, replace(QUIET, share=share), top=10, draws=30, sampled=False).kept
        for share in (1.0, 0.5, 0.1)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[2] < 0.9
    plain = contributions(route(records, bank, 3), OWNERS, 40, 60, 0.25).toarray().sum(axis=0)
    winner = int(bank.base[np.argmax(plain[bank.base])])
    barred = selection_fidelity(records, OWNERS, bank.bar([winner]), QUIET, top=1, draws=2, sampled=False)
    assert barred.kept == 0.0


def test_refuses_a_top_that_is_too_large(records: NDArray[np.float64], bank: Bank) -> None:
    with pytest.raises(InputError, match="55 entries cannot be kept of 54"):
        selection_fidelity(records, OWNERS, bank, QUIET, top=55)
