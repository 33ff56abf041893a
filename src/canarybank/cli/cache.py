"""Show or prune the caches."""

import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.store import cache_root

__all__ = ["command"]

KINDS = {
    "vectors": "texts as vectors, by encoder",
    "responses": "what generators answered; asking again costs time or money",
    "stages": "what stages of runs made; holds users' texts",
}
MIB = 1 << 20
DAY = 86_400.0

command = App(name="cache", help="Show or prune the caches.")


@command.command(name="show")
def show(
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Show where the caches are, what they hold and how large they are."""
    found = [_usage(kind) for kind in KINDS]
    rows = [
        [each["cache"], KINDS[each["cache"]], f"{each['files']:,}", f"{each['bytes'] / MIB:,.1f} MiB"] for each in found
    ]
    output.result(
        "cache show",
        {"folder": str(cache_root()), "caches": found},
        table(["cache", "holds", "files", "size"], rows, text=2),
        facts({"folder": cache_root(), "to free": "canarybank cache prune --unused-days 30"}),
    )


@command.command(name="prune")
def prune(
    *kinds: Annotated[str, Parameter(help="The caches to prune: vectors, stages, responses. Left out, the first two.")],
    unused_days: Annotated[float | None, Parameter(help="Remove what is older than that.", metavar="X")] = None,
    everything: Annotated[
        bool, Parameter(name="--all", negative="", show_default=False, help="Remove it all.")
    ] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Remove what a cache has not used for long, or all of it; it is made again when it is needed.

    Answers of generators are removed only when the cache responses is named.
    """
    from canarybank.errors import ConfigError

    chosen = kinds or ("vectors", "stages")
    for kind in chosen:
        if kind not in KINDS:
            raise ConfigError(f"There is no cache {kind!r}; choose from {', '.join(KINDS)}.")
    if everything == (unused_days is not None):
        raise ConfigError("Say what to remove: either --unused-days with a number of days, or --all.")
    freed = {kind: _prune(kind, 0.0 if unused_days is None else unused_days * DAY) for kind in chosen}
    total = sum(freed.values())
    output.result("cache prune", {"freed": freed, "bytes": total}, paragraph(f"Freed {total / MIB:,.1f} MiB."))


def _usage(kind: str) -> dict[str, Any]:
    sizes = [path.stat().st_size for path in _files(kind)]
    return {"cache": kind, "files": len(sizes), "bytes": sum(sizes)}


def _prune(kind: str, age: float) -> int:
    """Remove the files of a cache that were not changed for so many seconds, and return the bytes that this freed."""
    from canarybank.store import file_errors

    freed, horizon = 0, time.time() - age
    for path in _files(kind):
        stat = path.stat()
        if stat.st_mtime <= horizon:
            with file_errors(path, "remove"):
                path.unlink(missing_ok=True)
            freed += stat.st_size
    return freed


def _files(kind: str) -> list[Path]:
    return sorted(path for path in (cache_root() / kind).rglob("*") if path.is_file())
