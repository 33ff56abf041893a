"""Hold the pool covariance to the literal route over the base with all of the pool behind it."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.attack import Pool, pool_covariance
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.users import Calibration, Evaluation


def literal_covariance(world: Any, pool: Pool, mechanism: Mechanism, eligible: int) -> NDArray[np.float64]:
    base = world.bank.vectors[world.bank.base].astype(np.float64)
    entries = np.concatenate([base, pool.vectors.astype(np.float64)])
    users = world.routed.cohort.users
    second = np.zeros((len(pool), len(pool)))
    for u in range(len(users)):
        votes = np.zeros(len(entries))
        mine = users.vectors[users.owners == u].astype(np.float64)
        for record in mine:
            votes[np.argsort(((entries - record) ** 2).sum(axis=1), kind="stable")[: mechanism.k]] += 1
        votes /= len(mine) * mechanism.k
        votes *= min(1.0, mechanism.clip / np.linalg.norm(votes))
        second += np.outer(votes[len(base) :], votes[len(base) :]) / len(users)
    off = 0.9 * second
    np.fill_diagonal(off, second.diagonal())
    return mechanism.q * (1 - mechanism.q) * eligible * off + (mechanism.noise**2 + 1e-9) * np.eye(len(pool))


@pytest.mark.parametrize("mechanism", [Mechanism(k=3), Mechanism(k=2, clip=0.3, sigma=0.5, q=0.4)])
def test_it_is_the_estimate_on_the_literal_routes(world: Any, mechanism: Mechanism) -> None:
    records = world.routed.cohort.users.vectors
    pool = Pool(np.concatenate([records[::20], world.bank.vectors[world.bank.base[:4]], records[:2]]))
    found = pool_covariance(pool, world.routed, world.bank, mechanism, 1000)
    assert (np.abs(found - np.diag(found.diagonal())) > 0).any()
    np.testing.assert_allclose(found, literal_covariance(world, pool, mechanism, 1000), rtol=1e-12, atol=1e-16)


def test_what_stands_at_reserved_positions_does_not_matter(world: Any) -> None:
    pool = Pool(world.routed.cohort.users.vectors[:10])
    planted = world.bank.with_probes(world.routed.cohort.users.vectors[50:62])
    again = Routed.build(world.routed.cohort, planted, 3)
    first = pool_covariance(pool, world.routed, world.bank, world.mechanism, 100)
    assert np.array_equal(first, pool_covariance(pool, again, world.bank, world.mechanism, 100))


@pytest.mark.parametrize("role", [Calibration, Evaluation])
def test_no_other_cohort_is_taken(world: Any, role: type[Calibration | Evaluation]) -> None:
    other = dataclasses.replace(world.routed, cohort=role(world.routed.cohort.users))
    with pytest.raises(CohortError, match=role.__name__):
        pool_covariance(Pool(world.real.vectors), other, world.bank, world.mechanism, 10)


def test_another_base_is_refused(world: Any) -> None:
    for bank in (Bank(world.bank.vectors), Bank(world.bank.vectors[::-1], reserved=world.bank.reserved)):
        with pytest.raises(InputError, match="another base"):
            pool_covariance(Pool(world.real.vectors), world.routed, bank, world.mechanism, 10)
