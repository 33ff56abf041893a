"""Check that a run kept to its commitment and was not altered."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from canarybank.cli.output import Output, facts, paragraph

__all__ = ["Trust", "command"]

ALTERED = 4
Trust = Annotated[
    tuple[str, ...],
    Parameter(
        negative="",
        show_default=False,
        metavar="NAME",
        help="Import this plug-in method, which the folder names; nothing else that it names is imported.",
    ),
]


def command(
    run: Annotated[Path, Parameter(help="The run's folder.")],
    /,
    *,
    commitment: Annotated[
        str | None, Parameter(help="The hash that was published before the trials.", metavar="SHA256")
    ] = None,
    trust: Trust = (),
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """Check a finished run: its files against its manifest, its results against its commitment.

    It exits with 4 when something is not as it was committed to.
    """
    from canarybank.run import verify

    found = verify(run, commitment, trust=trust)
    number = len(found.findings)
    said = "Nothing differs from the commitment." if found.ok else f"{number} difference{'s' * (number > 1)} found."
    lines = {"commitment": found.commitment}
    lines |= {f"finding {number}": text for number, text in enumerate(found.findings, start=1)}
    lines |= {"note": " ".join(found.notes)} if found.notes else {}
    document = {"run": str(run), **found.model_dump(mode="json")}
    output.result("verify", document, paragraph(said, "bold"), facts(lines))
    return 0 if found.ok else ALTERED
