"""List the runs in a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from canarybank.cli.output import Output, paragraph, table

if TYPE_CHECKING:
    from canarybank.experiment import EvolutionRun

__all__ = ["command"]

command = App(name="runs", help="List the runs in a folder.")


@command.default
def bare(
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """List the runs in the folder runs; `runs list` takes another folder."""
    listing(output=output)


@command.command(name="list")
def listing(
    folder: Annotated[Path, Parameter(help="The folder that holds the runs.")] = Path("runs"),
    /,
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """List the runs in a folder: state, attacks, and the largest observed bound with its method."""
    from canarybank.experiment.folder import MANIFEST

    places = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    found = [_entry(place) for place in places]
    headers = ["run", "state", "started", "largest bound", "attacks", "trials"]
    rows = [
        [
            entry["run"],
            entry["state"],
            entry["started"],
            _bound(entry["largest"]),
            entry["attacks"] or "-",
            f"{entry['trials']:,}",
        ]
        for entry in found
    ]
    document = {"folder": str(folder), "runs": found}
    if not found:
        output.result(
            "runs list", document, paragraph(f"There are no runs in {str(folder)!r}; start with: canarybank demo")
        )
        return
    output.result("runs list", document, table(headers, rows, text=4))


def _entry(place: Path) -> dict[str, Any]:
    from canarybank.experiment import EvolutionRun, Run, gate
    from canarybank.experiment.folder import is_evolution

    if is_evolution(place):
        return _evolution(EvolutionRun.open(place))
    run = Run.open(place)
    # A maximum over attacks is a claim of its own, so it is the gate's, with alpha split over them.
    largest = gate(run, run.results.epsilon) if run.is_finished else None
    return {
        "run": str(place),
        "state": run.manifest.state,
        "started": run.manifest.started,
        "attacks": len(run.results.attacks) if run.is_finished else None,
        "trials": run.manifest.config["audit.trials"],
        "largest": None
        if largest is None
        else {
            "attack": largest.attack,
            "epsilon": largest.epsilon,
            "method": largest.method,
            "confidence": largest.confidence,
        },
    }


def _evolution(run: "EvolutionRun") -> dict[str, Any]:
    """Return the entry of an evolution: its largest bound is that of its longest prefix."""
    audit = run.results.audit if run.is_finished else None
    last = None if audit is None else audit.prefixes[-1].bound
    return {
        "run": str(run.folder),
        "state": run.manifest.state,
        "started": run.manifest.started,
        "attacks": None if audit is None else 1,
        "trials": 0 if audit is None else audit.trials,
        "largest": None
        if audit is None or last is None
        else {
            "attack": f"{audit.attack}, {len(audit.prefixes)} rounds",
            "epsilon": last.epsilon,
            "method": last.method,
            "confidence": last.confidence,
        },
    }


def _bound(largest: dict[str, Any] | None) -> str:
    if largest is None:
        return "-"
    level = f"{100 * largest['confidence']:g}% each attack"
    return f"{largest['epsilon']:.3f} ({largest['attack']}, {largest['method']}, {level})"
