"""Run an audit into a folder for the commands that do so, write its report, and print what it found."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.cli.flags import Given
from canarybank.cli.output import Output, bullets, facts, paragraph, table
from canarybank.cli.typed import typed

if TYPE_CHECKING:
    from canarybank.run import EvolutionFacts, GateOutcome, Results, Run

__all__ = ["attack_rows", "audit_into", "open_page", "print_run", "published"]

_COLOURS = {"stands": "blue", "refuted": "red", "untested": "yellow"}
"""What became of a claim, as a terminal colours it."""
HEADERS = ("attack", "exact\nepsilon", "at frozen\nrule", "expected\nrange", "observed\nbound", "at its\nshare")


def audit_into(command: str, given: Given, folder: Path, output: Output, *, show: bool = False) -> None:
    """Run an audit or go on with it, write its report and print what it found."""
    from canarybank.flow import run_audit

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
    """Print what a run found, with what each figure stands on: its audit, its evolution, or both."""
    from canarybank.report import generator_line, verdict
    from canarybank.report.lineage import last_texts
    from canarybank.report.next_steps import audit_steps
    from canarybank.report.summary import small_cohorts
    from canarybank.report.verdicts import HEADINGS

    results, evolution = run.results, run.results.evolution
    found, asked = verdict(run) if results.attacks else None, generator_line(run.manifest)
    notes = [*small_cohorts(results), *results.notes]
    document: dict[str, Any] = {"run": str(run.folder), "report": str(page), "notes": notes}
    parts: list[Any] = []
    lines: dict[str, str] = {}
    if found is not None:
        steps = list(audit_steps(results, found.outcome, found.tone))
        document |= _audit_document(run) | {"verdict": found.sentence, "beside": list(found.beside)}
        document |= {
            "standing": found.tone.value,
            "numbers": [asdict(each) for each in found.numbers],
            "next": steps,
        }
        parts += [
            paragraph(f"{HEADINGS[found.tone]}.", f"bold {_COLOURS[found.tone]}"),
            table(("epsilon", "what it is", "from"), [(n.value, n.words, n.note) for n in found.numbers], text=3),
            paragraph(found.sentence, "bold"),
            table(HEADERS, attack_rows(results, found.outcome)),
            paragraph("\n".join(found.beside)),
            paragraph("\nWhat to do next"),
            bullets(steps),
            paragraph(""),
        ]
        lines |= _stands_on(results)
    if evolution is not None:
        headline, columns, more = evolution_parts(run)
        document |= {"population": [str(run.folder / f"population.{kind}") for kind in ("parquet", "jsonl", "csv")]}
        plain = results.plain()
        document |= plain["evolution"] | {name: plain[name] for name in ("attacks", "mechanism", "statement")}
        document |= {"headline": headline}
        parts += [paragraph(f"{headline}.", "" if found else "bold"), table(*columns, text=0)]
        parts += _worth_parts(evolution)
        lines |= more
        if texts := last_texts(run):
            of = f"{len(texts)} of the {evolution.candidates:,} texts of the last population, evenly spaced:"
            parts += [paragraph(of), facts({str(number): text for number, text in enumerate(texts, 1)}), paragraph("")]
        if evolution.certificate is not None:
            parts.append(paragraph(evolution.certificate.statement, "bold"))
    lines |= {"generator": asked} if asked else {}
    lines |= {"commitment": results.commitment} if results.commitment else {}
    lines |= {"notes": " ".join(notes)} if notes else {}
    output.result(command, document, *parts, facts(lines | {"page": str(page)}))


def _audit_document(run: "Run") -> dict[str, Any]:
    from canarybank.run.commitment import finite

    results = run.results
    return {
        "commitment": results.commitment,
        "epsilon": {
            "exact": finite(results.epsilon),
            "delta": results.mechanism.delta,
            "accounted": results.audit.accounted,
        },
        "trials": results.audit.trials,
        "alpha": results.audit.alpha,
        "seed": results.seed,
        "attacks": [
            finite({"attack": each.attack, "headline": asdict(each.headline), "ladder": asdict(each.ladder)})
            for each in results.final
        ],
    }


def evolution_parts(run: "Run") -> tuple[str, tuple[list[str], list[list[str]]], dict[str, str]]:
    """Return an evolution's headline, its table of rounds, and what its figures stand on."""
    from canarybank.mechanism import delta_text
    from canarybank.report import evolution_headline
    from canarybank.report.evolution import account_text, round_rows
    from canarybank.report.text import counted

    results, evolution = run.results, run.results.evolution
    assert evolution is not None  # noqa: S101, the caller looked
    shown = {"round": "round", "entries": "entries", "kept": "kept", "epsilon": "epsilon", "added_up": "added up"}
    if evolution.utility is not None:
        shown |= {"mauve": "MAUVE after", "precision": "precision", "recall": "recall"}
    if results.attacks:
        shown |= {"exact": "exact, attack", "bound": "observed bound"}
    made = round_rows(results)
    shown = {name: head for name, head in shown.items() if not made or any(row[name] is not None for row in made)}
    rows = [[_cell(row[name]) for name in shown] for row in made]
    mechanism, worth = results.mechanism, evolution.utility
    voters = "" if evolution.voters is None else f"; {counted(evolution.voters, 'user')}"
    lines = {
        "epsilon": f"of all releases so far at {delta_text(mechanism.delta, evolution.slack)}, add or remove one user; "
        "from the privacy loss distribution, and added up round by round",
        "covers": account_text(evolution),
        "mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}"
        f"{mechanism.defence_text}{voters}",
    }
    if worth is not None:
        lines["utility"] = f"against {worth.reference_users:,} held-out users; not differentially private"
    if results.attacks:
        lines["audit"] = (
            f"bounds of each number of rounds, {made[-1]['attack']}; of independent releases over this run's "
            "banks, held fixed"
        )
    lines |= _certificate_lines(evolution)
    if evolution.insecure_seed is not None:
        lines["INSECURE"] = f"seeded with {evolution.insecure_seed}: a simulation, not private"
    lines["population"] = str(run.folder / "population.parquet")
    return evolution_headline(results), (list(shown.values()), rows), lines


def _worth_parts(evolution: "EvolutionFacts") -> list[Any]:
    """Return the table of what the first and the last population are worth, beside real text, where it was made."""
    from canarybank.report.utility import compared_by_measure, population_names

    if evolution.utility is None or evolution.utility.compared is None:
        return []
    compared = asdict(evolution.utility.compared)
    names = population_names(len(compared["sets"]))
    title = f"What the text is worth: {compared['size']:,} texts of each, against as many records of held-out users"
    return [paragraph(title), table(*compared_by_measure(compared, names, sorted({0, len(names) - 1})))]


def _certificate_lines(evolution: "EvolutionFacts") -> dict[str, str]:
    """Say what a certificate stands on: its canaries, what they cost, its evidence and what it could have shown."""
    from canarybank.report.text import counted

    carried, found = evolution.carried, evolution.certificate
    if carried is None or found is None:
        return {}
    shown = {str(each.evidence): f"{each.statement} {each.assumption}" for each in found.shown}
    return {
        "canaries": f"{carried.canaries:,} synthetic users of the auditor, {carried.eligible:,} of them in; style "
        f"{carried.style}; {counted(carried.probes // carried.canaries, 'probe')} each",
        "their cost": carried.cost,
        **shown,
        "power": " ".join(carried.power),
    }


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def attack_rows(results: "Results", outcome: "GateOutcome") -> list[list[str]]:
    """Return a row for each attack, its name and the rungs of its ladder; and the headline, with alpha split over all.

    An attack has a bound at its share of alpha where there are several.
    """
    from canarybank.report.text import epsilon, reach_text, together
    from canarybank.report.verdicts import strongest

    number = len(results.final)
    shares = [epsilon(each.bound.epsilon) if number > 1 else "-" for each in outcome.attacks]
    rows = [
        [
            record.attack,
            *(reach_text(known) if (known := record.ladder.reached(name)) else "-" for name in ("attack", "rule")),
            f"{epsilon(expected.low)} to {epsilon(expected.high)}" if (expected := record.ladder.expected) else "-",
            epsilon(record.ladder.observed.epsilon),
            share,
        ]
        for record, share in zip(results.final, shares, strict=True)
    ]
    if number == 1:
        return rows
    return [*rows, [together(number), rows[strongest(results)][1], "-", "-", "-", epsilon(outcome.epsilon)]]


def _stands_on(results: "Results") -> dict[str, str]:
    from canarybank.report import written_lines
    from canarybank.report.summary import cohorts_text
    from canarybank.report.text import counted, epsilon, together

    audit, setup = results.audit, results.setup
    canaries = "one canary" if setup is None or setup.canaries == 1 else f"each of {setup.canaries} canaries"
    lines = {
        "exact": f"computed with no trials, at delta {results.mechanism.delta:g}, add or remove one user; of the "
        f"mechanism: {epsilon(results.epsilon)}",
        "observed": f"lower bound by the {audit.method} method, {100 * (1 - audit.alpha):g}% confidence each attack, "
        f"{audit.trials:,} trials of each hypothesis of {canaries}",
        "expected": "where 90% of such bounds fall, by the attack's exact rates",
    }
    if (number := len(results.final)) > 1:
        lines["at its share"] = (
            f"the same with alpha split over {together(number, 'attacks')}, {audit.alpha / number:.4g} each"
        )
    if setup is None:
        return lines | {"system": audit.system}
    return lines | {
        "users": f"{setup.evaluation:,} evaluation, {cohorts_text(results)}; up to "
        f"{counted(setup.records, 'record')} each",
        "bank": f"{counted(setup.bank, 'entry', 'entries')}, {counted(setup.probes, 'position')} for probes; encoder "
        f"{setup.encoder}",
        **written_lines(results),
    }
