"""Pass over users in shards: map a function over their parts on an engine, and keep what each part gave."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from canarybank.engine import Engine
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache, stage_key
from canarybank.users.shards import Part, clearing_damage

__all__ = ["run_pass"]

Arrays = Mapping[str, NDArray[Any]]


class _LackingError(Exception):
    """Nothing is kept of a part."""


def run_pass(
    name: str,
    function: Callable[[Part], Arrays],
    parts: Sequence[Part],
    engine: Engine,
    *,
    key: str,
    cache: StageCache | None = None,
    progress: Progress = SILENT,
) -> Iterator[tuple[Part, Arrays]]:
    """Yield each part with what the function gives for it, in any order.

    Args:
        name: What progress calls the pass.
        function: A picklable function of a part. What it gives must follow from the part's users and ``key`` alone.
        parts: The parts.
        engine: Where the function runs.
        key: The content address of all that the function depends on but the part.
        cache: Where what each part gave is kept, so that a run that was killed goes on there; none keeps nothing.
        progress: Where the users who are done of those who are left are shown, with their rate and the time left.

    Example:
        >>> import numpy as np
        >>> from canarybank.engine import Serial
        >>> from canarybank.users import Admission, shard_users, source
        >>> shards = shard_users(source("my-users.csv"), Admission(), 4, "shards", key="my-users.csv, all admitted")
        >>> def lengths(part):
        ...     return {"words": np.array([len(text.split()) for text in part.users().texts])}
        >>> done = run_pass("count words", lengths, shards.everybody.parts(), Serial(), key="number of words")
        >>> sum(int(found["words"].sum()) for _, found in done)
        865
    """
    lacking: list[Part] = []
    for part in parts:
        found = None if cache is None else _kept(cache, part, key)
        if found is None:
            lacking.append(part)
        else:
            yield part, found
    # What a run before made is no part of the stage, or it would count as the work of a moment in rate and time left.
    with clearing_damage(lacking), progress.stage(name, total=sum(map(len, lacking)), unit="users") as stage:
        for number, (index, made) in enumerate(engine.run(function, lacking), 1):
            part = lacking[index]
            kept = made if cache is None else cache.arrays("pass", _piece_key(part, key), partial(dict, made))
            stage.advance(len(part), note=f"shard {len(parts) - len(lacking) + number:,} of {len(parts):,}")
            yield part, kept


def _piece_key(part: Part, key: str) -> str:
    return stage_key("pass", part=part.key, work=key)


def _kept(cache: StageCache, part: Part, key: str) -> Arrays | None:
    try:
        return cache.arrays("pass", _piece_key(part, key), _lacking)
    except _LackingError:
        return None


def _lacking() -> Arrays:
    raise _LackingError
