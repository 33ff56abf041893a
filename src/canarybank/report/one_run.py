"""Show what one run showed, from its folder: of somebody else's system, or of an evolution with its own canaries."""

from typing import Any

from canarybank.auditing.one_run import Certificate
from canarybank.report.certificate import Planted, certificate_markdown, certificate_rows, summarise_certificate
from canarybank.report.certificate_figures import certificate_parts
from canarybank.report.summary import provenance
from canarybank.report.tables import markdown_table, plain, verdict_markdown
from canarybank.report.text import clean, epsilon, percent
from canarybank.run.carried import read_scores
from canarybank.run.folder import COMMITMENT, RESULTS, Run
from canarybank.run.one_run import OneRunPlant
from canarybank.run.results import EvolutionFacts
from canarybank.store import hash_file

__all__ = ["EVIDENCE_COLUMNS", "evidence_rows", "evolved_markdown", "one_run_markdown", "one_run_parts", "one_run_rows"]

EVIDENCE_COLUMNS = ("evidence", "holds for", "outcome", "epsilon at least", "share of alpha")
_LONG, _NAME = 2000, 80
_WORTH = {"mauve": "MAUVE", "precision": "precision", "recall": "recall", "distinct_2": "distinct pairs"}


def evidence_rows(found: Certificate) -> list[tuple[str, ...]]:
    """Return a row for each kind of evidence, as shown."""
    return [
        (
            str(each.evidence),
            each.family,
            "refuted" if each.refuted else "not refuted",
            epsilon(each.epsilon),
            f"{each.alpha:.4g}",
        )
        for each in found.shown
    ]


def certificate_of(run: Run) -> Certificate | None:
    """Return the certificate of a run; None where it has none."""
    if run.kind == "one-run":
        return run.one_run_results.found
    evolution = run.results.evolution if run.kind == "evolution" else None
    return None if evolution is None else evolution.certificate


def one_run_parts(run: Run) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return what a page shows of a run's certificate: its words, and its tables and figures. None without one."""
    found = certificate_of(run)
    if found is None:
        return None
    plant, scores = read_scores(run)
    declared = plant.declaration
    section = summarise_certificate(declared, scores, found, _planted(run, plant))
    parts = certificate_parts(declared, scores, found, section)
    if run.kind != "one-run":
        return section | {"statement": run.results.statement}, parts
    results = run.one_run_results
    hashes = [(COMMITMENT, run.commitment_hash), (RESULTS, hash_file(run.folder / RESULTS))]
    hashes += [("releases and coins", results.releases), ("bank with its probes", plant.bank_hash)]
    return section | {
        "name": clean(run.folder.resolve().name, _NAME),
        "system": clean(results.system, _NAME),
        "version": results.canarybank,
        "statement": results.statement,
        "notes": [clean(each, _LONG) for each in results.notes],
        "provenance": provenance(run.manifest, hashes, plant.seed or 0),
    }, parts


def _planted(run: Run, plant: OneRunPlant) -> Planted:
    """Return what was planted, and what it took from honest candidates by design or as the releases say."""
    evolution, probes = run.results.evolution if run.kind == "evolution" else None, len(plant.positions[0])
    if evolution is None:
        votes = f"Of the auxiliary users' votes, {percent(plant.votes_taken)} go to probes, and to no candidate."
        return Planted(probes, plant.bank_size, str(plant.style), votes)
    return Planted(probes, plant.bank_size, str(plant.style), _votes(evolution), _utility(evolution))


def _votes(evolution: EvolutionFacts) -> str:
    carried = evolution.carried
    if carried is None or carried.votes_taken is None or carried.votes_error is None:
        return "Noise hides how many of the users' votes went to probes."
    most = max(0.0, carried.votes_taken + carried.votes_error)
    return f"At most about {percent(most)} of the users' votes went to probes, as the noisy releases say."


def _utility(evolution: EvolutionFacts) -> tuple[str, ...]:
    """Say what the probes cost in utility, where the same run was made without them."""
    if not evolution.cost:
        return ()
    last = evolution.cost[-1]
    differences = {words: getattr(last, name) for name, words in _WORTH.items()}
    shown = ", ".join(f"{words} {value:+.3f}" for words, value in differences.items() if value is not None)
    cost = f"What the probes cost in utility, after round {last.round} (without them less with them): {shown}."
    return (f"{cost} Two single runs are compared, whose noise differs too.",)


def one_run_rows(run: Run) -> list[dict[str, Any]]:
    """Return a flat row of numbers for each kind of evidence; none where a run has no certificate."""
    found = certificate_of(run)
    return [] if found is None else certificate_rows(read_scores(run)[0].declaration, found)


def one_run_markdown(summary: dict[str, Any]) -> str:
    """Return the page of one run of somebody else's system as Markdown."""
    return _joined(
        f"# One run of {plain(summary['system'])}",
        summary,
        [f"Note: {plain(note)}" for note in summary["notes"]],
        summary["provenance"],
    )


def evolved_markdown(summary: dict[str, Any], section: dict[str, Any]) -> str:
    """Return the page of an evolution that carried its own canaries as Markdown."""
    facts = ["## What was done", markdown_table(["what", "value"], summary["facts"])]
    notes = [f"Note: {plain(note)}" for note in summary["notes"]]
    title = f"# canarybank evolution: {plain(summary['name'])}"
    headline = f"{plain(summary['evolution']['headline'])}."
    return _joined(title, section, [headline, *facts, *notes], summary["provenance"])


def _joined(title: str, section: dict[str, Any], middle: list[str], source: dict[str, Any]) -> str:
    verdict = section["verdict"]
    parts = [
        title,
        *verdict_markdown(verdict),
        f"> {section['statement']}",
        *middle,
        "## What one run shows",
        *certificate_markdown(section),
        "## Provenance",
        f"Command: {plain(source['command'])}",
        markdown_table(["what", "sha256"], source["hashes"]),
    ]
    return "\n\n".join(parts) + "\n"
