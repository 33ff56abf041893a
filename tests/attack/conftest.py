"""Build a small world of bare vectors: a bank with reserved positions, auxiliary users, a canary of each kind."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.attack import (
    Attack,
    Canary,
    CanaryKind,
    Pool,
    PoolKind,
    PoolSource,
    nonce_canary,
    nonce_pool,
    search,
    simulated_nonces,
    simulated_paraphrases,
)
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.users import Auxiliary, Users

RECORDS, DIMENSION = 8, 24


@dataclass(frozen=True)
class World:
    bank: Bank
    routed: Routed[Auxiliary]
    mechanism: Mechanism
    real: Canary

    @cached_property
    def searched(self) -> tuple[Canary, Pool]:
        return search(
            self.bank,
            self.routed,
            self.mechanism,
            eligible=200,
            encode=simulated_nonces(self.bank.vectors, 1),
            records=RECORDS,
            seed=3,
            families=["nonces", "greek"],
        )

    def canary(self, attack: Attack) -> Canary:
        if attack.pool is PoolKind.SEARCHED:
            return self.searched[0]
        nonce = attack.canary is CanaryKind.NONCE
        return nonce_canary(RECORDS, simulated_nonces(self.bank.vectors, 1), 3) if nonce else self.real

    def source(self, attack: Attack) -> Pool | PoolSource | None:
        if attack.pool is PoolKind.SEARCHED:
            return self.searched[1]
        nonces, paraphrases = nonce_pool(simulated_nonces(self.bank.vectors, 1)), simulated_paraphrases()
        return {PoolKind.NONCES: nonces, PoolKind.PARAPHRASES: paraphrases}.get(attack.pool)


def directions(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    vectors = rng.standard_normal(shape)
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="session")
def world() -> World:
    rng = np.random.default_rng(0)
    bank = Bank(directions(rng, 300, DIMENSION)).reserve(12, seed=5)
    users = Users.from_vectors({f"aux-{i}": directions(rng, RECORDS, DIMENSION) for i in range(60)})
    mechanism = Mechanism(k=3)
    real = Canary(directions(rng, RECORDS, DIMENSION), id="real")
    return World(bank, Routed.build(Auxiliary(users), bank, mechanism.k), mechanism, real)
