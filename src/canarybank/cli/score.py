"""Judge what a system's recorded releases show, against its claim."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.run import Run

__all__ = ["command", "print_one_run", "print_system"]

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
    coins: Annotated[
        Path | None,
        Parameter(help="Of a plant of one run: a CSV file of which canary took part in which round.", metavar="PATH"),
    ] = None,
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
        coins=coins,
        any_time=any_time,
        progress=output.progress,
    )
    shown = print_one_run if scored.kind == "one-run" else print_system
    return shown("score", scored, published(scored), output)


def print_one_run(command: str, run: "Run", page: Path, output: Output) -> int:
    """Print what one run showed, and return the exit code."""
    from canarybank.report.one_run import EVIDENCE_COLUMNS, evidence_rows
    from canarybank.run.commitment import finite

    results, declared = run.one_run_results, run.one_run.declaration
    found = results.found
    plain: dict[str, Any] = finite(results.model_dump(mode="json"))
    took = "" if found.took is None else f"; they took part {found.took:,} times in all"
    said = {f"by {each.evidence}": each.statement for each in found.shown}
    assumed = {f"{each.evidence} assumes": each.assumption for each in found.shown}
    output.result(
        command,
        {"run": str(run.folder), "report": str(page), "epsilon": finite(found.epsilon), **plain},
        paragraph(found.statement, "bold"),
        table(EVIDENCE_COLUMNS, evidence_rows(found), text=2),
        facts(
            {
                "claim": str(found.claim),
                "run": f"{found.canaries:,} canaries, {found.eligible:,} of them in, {found.claim.rounds} "
                f"{'release' if found.claim.rounds == 1 else 'releases'}{took}",
                **said,
                **assumed,
                **dict(zip((f"power of {each}" for each in declared.evidence), declared.power, strict=True)),
                "commitment": results.commitment,
                **({"notes": " ".join(results.notes)} if results.notes else {}),
                "page": str(page),
            }
        ),
    )
    return REFUTED if found.refuted else 0


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
