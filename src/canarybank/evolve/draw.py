"""Draw one round's release: sample users, let their records vote, normalise, clip, sum, add noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.evolve.randomness import Randomness, snapped
from canarybank.mechanism import Bank, Mechanism, contributions, route
from canarybank.mechanism.mechanism import whole
from canarybank.users import Users

__all__ = ["Voters"]


@dataclass(frozen=True, eq=False)
class Voters:
    """The private users of a run, each cut to their first ``cap`` records; all that leaves here is a release."""

    users: Users
    cap: int | None = None

    def __post_init__(self) -> None:
        vectors, owners = self.users.require_vectors(), self.users.owners
        if self.cap is not None:
            place = np.arange(len(owners)) - np.searchsorted(owners, owners)
            within = place < whole("The cap on records", self.cap)
            vectors, owners = vectors[within], owners[within]
        # Texts and labels stay behind: votes need vectors only, and every record votes over the whole bank.
        object.__setattr__(self, "users", Users(self.users.ids, owners, vectors=vectors))

    def release(self, bank: Bank, mechanism: Mechanism, randomness: Randomness) -> NDArray[np.float64]:
        """Return sum over users of I_u c_u + Z over the whole bank, rounded by ``snapped``.

        I_u ~ Bernoulli(q) and Z ~ N(0, (sigma·clip)² I), all independent; c_u is the user's contribution, of norm at
        most clip over all that is released, whatever the labels. Only users with I_u = 1 are routed.
        """
        self.check(bank)
        taking_part = np.flatnonzero(randomness.random(len(self.users)) < mechanism.q)
        noise = mechanism.noise * randomness.standard_normal(bank.size)
        return snapped(self._votes(taking_part, bank, mechanism) + noise, mechanism.noise)

    def check(self, bank: Bank) -> None:
        """Refuse a bank that these records cannot vote on."""
        dimension = self.users.require_vectors().shape[1]
        if dimension != bank.dimension:
            raise InputError(
                f"Records have dimension {dimension} and the bank {bank.dimension}; encode both with one encoder."
            )

    def _votes(self, taking_part: NDArray[np.int64], bank: Bank, mechanism: Mechanism) -> NDArray[np.float64]:
        if len(taking_part) == 0:
            return np.zeros(bank.size)
        present = self.users.take(taking_part)
        routes = route(present.require_vectors(), bank, mechanism.k)
        table = contributions(routes, present.owners, len(present), bank.size, mechanism.clip)
        return np.asarray(table.sum(axis=0), dtype=np.float64)
