"""Our own mechanism with secret shares: releases are drawn, for no exact law of a score is known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.attack import Design
from canarybank.defend.votes import ShareVotes
from canarybank.mechanism import Mechanism
from canarybank.users import Users

__all__ = ["ShareSystem"]


@dataclass(frozen=True, slots=True, eq=False)
class ShareSystem:
    """Our mechanism with a frozen bank and secret sets that are new at every release, on the inspected coordinates.

    ``copies`` says how often each user stands among the eligible ones; every copy has coins and sets of its own.
    """

    canary: ShareVotes
    users: ShareVotes
    copies: NDArray[np.int64]
    mechanism: Mechanism

    @classmethod
    def of(cls, design: Design, users: Users, rows: ArrayLike, mechanism: Mechanism) -> "ShareSystem":
        """Return the system that an attack is played on, with the users at these rows eligible.

        Args:
            design: The frozen attack.
            users: A cohort's users.
            rows: Who of them is eligible, as often as they stand there.
            mechanism: The parameters of the release.
        """
        own = np.zeros(len(design.canary.vectors), dtype=np.int64)
        return cls(
            ShareVotes.of(design.canary.vectors, own, design.bank, design.inspected, mechanism),
            ShareVotes.of(users.require_vectors(), users.owners, design.bank, design.inspected, mechanism),
            np.bincount(np.asarray(rows, dtype=np.int64), minlength=len(users)),
            mechanism,
        )

    def release(self, eligible: bool, size: int, rng: np.random.Generator) -> NDArray[np.float64]:  # noqa: FBT001
        """Draw participants and their sets, sum what they contribute, add noise; an eligible canary tosses a coin."""
        releases = self.users.background(size, rng, self.copies)
        releases += self.mechanism.noise * rng.standard_normal(releases.shape)
        if eligible:
            took = np.flatnonzero(rng.random(size) < self.mechanism.q)
            releases[took] += self.canary.draw(0, len(took), rng)
        return releases
