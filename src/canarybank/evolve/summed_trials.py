"""Play several rounds at once: draw the sum of their mixture scores, and count for every prefix of rounds together.

A trial of T rounds holds a trial of each prefix of them, so one pass serves all prefixes: the counts of a prefix are
the very ones that playing its rounds alone gives. Counts of different prefixes come from the same trials and are
dependent; each prefix's bound stands on its own counts, and claiming several at once needs a split of alpha only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from canarybank.audit import Counts, Projected, Shard, Trials, plan
from canarybank.engine import Engine, Threads
from canarybank.errors import InputError
from canarybank.progress import SILENT, Progress
from canarybank.score import RoundLaw, mixture

__all__ = ["SummedTrials", "count_prefix_shard", "count_prefixes"]

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SummedTrials:
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
    def of(cls, laws: Sequence[RoundLaw]) -> "SummedTrials":
        """Return the trials whose rounds follow these laws."""
        chances = sorted({law.q for law in laws})
        if len(chances) != 1:
            raise InputError(f"The rounds of one run share one participation probability, but here it is {chances}.")
        return cls([Projected(law) for law in laws], chances[0])

    def prefix(self, rounds: int) -> "SummedTrials":
        """Return the trials of the first rounds alone."""
        return replace(self, rounds=self.rounds[:rounds])

    def running(self, eligible: bool, size: int, rng: np.random.Generator) -> Iterator[Scores]:  # noqa: FBT001, as in the protocol
        """Yield the sums of ``size`` trials after each round, in one array that the next round changes."""
        total = np.zeros(size)
        for source in self.rounds:
            total += mixture(source.scores(eligible, size, rng), self.q)
            yield total

    def scores(self, eligible: bool, size: int, rng: np.random.Generator) -> Scores:  # noqa: FBT001, as in the protocol
        """Return the sums of ``size`` independent trials after the last round."""
        return list(self.running(eligible, size, rng))[-1]


def count_prefix_shard(
    trials: SummedTrials, thresholds: Sequence[float], seed: int, path: Sequence[str | int], shard: Shard
) -> tuple[int, ...]:
    """Play one shard and return, for each prefix, how many of its sums exceed the prefix's threshold."""
    sums = trials.running(shard.eligible, shard.size, shard.stream(seed, path))
    pairs = zip(sums, thresholds, strict=True)
    return tuple(int(np.count_nonzero(total > threshold)) for total, threshold in pairs)


def count_prefixes(
    trials: SummedTrials,
    thresholds: Sequence[float],
    number: int,
    *,
    seed: int,
    path: Sequence[str | int] = (),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> tuple[Counts, ...]:
    """Play ``number`` trials of each hypothesis and count, for the first 1, 2, ... rounds, the sums above a threshold.

    Entry t - 1 equals ``count(trials.prefix(t), thresholds[t - 1], ...)`` at the same seed and path.
    """
    if len(thresholds) != len(trials.rounds):
        raise InputError(f"There are {len(thresholds)} thresholds for {len(trials.rounds)} rounds; each needs one.")
    shards = plan(number)
    work = partial(count_prefix_shard, trials, tuple(thresholds), seed, tuple(path))
    found: dict[Shard, tuple[int, ...]] = {}
    with progress.stage(f"trials of {len(trials.rounds)} rounds", total=2 * number, unit="trials") as stage:
        for index, positives in (engine or Threads()).run(work, shards):
            found[shards[index]] = positives
            stage.advance(shards[index].size)
    return tuple(Counts.gather((s, positives[t]) for s, positives in found.items()) for t in range(len(thresholds)))
