"""Literal releases on a torch device: coins, noise and what they depend on."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binomtest, kstest

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, route
from canarybank.mechanism.device_routing import DeviceRouter
from canarybank.systems import BankSystem, TorchSystem
from canarybank.systems import torch_mechanism as module

pytest.importorskip("torch")


def system(users: int = 12, q: float = 0.3, sigma: float = 1e-12, clip: float = 1.0) -> TorchSystem:
    """Return a system whose user u contributes on coordinate u alone, with almost no noise: releases show coins."""
    mechanism = Mechanism(q=q, sigma=sigma, clip=clip)
    return TorchSystem.of(BankSystem(csr_array(np.eye(users)), np.full(users, 2.0), mechanism), "cpu")


@pytest.mark.parametrize("q", [1.0, 0.5, 0.1, 1e-3])
def test_every_coin_falls_by_q_and_alone(q: float) -> None:
    # 4 q x (12 coins + 66 pairs) two-sided tests at 1e-7: a false alarm in fewer than 1 of 30,000 runs.
    size = 40_000
    taking = system(q=q).release(False, size, np.random.default_rng(1)) > 0.5
    for one in range(12):
        assert binomtest(int(taking[:, one].sum()), size, q).pvalue > 1e-7
        for other in range(one):
            assert binomtest(int((taking[:, one] & taking[:, other]).sum()), size, q * q).pvalue > 1e-7


def test_the_canary_tosses_a_coin_of_its_own() -> None:
    # Three tests at 1e-7. The last one: no coin of a user, in whatever trial, is the canary's of another trial.
    size = 40_000
    releases = system(q=0.2).release(True, size, np.random.default_rng(2))
    present = releases.min(axis=1) > 1.5
    assert binomtest(int(present.sum()), size, 0.2).pvalue > 1e-7
    both = present & (releases[:, 0] > 2.5)
    assert binomtest(int(both.sum()), size, 0.04).pvalue > 1e-7
    taking = (releases - 2.0 * present[:, None] > 0.5).ravel()[:size]
    assert binomtest(int((present & taking).sum()), size, 0.04).pvalue > 1e-7
    assert (system(q=0.2).included().release(True, 500, np.random.default_rng(3)).min(axis=1) > 1.5).all()


def test_noise_is_gaussian_and_independent() -> None:
    # Four Kolmogorov-Smirnov tests and six correlations, each at 1e-6 or less.
    mechanism = Mechanism(q=0.5, sigma=0.7, clip=0.2)
    empty = TorchSystem.of(BankSystem(csr_array(np.zeros((1, 4))), np.zeros(4), mechanism), "cpu")
    noise = empty.release(False, 30_000, np.random.default_rng(4)) / mechanism.noise
    for column in noise.T:
        assert kstest(column, "norm").pvalue > 1e-6
    correlations = np.corrcoef(noise.T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 5.2 / np.sqrt(30_000)


def test_releases_follow_from_the_stream_and_not_from_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    one = system(q=0.3, sigma=1.0)
    whole = one.release(True, 300, np.random.default_rng(5))
    assert np.array_equal(whole, one.release(True, 300, np.random.default_rng(5)))
    assert not np.allclose(whole, one.release(True, 300, np.random.default_rng(6)))
    monkeypatch.setitem(module.CHUNK_VALUES, "cpu", 100)
    assert np.allclose(whole, one.release(True, 300, np.random.default_rng(5)), rtol=1e-12)


def test_it_travels_to_other_processes() -> None:
    one = system()
    one.release(False, 2, np.random.default_rng(0))
    there = pickle.loads(pickle.dumps(one))  # noqa: S301, our own bytes
    assert np.array_equal(
        there.release(True, 5, np.random.default_rng(7)), one.release(True, 5, np.random.default_rng(7))
    )


def test_a_device_that_is_not_there_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="'cuda:9' cannot be used here"):
        TorchSystem.of(system(), "cuda:9").release(False, 1, np.random.default_rng(0))


def test_a_device_without_float64_leaves_the_work_to_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = system().release(True, 50, np.random.default_rng(6))
    monkeypatch.setattr("canarybank.encode.sentence.pick_device", lambda _=None: "mps")
    found = TorchSystem.of(system()).release(True, 50, np.random.default_rng(6))
    assert np.array_equal(found, expected)
    entries = np.eye(9, dtype=np.float32)
    assert np.array_equal(DeviceRouter(entries, 2).route_host(entries), route(entries, entries, 2))
