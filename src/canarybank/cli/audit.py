"""Run the whole audit that a configuration describes."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output

__all__ = ["COMMON_KEYS", "Folder", "Show", "command", "default_folder", "note_assumed"]

COMMON_KEYS = (
    "users.source",
    "bank.source",
    "encoder.name",
    "generator.kind",
    "mechanism.sigma",
    "mechanism.q",
    "attack.names",
    "audit.trials",
    "audit.method",
    "audit.accounted",
    "run.seed",
    "run.workers",
)
"""The keys whose flags the help shows."""
Folder = Annotated[
    Path | None, Parameter(help="The run's folder; left out, runs/ and the name of the file.", metavar="PATH")
]
Show = Annotated[bool, Parameter(name="--open", negative="", show_default=False, help="Open the page.")]


@configured(shown=COMMON_KEYS, users=True)
def command(
    given: Given,
    *,
    folder: Folder = None,
    show: Show = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Run an audit: users, vectors, bank, attacks, commitment, trials, report.

    The commitment is on disk, and its hash is printed, before the first evaluation trial. A run that was interrupted
    goes on when the same command is given again; other settings in the same folder are refused. The exit code is 0 once
    the run is finished, whatever it showed; in CI use the one of `canarybank gate`.
    """
    from canarybank.cli.runner import audit_into

    note_assumed(given, output)
    audit_into("audit", given, folder or default_folder(given.file), output, show=show)


def default_folder(file: Path | None, name: str = "audit") -> Path:
    """Return the folder of a run that was given none: by its file's name, or by its own without a file."""
    return Path("runs") / (file.stem if file is not None else name)


def note_assumed(given: Given, output: Output) -> None:
    """Say what was taken for granted of a file of users, once the file and its columns are found readable."""
    from canarybank.flow.admitting import check_users

    if given.assumed:
        check_users(given.config.users)
        output.note(given.assumed)
