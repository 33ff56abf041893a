"""Draw one round's release: sample users, let their records vote, normalise, clip, sum, add noise."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.evolve.noise import SystemEntropy, find_noise, snapped
from canarybank.evolve.plan import EvolutionPlan
from canarybank.mechanism import Bank, Grid, Mechanism, contributions, route, whole_contributions
from canarybank.mechanism.mechanism import whole
from canarybank.seeds import stream
from canarybank.users import Users

__all__ = ["DrawnReleases", "Releaser", "ReleaserFactory", "Voters"]


class Releaser(Protocol):
    """Where an evolution's noisy histograms come from.

    A run draws them from its voters. A test may put in releases of its own, to see what else depends on users.
    """

    def release(self, round_number: int, bank: Bank) -> NDArray[np.float64]:
        """Return the noisy histogram of a round over its bank, one value an entry."""


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

    def release(self, bank: Bank, mechanism: Mechanism, noise: str = "discrete") -> NDArray[np.float64]:
        """Draw a real release: sum over users of I_u c_u + Z over the whole bank, on ``Grid.of(mechanism)``.

        I_u ~ Bernoulli(q), exactly; c_u is the user's contribution on the grid, of norm at most clip over all that is
        released, whatever the labels; Z is Gaussian noise of standard deviation sigma·clip, drawn as ``noise`` says and
        added in whole numbers. All come from the operating system and are independent. Only users with I_u = 1 are
        routed.
        """
        grid, sampler = Grid.of(mechanism), find_noise(noise)
        participants = np.flatnonzero(SystemEntropy().coins(mechanism.q, len(self.users)))
        return grid.values(sampler.add(self.histogram(participants, bank, mechanism), grid.scale))

    def simulate(self, bank: Bank, mechanism: Mechanism, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a simulated release: the same law in float64, from randomness that can be repeated, rounded."""
        participants = np.flatnonzero(rng.random(len(self.users)) < mechanism.q)
        noise = mechanism.noise * rng.standard_normal(bank.size)
        votes = self._sum(participants, bank, mechanism.k, partial(contributions, clip=mechanism.clip))
        return snapped(votes + noise, mechanism.noise)

    def histogram(self, participants: ArrayLike, bank: Bank, mechanism: Mechanism) -> NDArray[np.int64]:
        """Return the histogram without noise of these participants, indices into ``users``, in steps of the grid.

        The grid is ``Grid.of(mechanism)``. Each participant adds a vector of norm at most its radius, the same whoever
        else takes part; the sum is exact.
        """
        contribute = partial(whole_contributions, grid=Grid.of(mechanism))
        return np.asarray(self._sum(participants, bank, mechanism.k, contribute), dtype=np.int64)

    def check(self, bank: Bank) -> None:
        """Refuse a bank that these records cannot vote on."""
        dimension = self.users.require_vectors().shape[1]
        if dimension != bank.dimension:
            raise InputError(
                f"Records have dimension {dimension} and the bank {bank.dimension}; encode both with one encoder."
            )

    def _sum(
        self, participants: ArrayLike, bank: Bank, k: int, contribute: Callable[..., csr_array]
    ) -> NDArray[np.float64 | np.int64]:
        """Return the sum of the participants' contributions."""
        self.check(bank)
        chosen = np.asarray(participants, dtype=np.int64)
        if len(chosen) == 0:
            return np.zeros(bank.size)
        present = self.users.take(chosen)
        routes = route(present.require_vectors(), bank, k)
        return np.asarray(contribute(routes, present.owners, len(present), bank.size).sum(axis=0))


@dataclass(frozen=True, eq=False)
class DrawnReleases:
    """Draw a run's releases from its voters: real ones, or those of a simulation with an insecure seed."""

    voters: Voters
    plan: EvolutionPlan

    def release(self, round_number: int, bank: Bank) -> NDArray[np.float64]:
        """Draw a round's release over its bank."""
        plan = self.plan
        if plan.insecure_seed is None:
            return self.voters.release(bank, plan.mechanism, plan.noise)
        return self.voters.simulate(bank, plan.mechanism, stream(plan.insecure_seed, "evolve", "release", round_number))


ReleaserFactory = Callable[[Voters, EvolutionPlan], Releaser]
