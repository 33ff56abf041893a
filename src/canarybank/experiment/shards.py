"""Play the evaluation's trials shard by shard, each durable once it is done.

A shard is a block of trials of one hypothesis of one canary of one attack, with a random stream of its own. Counts
add up, so whatever was done before a kill stays, and what is left gives the same sum in any order on any number of
workers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canarybank.audit import Counts, Shard, Trials, count_shard, plan
from canarybank.engine import Engine
from canarybank.errors import StoreError
from canarybank.experiment.designs import Case
from canarybank.progress import SILENT, Progress
from canarybank.store import Log

__all__ = ["Place", "Played", "ShardLog", "play", "read_shards"]

Place = tuple[str, int]
"""A canary's place: the attack's name, and its index among the attack's canaries."""


@dataclass(frozen=True, slots=True)
class _Task:
    place: Place
    trials: Trials
    threshold: float
    seed: int
    path: tuple[str | int, ...]
    shard: Shard

    def __call__(self) -> int:
        return count_shard(self.trials, self.threshold, self.seed, self.path, self.shard)


@dataclass(frozen=True, slots=True)
class Played:
    """The finished shards that a file holds, and the commitment they were played under."""

    commitment: str | None
    shards: Mapping[tuple[Place, Shard], int]

    def counts(self, place: Place) -> Counts:
        """Return a canary's counts over all of its finished shards."""
        return Counts.gather((shard, positives) for (at, shard), positives in self.shards.items() if at == place)


def read_shards(path: Path) -> Played:
    """Read a file of finished shards, or say how it was altered."""
    records = Log(path).records()
    shards: dict[tuple[Place, Shard], int] = {}
    for record in records[1:]:
        _add(shards, *_read(record, path), path)
    return Played(str(records[0].get("commitment")) if records else None, shards)


class ShardLog:
    """The finished shards of a run, in a file that names the commitment they were played under."""

    def __init__(self, path: Path, commitment: str, before: Callable[[], None] = lambda: None) -> None:
        """Open the file, or begin it; ``before`` is called before each shard is kept, and may refuse it."""
        self._log, self._tally, self._before = Log(path), dict[tuple[Place, bool], tuple[int, int]](), before
        played = read_shards(path)
        if played.commitment is None:
            self._log.append({"commitment": commitment})
        elif played.commitment != commitment:
            raise StoreError(
                f"The trials in {str(path)!r} were played under the commitment {played.commitment}, not under "
                f"{commitment}; "
                "they cannot be mixed, so use another folder."
            )
        self.done = dict(played.shards)
        for (place, shard), positives in self.done.items():
            self._count(place, shard, positives)

    def put(self, place: Place, shard: Shard, positives: int) -> None:
        """Keep a finished shard; once this returns it survives a loss of power."""
        self._before()
        self._log.append(
            {
                "attack": place[0],
                "canary": place[1],
                "eligible": shard.eligible,
                "block": shard.block,
                "size": shard.size,
                "positives": positives,
            }
        )
        _add(self.done, (place, shard), positives, self._log.path)
        self._count(place, shard, positives)

    def counts(self, place: Place) -> Counts:
        """Return a canary's counts over all of its finished shards."""
        tp, n1 = self._tally.get((place, True), (0, 0))
        fp, n0 = self._tally.get((place, False), (0, 0))
        return Counts(tp, fp, n1, n0)

    def _count(self, place: Place, shard: Shard, positives: int) -> None:
        before, trials = self._tally.get((place, shard.eligible), (0, 0))
        self._tally[place, shard.eligible] = (before + positives, trials + shard.size)


def _add(shards: dict[tuple[Place, Shard], int], key: tuple[Place, Shard], positives: int, path: Path) -> None:
    if shards.setdefault(key, positives) != positives:
        (attack, index), shard = key
        raise StoreError(
            f"Block {shard.block} of {attack}, canary {index}, stands in {str(path)!r} twice with different counts; "
            "the file "
            "was altered, or counts depend on something that they must not."
        )


def _read(record: Mapping[str, Any], path: Path) -> tuple[tuple[Place, Shard], int]:
    try:
        shard = Shard(bool(record["eligible"]), int(record["block"]), int(record["size"]))
        return ((str(record["attack"]), int(record["canary"])), shard), int(record["positives"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{str(path)!r} holds a record that is no shard ({error!r}); restore the file.") from None


def play(
    cases: Sequence[Case],
    source: Callable[[Case], Trials],
    log: ShardLog,
    *,
    trials: int,
    seed: int,
    engine: Engine,
    progress: Progress = SILENT,
) -> None:
    """Play every shard that the log lacks; show rates, for there is no bound before all trials are in."""
    shards = plan(trials)
    tasks = list(_missing(cases, source, log, shards, seed))
    total = 2 * trials * len(cases)
    with progress.stage("trials", total=total, unit="trials") as stage:
        stage.advance(total - sum(task.shard.size for task in tasks))
        for index, positives in engine.run(_Task.__call__, tasks):
            task = tasks[index]
            log.put(task.place, task.shard, positives)
            stage.advance(task.shard.size, note=_rates(log, task.place))


def _missing(
    cases: Sequence[Case], source: Callable[[Case], Trials], log: ShardLog, shards: Sequence[Shard], seed: int
) -> Iterator[_Task]:
    for case in cases:
        place = (case.attack.name, case.index)
        left = [shard for shard in shards if (place, shard) not in log.done]
        if left:
            trials, path = source(case), (*case.address, "evaluation")
            for shard in left:
                yield _Task(place, trials, case.frozen.threshold.value, seed, path, shard)


def _rates(log: ShardLog, place: Place) -> str:
    counts = log.counts(place)
    parts = [
        f"{name} {positives / trials:.2e}"
        for name, positives, trials in (("TPR", counts.tp, counts.n1), ("FPR", counts.fp, counts.n0))
        if trials
    ]
    return f"{place[0]} canary {place[1]}: {', '.join(parts)}"
