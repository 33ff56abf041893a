"""Hold what a search found, and predict what the evaluation users will show.

The users held out from the search and the evaluation users are alike: drawn from the same people. So the held-out ones
predict the others. A draw of the prediction gives every held-out user a random share, and one more beside them, who
stands for those that nobody has seen yet; the eligible users are drawn by these shares. That is Polya's urn: it knows
that a population was seen through few of its people. How loud somebody unseen is, is drawn from how loud users are on
the quietest quarter of the texts that were screened, where they vote for one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.score import Interval, RoundLaw, quick_epsilon

__all__ = ["SHORT", "SearchFacts", "predicted_epsilon"]

LEVEL = 0.95
DRAWS = 119
SHORT = 0.97
"""Below this share of the mechanism's epsilon, what is in the way is named."""
RESOLUTION = 1e-4
"""Epsilons of a search are compared to this; stated intervals are wider by it."""


@dataclass(frozen=True, slots=True)
class SearchFacts:
    """What a search found, all of it from public things and the auxiliary users."""

    family: str
    """The family that the texts are from."""
    examples: tuple[str, ...]
    """Some of the texts: probes first, then a decoy."""
    probes: int
    """How many probes the canary's records are to vote for."""
    decoys: int
    """How many entries are planted to draw other users' votes away from these."""
    votes: tuple[int, ...]
    """How many of the held-out records vote for each of the probes."""
    voters: int
    """How many held-out users have such records."""
    users: int
    """How many users were held out from the search; none where there is one auxiliary user, who then judges it too."""
    background: float
    """The share of the score's variance that comes from users, and not from the noise."""
    concentration: float
    """How much of its clipped contribution the canary puts on the probes, by L2 norm: 1 where all votes go there."""
    epsilon: float | None
    """The exact epsilon of the attack on the held-out users, repeated until they are as many as are eligible; null
    where users vote within a secret share, for no exact law of a score is known there."""
    expected: Interval | None
    """Where the exact epsilon on the evaluation users should lie; null with the one above."""
    level: float
    """With this probability."""
    limit: float
    """The most that any attack can reach: the epsilon of a perfect one."""
    candidates: int
    """How many texts were tried."""

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "SearchFacts":
        """Return the facts that ``dataclasses.asdict`` wrote, also where JSON made lists of tuples."""
        return cls(
            **{
                **given,
                "examples": tuple(given["examples"]),
                "votes": tuple(given["votes"]),
                "expected": None if given["expected"] is None else Interval(**given["expected"]),
            }
        )

    @property
    def falls_short(self) -> bool:
        """Return whether the search found less than 97% of what the mechanism allows; False where it cannot say."""
        return self.epsilon is not None and self.epsilon < SHORT * self.limit

    def __str__(self) -> str:
        found = f"Found among {self.candidates:,} texts ({self.family})"
        if self.epsilon is None or self.expected is None:
            return (
                f"{found}: chosen by what users vote for in the whole bank. What it reaches behind their secret shares "
                "is computed by canarybank.defend.reach."
            )
        share = self.epsilon / self.limit if self.limit else 1.0
        users = f"on {self.users} held-out users" if self.users else "on the one auxiliary user, none held out"
        said = (
            f"{found}: {self.epsilon:.3f} of {self.limit:.3f} ({share:.0%}) {users}, {self.expected.lower:.3f} to "
            f"{self.expected.upper:.3f} expected on others at {self.level:.0%}."
        )
        if not self.falls_short:
            return said
        return (
            f"{said} What is in the way: {self.voters} of the {self.users or 1} users vote for the probes, "
            f"{_counted(self.votes)} records a probe, and {self.background:.1%} of the score's variance is theirs; the "
            f"canary puts {self.concentration:.1%} of its contribution on the probes."
        )


def _counted(votes: Sequence[int]) -> str:
    low, high = min(votes, default=0), max(votes, default=0)
    return str(low) if low == high else f"{low} to {high}"


def predicted_epsilon(
    law: RoundLaw,
    weights: NDArray[np.float64],
    unseen: NDArray[np.float64],
    *,
    eligible: int,
    delta: float,
    limit: float,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> Interval:
    """Return the range of exact epsilons that 95% of drawn populations give.

    For the lower end the users whom nobody has seen yet are loud, for the upper end they are quiet.

    Args:
        law: The law of the frozen score over any users; the drawn ones take their place.
        weights: What each held-out user adds to the score when it takes part.
        unseen: What users may add whom nobody has seen yet, each as likely.
        eligible: How many users are eligible.
        delta: The delta of epsilon.
        limit: The mechanism's epsilon, which no attack exceeds.
        rng: Draws the populations.
        draws: How many populations are drawn.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> law, none = RoundLaw.perfect(Mechanism()), np.zeros(10)
        >>> found = predicted_epsilon(
        ...     law, none, none, eligible=10, delta=1e-5, limit=1.6845, rng=np.random.default_rng(0), draws=5
        ... )
        >>> round(found.upper, 2)
        1.68
    """
    shares = rng.dirichlet(np.ones(len(weights) + 1), size=draws)
    counts = [rng.multinomial(eligible, share) for share in shares]

    def ordered(others: NDArray[np.float64]) -> list[float]:
        drawn = (np.append(np.repeat(weights, each[:-1]), rng.choice(others, each[-1])) for each in counts)
        return sorted(quick_epsilon(replace(law, weights=each), delta) for each in drawn)

    cut = max(1, int((draws + 1) * (1.0 - LEVEL) / 2.0))
    low, high = ordered(unseen)[cut - 1] - RESOLUTION, ordered(np.zeros(1))[-cut] + RESOLUTION
    return Interval(max(0.0, min(low, limit)), min(high, limit))
