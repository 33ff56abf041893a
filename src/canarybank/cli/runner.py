"""Run an audit into a folder for the commands that do so, write its report, and print what it found."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.cli.flags import Given
from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.typed import typed

if TYPE_CHECKING:
    from canarybank.experiment import AttackRecord, Results, Run

__all__ = ["attack_rows", "audit_into", "open_page", "print_run", "published"]

HEADERS = ("attack", "exact epsilon", "at frozen rule", "expected range", "observed bound", "mechanism")


def audit_into(command: str, given: Given, folder: Path, output: Output, *, show: bool = False) -> None:
    """Run an audit or go on with it, write its report and print what it found."""
    from canarybank.experiment import run_audit

    def committed(digest: str) -> None:
        output.note(f"commitment: sha256 {digest}; publish it now, before the results are known")

    run = run_audit(
        given.resolved,
        folder,
        progress=output.progress,
        command=typed(),
        committed=None if output.quiet else committed,
    )
    page = published(run)
    print_run(command, run, page, output)
    if show:
        open_page(page)


def open_page(page: Path) -> None:
    """Open a page in the user's browser."""
    import webbrowser

    webbrowser.open(page.resolve().as_uri())


def published(run: "Run") -> Path:
    """Write a run's report into its folder, seal the run, and return the page."""
    from canarybank.report import write_report

    page = write_report(run)[0]
    run.seal()
    return page


def print_run(command: str, run: "Run", page: Path, output: Output) -> None:
    """Print what a run found, with what each figure stands on."""
    from canarybank.experiment.commitment import finite
    from canarybank.report import generator_line, verdict

    results = run.results
    found, asked = verdict(run), generator_line(run.manifest)
    document = {
        "run": str(run.folder),
        "report": str(page),
        "commitment": results.commitment,
        "verdict": found.sentence,
        "beside": list(found.beside),
        "epsilon": {
            "exact": finite(results.epsilon),
            "delta": results.mechanism.delta,
            "accounted": results.audit.accounted,
        },
        "trials": results.audit.trials,
        "alpha": results.audit.alpha,
        "attacks": [_attack(record) for record in results.attacks],
        "notes": list(results.notes),
    }
    lines = _stands_on(results) | ({"generator": asked} if asked else {})
    lines |= {"commitment": results.commitment, "page": str(page)}
    output.result(
        command,
        document,
        paragraph(found.sentence, "bold"),
        table(HEADERS, attack_rows(results)),
        paragraph("\n".join(found.beside)),
        facts(lines),
    )


def attack_rows(results: "Results") -> list[list[str]]:
    """Return a row for each attack: its name and the rungs of its ladder."""
    from canarybank.report.numbers import epsilon, reach_text

    return [
        [
            record.attack,
            reach_text(record.ladder.reached("attack")),
            reach_text(record.ladder.reached("rule")),
            f"{epsilon(record.ladder.expected.low)} to {epsilon(record.ladder.expected.high)}",
            epsilon(record.ladder.observed.epsilon),
            epsilon(record.ladder.mechanism.epsilon),
        ]
        for record in results.attacks
    ]


def _stands_on(results: "Results") -> dict[str, str]:
    from canarybank.report import written_lines

    audit, setup = results.audit, results.setup
    lines = {
        "exact, mechanism": f"computed with no trials, at delta {results.mechanism.delta:g}, add or remove one user",
        "observed": f"lower bound by the {audit.method} method, {100 * (1 - audit.alpha):g}% confidence each attack, "
        f"{audit.trials:,} trials of each hypothesis of each of {setup.canaries} canaries; the first line "
        "splits alpha over all attacks",
        "expected": "where 90% of such bounds fall, by the attack's exact rates",
        "users": f"{setup.evaluation:,} evaluation, {setup.calibration:,} calibration, {setup.auxiliary:,} auxiliary; "
        f"up to {setup.records} records each",
        "bank": f"{setup.bank:,} entries, {setup.probes} positions for probes; encoder {setup.encoder}",
        **written_lines(results),
    }
    return lines | ({"notes": " ".join(results.notes)} if results.notes else {})


def _attack(record: "AttackRecord") -> dict[str, Any]:
    ladder = record.ladder.model_dump(mode="json")
    return {"attack": record.attack, "headline": record.headline.model_dump(mode="json"), "ladder": ladder}
