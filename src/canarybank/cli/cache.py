"""Show or prune the caches."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.flow.caches import CachesUsage

__all__ = ["command"]

KINDS = {
    "vectors": "texts as vectors, by encoder",
    "responses": "what generators answered; asking again costs time or money",
    "stages": "what stages of runs made; holds users' texts",
}
MIB = 1 << 20
DAY = 86_400.0
DIGITS = 12

command = App(name="cache", help="Show or prune the caches.")


@command.command(name="show")
def show(
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Show what the caches hold: vectors by encoder, answers by generator, pieces by stage, each with its size."""
    from canarybank.flow.caches import caches_usage

    found = caches_usage()
    output.result(
        "cache show",
        {**asdict(found), "folder": str(found.folder), "bytes": found.bytes},
        table(["cache", "of", "holds", "size"], _rows(found), text=2),
        facts({**KINDS, "folder": found.folder, "to free": "canarybank cache prune --unused-days 30"}),
    )


@command.command(name="prune")
def prune(
    *kinds: Annotated[str, Parameter(help="The caches to prune: vectors, stages, responses. Left out, the first two.")],
    unused_days: Annotated[float | None, Parameter(help="Remove what was unused for so long.", metavar="X")] = None,
    max_size: Annotated[
        str | None,
        Parameter(
            help="Remove the longest unused until each of the caches takes no more than that, such as 500MB or 2GiB; "
            "the newest is kept.",
            metavar="SIZE",
        ),
    ] = None,
    everything: Annotated[
        bool, Parameter(name="--all", negative="", show_default=False, help="Remove it all.")
    ] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Remove what a cache has not used for long, what is too much, or all of it; it is made again when it is needed.

    Answers of generators are removed only when the cache responses is named. What another process is writing stays.
    """
    from canarybank.errors import ConfigError
    from canarybank.flow.caches import PRUNED, cache_total, parse_size, prune_caches

    if everything == (unused_days is not None or max_size is not None):
        raise ConfigError("Say what to remove: by --unused-days with a number of days, by --max-size, or by --all.")
    freed = prune_caches(
        kinds or PRUNED,
        max_bytes=0 if everything else None if max_size is None else parse_size(max_size),
        unused_for=0.0 if everything else None if unused_days is None else unused_days * DAY,
    )
    kept = {kind: cache_total(kind).bytes for kind in freed}
    total, left = sum(freed.values()), sum(kept.values())
    output.result(
        "cache prune",
        {"freed": freed, "bytes": total, "kept": kept},
        paragraph(f"Freed {_size(total)} in {', '.join(freed)}, and kept {_size(left)}."),
    )


def _rows(found: "CachesUsage") -> list[list[str]]:
    named = {
        "vectors": [
            (_named(row.encoder, row.fingerprint), f"{row.vectors:,} vectors", row.bytes) for row in found.vectors
        ],
        "responses": [(row.fingerprint[:DIGITS], f"{row.answers:,} answers", row.bytes) for row in found.responses],
        "stages": [(row.stage, f"{row.pieces:,} pieces", row.bytes) for row in found.stages],
    }
    rows = []
    for cache in found.caches:
        rows += [[cache.cache, of, holds, _size(size)] for of, holds, size in named[cache.cache]]
        other = cache.bytes - sum(size for *_, size in named[cache.cache])
        if other > 0 or not named[cache.cache]:
            rows.append([cache.cache, "other files" if other > 0 else "nothing", "", _size(max(other, 0))])
    return [*rows, ["total", "", f"{sum(cache.files for cache in found.caches):,} files", _size(found.bytes)]]


def _named(encoder: str, fingerprint: str) -> str:
    return fingerprint[:DIGITS] if encoder == "unknown" else f"{encoder} {fingerprint[:DIGITS]}"


def _size(size: int) -> str:
    return f"{size / MIB:,.1f} MiB"
