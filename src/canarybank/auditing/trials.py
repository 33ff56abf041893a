"""Play the hypothesis test many times and count how often the frozen rule says "present".

Two engines draw the score of a trial, and both follow the same law. ``Literal`` samples participants, sums
vectors, adds noise and scores the release: it is the reference, and it works with any system. ``Projected``
uses that the score is linear: each user is one number, and a trial is one Bernoulli-weighted sum plus one
Gaussian.

``Summed`` adds the mixture scores of several rounds up. A trial of T rounds holds a trial of each prefix of them, so
one pass serves all prefixes: the counts of a prefix are the very ones that playing its rounds alone gives. Counts of
different prefixes come from the same trials and are dependent; each prefix's bound stands on its own counts.

Trials come in shards. A shard's stream is derived from the root seed and the shard's own address, so counts
depend neither on the number of workers nor on the order in which shards finish; and the two hypotheses
stand at different addresses, so they never share randomness.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from canarybank import seeds
from canarybank.engine import Engine, Threads
from canarybank.errors import InputError
from canarybank.progress import SILENT, Progress
from canarybank.score import LinearScore, RoundLaw, mixture
from canarybank.systems.mechanism import BankSystem, ReleaseSystem, checked_releases

__all__ = [
    "SHARD",
    "Counts",
    "Crowd",
    "Literal",
    "Projected",
    "Shard",
    "Summed",
    "Trials",
    "count",
    "count_prefixes",
    "count_shard",
    "draw",
    "plan",
]

SHARD = 1 << 17
_BATCH = 1 << 12
_VALUES = 1 << 16
_DRAWN = 1 << 20
"""How many patterns are drawn at a time, a multiple of the four in a random word."""
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)

Scores = NDArray[np.float64]
Outcome = TypeVar("Outcome")


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


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """A block of trials of one hypothesis: the unit of work, of seeding and of resumption."""

    eligible: bool
    block: int
    size: int

    def stream(self, seed: int, path: Sequence[str | int]) -> np.random.Generator:
        """Return this shard's own random stream under a root seed and an address."""
        return seeds.stream(seed, *path, "eligible" if self.eligible else "absent", self.block)


@dataclass(frozen=True, slots=True)
class Counts:
    """How often the rule said "present": of n1 trials with an eligible canary, and of n0 without."""

    tp: int
    """The trials with an eligible canary in which the rule said "present"."""
    fp: int
    """The trials without a canary in which the rule said "present"."""
    n1: int
    """The trials with an eligible canary."""
    n0: int
    """The trials without a canary."""

    @classmethod
    def gather(cls, shards: Iterable[tuple[Shard, int]]) -> "Counts":
        """Add up shards, in any order."""
        totals = {True: [0, 0], False: [0, 0]}
        for shard, positives in shards:
            totals[shard.eligible][0] += positives
            totals[shard.eligible][1] += shard.size
        return cls(tp=totals[True][0], fp=totals[False][0], n1=totals[True][1], n0=totals[False][1])


def plan(trials: int, size: int = SHARD) -> tuple[Shard, ...]:
    """Cut ``trials`` of each hypothesis into shards of at most ``size``.

    Args:
        trials: The trials of each hypothesis.
        size: The most trials of a shard.

    Example:
        >>> len(plan(1000, size=300))
        8
    """
    if trials < 1:
        raise InputError(f"An audit needs at least one trial of each hypothesis, not {trials}.")
    return tuple(
        Shard(eligible, block, min(size, trials - start))
        for eligible in (False, True)
        for block, start in enumerate(range(0, trials, size))
    )


def count_shard(
    trials: Trials, thresholds: Sequence[float], seed: int, path: Sequence[str | int], shard: Shard
) -> tuple[int, ...]:
    """Play one shard and return how many scores exceed each threshold: one for each prefix of rounds.

    Args:
        trials: What plays trials.
        thresholds: The frozen threshold after each number of rounds.
        seed: The root of what is random.
        path: Where these trials stand below the root.
        shard: Which trials of which hypothesis are played.

    Example:
        >>> from canarybank.auditing import Projected
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> trials = Projected(RoundLaw.perfect(Mechanism(q=0.5)))
        >>> absent, eligible = (count_shard(trials, [1.0], 0, (), shard)[0] for shard in plan(1_000))
        >>> absent < eligible
        True
    """
    drawn = (shard.eligible, shard.size, shard.stream(seed, path))
    scores = trials.running(*drawn) if isinstance(trials, Summed) else [trials.scores(*drawn)]
    return tuple(int(np.count_nonzero(each > at)) for each, at in zip(scores, thresholds, strict=True))


def count(
    trials: Trials,
    threshold: float,
    number: int,
    *,
    seed: int,
    path: Sequence[str | int] = (),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> Counts:
    """Play ``number`` trials of each hypothesis and count the scores above the threshold.

    Args:
        trials: What plays trials.
        threshold: The frozen threshold.
        number: How many trials of each hypothesis are played.
        seed: The root of what is random.
        path: Where these trials stand below the root.
        engine: Where the work runs; left out, here.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.auditing import Projected
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> trials = Projected(RoundLaw.perfect(Mechanism(q=0.5)))
        >>> found = count(trials, 1.0, 1_000, seed=0)
        >>> found.tp > found.fp
        True
    """
    thresholds = [threshold] * (len(trials.rounds) if isinstance(trials, Summed) else 1)
    return count_prefixes(trials, thresholds, number, seed=seed, path=path, engine=engine, progress=progress)[-1]


def count_prefixes(
    trials: Trials,
    thresholds: Sequence[float],
    number: int,
    *,
    seed: int,
    path: Sequence[str | int] = (),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> tuple[Counts, ...]:
    """Play ``number`` trials of each hypothesis and count, for the first 1, 2, ... rounds, the sums above a threshold.

    Entry t - 1 equals what ``count`` returns for the first t rounds alone, at the same seed and path.

    Args:
        trials: What plays trials.
        thresholds: The frozen threshold after each number of rounds.
        number: How many trials of each hypothesis are played.
        seed: The root of what is random.
        path: Where these trials stand below the root.
        engine: Where the work runs; left out, here.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.auditing import Projected
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> trials = Projected(RoundLaw.perfect(Mechanism(q=0.5)))
        >>> (found,) = count_prefixes(trials, [1.0], 1_000, seed=0)
        >>> found == count(trials, 1.0, 1_000, seed=0)
        True
    """
    rounds = len(trials.rounds) if isinstance(trials, Summed) else 1
    if len(thresholds) != rounds:
        raise InputError(f"There are {len(thresholds)} thresholds for {rounds} rounds; each needs one.")
    work = partial(count_shard, trials, tuple(thresholds), seed, tuple(path))
    found = list(_over_shards(work, number, engine, progress))
    return tuple(Counts.gather((shard, positives[t]) for shard, positives in found) for t in range(rounds))


def draw(
    trials: Trials,
    number: int,
    *,
    seed: int,
    path: Sequence[str | int] = (),
    ascending: bool = False,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> tuple[Scores, Scores]:
    """Return the scores themselves, absent then eligible, for calibration and for figures: as drawn, or in order.

    Args:
        trials: What plays trials.
        number: How many trials of each hypothesis are played.
        seed: The root of what is random.
        path: Where these trials stand below the root.
        ascending: Whether the scores come in order.
        engine: Where the work runs; left out, here.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.auditing import Projected
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> trials = Projected(RoundLaw.perfect(Mechanism(q=0.5)))
        >>> absent, eligible = draw(trials, 1_000, seed=0)
        >>> bool(absent.mean() < eligible.mean())
        True
    """
    work = partial(_draw_shard, trials, seed, tuple(path), ascending)
    scores = dict(_over_shards(work, number, engine, progress))
    absent, eligible = (
        np.concatenate([scores[each] for each in sorted(scores) if each.eligible is side]) for side in (False, True)
    )
    if ascending:  # each shard is in order already, and a stable sort merges them
        absent.sort(kind="stable")
        eligible.sort(kind="stable")
    return absent, eligible


def _draw_shard(trials: Trials, seed: int, path: Sequence[str | int], ascending: bool, shard: Shard) -> Scores:  # noqa: FBT001, bound in its place
    scores = trials.scores(shard.eligible, shard.size, shard.stream(seed, path))
    return np.sort(scores) if ascending else scores


def _over_shards(
    work: Callable[[Shard], Outcome], number: int, engine: Engine | None, progress: Progress
) -> Iterable[tuple[Shard, Outcome]]:
    shards = plan(number)
    with progress.stage("trials", total=2 * number, unit="trials") as stage:
        for index, outcome in (engine or Threads()).run(work, shards):
            stage.advance(shards[index].size)
            yield shards[index], outcome
