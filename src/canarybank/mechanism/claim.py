"""State what is claimed of releases: an epsilon at a delta, for neighbours, perhaps of a known mechanism."""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from canarybank.errors import InputError
from canarybank.mechanism.accounting import epsilon
from canarybank.mechanism.mechanism import Mechanism, finite_number, whole

__all__ = ["Claim", "attained_epsilon"]

Neighbours = Literal["add-remove", "replace"]
COMPOSED: Final = 2e-6
"""What the epsilon of several releases may be above the truth, relative to itself, for its accountant rounds up."""
ROUNDING: Final = 1e-9
"""What a computed epsilon may be wrong by for rounding in float64, relative to itself: far more than it is."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that ``rounds`` releases together are (epsilon, delta)-differentially private.

    Neighbours differ by adding or removing one user, or by replacing one user with another. A claim that names its
    mechanism can be false without any trial: ``refutation`` says so.

    Example:
        >>> Claim.of(Mechanism(sigma=2.0)).epsilon < Claim.of(Mechanism(sigma=1.0)).epsilon
        True
        >>> print(Claim(1.5, 1e-5, mechanism=Mechanism()).refutation)
        The claim is too small: 1 release of this mechanism has an exact epsilon of 1.685 at delta 1e-05, not 1.5.
    """

    epsilon: float
    """The claimed epsilon; infinite where nothing is claimed at this delta."""
    delta: float
    """The delta at which it is claimed."""
    neighbours: Neighbours = "add-remove"
    """What differs between neighbours: one user is added or removed, or replaced."""
    mechanism: Mechanism | None = None
    """What releases, where that is known; at the same delta."""
    rounds: int = 1
    """The number of releases."""

    def __post_init__(self) -> None:
        """Refuse what is no claim, and a mechanism at another delta."""
        stated = self.epsilon if self.epsilon == math.inf else finite_number("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", stated)
        object.__setattr__(self, "delta", finite_number("delta", self.delta))
        object.__setattr__(self, "rounds", whole("rounds", self.rounds))
        if self.epsilon < 0:
            raise InputError(f"A claimed epsilon must be at least 0, not {self.epsilon!r}.")
        if not 0 <= self.delta < 1:
            raise InputError(f"delta must lie in [0, 1), not be {self.delta!r}; 1e-5 is the usual choice.")
        if self.neighbours not in get_args(Neighbours):
            raise InputError(f"neighbours must be one of {', '.join(get_args(Neighbours))}, not {self.neighbours!r}.")
        if self.mechanism is not None and self.mechanism.delta != self.delta:
            raise InputError(
                f"The claim is about delta {self.delta:g} and its mechanism about {self.mechanism.delta:g}; an epsilon "
                "means nothing at another delta, so state both at the same one."
            )

    @classmethod
    def of(cls, mechanism: Mechanism, rounds: int = 1, *, neighbours: Neighbours = "add-remove") -> "Claim":
        """Return the tightest true claim of a mechanism: its exact epsilon over so many releases.

        Only adding or removing one user has an exact epsilon here; state that of replacement yourself.
        """
        if neighbours != "add-remove":
            raise InputError(
                f"No exact epsilon is known here for neighbours {neighbours!r}; use Claim(epsilon, delta, "
                f"neighbours={neighbours!r}) with the epsilon that you claim."
            )
        return cls(epsilon(mechanism, rounds), mechanism.delta, neighbours, mechanism, rounds)

    @property
    def q(self) -> float:
        """Return each user's probability of taking part in a release: the mechanism's, or 1 where none is named."""
        return 1.0 if self.mechanism is None else self.mechanism.q

    @property
    def is_false(self) -> bool:
        """Return whether the mechanism's own exact epsilon exceeds the claim: then no trial is needed."""
        return self.attained is not None and self.attained > self.epsilon

    @property
    def attained(self) -> float | None:
        """Return the exact epsilon that the mechanism attains for these neighbours, from below; None where unknown.

        Two users whose votes share no entry differ by sqrt(2) times the norm of each. So replacing one is like adding
        one to a release with less noise, where everybody takes part; at q < 1 no exact figure is known here.
        """
        if self.mechanism is None or (self.neighbours == "replace" and self.mechanism.q < 1):
            return None
        apart = math.sqrt(2) if self.neighbours == "replace" else 1.0
        return attained_epsilon(replace(self.mechanism, sigma=self.mechanism.sigma / apart), self.rounds)

    @property
    def refutation(self) -> str | None:
        """Return the sentence that says why the claim is false without any trial, or None where it may be true."""
        if not self.is_false:
            return None
        releases = "1 release" if self.rounds == 1 else f"{self.rounds} releases"
        return (
            f"The claim is too small: {releases} of this mechanism {'has' if self.rounds == 1 else 'have'} an exact "
            f"epsilon of {self.attained:.4g} at delta {self.delta:g}, not {self.epsilon:g}."
        )

    def __str__(self) -> str:
        pair = "adding or removing one user" if self.neighbours == "add-remove" else "replacing one user"
        over = "1 release" if self.rounds == 1 else f"{self.rounds} releases"
        stated = f"{self.epsilon:.4g}" if math.isfinite(self.epsilon) else "∞"
        return f"epsilon {stated} at delta {self.delta:g} for {pair}, over {over}"


def attained_epsilon(mechanism: Mechanism, rounds: int = 1) -> float:
    """Return the exact epsilon of so many releases at the largest contribution that votes can make, from below.

    A user's votes are 1/k for at most k entries in all, so their norm is at most k^-1/2 and the clip of C cuts them to
    min(C, k^-1/2). This is attained: all records of a user may vote alike. Where the clip is larger than any votes, the
    epsilon of the clip itself is proven but never attained. Rounding in float64 is taken off, so that the figure does
    not exceed the truth.

    The formula: the trade-off of two Gaussians (Balle and Wang, 2018, https://arxiv.org/abs/1805.06530), subsampled as
    in Zhu, Dong and Wang (2022, https://arxiv.org/abs/2106.08567).

    Args:
        mechanism: The parameters of the release.
        rounds: How many releases are composed.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> round(attained_epsilon(Mechanism(k=5, clip=0.1)), 3)  # the clip is below the norm of any full vote
        1.685
        >>> attained_epsilon(Mechanism(k=5, clip=1.0)) < attained_epsilon(Mechanism(k=1, clip=1.0))
        True
    """
    slack = max(1.0, mechanism.clip * math.sqrt(mechanism.k))
    rounding = ROUNDING if rounds == 1 else COMPOSED
    return epsilon(replace(mechanism, sigma=mechanism.sigma * slack), rounds) * (1 - rounding)
