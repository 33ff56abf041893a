"""Write what to plant in somebody else's system, committed before it runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph

__all__ = ["command"]

SHOWN = (
    "bank.source",
    "encoder.name",
    "system.attack",
    "attack.probes",
    "mechanism.sigma",
    "mechanism.q",
    "audit.accounted",
    "audit.method",
    "system.name",
    "system.runs",
    "system.rounds",
    "system.neighbours",
    "system.by_label",
    "system.evidence",
    "run.seed",
)


@configured(shown=SHOWN)
def command(
    given: Given,
    *,
    plant: Annotated[
        Path, Parameter(name=["--plant", "-o"], help="The folder to write; it goes to the operator.", metavar="PATH")
    ] = Path("plant"),
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Design an audit of somebody else's system: canaries, probes, the schedule of runs, and a commitment to all of it.

    The operator plants the probes, runs the system once for each line of the schedule, and records what it releases, in
    any language; README.md in the folder says how. Then `canarybank score` judges the releases.
    """
    from canarybank.cli.typed import typed
    from canarybank.flow.design import design_plant

    def committed(digest: str) -> None:
        output.note(f"commitment: sha256 {digest}; publish it now, before the system runs")

    run = design_plant(
        given.resolved,
        plant,
        progress=output.progress,
        command=typed(),
        committed=None if output.quiet else committed,
    )
    made = run.plant
    declared = made.declaration
    document = {
        "plant": str(plant),
        "commitment": made.hash,
        "claim": {"epsilon": made.claim.epsilon, "delta": made.claim.delta, "neighbours": made.claim.neighbours},
        "runs": len(declared.schedule),
        "canaries": list(made.canaries),
        "positions": len(made.positions),
        "evidence": [str(each) for each in made.evidence],
        "power": list(declared.power),
    }
    output.result(
        "design",
        document,
        paragraph(f"{len(declared.schedule):,} runs to make with what stands in {plant}", "bold"),
        facts(
            {
                "claim": str(made.claim),
                "plant": f"{len(made.canaries)} canaries; {len(made.positions)} positions are inspected",
                "runs": f"{made.apart:,} of each hypothesis of each canary to fit on, {made.trials:,} to judge",
                "evidence": f"{', '.join(made.evidence)} on {', '.join(made.scores)} scores, "
                f"{100 * (1 - made.alpha):g}% confidence over all",
                "power": " ".join(declared.power),
                "commitment": made.hash,
                "next": f"give the folder to the operator; then: canarybank score {plant} RELEASES",
            }
        ),
    )
