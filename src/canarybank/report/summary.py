"""Reduce a run to a plain summary: everything that a page, a table or a text shows, named and cleaned once.

All text that came from users, models or files is cleaned here, and nowhere else is it taken from the run.
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from canarybank.auditing import AttackResult, Bound, CanaryResult, Ladder
from canarybank.mechanism import Mechanism, delta_text
from canarybank.mechanism.account import left_text
from canarybank.report.numbers import epsilon, rule_upper
from canarybank.report.statements import assumptions, generator_line, limits, written_lines
from canarybank.report.text import clean, label
from canarybank.report.verdict import strongest, verdict
from canarybank.run.commitment import finite
from canarybank.run.folder import COMMITMENT, RESULTS, SEALED, Run
from canarybank.run.gating import exceeded_ledger
from canarybank.run.manifest import Manifest
from canarybank.run.results import EvolutionFacts, Results, Setup
from canarybank.score import Interval
from canarybank.store import hash_file

__all__ = ["account_text", "evolution_headline", "round_rows", "summarise_run"]

_COMMAND = 2000
_UNKNOWN = {
    "epsilon": None,
    "low": None,
    "high": None,
    "source": "not computed: the system has no law",
    "is_least": False,
}


def summarise_run(run: Run) -> dict[str, Any]:
    """Return the summary of a finished run, as plain values; ``attacks`` are over all releases."""
    results = run.results
    summary = {
        "name": clean(run.folder.resolve().name, 80),
        "version": results.canarybank,
        "mechanism": asdict(results.mechanism),
        "facts": _facts(run)
        if results.evolution is None
        else _evolution_facts(results, results.evolution, run.manifest),
        "notes": [clean(note, 600) for note in results.notes],
        "statement": results.statement,
        "provenance": _provenance(run),
        "epsilon": results.epsilon,
        "rounds": results.rounds,
        "attacks": [_attack(attack, results.mechanism) for attack in results.final],
        "prefixes": [_prefix(attack) for attack in results.attacks] if results.evolution is not None else [],
        "verdict": None,
        "evolution": None if results.evolution is None else _evolution(results, results.evolution),
    }
    if not results.attacks:
        return summary
    found, gate = verdict(run), run.commitment.gate
    return summary | {
        "verdict": {"tone": found.tone.value, "sentence": found.sentence, "beside": list(found.beside)},
        "strongest": strongest(results),
        "accounted": results.claim,
        "claimed": results.audit.accounted is not None,
        "audit": results.audit.model_dump(),
        "gate": _ledger(gate.total, gate.entries),
        "assumptions": assumptions(results),
        "limits": limits(results),
    }


def evolution_headline(results: Results) -> str:
    """Say in a sentence what an evolution did and spent."""
    evolution = results.evolution
    assert evolution is not None  # noqa: S101, the caller looked
    done, asked = len(evolution.rounds), evolution.evolve.rounds
    made = f"{done} of {asked} rounds" if done < asked else f"{done} rounds"
    voters = "" if evolution.voters is None else f" on {evolution.voters:,} users"
    at = delta_text(results.mechanism.delta, evolution.slack)
    text = f"{made} of Private Evolution{voters}: epsilon {epsilon(evolution.spent)} at {at}"
    if exceeded := exceeded_ledger(results):
        text += f". {exceeded}"
    if evolution.insecure_seed is not None:
        return f"A simulation, seeded with {evolution.insecure_seed}: {text} by its ledger, were its noise secret"
    return text


def account_text(evolution: EvolutionFacts) -> str:
    """Say which runs an epsilon covers: those of a budget account, or this one alone."""
    account = evolution.account
    if account is None:
        return "this run alone; other runs over the same people add to it"
    return (
        f"{clean(account.population, 120)}: {account.releases:,} releases of all runs cost epsilon "
        f"{epsilon(account.epsilon)} of {account.budget:g} at {delta_text(account.delta, account.slack)}; "
        f"{left_text(account.left)} can be paid"
    )


def round_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row for each round of an evolution: what was spent, shown, and what the population after it is worth."""
    evolution = results.evolution
    assert evolution is not None  # noqa: S101, the caller looked
    worth = {} if evolution.utility is None else {each.round: each for each in evolution.utility.figures}
    shown = {each.rounds: each for each in results.attacks if each.attack == results.attacks[0].attack}
    rows = []
    for each in evolution.rounds:
        figures, found = worth.get(each.round), shown.get(each.round)
        rows.append(
            asdict(each)
            | {name: None if figures is None else getattr(figures, name) for name in ("mauve", "precision", "recall")}
            | {
                name: None if figures is None else getattr(figures.variety, name)
                for name in ("distinct_2", "near_duplicates")
            }
            | {
                "exact": None if found is None else finite(found.canaries[found.headline_canary].exact),
                "expected": None if found is None or found.ladder.expected is None else found.ladder.expected.epsilon,
                "bound": None if found is None else found.headline.epsilon,
                "confidence": None if found is None else found.headline.confidence,
                "method": None if found is None else str(found.headline.method),
                "insecure_seed": evolution.insecure_seed,
            }
        )
    return rows


def _evolution(results: Results, evolution: EvolutionFacts) -> dict[str, Any]:
    plain: dict[str, Any] = finite(evolution.model_dump(mode="json"))
    for measured in (plain["utility"], plain["plain"]):
        if measured is not None:
            measured["figures"] = [_flat(each) for each in measured["figures"]]
    first = results.attacks[0].attack if results.attacks else None
    return {
        **{name: plain[name] for name in ("insecure_seed", "rounds", "utility", "plain", "cost")},
        "mechanism": asdict(results.mechanism),
        "audit": first
        and {
            "attack": label(first),
            "method": results.audit.method,
            "trials": results.audit.trials,
            "prefixes": [_prefix(each) for each in results.attacks if each.attack == first],
        },
        "headline": evolution_headline(results),
        "stopped": None if evolution.stopped is None else clean(evolution.stopped, 600),
        "examples": [clean(text) for text in evolution.examples],
    }


def _flat(figures: dict[str, Any]) -> dict[str, Any]:
    votes = figures["concentration"] or dict.fromkeys(("kept_share", "effective", "probe_share"))
    return {**figures, **figures["variety"], **votes, "after": figures["round"]}


def _prefix(attack: AttackResult) -> dict[str, Any]:
    """Return what an attack showed in so many rounds, as the figure and the table of an evolution have it."""
    shown, ladder = attack.canaries[attack.headline_canary], attack.ladder
    exact = None if shown.exact is None else finite(shown.exact)
    rule, expected = (None if rung is None else rung for rung in (ladder.rule, ladder.expected))
    return {
        "attack": label(attack.attack),
        "rounds": attack.rounds,
        "theory": ladder.mechanism.epsilon,
        "exact": exact,
        "rule": None if rule is None else finite(rule.low),
        "expected_low": None if expected is None else expected.low,
        "expected_high": None if expected is None else expected.high,
        "observed": attack.headline.epsilon,
        "row": (
            label(attack.attack),
            attack.rounds,
            epsilon(ladder.mechanism.epsilon),
            epsilon(exact),
            "—" if rule is None else epsilon(rule.low),
            "—" if expected is None else epsilon(expected.epsilon),
            epsilon(attack.headline.epsilon),
            f"{sum(canary.counts.tp for canary in attack.canaries):,}",
            f"{sum(canary.counts.fp for canary in attack.canaries):,}",
        ),
    }


def _facts(run: Run) -> list[tuple[str, str]]:
    results = run.results
    mechanism, audit = results.mechanism, results.audit
    return [
        *(_setup_facts(results.setup, run.manifest) if results.setup else [("System", clean(audit.system, 120))]),
        *((name.capitalize(), line) for name, line in written_lines(results).items()),
        *(("Generator", line) for line in [generator_line(run.manifest)] if line),
        ("Mechanism", f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}"),
        ("Delta", f"{mechanism.delta:g}, add or remove one user, one release"),
        ("Trials", f"{audit.trials:,} of each hypothesis of each canary"),
        ("Method", f"{audit.method}, alpha {audit.alpha:g} an attack, threshold {audit.threshold}"),
    ]


def _setup_facts(setup: Setup, manifest: Manifest) -> list[tuple[str, str]]:
    source = clean(Path(str(manifest.config.get("users.source", "?"))).name, 120)
    return [
        ("Users", f"{source}; {setup.evaluation:,} eligible"),
        ("Records", f"at most {setup.records:,} a user"),
        ("Set aside", f"{setup.auxiliary:,} auxiliary users, {setup.calibration:,} calibration users"),
        ("Canaries", f"{setup.canaries:,} an attack"),
        ("Encoder", f"{clean(setup.encoder, 80)}, {setup.dimension:,} dimensions"),
        ("Bank", f"{setup.bank:,} entries, {setup.probes:,} positions for probes"),
    ]


def _evolution_facts(results: Results, evolution: EvolutionFacts, manifest: Manifest) -> list[tuple[str, str]]:
    mechanism, evolve, slack = results.mechanism, evolution.evolve, evolution.slack
    source = clean(Path(str(manifest.config.get("users.source", "?"))).name, 120)
    stays = f"{evolve.keep:,}" if evolve.keep is not None else f"{100 * evolve.share:g}% of the entries"
    delta = f"{mechanism.delta:g}, add or remove one user"
    facts = [
        ("Users", source if evolution.voters is None else f"{source}; {evolution.voters:,} could take part in a round"),
        ("Rounds", f"{len(evolution.rounds)} of {evolve.rounds}; {stays} stay after each"),
        ("Feedback", f"{evolve.feedback}, by {clean(evolution.generator, 80)}"),
        *(("Generator", line) for line in [generator_line(manifest)] if line),
        ("Encoder", clean(evolution.encoder, 80)),
        ("Mechanism", f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:.4g}"),
        (
            "Delta",
            f"{delta}; the noise's arithmetic adds {slack:.2g}, and never more than delta" if slack else delta,
        ),
        ("Noise", _noise(evolution)),
        ("Budget", "none declared" if evolve.budget is None else f"epsilon {evolve.budget:g}"),
        ("Epsilon covers", account_text(evolution)),
        ("Final population", f"{evolution.candidates:,} candidates, in population.parquet, .jsonl and .csv"),
    ]
    if (held := evolution.utility) is not None:
        text = f"{held.reference_users:,} users with {held.reference_records:,} records, for utility alone"
        facts.append(("Held out", text))
    if (setup := results.setup) is not None:
        canaries = f"{setup.canaries:,} an attack, {setup.probes:,} positions for probes in every bank"
        facts += [
            ("Canaries", canaries),
            ("Set aside", f"{setup.auxiliary:,} auxiliary users, {setup.calibration:,} calibration users"),
            ("Trials", f"{results.audit.trials:,} of each hypothesis of each canary"),
        ]
    return facts


def _noise(evolution: EvolutionFacts) -> str:
    if evolution.insecure_seed is not None:
        return "floating point, from a seed: a simulation"
    if evolution.rounds and not evolution.slack:
        return "floating point, by an earlier version that stated no slack"
    return {"discrete": "discrete Gaussian, exact, by OpenDP", "float": "floating point"}[evolution.evolve.noise]


def _attack(attack: AttackResult, mechanism: Mechanism) -> dict[str, Any]:
    return {
        "name": label(attack.attack),
        "description": clean(attack.description),
        "headline": _bound(attack.headline),
        "pooled": None if attack.pooled is None else _bound(attack.pooled),
        "canaries": [_canary(canary, mechanism, attack.ladder.mechanism.epsilon) for canary in attack.canaries],
        "shown": attack.headline_canary,
        "ladder": [_rung(attack.ladder, field.name) for field in fields(attack.ladder)],
        "ledger": _ledger(attack.ledger.total, attack.ledger.entries),
        "notes": [clean(note, 600) for note in attack.notes],
        "evidence": _evidence(attack.evidence),
    }


def _bound(bound: Bound) -> dict[str, Any]:
    return asdict(bound) | {"warning": None if bound.warning is None else clean(bound.warning, 600)}


def _canary(canary: CanaryResult, mechanism: Mechanism, most: float) -> dict[str, Any]:
    return {
        "id": label(canary.canary),
        "bank_hash": canary.bank_hash,
        "inspected": len(canary.inspected),
        "probes": len(canary.selected),
        "mu_eff": canary.mu_eff,
        "probe_norm": canary.probe_norm,
        "threshold": canary.threshold.value,
        "counts": asdict(canary.counts),
        "bound": _bound(canary.bound),
        "upper": rule_upper(canary, mechanism),
        "rule": _interval(canary.rule, most),
        "supremum": _interval(canary.supremum, most),
        "fpr": _interval(canary.absent_rate, 1.0),
        "tpr": _interval(canary.eligible_rate, 1.0),
    }


def _rung(ladder: Ladder, name: str) -> dict[str, Any]:
    """Return a rung that no attack exceeds its mechanism on; one that nobody computed says so."""
    rung = getattr(ladder, name)
    if rung is None:
        return {"name": name, **_UNKNOWN, "is_known": False}
    shown = finite(asdict(rung)) | {"source": clean(rung.source, 600), "is_least": False, "is_known": True}
    reached = ladder.reached("attack" if name == "attack" else "rule") if name in {"attack", "rule"} else None
    if reached is None:
        return dict(shown)
    high = finite(min(rung.high, ladder.mechanism.epsilon))
    return {**shown, "epsilon": finite(reached[0]), "high": high, "is_least": reached[1]}


def _interval(of: Interval | None, most: float) -> dict[str, Any]:
    """Return a certified interval of something that is at most this; none that nobody computed."""
    if of is None:
        return {"lower": None, "upper": None}
    return {"lower": finite(of.lower), "upper": finite(min(of.upper, most))}


def _ledger(total: float, entries: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    return {"total": total, "entries": [(clean(name, 80), share) for name, share in entries]}


def _evidence(evidence: dict[str, Any]) -> dict[str, Any]:
    if not evidence:
        return {}
    votes = evidence["votes"]
    entries = [
        entry | {"text": None if entry["text"] is None else clean(str(entry["text"]))} for entry in votes["entries"]
    ]
    return evidence | {"canary": label(str(evidence["canary"])), "votes": votes | {"entries": entries}}


def _provenance(run: Run) -> dict[str, Any]:
    manifest, results = run.manifest, run.results
    around, setup = manifest.surroundings, results.setup
    hashes = [(RESULTS, hash_file(run.folder / RESULTS))]
    if (run.folder / SEALED).exists():
        hashes.insert(0, (SEALED, hash_file(run.folder / SEALED)))
    if results.commitment is not None:
        hashes.insert(0, (COMMITMENT, run.commitment_hash))
    if setup is not None and results.commitment is not None:
        hashes += [
            ("bank before any probe", setup.bank_hash),
            ("encoder", setup.encoder_fingerprint),
            *((f"{name} cohort", digest) for name, digest in sorted(run.commitment.cohorts.items())),
        ]
    if results.evolution is not None:
        hashes += [(f"bank of round {each.round}", each.bank) for each in results.evolution.rounds]
    return {
        "command": clean(manifest.command, _COMMAND) or "(run from Python)",
        "started": manifest.started,
        "seed": results.seed,
        "versions": [
            ("canarybank", manifest.canarybank),
            ("commit", around.commit or "not run from a checkout"),
            ("python", around.python),
            *sorted(around.packages.items()),
        ],
        "hardware": f"{clean(around.platform, 120)}; {clean(around.processor, 80)}, {around.cores} cores",
        "hashes": hashes,
        "config": [
            (key, clean(_written(value), 120), clean(manifest.origins.get(key, ""), 120))
            for key, value in sorted(manifest.config.items())
        ],
    }


def _written(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "—"
    return str(value)
