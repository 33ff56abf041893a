"""Keep the counts of finished shards in a run's folder, each durable once it is done.

A shard is a block of trials of one hypothesis of one canary of one attack, with a random stream of its own. Counts
add up, so whatever was done before a kill stays, and what is left gives the same sum in any order on any number of
workers.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from canarybank.auditing import Counts, Place, Shard
from canarybank.errors import StoreError
from canarybank.store import Log

__all__ = ["Played", "ShardLog"]


class Played:
    """The finished shards that a file holds, and the commitment they were played under."""

    def __init__(self, path: Path) -> None:
        """Read a file of finished shards, or say how it was altered."""
        self.log, self.done = Log(path), dict[tuple[Place, Shard], tuple[int, ...]]()
        self._totals: dict[tuple[Place, bool], list[tuple[int, int]]] = {}
        records = self.log.records()
        self.commitment = str(records[0].get("commitment")) if records else None
        for record in records[1:]:
            self.add(*_read(record, path))

    def add(self, place: Place, shard: Shard, positives: tuple[int, ...]) -> None:
        """Add a finished shard to the counts; one that is there already must be the same."""
        if (place, shard) in self.done:
            if self.done[place, shard] == positives:
                return
            raise StoreError(
                f"Block {shard.block} of {place[0]}, canary {place[1]}, stands in {str(self.log.path)!r} twice with "
                "different counts; the file was altered, or counts depend on something that they must not."
            )
        before = self._totals.get((place, shard.eligible), [(0, 0)] * len(positives))
        if {len(self._totals.get((place, here), positives)) for here in (True, False)} != {len(positives)}:
            raise StoreError(f"{str(self.log.path)!r} holds different numbers of rounds of one canary; restore it.")
        sums = [(seen + more, n + shard.size) for (seen, n), more in zip(before, positives, strict=True)]
        self.done[place, shard], self._totals[place, shard.eligible] = positives, sums

    def counts(self, place: Place, rounds: int = 1) -> Counts:
        """Return a canary's counts over all of its finished shards, for the rule of so many rounds."""
        (tp, n1), (fp, n0) = (self._totals.get((place, here), [(0, 0)] * rounds)[rounds - 1] for here in (True, False))
        return Counts(tp, fp, n1, n0)


class ShardLog(Played):
    """The finished shards of a run, in a file that names the commitment they were played under: a ``Tally``."""

    def __init__(self, path: Path, commitment: str, before: Callable[[], None] = lambda: None) -> None:
        """Open the file, or begin it; ``before`` is called before each shard is kept, and may refuse it."""
        super().__init__(path)
        self._before = before
        if self.commitment is None:
            self.log.append({"commitment": commitment})
        elif self.commitment != commitment:
            raise StoreError(
                f"The trials in {str(path)!r} were played under the commitment {self.commitment}, not under "
                f"{commitment}; they cannot be mixed, so use another folder."
            )

    def put(self, place: Place, shard: Shard, positives: tuple[int, ...]) -> None:
        """Keep a finished shard; once this returns it survives a loss of power."""
        self._before()
        where = {"attack": place[0], "canary": place[1], "eligible": shard.eligible, "block": shard.block}
        self.log.append({**where, "size": shard.size, "positives": list(positives)})
        self.add(place, shard, positives)


def _read(record: Mapping[str, Any], path: Path) -> tuple[Place, Shard, tuple[int, ...]]:
    try:
        shard = Shard(bool(record["eligible"]), int(record["block"]), int(record["size"]))
        seen = record["positives"]
        positives = tuple(int(each) for each in (seen if isinstance(seen, list) else [seen]))
        return (str(record["attack"]), int(record["canary"])), shard, positives
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{str(path)!r} holds a record that is no shard ({error!r}); restore the file.") from None
