"""Read users in shards where they are too many for memory, and give them the roles that they would have there."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import ConfigError
from canarybank.store import StageCache
from canarybank.users import STREAM_BYTES, DrawnIndices, Members, Source, Users, shard_count

__all__ = ["Roles", "memory_notes", "roles_of", "shards_for"]


def shards_for(given: Source, asked: int | None, cache: StageCache, obstacle: str | None = None) -> int | None:
    """Return the number of shards to read a source in, or None where all users are read into memory.

    Args:
        given: The source.
        asked: ``run.shards``: 0 for memory, a number of shards, or None, where the file's size decides.
        cache: Where they would lie; one that cannot be written is an obstacle.
        obstacle: Why this run needs all users in memory, if it does; a number that is asked for is then refused.
    """
    number = shard_count(given.path) if asked is None and _is_large(given) else asked
    if not number:
        return None
    obstacle = obstacle or _unwritable(cache)
    if obstacle is not None and asked is not None:
        raise ConfigError(f"run.shards is {asked}, but {obstacle}. Set run.shards to 0, or leave it out.")
    return number if obstacle is None else None


def memory_notes(given: Source, asked: int | None, cache: StageCache, obstacle: str | None = None) -> tuple[str, ...]:
    """Return a note where a large source is read into memory though nobody asked for it; see ``shards_for``."""
    found = (obstacle or _unwritable(cache)) if asked is None and _is_large(given) else None
    return () if found is None else (f"All users are read into memory: {found}.",)


def _is_large(given: Source) -> bool:
    return not given.built_in and given.path.is_file() and given.path.stat().st_size > STREAM_BYTES


def _unwritable(cache: StageCache) -> str | None:
    return (
        None if cache.is_writable else f"the cache in {str(cache.folder)!r}, where shards would lie, cannot be written"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """Who plays which role among users in shards; canaries, who are few, are in memory.

    ``records`` is m, the number of records that canaries are drawn with.
    """

    auxiliary: Members
    calibration: Members
    evaluation: Members
    canaries: Mapping[str, Users]
    records: int

    @property
    def canary_records(self) -> int:
        """Return the number of records of a canary."""
        return self.records

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts of those who are in memory: auxiliary users and canaries."""
        held = (self.auxiliary.load(), *self.canaries.values())
        return tuple(text for users in held for text in users.require_texts())

    @property
    def streamed_records(self) -> int:
        """Return the number of records of those who stay in shards: calibration and evaluation users."""
        return int(self.calibration.counts.sum() + self.evaluation.counts.sum())


def roles_of(users: Members, drawn: DrawnIndices, records: int) -> Roles:
    """Return the roles that were drawn from these users."""

    def members(chosen: NDArray[np.int64]) -> Members:
        return Members(users.shards, users.places[chosen])

    return Roles(
        members(drawn.auxiliary),
        members(drawn.calibration),
        members(drawn.evaluation),
        {attack: members(chosen).load() for attack, chosen in drawn.canaries.items()},
        records,
    )
