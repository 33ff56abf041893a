"""Draw the scores of trials: literally, from their scalar law, or those alone that exceed a threshold.

All of these follow the same law. ``Literal`` samples participants, sums vectors, adds noise and scores the release: it
is the reference, and it works with any system. ``Projected`` uses that the score is linear: each user is one number,
and a trial is one Bernoulli-weighted sum plus one Gaussian. ``Tail`` also uses that a trial counts only where its score
exceeds the frozen threshold: it draws those trials, and leaves the others undrawn.

``Summed`` adds the mixture scores of several rounds up. A trial of T rounds holds a trial of each prefix of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.score import LinearScore, RoundLaw, mixture
from canarybank.score.cumulants import NoisySum
from canarybank.score.exceedances import Exceedances
from canarybank.systems.mechanism import BankSystem, ReleaseSystem, checked_releases

__all__ = ["Crowd", "Literal", "Projected", "Scores", "Summed", "Tail", "Trials"]

_BATCH = 1 << 12
_VALUES = 1 << 16
_DRAWN = 1 << 20
"""How many patterns are drawn at a time, a multiple of the four in a random word."""
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
MOST_SURVIVING = 0.1
"""Where a larger share of trials must be drawn one by one, it is faster to draw all of them eight users at a time."""

Scores = NDArray[np.float64]


class Trials(Protocol):
    """A source of trial scores."""

    def scores(self, eligible: bool, size: int, rng: np.random.Generator) -> Scores:  # noqa: FBT001, as ReleaseSystem.release
        """Return the scores of ``size`` independent trials with the canary absent or eligible."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Draw whole releases from a system and score each."""

    system: ReleaseSystem
    score: LinearScore

    def scores(self, eligible: bool, size: int, rng: np.random.Generator) -> Scores:  # noqa: FBT001, as in the protocol
        """Release and score in batches, so that memory stays bounded."""
        batches = (min(_BATCH, size - done) for done in range(0, size, _BATCH))
        releases = (
            checked_releases(self.system.release(eligible, batch, rng), batch, len(self.score.canary))
            for batch in batches
        )
        return np.concatenate([self.score.llr(each) for each in releases])

    def included(self) -> "Literal":
        """Return the same trials with a canary that surely takes part, where the system is our own."""
        if not isinstance(self.system, BankSystem):
            raise InputError(
                "Trials in which the canary surely takes part need our own system; for another system use a method "
                "that counts eligible trials, such as 'paper' or 'clopper-pearson'."
            )
        return replace(self, system=self.system.included())


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Users who each take part with probability q, tossed eight at a time: who of eight takes part is one byte.

    Sixteen random bits choose the pattern. Pattern s owns floor(65536 p_s) of their values, with p_s its probability;
    the few values that are left over go to the patterns in proportion to what the floors cut off, by a fresh uniform.
    So every pattern has its probability to within the rounding of float64.
    """

    sums: NDArray[np.float64]
    """For every eight users, the sum of their weights under each of the 256 patterns of taking part."""
    settled: NDArray[np.uint8]
    """The pattern of each value of sixteen bits; values from ``open`` on are still to be decided."""
    open: int
    remainders: NDArray[np.float64]

    @classmethod
    def of(cls, weights: NDArray[np.float64], q: float) -> "Crowd":
        """Return the crowd of users with these weights, each of whom takes part with probability q."""
        sums = np.ascontiguousarray(np.pad(weights, (0, -len(weights) % 8)).reshape(-1, 8) @ _BITS.T)
        taking = _BITS.sum(axis=1)
        shares = _VALUES * q**taking * (1.0 - q) ** (8 - taking)
        whole = np.floor(shares).astype(np.int64)
        settled = np.zeros(_VALUES, dtype=np.uint8)
        settled[: whole.sum()] = np.repeat(np.arange(256, dtype=np.uint8), whole)
        return cls(sums, settled, int(whole.sum()), np.cumsum(shares - whole))

    def toss(self, size: int, rng: np.random.Generator) -> Scores:
        """Toss every user's coin ``size`` times and return the sums of the weights of those who take part."""
        patterns, undecided = np.empty(len(self.sums) * size, dtype=np.uint8), [np.zeros(0, dtype=np.int64)]
        # A pattern takes a byte; the bits that choose it are drawn in blocks, as the same stream, and take more.
        for start in range(0, len(patterns), _DRAWN):
            block = patterns[start : start + _DRAWN]
            drawn = rng.integers(0, 1 << 64, size=-(-len(block) // 4), dtype=np.uint64)
            values = drawn.view(np.uint16)[: len(block)]
            self.settled.take(values, out=block)
            undecided.append(np.flatnonzero(values >= self.open) + start)
        left = np.concatenate(undecided)
        fresh = rng.random(len(left)) * self.remainders[-1]
        patterns[left] = np.searchsorted(self.remainders, fresh, side="right")
        total = np.zeros(size)
        for sums, pattern in zip(self.sums, patterns.reshape(len(self.sums), size), strict=True):
            total += sums.take(pattern)
        return total


@dataclass(frozen=True, slots=True)
class Projected:
    """Draw scores from their scalar law: a Bernoulli-weighted sum of one number a user, plus one Gaussian."""

    law: RoundLaw
    participation: float | None = None
    _crowd: Crowd = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_crowd", Crowd.of(self.law.weights[self.law.weights != 0], self.law.q))

    def scores(self, eligible: bool, size: int, rng: np.random.Generator) -> Scores:  # noqa: FBT001, as in the protocol
        """Sum the participating users' numbers batch by batch; add the noise and the canary."""
        law = self.law
        scores = rng.standard_normal(size) * law.noise - law.offset
        for start in range(0, size, _BATCH):
            batch = scores[start : start + _BATCH]
            batch += self._crowd.toss(len(batch), rng)
        if eligible:
            scores[rng.random(size) < (law.q if self.participation is None else self.participation)] += law.shift
        return scores

    def included(self) -> "Projected":
        """Return the same trials with a canary that surely takes part."""
        return replace(self, participation=1.0)


@dataclass(frozen=True, slots=True)
class Tail:
    """Draw of all trials only those whose score exceeds a cut: the counts and the scores have the same law.

    Args:
        law: The law of the score.
        participation: The chance that an eligible canary takes part; left out, that of the law.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> trials = Tail(RoundLaw.perfect(Mechanism()))
        >>> high = trials.above(3.0, False, 1_000_000, np.random.default_rng(0))
        >>> len(high), bool(high.min() > 3.0)  # P(N(0, 1) > 3.5) is 0.000233
        (218, True)
    """

    law: RoundLaw
    participation: float | None = None

    def scores(self, eligible: bool, size: int, rng: np.random.Generator) -> Scores:  # noqa: FBT001, as in the protocol
        """Return the scores of all trials, as ``Projected`` draws them."""
        return Projected(self.law, self.participation).scores(eligible, size, rng)

    def above(self, cut: float, eligible: bool, size: int, rng: np.random.Generator) -> Scores:  # noqa: FBT001, as in the protocol
        """Return the scores above a cut of ``size`` independent trials, in no order.

        Args:
            cut: Scores above it are returned.
            eligible: Whether the canary may take part.
            size: The number of trials.
            rng: Where randomness comes from.
        """
        law = self.law
        if law.silent:
            return np.full(size if -law.offset > cut else 0, -law.offset)
        chance = law.q if self.participation is None else self.participation
        taking = int(rng.binomial(size, chance)) if eligible else 0
        return np.concatenate(
            [
                self._without_canary(cut, size - taking, rng),
                self._without_canary(cut - law.shift, taking, rng) + law.shift,
            ]
        )

    def _without_canary(self, cut: float, size: int, rng: np.random.Generator) -> Scores:
        drawn = _exceedances(self.law.background, cut + self.law.offset)
        if drawn.survival < MOST_SURVIVING:
            return drawn.draw(size, rng) - self.law.offset
        scores = self.scores(False, size, rng)  # noqa: FBT003, as the protocol has it
        return scores[scores > cut]

    def included(self) -> "Tail":
        """Return the same trials with a canary that surely takes part."""
        return replace(self, participation=1.0)


@lru_cache(maxsize=8)
def _exceedances(law: NoisySum, cut: float) -> Exceedances:
    """Return the draws above a cut; the shards of a rule share its tilt."""
    return Exceedances.above(law, cut)


@dataclass(frozen=True, slots=True)
class Summed:
    """Draw the sum of rounds' mixture scores, coins and noise fresh in every round; a source of trials like any other.

    ``rounds`` are the sources of each round's llr, played one after another from one stream.
    """

    rounds: Sequence[Trials]
    q: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", tuple(self.rounds))
        if not self.rounds:
            raise InputError("A sum over rounds needs at least one round.")
        mixture(0.0, self.q)

    @classmethod
    def of(cls, laws: Sequence[RoundLaw]) -> "Summed":
        """Return the trials whose rounds follow these laws."""
        chances = sorted({law.q for law in laws})
        if len(chances) != 1:
            raise InputError(f"The rounds of one run share one participation probability, but here it is {chances}.")
        return cls([Projected(law) for law in laws], chances[0])

    def running(self, eligible: bool, size: int, rng: np.random.Generator) -> Iterator[Scores]:  # noqa: FBT001, as in the protocol
        """Yield the sums of ``size`` trials after each round, in one array that the next round changes."""
        total = np.zeros(size)
        for source in self.rounds:
            total += mixture(source.scores(eligible, size, rng), self.q)
            yield total

    def scores(self, eligible: bool, size: int, rng: np.random.Generator) -> Scores:  # noqa: FBT001, as in the protocol
        """Return the sums of ``size`` independent trials after the last round."""
        return list(self.running(eligible, size, rng))[-1]
