"""Write what to plant in somebody else's system, committed before it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph

if TYPE_CHECKING:
    from canarybank.run import Run

__all__ = ["command"]

SHOWN = (
    "bank.source",
    "encoder.name",
    "system.attack",
    "attack.probes",
    "mechanism.sigma",
    "mechanism.q",
    "audit.accounted",
    "system.name",
    "system.runs",
    "system.rounds",
    "system.neighbours",
    "system.by_label",
    "system.evidence",
    "system.one_run",
    "one_run.canaries",
    "one_run.coins",
    "run.seed",
)
SHORT = {"system.one_run": "--one-run"}


@configured(shown=SHOWN, short=SHORT)
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

    With `--one-run` there is no schedule: many canaries go into the one run that the system makes anyway.
    """
    from canarybank.cli.typed import typed
    from canarybank.flow.design import design_plant
    from canarybank.flow.one_run import design_one_run

    def committed(digest: str) -> None:
        output.note(f"commitment: sha256 {digest}; publish it now, before the system runs")

    is_one_run = given.config.system.one_run
    run = (design_one_run if is_one_run else design_plant)(
        given.resolved,
        plant,
        progress=output.progress,
        command=typed(),
        committed=None if output.quiet else committed,
    )
    (_print_one_run if is_one_run else _print_schedule)(run, plant, output)


def _print_schedule(run: "Run", plant: Path, output: Output) -> None:
    """Print what was planted, and the runs to make."""
    from canarybank.report.text import counted

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
                "plant": f"{counted(len(made.canaries), 'canary', 'canaries')}; "
                f"{counted(len(made.positions), 'position')} inspected",
                "runs": f"{made.apart:,} of each hypothesis of each canary to fit on, {made.trials:,} to judge",
                "evidence": f"{', '.join(made.evidence)} on {', '.join(made.scores)} scores, "
                f"{100 * (1 - made.alpha):g}% confidence over all",
                "power": " ".join(declared.power),
                "commitment": made.hash,
                "next": f"give the folder to the operator; then: canarybank score {plant} RELEASES",
            }
        ),
    )


def _print_one_run(run: "Run", plant: Path, output: Output) -> None:
    """Print what was planted for one run, and what it could show."""
    made = run.one_run
    declared, places = made.declaration, sum(map(len, made.positions))
    document = {
        "plant": str(plant),
        "commitment": made.hash,
        "claim": {"epsilon": made.claim.epsilon, "delta": made.claim.delta, "neighbours": made.claim.neighbours},
        "rounds": made.claim.rounds,
        "canaries": len(made.eligible),
        "eligible": sum(made.eligible),
        "coins": str(made.coins),
        "positions": places,
        "share": made.share,
        "votes_taken": made.votes_taken,
        "shift": made.shift,
        "evidence": [str(each) for each in made.evidence],
        "power": list(declared.power),
    }
    coins = " --coins TOOK.csv" * made.needs_coins
    output.result(
        "design",
        document,
        paragraph(f"One run to make with what stands in {plant}", "bold"),
        facts(
            {
                "claim": str(made.claim),
                "plant": f"{len(made.eligible):,} {made.style} canaries, {sum(made.eligible):,} of them in; "
                f"{made.coins} coins",
                "cost": f"probes are {places:,} of {made.bank_size:,} entries ({100 * made.share:.3g}%), and take "
                f"{100 * made.votes_taken:.3g}% of the auxiliary users' votes",
                "evidence": f"{', '.join(made.evidence)}, {100 * (1 - made.alpha):g}% confidence over all",
                "power": " ".join(declared.power),
                "commitment": made.hash,
                "next": f"give the folder to the operator; then: canarybank score {plant} RELEASES{coins}",
            }
        ),
    )
