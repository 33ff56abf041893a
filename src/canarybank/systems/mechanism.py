"""Say what an audit needs of the thing it audits: releases, with the canary absent or eligible."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, release
from canarybank.score import LinearScore, RoundLaw

__all__ = ["BankSystem", "CallableSystem", "ReleaseSystem", "SystemFactory", "checked_releases"]

Releases = NDArray[np.float64]


class ReleaseSystem(Protocol):
    """Anything that produces releases: ours, or somebody else's.

    It may also have ``law(score)``, the exact law of a score of its releases: then it is evaluated exactly.
    """

    def release(self, eligible: bool, size: int, rng: np.random.Generator) -> Releases:  # noqa: FBT001, our contract
        """Return ``size`` independent releases on the inspected coordinates, one a row."""


SystemFactory = Callable[[csr_array, NDArray[np.float64], Mechanism], ReleaseSystem]
"""Make a system from users' contributions and the canary's, on the inspected coordinates, and a mechanism."""


@dataclass(frozen=True, slots=True, eq=False)
class BankSystem:
    """Our own mechanism with a frozen bank, restricted to the inspected coordinates.

    The restriction changes nothing in law: noise is independent on every coordinate. ``participation`` is the
    canary's probability of taking part when it is eligible; it is the mechanism's q unless a test says otherwise.
    """

    contributions: csr_array
    canary: NDArray[np.float64]
    mechanism: Mechanism
    participation: float | None = None

    def __post_init__(self) -> None:
        if self.contributions.shape[1] != len(self.canary):
            raise InputError(
                f"The users contribute on {self.contributions.shape[1]} coordinates and the canary on "
                f"{len(self.canary)}; restrict both to the inspected coordinates."
            )
        if self.mechanism.share < 1:
            raise InputError(
                f"Under a secret share of {self.mechanism.share:g} a user's contribution is random, and this system "
                "has fixed ones; use ShareSystem, or set mechanism.share to 1."
            )

    def release(self, eligible: bool, size: int, rng: np.random.Generator) -> Releases:  # noqa: FBT001
        """Sample participants, sum their contributions, add noise; an eligible canary tosses a coin of its own."""
        releases = release(self.contributions, self.mechanism, rng, size)
        if eligible:
            chance = self.mechanism.q if self.participation is None else self.participation
            releases[rng.random(size) < chance] += self.canary
        return releases

    def law(self, score: LinearScore) -> RoundLaw | None:
        """Return the exact law of a score of the releases; none where the canary tosses another coin than users."""
        if self.participation is not None and self.participation != self.mechanism.q:
            return None
        return RoundLaw.of(score, self.contributions, self.canary, self.mechanism)

    def included(self) -> "BankSystem":
        """Return the system whose eligible canary surely takes part."""
        return replace(self, participation=1.0)


@dataclass(frozen=True, slots=True)
class CallableSystem:
    """Somebody else's system, as a function of ``eligible``, ``size`` and a generator."""

    function: Callable[[bool, int, np.random.Generator], Releases]
    coordinates: int

    def release(self, eligible: bool, size: int, rng: np.random.Generator) -> Releases:  # noqa: FBT001
        """Call the function, and refuse what is not a table of finite releases."""
        return checked_releases(self.function(eligible, size, rng), size, self.coordinates)


def checked_releases(given: ArrayLike, size: int, coordinates: int) -> Releases:
    """Return what a system released, or refuse what is not ``size`` finite releases on so many coordinates.

    A release that is missing or NaN exceeds no threshold: counted as a trial, it would silently bend the rates.

    Args:
        given: What the system returned.
        size: How many releases were asked for.
        coordinates: How many values a release has.

    Example:
        >>> checked_releases([[0.1, 0.2]], 1, 2).shape
        (1, 2)
    """
    releases = np.asarray(given, dtype=np.float64)
    if releases.shape != (size, coordinates):
        raise InputError(
            f"The system returned releases of shape {releases.shape}; asked for {size} on {coordinates} "
            f"coordinates it must return a table of shape {(size, coordinates)}."
        )
    if not np.isfinite(releases).all():
        raise InputError("The system returned a release that is NaN or infinite; fix the system before auditing it.")
    return releases
