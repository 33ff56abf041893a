"""Fail when a claimed epsilon is below what is computed or measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.verify import Trust

if TYPE_CHECKING:
    from rich.console import RenderableType

    from canarybank.run import GateOutcome

__all__ = ["command"]

FAILED = 1


def command(
    run: Annotated[Path, Parameter(help="The run's folder.")],
    /,
    *,
    claimed_eps: Annotated[
        float, Parameter(help="The epsilon that the operator claims for all releases of the run.", metavar="X")
    ],
    commitment: Annotated[
        str | None, Parameter(help="The hash that was published before the trials.", metavar="SHA256")
    ] = None,
    junit: Annotated[Path | None, Parameter(help="Write a JUnit XML file for a CI system.", metavar="PATH")] = None,
    markdown: Annotated[
        Path | None, Parameter(help="Write a Markdown summary for a pull request.", metavar="PATH")
    ] = None,
    trust: Trust = (),
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """Verify a run, then compare it with a claimed epsilon: exit with 1 when the claim fails, with 0 when it stands.

    A claim fails when it is below the mechanism's exact epsilon, below the certified exact epsilon of an attack, or
    below a bound from the trials by the one method declared, with alpha split over the attacks. That of a system fails
    too when the curve shows that it is not the mechanism claimed. "No violation detected" means none of a size that
    this run could have seen; that size is printed. A run that does not verify gives 4, runs that depend on each other
    5. The files for a CI system hold an error until the comparison has ended, so that no old outcome stays in them.
    """
    from canarybank.errors import CanarybankError
    from canarybank.report import GateFiles
    from canarybank.run import Run, gate

    files = GateFiles(junit, markdown)
    files.refuse("The gate has not ended: it was stopped, or it is still at work.")
    try:
        outcome = gate(Run.open(run), claimed_eps, commitment, trust=trust)
    except CanarybankError as error:
        files.refuse(str(error))
        raise
    files.write(outcome)
    output.result(
        "gate",
        {"run": str(run), **outcome.model_dump(mode="json")},
        paragraph(outcome.statement, "bold"),
        _table(outcome),
        facts(_facts(outcome)),
    )
    return 0 if outcome.ok else FAILED


def _table(outcome: "GateOutcome") -> "RenderableType":
    from canarybank.report.tables import GATE_COLUMNS, exact_text, gate_rows

    if not outcome.attacks:
        return table(GATE_COLUMNS, gate_rows(outcome), text=3)
    rows = [[each.attack, f"{each.bound.epsilon:.3f}", f"{each.alpha:g}", exact_text(each)] for each in outcome.attacks]
    return table(["attack", "bound", "alpha", "exact, at least"], rows)


def _facts(outcome: "GateOutcome") -> dict[str, str]:
    from canarybank.wording import shown_epsilon

    level = f"{100 * outcome.confidence:g}% confidence over all"
    exact = shown_epsilon(outcome.exact) if outcome.is_exact_known else "-"
    after = {
        "exact epsilon": f"{exact} of the mechanism, computed without trials" if outcome.is_exact_known else exact,
        "compared": "with exact figures as printed, to four significant digits or more; with bounds as they are",
        "trials": f"{outcome.trials:,} of each hypothesis of each canary"
        if outcome.canaries is None
        else f"one run with {outcome.canaries:,} canaries",
        "commitment": outcome.commitment,
    }
    if not outcome.attacks:
        assumed = {f"{each.evidence} assumes": each.assumption for each in outcome.evidence}
        return {"claim": outcome.claim, "method": f"{outcome.method}, {level} evidence", **assumed, **after}
    first = outcome.attacks[0].bound
    return {
        "claim": outcome.claim,
        "method": f"{outcome.method}, {level} attacks, delta {first.delta:g}",
        "assumption": first.assumption,
        **after,
    }
