"""Run Private Evolution, optionally audited round by round."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.cli.audit import Folder, Show, default_folder
from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.typed import typed

if TYPE_CHECKING:
    from canarybank.evolve import ReleaserFactory
    from canarybank.experiment import EvolutionResults, EvolutionRun

__all__ = ["command", "evolve_into", "print_evolution", "published_evolution"]

COMMON_KEYS = (
    "users.source",
    "bank.source",
    "encoder.name",
    "generator.kind",
    "mechanism.sigma",
    "mechanism.q",
    "evolve.rounds",
    "evolve.share",
    "evolve.new",
    "evolve.feedback",
    "evolve.epsilon",
    "evolve.users",
    "evolve.budget",
    "evolve.account",
    "evolve.reference",
    "evolve.audit",
    "evolve.insecure_seed",
    "audit.trials",
)
SHORT = {"evolve.audit": "--audit", "evolve.insecure_seed": "--insecure-seed"}


@configured(shown=COMMON_KEYS, short=SHORT)
def command(
    given: Given,
    *,
    folder: Folder = None,
    show: Show = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Make synthetic text from users' noisy votes, round by round: release, keep, give feedback, generate.

    Every release is entered in the ledger before it is made, and the total epsilon is shown each round. A run that was
    interrupted goes on when the same command is given again, and releases nothing twice. Try it offline with
    `--preset embedded-evolution --insecure-seed 0`.
    """
    evolve_into(given, folder or default_folder(given.file, "evolution"), output, show=show)


def evolve_into(
    given: Given, folder: Path, output: Output, *, show: bool = False, releaser: "ReleaserFactory | None" = None
) -> None:
    """Run an evolution or go on with it, write its page and print what it found; tests put their own releaser in."""
    from canarybank.errors import BudgetError
    from canarybank.experiment import run_evolution

    run = run_evolution(
        given.resolved, folder, progress=output.progress, command=typed(), told=output.note, releaser=releaser
    )
    page = published_evolution(run)
    print_evolution("evolve", run, page, output)
    if show:
        from canarybank.cli.runner import open_page

        open_page(page)
    if run.results.stopped is not None:
        raise BudgetError(run.results.stopped)


def published_evolution(run: "EvolutionRun") -> Path:
    """Write an evolution's page and tables into its folder, seal it, and return the page."""
    from canarybank.report import write_evolution

    page = write_evolution(run)[0]
    run.seal()
    return page


def print_evolution(command: str, run: "EvolutionRun", page: Path, output: Output) -> None:
    """Print what an evolution spent, what its text is worth, and what its audit showed."""
    from canarybank.report import evolution_headline, generator_line

    results, asked = run.results, generator_line(run.manifest)
    headers, rows = _rows(results)
    document = {
        "run": str(run.folder),
        "report": str(page),
        "population": [str(run.folder / f"population.{kind}") for kind in ("parquet", "jsonl", "csv")],
        **results.model_dump(mode="json", exclude={"schema_version", "canarybank"}),
    }
    output.result(
        command,
        document,
        paragraph(evolution_headline(results), "bold"),
        table(headers, rows, text=0),
        facts(
            _stands_on(results)
            | ({"generator": asked} if asked else {})
            | {"population": str(run.folder / "population.parquet"), "page": str(page)}
        ),
    )


def _rows(results: "EvolutionResults") -> tuple[list[str], list[list[str]]]:
    measured = {each.after: each for each in results.utility.figures} if results.utility is not None else {}
    headers = ["round", "entries", "kept", "epsilon", "added up"]
    if measured:
        headers += ["MAUVE after", "precision", "recall"]
    if results.audit is not None:
        headers += ["exact, attack", "observed bound"]
    return headers, [
        [
            str(each.round),
            f"{each.entries:,}",
            f"{each.kept:,}",
            _figure(each.epsilon),
            _figure(each.added_up),
            *(_worth(measured.get(each.round)) if measured else ()),
            *(_shown(results, each.round) if results.audit is not None else ()),
        ]
        for each in results.rounds
    ]


def _worth(figures: Any) -> list[str]:
    return ["-"] * 3 if figures is None else [_figure(getattr(figures, name)) for name in _WORTH]


_WORTH = ("mauve", "precision", "recall")


def _shown(results: "EvolutionResults", rounds: int) -> list[str]:
    prefixes = [each for each in results.audit.prefixes if each.rounds == rounds] if results.audit else []
    return [_figure(prefixes[0].exact), _figure(prefixes[0].bound.epsilon)] if prefixes else ["-", "-"]


def _stands_on(results: "EvolutionResults") -> dict[str, str]:
    from canarybank.mechanism import delta_text
    from canarybank.report.evolution import account_text

    mechanism, audit, worth = results.mechanism, results.audit, results.utility
    slack = results.rounds[-1].slack if results.rounds else 0.0
    lines = {
        "epsilon": f"of all releases so far at {delta_text(mechanism.delta, slack)}, add or remove one user; from the "
        "privacy loss distribution, and added up round by round",
        "covers": account_text(results),
        "mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}"
        + ("" if results.voters is None else f"; {results.voters:,} users"),
    }
    if worth is not None:
        lines["utility"] = f"against {worth.reference_users:,} held-out users; not differentially private"
    if audit is not None:
        lines["audit"] = (
            f"{audit.attack}, lower bounds by the {audit.method} method, {100 * (1 - audit.alpha):g}% confidence each "
            f"prefix, {audit.trials:,} trials of each hypothesis; of independent releases over this run's banks, "
            "held fixed"
        )
    if results.insecure_seed is not None:
        lines["INSECURE"] = f"seeded with {results.insecure_seed}: a simulation, not private"
    return lines | ({"notes": " ".join(results.notes)} if results.notes else {})


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
