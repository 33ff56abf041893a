"""List the runs in a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.run.listing import RunEntry

__all__ = ["command"]

command = App(name="runs", help="List the runs in a folder.")


@command.default
def bare(
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """List the runs in the folder runs; `runs list` takes another folder."""
    listing(output=output)


@command.command(name="list")
def listing(
    folder: Annotated[Path, Parameter(help="The folder that holds the runs.")] = Path("runs"),
    /,
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """List the runs in a folder: state, attacks, the largest observed bound, and whether the claim stands.

    Every finished run is verified first. One that does not verify, or cannot be read, is listed as damaged, with why.
    """
    from canarybank.run.listing import list_runs

    found = list_runs(folder)
    document = {"folder": str(folder), "runs": [entry.model_dump(mode="json") for entry in found]}
    if not found:
        output.result(
            "runs list", document, paragraph(f"There are no runs in {str(folder)!r}; start with: canarybank demo")
        )
        return
    headers = ["run", "state", "started", "largest bound", "claim", "attacks", "trials"]
    reasons = {entry.run: entry.reason for entry in found if entry.reason is not None}
    output.result("runs list", document, table(headers, map(_row, found), text=5), facts(reasons))


def _row(entry: "RunEntry") -> list[str]:
    return [
        entry.run,
        entry.state,
        entry.started or "-",
        _bound(entry),
        _claim(entry),
        "-" if entry.attacks is None else str(entry.attacks),
        "-" if entry.trials is None else f"{entry.trials:,}",
    ]


def _bound(entry: "RunEntry") -> str:
    if (largest := entry.largest) is None:
        return "-"
    level = f"{100 * largest.confidence:g}% {largest.over}"
    return f"{largest.epsilon:.3f} ({largest.attack}, {largest.method}, {level})"


def _claim(entry: "RunEntry") -> str:
    from canarybank.run.gating import shown_epsilon

    if entry.ok is None:
        return "-" if entry.claimed is None else f"{shown_epsilon(entry.claimed)}: not judged"
    return f"{shown_epsilon(entry.claimed)}: {'no violation detected' if entry.ok else 'FAILS'}"
