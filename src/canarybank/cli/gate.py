"""Fail when a run's bound exceeds a claimed epsilon."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.experiment import GateOutcome

__all__ = ["command"]

FAILED = 1


def command(
    run: Annotated[Path, Parameter(help="The run's folder.")],
    /,
    *,
    claimed_eps: Annotated[float, Parameter(help="The epsilon that the operator claims for one release.", metavar="X")],
    junit: Annotated[Path | None, Parameter(help="Write a JUnit XML file for a CI system.", metavar="PATH")] = None,
    markdown: Annotated[
        Path | None, Parameter(help="Write a Markdown summary for a pull request.", metavar="PATH")
    ] = None,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """Compare a run with a claimed epsilon: exit with 1 when a bound exceeds it, with 0 when none does.

    The bound is that of the one method declared before the run, with alpha split over the attacks. "No violation
    detected" means none of a size that this many trials could have seen; that size is printed.
    """
    from canarybank.cli.runner import refuse_altered
    from canarybank.experiment import Run, gate

    opened = Run.open(run)
    refuse_altered(opened)
    outcome = gate(opened, claimed_eps)
    if junit is not None or markdown is not None:
        _write(outcome, junit, markdown)
    rows = [[each.attack, f"{each.bound.epsilon:.3f}", f"{each.alpha:g}"] for each in outcome.attacks]
    output.result(
        "gate",
        {"run": str(run), **outcome.model_dump(mode="json")},
        paragraph(outcome.statement, "bold"),
        table(["attack", "bound", "alpha"], rows),
        facts(_facts(outcome)),
    )
    return 0 if outcome.ok else FAILED


def _facts(outcome: "GateOutcome") -> dict[str, str]:
    first = outcome.attacks[0].bound
    return {
        "method": f"{outcome.method}, {100 * outcome.confidence:g}% confidence over all attacks, delta {first.delta:g}",
        "assumption": first.assumption,
        "trials": f"{outcome.trials:,} of each hypothesis of each canary",
        "commitment": outcome.commitment,
    }


def _write(outcome: "GateOutcome", junit: Path | None, markdown: Path | None) -> None:
    from canarybank.report import gate_markdown
    from canarybank.report import junit as junit_xml
    from canarybank.store import write_atomic

    if junit is not None:
        write_atomic(junit, junit_xml(outcome))
    if markdown is not None:
        write_atomic(markdown, gate_markdown(outcome))
