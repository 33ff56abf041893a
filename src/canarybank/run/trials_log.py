"""Keep the counts of finished shards in a run's folder, each durable once it is done.

A shard is a block of trials of one hypothesis of one canary of one attack, with a random stream of its own. Counts
add up, so whatever was done before a kill stays, and what is left gives the same sum in any order on any number of
workers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canarybank.auditing import Counts, Place, Shard
from canarybank.errors import StoreError
from canarybank.store import Log

__all__ = ["Played", "ShardLog", "read_shards"]

Shards = dict[tuple[Place, Shard], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Played:
    """The finished shards that a file holds, and the commitment they were played under."""

    commitment: str | None
    shards: Mapping[tuple[Place, Shard], tuple[int, ...]]

    def counts(self, place: Place, rounds: int = 1) -> Counts:
        """Return a canary's counts over all of its finished shards, for the rule of so many rounds."""
        own = ((shard, each) for (at, shard), each in self.shards.items() if at == place)
        return Counts.gather((shard, each[rounds - 1]) for shard, each in own if rounds <= len(each))


def read_shards(path: Path) -> Played:
    """Read a file of finished shards, or say how it was altered."""
    records = Log(path).records()
    shards: Shards = {}
    for record in records[1:]:
        _add(shards, *_read(record, path), path)
    lengths = {(place, len(positives)) for (place, _), positives in shards.items()}
    if len(lengths) != len({place for place, _ in lengths}):
        raise StoreError(f"The shards of one canary in {str(path)!r} are of different numbers of rounds; restore it.")
    return Played(str(records[0].get("commitment")) if records else None, shards)


class ShardLog:
    """The finished shards of a run, in a file that names the commitment they were played under: a ``Tally``."""

    def __init__(self, path: Path, commitment: str, before: Callable[[], None] = lambda: None) -> None:
        """Open the file, or begin it; ``before`` is called before each shard is kept, and may refuse it."""
        self._log, self._before = Log(path), before
        self._totals: dict[tuple[Place, bool], list[tuple[int, int]]] = {}
        played = read_shards(path)
        if played.commitment is None:
            self._log.append({"commitment": commitment})
        elif played.commitment != commitment:
            raise StoreError(
                f"The trials in {str(path)!r} were played under the commitment {played.commitment}, not under "
                f"{commitment}; they cannot be mixed, so use another folder."
            )
        self.done: Shards = dict(played.shards)
        for (place, shard), positives in self.done.items():
            self._count(place, shard, positives)

    def put(self, place: Place, shard: Shard, positives: tuple[int, ...]) -> None:
        """Keep a finished shard; once this returns it survives a loss of power."""
        self._before()
        where = {"attack": place[0], "canary": place[1], "eligible": shard.eligible, "block": shard.block}
        self._log.append({**where, "size": shard.size, "positives": list(positives)})
        _add(self.done, (place, shard), positives, self._log.path)
        self._count(place, shard, positives)

    def counts(self, place: Place, rounds: int = 1) -> Counts:
        """Return a canary's counts over all of its finished shards, for the rule of so many rounds."""
        (tp, n1), (fp, n0) = (self._totals.get((place, here), [(0, 0)] * rounds)[rounds - 1] for here in (True, False))
        return Counts(tp, fp, n1, n0)

    def _count(self, place: Place, shard: Shard, positives: tuple[int, ...]) -> None:
        before = self._totals.get((place, shard.eligible), [(0, 0)] * len(positives))
        sums = [(seen + more, n + shard.size) for (seen, n), more in zip(before, positives, strict=True)]
        self._totals[place, shard.eligible] = sums


def _add(shards: Shards, key: tuple[Place, Shard], positives: tuple[int, ...], path: Path) -> None:
    if shards.setdefault(key, positives) != positives:
        (attack, index), shard = key
        raise StoreError(
            f"Block {shard.block} of {attack}, canary {index}, stands in {str(path)!r} twice with different counts; "
            "the file was altered, or counts depend on something that they must not."
        )


def _read(record: Mapping[str, Any], path: Path) -> tuple[tuple[Place, Shard], tuple[int, ...]]:
    try:
        shard = Shard(bool(record["eligible"]), int(record["block"]), int(record["size"]))
        seen = record["positives"]
        positives = tuple(int(each) for each in (seen if isinstance(seen, list) else [seen]))
        return ((str(record["attack"]), int(record["canary"])), shard), positives
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{str(path)!r} holds a record that is no shard ({error!r}); restore the file.") from None
