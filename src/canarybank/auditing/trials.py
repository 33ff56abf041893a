"""Play the hypothesis test many times and count how often the frozen rule says "present".

Trials come in shards. A shard's stream is derived from the root seed and the shard's own address, so counts
depend neither on the number of workers nor on the order in which shards finish; and the two hypotheses
stand at different addresses, so they never share randomness.

One pass over trials of several rounds serves all prefixes: the counts of a prefix are the very ones that playing its
rounds alone gives. Counts of different prefixes come from the same trials and are dependent; each prefix's bound stands
on its own counts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from canarybank import seeds
from canarybank.auditing.sources import Scores, Summed, Tail, Trials
from canarybank.engine import Engine, Threads
from canarybank.errors import InputError
from canarybank.progress import SILENT, Progress

__all__ = ["SHARD", "Counts", "Shard", "count", "count_prefixes", "count_shard", "draw", "draw_above", "plan"]

SHARD = 1 << 17

Outcome = TypeVar("Outcome")


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
    if isinstance(trials, Tail):
        (at,) = thresholds
        return (len(trials.above(at, *drawn)),)
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
    return _joined(_over_shards(work, number, engine, progress), ascending=ascending)


def draw_above(
    trials: Tail,
    cut: float,
    number: int,
    *,
    seed: int,
    path: Sequence[str | int] = (),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> tuple[Scores, Scores]:
    """Return in order the scores above a cut of ``number`` trials of each hypothesis: absent, then eligible.

    Args:
        trials: What plays trials.
        cut: Scores above it are returned.
        number: How many trials of each hypothesis are played.
        seed: The root of what is random.
        path: Where these trials stand below the root.
        engine: Where the work runs; left out, here.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.auditing import Tail
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import RoundLaw
        >>> absent, eligible = draw_above(Tail(RoundLaw.perfect(Mechanism(q=0.5))), 3.0, 1_000_000, seed=0)
        >>> len(absent) < len(eligible) < 10_000
        True
    """
    work = partial(_draw_above_shard, trials, cut, seed, tuple(path))
    return _joined(_over_shards(work, number, engine, progress), ascending=True)


def _draw_shard(trials: Trials, seed: int, path: Sequence[str | int], ascending: bool, shard: Shard) -> Scores:  # noqa: FBT001, bound in its place
    scores = trials.scores(shard.eligible, shard.size, shard.stream(seed, path))
    return np.sort(scores) if ascending else scores


def _draw_above_shard(trials: Tail, cut: float, seed: int, path: Sequence[str | int], shard: Shard) -> Scores:
    return np.sort(trials.above(cut, shard.eligible, shard.size, shard.stream(seed, path)))


def _joined(drawn: Iterable[tuple[Shard, Scores]], *, ascending: bool) -> tuple[Scores, Scores]:
    """Return the scores of all shards of each hypothesis, absent then eligible."""
    scores = dict(drawn)
    absent, eligible = (
        np.concatenate([scores[each] for each in sorted(scores) if each.eligible is side]) for side in (False, True)
    )
    if ascending:  # each shard is in order already, and a stable sort merges them
        absent.sort(kind="stable")
        eligible.sort(kind="stable")
    return absent, eligible


def _over_shards(
    work: Callable[[Shard], Outcome], number: int, engine: Engine | None, progress: Progress
) -> Iterable[tuple[Shard, Outcome]]:
    shards = plan(number)
    with progress.stage("trials", total=2 * number, unit="trials") as stage:
        for index, outcome in (engine or Threads()).run(work, shards):
            stage.advance(shards[index].size)
            yield shards[index], outcome
