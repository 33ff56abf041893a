"""Say what an evolution did, spent and made: its headline, its facts, a row for each round."""

from dataclasses import asdict
from typing import Any

from canarybank.mechanism import delta_text
from canarybank.mechanism.account import left_text
from canarybank.report.lineage import History, lineage_trees, read_history, round_samples, sample_texts
from canarybank.report.text import LONG, NAME, SHORT, clean, counted, epsilon
from canarybank.report.verdicts import strongest
from canarybank.report.worth import figures_by_round
from canarybank.run.clouds import map_clouds
from canarybank.run.commitment import finite
from canarybank.run.folder import Run
from canarybank.run.gating import exceeded_ledger
from canarybank.run.results import EvolutionFacts, Results

__all__ = ["account_text", "evolution_facts", "evolution_headline", "round_rows", "summarise_evolution"]

_WORTH = ("mauve", "precision", "recall", "distinct_2", "near_duplicates")
_SHOWN = ("exact", "expected", "bound", "confidence", "method")


def evolution_headline(results: Results) -> str:
    """Say in a sentence what an evolution did and spent.

    Args:
        results: The results of an evolution.

    Example:
        >>> evolution_headline(Run.open("runs/evolved").results)
        'A simulation, seeded with 0: 1 round of Private Evolution on 20 users: epsilon 1.685 at delta 1e-05 by ...'
    """
    evolution = results.evolution
    assert evolution is not None  # noqa: S101, the caller looked
    done, asked = len(evolution.rounds), evolution.evolve.rounds
    made = f"{done} of {asked} rounds" if done < asked else f"{done} round{'s' * (done != 1)}"
    voters = "" if evolution.voters is None else f" on {counted(evolution.voters, 'user')}"
    at = delta_text(results.mechanism.delta, evolution.slack)
    text = f"{made} of Private Evolution{voters}: epsilon {epsilon(evolution.spent)} at {at}"
    if exceeded := exceeded_ledger(results):
        text += f". {exceeded.sentence}"
    if evolution.insecure_seed is not None:
        return f"A simulation, seeded with {evolution.insecure_seed}: {text} by its ledger, were its noise secret"
    return text


def account_text(evolution: EvolutionFacts) -> str:
    """Say which runs an epsilon covers: those of a budget account, or this one alone."""
    account = evolution.account
    if account is None:
        return "this run alone; other runs over the same people add to it"
    return (
        f"{clean(account.population, SHORT)}: {account.releases:,} releases of all runs cost epsilon "
        f"{epsilon(account.epsilon)} of {account.budget:g} at {delta_text(account.delta, account.slack)}; "
        f"{left_text(account.left)} can be paid"
    )


def round_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row for each round of an evolution: what was spent, shown, and what the population after it is worth.

    What was shown is by the strongest attack.
    """
    evolution = results.evolution
    assert evolution is not None  # noqa: S101, the caller looked
    name = results.final[strongest(results)].attack if results.attacks else None
    shown = {
        each.rounds: {
            "exact": finite(each.canaries[each.headline_canary].exact),
            "expected": None if each.ladder.expected is None else each.ladder.expected.epsilon,
            "bound": each.headline.epsilon,
            "confidence": each.headline.confidence,
            "method": str(each.headline.method),
        }
        for each in results.attacks
        if each.attack == name
    }
    made = figures_by_round(None if evolution.utility is None else asdict(evolution.utility))
    worth = {each["round"]: {key: each[key] for key in _WORTH} for each in made}
    told = {"insecure_seed": evolution.insecure_seed, "attack": name}
    return [
        asdict(each) | dict.fromkeys((*_WORTH, *_SHOWN)) | told | worth.get(each.round, {}) | shown.get(each.round, {})
        for each in evolution.rounds
    ]


def summarise_evolution(run: Run) -> dict[str, Any] | None:
    """Return what the page shows of an evolution, as plain values; None for a run that is none."""
    results, evolution = run.results, run.results.evolution
    if evolution is None:
        return None
    values = evolution.model_dump()
    for measured in filter(None, (values["utility"], values["plain"])):
        measured["figures"] = figures_by_round(measured)
    history = read_history(run)
    return {
        **{name: values[name] for name in ("insecure_seed", "rounds", "utility", "plain", "cost")},
        "headline": evolution_headline(results),
        "stopped": None if evolution.stopped is None else clean(evolution.stopped, LONG),
        "examples": [clean(text) for text in evolution.examples],
        "noise": results.mechanism.noise,
        "final": None if history is None else sample_texts(history),
        "samples": None if history is None else round_samples(history),
        "lineage": [] if history is None else lineage_trees(history),
        "clouds": _clouds(evolution, history),
    }


def _clouds(evolution: EvolutionFacts, history: History | None) -> dict[str, Any] | None:
    """Return the map of the populations; real records are on it only where a simulation placed them."""
    if evolution.clouds is not None and evolution.insecure_seed is not None:
        return asdict(evolution.clouds)
    return None if history is None else asdict(map_clouds(history.populations))


def evolution_facts(evolution: EvolutionFacts) -> dict[str, str]:
    """Return what an evolution was told and made, a line each."""
    evolve = evolution.evolve
    shares = evolve.share if isinstance(evolve.share, tuple) else (evolve.share,)
    stays = ", ".join(f"{100 * share:g}%" for share in shares) + " of the entries"
    if evolve.keep is not None:
        stays = f"{evolve.keep:,}"
    role = "stay after each" if evolve.carry else "become parents after each, and none stays"
    noise = {"discrete": "discrete Gaussian, exact, by OpenDP", "float": "floating point"}[evolve.noise]
    if evolution.insecure_seed is not None:
        noise = "floating point, from a seed: a simulation"
    elif evolution.rounds and not evolution.slack:
        noise = "floating point, by an earlier version that stated no slack"
    facts = {
        "Rounds": f"{len(evolution.rounds)} of {evolve.rounds}; {stays} {role}",
        "Selection": clean(f"keeper {evolve.keeper}, parents {evolve.parents}", SHORT),
        "Feedback": f"{clean(evolve.feedback, SHORT)}, by {clean(evolution.generator, NAME)}",
        "Encoder": clean(evolution.encoder, NAME),
        "Noise": noise,
        "Budget": "none declared" if evolve.budget is None else f"epsilon {evolve.budget:g}",
        "Epsilon covers": account_text(evolution),
        "Final population": f"{evolution.candidates:,} candidates, in population.parquet, .jsonl and .csv",
    }
    roots = [each.root for each in evolution.rounds if each.root is not None]
    if roots:
        facts["Banks' roots"] = f"{', '.join(roots)}; clients hold their copy against them by `canarybank prove`"
    if (barred := [each.barred for each in evolution.rounds]) and any(barred):
        facts["Barred by vetting"] = f"{', '.join(map(str, barred))} entries of the rounds' banks got no vote"
    if (held := evolution.utility) is not None:
        facts["Held out"] = (
            f"{counted(held.reference_users, 'user')} with {counted(held.reference_records, 'record')}, for utility "
            "alone"
        )
    return facts
