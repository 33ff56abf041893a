"""Run the embedded audit."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output

__all__ = ["command"]


@configured(preset="embedded", shown=("audit.trials", "run.workers"))
def command(
    given: Given,
    *,
    folder: Annotated[Path, Parameter(help="The run's folder.", metavar="PATH")] = Path("runs/demo"),
    show: Annotated[bool, Parameter(name="--open", negative="", show_default=False, help="Open the page.")] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Run the embedded audit: real people's chat messages, an embedded bank, all ten attacks; offline.

    It prints a table and the path of the page. Run it again, and it shows what is there.
    """
    from canarybank.cli.runner import audit_into

    audit_into("demo", given, folder, output, show=show)
