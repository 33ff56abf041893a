"""Write a run's page, summary and tables again."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from canarybank.cli.output import Output
from canarybank.cli.verify import Trust

__all__ = ["command"]


def command(
    run: Annotated[Path, Parameter(help="The run's folder.")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Write it into another folder, and leave the run untouched.", metavar="PATH")
    ] = None,
    shareable: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="With --out: let everybody on this machine read the page and tables. It is your decision: an audit's "
            "figures are statistics of users without noise, so its page is not differentially private.",
        ),
    ] = False,
    show: Annotated[bool, Parameter(name="--open", negative="", show_default=False, help="Open the page.")] = False,
    trust: Trust = (),
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Write the report of a finished run again: the page, the summary, the tables.

    The same results give the same bytes. A run that was altered since it finished is refused. Only you can read what is
    written, unless you make it shareable.
    """
    from canarybank.cli.runner import open_page, print_run, published
    from canarybank.cli.score import print_one_run, print_system
    from canarybank.errors import ConfigError
    from canarybank.report import write_report
    from canarybank.run import Run
    from canarybank.run.verification import refuse_unverified, trust_methods

    if shareable and out is None:
        raise ConfigError("Only you can read a run's own folder. To make a report shareable, name another by --out.")
    trust_methods(trust)
    opened = Run.open(run)
    refuse_unverified(opened, rewritten=True)
    page = published(opened) if out is None else write_report(opened, out, shareable=shareable)[0]
    if opened.kind == "system":
        print_system("report", opened, page, output)
    elif opened.kind == "one-run":
        print_one_run("report", opened, page, output)
    else:
        print_run("report", opened, page, output)
    if show:
        open_page(page)
