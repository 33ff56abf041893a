"""Judge what a system's recorded releases show, against its claim."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.run import Run

__all__ = ["command", "print_system"]

Flag = Parameter(negative="", show_default=False)
REFUTED, DEPENDENT = 1, 5


def command(
    plant: Annotated[Path, Parameter(help="The folder that `canarybank design` wrote.")],
    releases: Annotated[Path | None, Parameter(help="The file or folder of releases that were recorded.")] = None,
    /,
    *,
    run: Annotated[
        str | None,
        Parameter(
            help="A program that makes the releases, in place of recorded ones: called with a schedule and a folder.",
            metavar="PROGRAM",
        ),
    ] = None,
    stop_when_refuted: Annotated[
        bool, Flag, Parameter(help="End as soon as betting, which must be declared, refutes the claim.")
    ] = False,
    missing_are_lost: Annotated[
        bool, Flag, Parameter(help="Count runs without a release against a refutation; else they are refused.")
    ] = False,
    any_time: Annotated[
        bool, Flag, Parameter(help="Accept releases whose files are older than the commitment; the result says so.")
    ] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """Check the releases of a plant against its commitment, judge them, and write the page.

    The exit code is 0 when the claim stands at this power, 1 when it is refuted, and 5 when runs depend on each other,
    so that no bound is stated. A plant is judged once; the same releases again give the same answer.
    """
    from canarybank.cli.runner import published
    from canarybank.flow.score import score_plant

    scored = score_plant(
        plant,
        releases,
        program=run,
        stop_when_refuted=stop_when_refuted,
        missing_are_lost=missing_are_lost,
        any_time=any_time,
        progress=output.progress,
    )
    return print_system("score", scored, published(scored), output)


def print_system(command: str, run: "Run", page: Path, output: Output) -> int:
    """Print what the audit of a system found, and return the exit code."""
    from canarybank.auditing.system import Verdict
    from canarybank.run.commitment import finite

    results = run.system_results
    found = results.found
    plain: dict[str, Any] = finite(results.model_dump(mode="json"))
    rows = [
        [
            f"{each.score} score",
            str(each.evidence),
            each.refutes,
            "refuted" if each.refuted else "not refuted",
            "-" if each.epsilon is None else f"{each.epsilon:.3f}",
            f"{each.alpha:.3g}",
        ]
        for each in found.shown
    ]
    power = {f"power of {each.evidence}": each.power for each in found.shown}
    leaks = {f"leak {number}": leak.statement for number, leak in enumerate(found.leaks, start=1)}
    output.result(
        command,
        {"run": str(run.folder), "report": str(page), **plain},
        paragraph(found.statement, "bold"),
        table(["score", "evidence", "it tests that", "outcome", "epsilon at least", "alpha"], rows, text=4),
        facts(
            {
                "claim": str(found.claim),
                "runs": f"{found.runs:,} declared, {found.judged:,} of each hypothesis of each canary judged, "
                f"{found.lost:,} lost",
                "independence": found.independence.statement,
                **leaks,
                **power,
                "commitment": results.commitment,
                **({"notes": " ".join(results.notes)} if results.notes else {}),
                "page": str(page),
            }
        ),
    )
    return {Verdict.STANDS: 0, Verdict.REFUTED: REFUTED, Verdict.DEPENDENT: DEPENDENT}[found.verdict]
