"""List the runs in a folder, show them on one page, and compare two of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from canarybank.cli.audit import Show
from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.run.listing import RunEntry

__all__ = ["command"]

command = App(name="runs", help="List the runs in a folder, show them on one page, or compare two of them.")


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
    """List the runs in a folder: state, the largest bound that trials certify, and whether the claim stands.

    Every finished run is verified first. One that does not verify, or cannot be read, is listed as damaged, with why.
    A run that is not finished is running where a process is at work on it, and stopped where none is.
    """
    from canarybank.report.runs_page import bound_text
    from canarybank.run.listing import list_runs

    found = list_runs(folder)
    document = {"folder": str(folder), "runs": [entry.model_dump(mode="json") for entry in found]}
    if not found:
        output.result(
            "runs list", document, paragraph(f"There are no runs in {str(folder)!r}; start with: canarybank demo")
        )
        return
    headers = ["run", "state", "started", "certified", "claimed", "claim"]
    lines = {entry.run: " ".join(filter(None, (bound_text(entry), entry.reason))) for entry in found}
    output.result(
        "runs list",
        document,
        table(headers, map(_row, found), text=3, whole=1),
        facts({run: line for run, line in lines.items() if line}),
    )


def _row(entry: "RunEntry") -> list[str]:
    from canarybank.report.runs_page import claim_text
    from canarybank.report.text import UNKNOWN, epsilon

    shown = [entry.claimed, None if entry.largest is None else entry.largest.epsilon]
    claimed, certified = (UNKNOWN if value is None else epsilon(value) for value in shown)
    return [entry.run, entry.state, (entry.started or UNKNOWN)[:10], certified, claimed, claim_text(entry)]


@command.command(name="page")
def page(
    folder: Annotated[Path, Parameter(help="The folder that holds the runs.")] = Path("runs"),
    /,
    *,
    show: Show = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Write one page over all runs in a folder, with a link to the page of each: index.html in that folder."""
    from canarybank.cli.runner import open_page
    from canarybank.errors import ConfigError
    from canarybank.report.runs_page import write_runs_page
    from canarybank.run.listing import list_runs

    found = list_runs(folder)
    if not found:
        raise ConfigError(f"There are no runs in {str(folder)!r}; start with: canarybank demo")
    written = write_runs_page(folder, found)
    document = {"folder": str(folder), "page": str(written), "runs": [entry.run for entry in found]}
    output.result("runs page", document, facts({"runs": f"{len(found):,}", "page": str(written)}))
    if show:
        open_page(written)


@command.command(name="compare")
def compare(
    one: Annotated[Path, Parameter(help="The folder of a finished run.")],
    other: Annotated[Path, Parameter(help="The folder of another one.")],
    /,
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Show two finished runs side by side: verdicts, figures, and the settings in which they differ.

    Both are verified first.
    """
    from canarybank.report.runs_page import NOT_COMPARABLE, compare_runs
    from canarybank.run import Run

    found = compare_runs(Run.open(one), Run.open(other))
    heads = [f"in {name}" for name in found.names]
    document = {
        "runs": list(found.names),
        "figures": [dict(zip(("what", "one", "other"), row, strict=True)) for row in found.figures],
        "settings": [dict(zip(("key", "one", "other"), row, strict=True)) for row in found.settings],
        "note": NOT_COMPARABLE,
    }
    output.result(
        "runs compare",
        document,
        table(["figure", *heads], found.figures),
        table(["setting that differs", *heads], found.settings, text=3)
        if found.settings
        else paragraph("Both runs have the same settings."),
        paragraph(NOT_COMPARABLE),
    )
