"""Show an evolution as one page and as tables: what it spent, what its text is worth, what its audit showed."""

from pathlib import Path
from typing import Any

from canarybank.experiment.evolution import EvolutionRun
from canarybank.experiment.evolution_results import EvolutionResults, PrefixRecord
from canarybank.experiment.gating import exceeded_ledger
from canarybank.experiment.manifest import Manifest
from canarybank.mechanism import delta_text
from canarybank.mechanism.account import left_text
from canarybank.report.evolution_figures import epsilon_figure, utility_figure
from canarybank.report.numbers import epsilon
from canarybank.report.page import page_of
from canarybank.report.rows import write_csv, write_parquet
from canarybank.report.statements import generator_line
from canarybank.report.text import clean, label
from canarybank.store import PRIVATE, SHAREABLE, write_atomic

__all__ = ["evolution_headline", "render_evolution", "summarise_evolution", "write_evolution"]

PAGE = "report.html"
_COMMAND = 2000


def write_evolution(
    run: EvolutionRun, folder: Path | str | None = None, *, shareable: bool = False
) -> tuple[Path, ...]:
    """Write the page and the table of rounds of a finished evolution; return their paths, the page first.

    They go into the run's own folder unless another is given. The same run gives the same bytes. Only their owner may
    read them, unless they are made shareable.
    """
    mode = SHAREABLE if shareable else PRIVATE
    target = run.folder if folder is None else Path(folder)
    rows = round_rows(run.results)
    write_atomic(target / PAGE, render_evolution(run), mode=mode)
    if rows:
        write_csv(rows, target / "rounds.csv", mode=mode)
        write_parquet(rows, target / "rounds.parquet", mode=mode)
    return tuple(target / name for name in (PAGE, *(("rounds.csv", "rounds.parquet") if rows else ())))


def render_evolution(run: EvolutionRun) -> str:
    """Return the page of a finished evolution."""
    summary = summarise_evolution(run)
    return page_of(
        "evolution.html",
        version=summary["version"],
        summary=summary,
        epsilon_figure=epsilon_figure(summary) if summary["rounds"] else None,
        utility_figure=utility_figure(summary),
        cost_rows=[_cost_row(each) for each in summary["cost"]],
    )


def evolution_headline(results: EvolutionResults) -> str:
    """Say in a sentence what an evolution did and spent."""
    done, asked = len(results.rounds), results.evolve.rounds
    spent = results.rounds[-1].epsilon if results.rounds else 0.0
    made = f"{done} of {asked} rounds" if done < asked else f"{done} rounds"
    voters = "" if results.voters is None else f" on {results.voters:,} users"
    slack = results.rounds[-1].slack if results.rounds else 0.0
    at = delta_text(results.mechanism.delta, slack)
    text = f"{made} of Private Evolution{voters}: epsilon {epsilon(spent)} at {at}"
    if exceeded := exceeded_ledger(results):
        text += f". {exceeded}"
    if results.insecure_seed is not None:
        return f"A simulation, seeded with {results.insecure_seed}: {text} by its ledger, were its noise secret"
    return text


def summarise_evolution(run: EvolutionRun) -> dict[str, Any]:
    """Return the summary of a finished evolution as plain values; all text of models and files is cleaned here."""
    results, manifest = run.results, run.manifest
    plain = results.model_dump(mode="json")
    return {
        "name": clean(run.folder.resolve().name, 80),
        "version": results.canarybank,
        "headline": evolution_headline(results),
        "statement": results.statement,
        "insecure_seed": results.insecure_seed,
        "stopped": None if results.stopped is None else clean(results.stopped, 600),
        "mechanism": plain["mechanism"],
        "facts": _facts(results, manifest),
        "rounds": plain["rounds"],
        "utility": plain["utility"],
        "plain": plain["plain"],
        "cost": plain["cost"],
        "audit": None if results.audit is None else _audit(results),
        "examples": [clean(text) for text in results.examples],
        "notes": [clean(note, 600) for note in results.notes],
        "provenance": {
            "command": clean(manifest.command, _COMMAND) or "(run from Python)",
            "started": manifest.started,
            "versions": [("canarybank", manifest.canarybank), *sorted(manifest.surroundings.packages.items())],
            "config": [
                (key, clean("—" if value is None else str(value), 120), clean(manifest.origins.get(key, ""), 120))
                for key, value in sorted(manifest.config.items())
            ],
            "banks": [(f"bank of round {each.round}", each.bank) for each in results.rounds],
        },
    }


def round_rows(results: EvolutionResults) -> list[dict[str, Any]]:
    """Return a row for each round: what was spent, shown, and what the population after it is worth."""
    figures = {each.after: each for each in results.utility.figures} if results.utility is not None else {}
    prefixes = {each.rounds: each for each in results.audit.prefixes} if results.audit is not None else {}
    return [
        each.model_dump(mode="json")
        | _worth(figures.get(each.round))
        | _shown(prefixes.get(each.round))
        | {"insecure_seed": results.insecure_seed}
        for each in results.rounds
    ]


def _worth(figures: Any) -> dict[str, Any]:
    names = ("mauve", "precision", "recall", "distinct_2", "near_duplicates")
    return {name: None if figures is None else getattr(figures, name) for name in names}


def _shown(prefix: PrefixRecord | None) -> dict[str, Any]:
    if prefix is None:
        return dict.fromkeys(("exact", "expected", "bound", "confidence", "method"))
    bound = prefix.bound
    return {
        "exact": prefix.exact,
        "expected": prefix.expected,
        "bound": bound.epsilon,
        "confidence": bound.confidence,
        "method": bound.method,
    }


def _facts(results: EvolutionResults, manifest: Manifest) -> list[tuple[str, str]]:
    mechanism, evolve = results.mechanism, results.evolve
    source = clean(Path(str(manifest.config.get("users.source", "?"))).name, 120)
    stays = f"{evolve.keep:,}" if evolve.keep is not None else f"{100 * evolve.share:g}% of the entries"
    facts = [
        ("Users", source if results.voters is None else f"{source}; {results.voters:,} could take part in a round"),
        ("Rounds", f"{len(results.rounds)} of {evolve.rounds}; {stays} stay after each"),
        ("Feedback", f"{evolve.feedback}, by {clean(results.generator, 80)}"),
        *(("Generator", line) for line in [generator_line(manifest)] if line),
        ("Encoder", clean(results.encoder, 80)),
        ("Mechanism", f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:.4g}"),
        ("Delta", _delta(results)),
        ("Noise", _noise(results)),
        ("Budget", "none declared" if evolve.budget is None else f"epsilon {evolve.budget:g}"),
        ("Epsilon covers", account_text(results)),
        ("Final population", f"{results.candidates:,} candidates, in population.parquet, .jsonl and .csv"),
    ]
    if results.utility is not None:
        reference = results.utility
        held = f"{reference.reference_users:,} users with {reference.reference_records:,} records, for utility alone"
        facts.append(("Held out", held))
    return facts


def _delta(results: EvolutionResults) -> str:
    slack = results.rounds[-1].slack if results.rounds else 0.0
    text = f"{results.mechanism.delta:g}, add or remove one user"
    return f"{text}; the noise's arithmetic adds {slack:.2g}, and never more than delta" if slack else text


def _noise(results: EvolutionResults) -> str:
    if results.insecure_seed is not None:
        return "floating point, from a seed: a simulation"
    if results.rounds and not results.rounds[-1].slack:
        return "floating point, by an earlier version that stated no slack"
    return {"discrete": "discrete Gaussian, exact, by OpenDP", "float": "floating point"}[results.evolve.noise]


def account_text(results: EvolutionResults) -> str:
    """Say which runs an epsilon covers: those of a budget account, or this one alone."""
    account = results.account
    if account is None:
        return "this run alone; other runs over the same people add to it"
    return (
        f"{clean(account.population, 120)}: {account.releases:,} releases of all runs cost epsilon "
        f"{epsilon(account.epsilon)} of {account.budget:g} at {delta_text(account.delta, account.slack)}; "
        f"{left_text(account.left)} can be paid"
    )


def _audit(results: EvolutionResults) -> dict[str, Any]:
    audit = results.audit
    assert audit is not None  # noqa: S101, the caller looked
    return audit.model_dump(mode="json", exclude={"prefixes", "notes"}) | {
        "canary": label(audit.canary),
        "notes": [clean(note, 600) for note in audit.notes],
        "assumption": clean(audit.prefixes[0].bound.assumption, 600),
        "prefixes": [
            {
                "rounds": each.rounds,
                "theory": each.theory,
                "exact": each.exact,
                "rule": each.rule.lower,
                "expected_low": each.expected_low,
                "expected_high": each.expected_high,
                "observed": each.bound.epsilon,
                "row": (
                    each.rounds,
                    epsilon(each.theory),
                    epsilon(each.exact),
                    epsilon(each.rule.lower),
                    epsilon(each.expected),
                    epsilon(each.bound.epsilon),
                    f"{each.counts.tp:,}",
                    f"{each.counts.fp:,}",
                ),
            }
            for each in audit.prefixes
        ],
    }


def _cost_row(each: dict[str, Any]) -> tuple[str | int, ...]:
    names = ("mauve", "precision", "recall", "distinct_2")
    return (each["after"], *("—" if each[name] is None else f"{each[name]:+.3f}" for name in names))
