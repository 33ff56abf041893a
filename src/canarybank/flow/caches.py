"""Look at the three caches together: what each holds, and how to free space in them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from canarybank.encode import ShelfUsage, VectorCache
from canarybank.errors import ConfigError
from canarybank.generate.stored import ResponseUsage, StoredResponses
from canarybank.store import StageCache, StageUsage, cache_root, stored_files

__all__ = ["CACHES", "PRUNED", "CacheTotal", "CachesUsage", "cache_total", "caches_usage", "parse_size", "prune_caches"]


CACHES: Mapping[str, type[VectorCache | StoredResponses | StageCache]] = {
    "vectors": VectorCache,
    "responses": StoredResponses,
    "stages": StageCache,
}
PRUNED = ("vectors", "stages")
"""What is pruned unless somebody says otherwise: answers of generators cost more than time to make again."""


@dataclass(frozen=True, slots=True)
class CacheTotal:
    """All files of one cache, with those that a process is writing right now."""

    cache: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CachesUsage:
    """What the caches hold: vectors by encoder, answers by generator, pieces by stage, and all files."""

    folder: Path
    caches: tuple[CacheTotal, ...]
    vectors: tuple[ShelfUsage, ...]
    responses: tuple[ResponseUsage, ...]
    stages: tuple[StageUsage, ...]

    @property
    def bytes(self) -> int:
        """Return the size of all files of all caches."""
        return sum(cache.bytes for cache in self.caches)


def caches_usage() -> CachesUsage:
    """Return what the caches hold, each part largest first.

    Example:
        >>> [cache.cache for cache in caches_usage().caches]
        ['vectors', 'responses', 'stages']
    """
    return CachesUsage(
        folder=cache_root(),
        caches=tuple(map(cache_total, CACHES)),
        vectors=VectorCache().usage(),
        responses=StoredResponses().usage(),
        stages=StageCache().usage(),
    )


def cache_total(cache: str) -> CacheTotal:
    """Return how many files a cache has and how large they are together."""
    files = stored_files(CACHES[cache]().folder, hidden=True)
    return CacheTotal(cache, len(files), sum(file.size for file in files))


def prune_caches(
    caches: Iterable[str] = PRUNED, *, max_bytes: int | None = None, unused_for: float | None = None
) -> dict[str, int]:
    """Remove what was unused for that many seconds, then bring each cache down to that size; return the bytes freed.

    The newest stay, and so does what another process is writing.

    Args:
        caches: Which of vectors, responses and stages; left out, all but responses, whose answers may have cost money.
        max_bytes: How many bytes each may keep; None for any number.
        unused_for: What was unused for so many seconds goes, whatever the size; None lets nothing go so.

    Example:
        >>> prune_caches(["stages"], unused_for=30 * 24 * 60 * 60)
        {'stages': 0}
    """
    chosen = tuple(dict.fromkeys(caches))
    for name in chosen:
        if name not in CACHES:
            raise ConfigError(f"There is no cache {name!r}; choose from {', '.join(CACHES)}.")
    return {name: CACHES[name]().prune(max_bytes=max_bytes, unused_for=unused_for) for name in chosen}


def parse_size(text: str) -> int:
    """Return the bytes that a size stands for: 1500, 500MB (a thousand thousand each), 1.5 GiB (1,024 cubed each)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *(?:(?:([kmgt])(i?))?b)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise ConfigError(
            f"The size {text!r} cannot be read; give a number of bytes, or a number with one of KB, MB, GB, TB, "
            "KiB, MiB, GiB or TiB, such as 500MB."
        )
    number, prefix, binary = found.groups()
    return int(Decimal(number) * (1024 if binary else 1000) ** " kmgt".index((prefix or " ").lower()))
