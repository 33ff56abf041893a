"""Reduce a run to a plain summary: everything that a page, a table or a text shows, named and cleaned once.

All text that came from users, models or files is cleaned here, and nowhere else is it taken from the run.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from canarybank.auditing import (
    AlphaLedger,
    AttackResult,
    Bound,
    CanaryResult,
    Ladder,
    Rung,
    clopper_pearson,
    own_method,
)
from canarybank.mechanism import Mechanism, delta_text
from canarybank.mechanism.account import left_text
from canarybank.report.statements import assumptions, generator_line, limits, strongest, verdict, written_lines
from canarybank.report.text import UNKNOWN, clean, epsilon, label
from canarybank.run.commitment import finite
from canarybank.run.folder import COMMITMENT, RESULTS, SEALED, Run
from canarybank.run.gating import exceeded_ledger
from canarybank.run.results import EvolutionFacts, Results
from canarybank.score import Interval
from canarybank.store import hash_file

__all__ = ["account_text", "evolution_headline", "round_rows", "rule_upper", "summarise_run"]

_COMMAND = 2000
Ends = tuple[float, float, float]
"""A rate with the two ends of its interval around it: lower end, rate, upper end."""


def summarise_run(run: Run) -> dict[str, Any]:
    """Return the summary of a finished run, as plain values; None is what nobody computed.

    ``attacks`` are over all releases, ``prefixes`` after each of them.
    """
    results, evolution = run.results, run.results.evolution
    summary = {
        "name": clean(run.folder.resolve().name, 80),
        "version": results.canarybank,
        "mechanism": asdict(results.mechanism),
        "facts": list(_facts(run).items()),
        "notes": [clean(note, 600) for note in results.notes],
        "statement": results.statement,
        "provenance": _provenance(run),
        "epsilon": results.epsilon,
        "attacks": [_attack(attack, results.mechanism) for attack in results.final],
        "prefixes": [_prefix(attack) for attack in results.attacks],
        "verdict": None,
        "evolution": None if evolution is None else _evolution(results, evolution),
    }
    if not results.attacks:
        return summary
    found = verdict(run)
    return summary | {
        "verdict": {"tone": found.tone.value, "sentence": found.sentence, "beside": list(found.beside)},
        "strongest": strongest(results),
        "accounted": results.claim,
        "claimed": results.audit.accounted is not None,
        "audit": results.audit.model_dump(),
        "gate": _ledger(run.commitment.gate),
        "assumptions": assumptions(results),
        "limits": limits(results),
    }


def evolution_headline(results: Results) -> str:
    """Say in a sentence what an evolution did and spent."""
    evolution = results.evolution
    assert evolution is not None  # noqa: S101, the caller looked
    done, asked = len(evolution.rounds), evolution.evolve.rounds
    made = f"{done} of {asked} rounds" if done < asked else f"{done} round{'s' * (done != 1)}"
    voters = "" if evolution.voters is None else f" on {evolution.voters:,} users"
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
        f"{clean(account.population, 120)}: {account.releases:,} releases of all runs cost epsilon "
        f"{epsilon(account.epsilon)} of {account.budget:g} at {delta_text(account.delta, account.slack)}; "
        f"{left_text(account.left)} can be paid"
    )


def round_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row for each round of an evolution: what was spent, shown, and what the population after it is worth.

    What was shown is by the strongest attack.
    """
    evolution = results.evolution
    assert evolution is not None  # noqa: S101, the caller looked
    worth = {} if evolution.utility is None else {each.round: each for each in evolution.utility.figures}
    name = results.final[strongest(results)].attack if results.attacks else None
    shown = {each.rounds: each for each in results.attacks if each.attack == name}
    rows = []
    for each in evolution.rounds:
        row = asdict(each) | dict.fromkeys(("mauve", "precision", "recall", "distinct_2", "near_duplicates"))
        row |= dict.fromkeys(("exact", "expected", "bound", "confidence", "method"))
        row |= {"insecure_seed": evolution.insecure_seed, "attack": name}
        if (figures := worth.get(each.round)) is not None:
            values = asdict(figures) | asdict(figures.variety)
            row |= {key: values[key] for key in ("mauve", "precision", "recall", "distinct_2", "near_duplicates")}
        if (found := shown.get(each.round)) is not None:
            prefix, claim = _prefix(found), found.headline
            row |= {"exact": finite(prefix["exact"]), "expected": prefix["expected"], "bound": claim.epsilon}
            row |= {"confidence": claim.confidence, "method": str(claim.method)}
        rows.append(row)
    return rows


def _evolution(results: Results, evolution: EvolutionFacts) -> dict[str, Any]:
    values = evolution.model_dump()
    for measured in (values["utility"], values["plain"]):
        if measured is not None:
            measured["figures"] = [_flat(each) for each in measured["figures"]]
    return {
        **{name: values[name] for name in ("insecure_seed", "rounds", "utility", "plain", "cost")},
        "headline": evolution_headline(results),
        "stopped": None if evolution.stopped is None else clean(evolution.stopped, 600),
        "examples": [clean(text) for text in evolution.examples],
    }


def _flat(figures: dict[str, Any]) -> dict[str, Any]:
    votes = figures["concentration"] or dict.fromkeys(("kept_share", "effective", "probe_share"))
    return {**figures, **figures["variety"], **votes, "after": figures["round"]}


def _prefix(attack: AttackResult) -> dict[str, Any]:
    """Return what an attack showed in so many rounds."""
    ladder, rungs = attack.ladder, {rung.name: rung for rung in attack.ladder.rungs}
    expected = rungs.get("expected")
    return {
        "attack": label(attack.attack),
        "rounds": attack.rounds,
        "theory": ladder.mechanism.epsilon,
        "exact": attack.canaries[attack.headline_canary].exact,
        "rule": None if ladder.rule is None else ladder.rule.low,
        "expected": None if expected is None else expected.epsilon,
        "expected_low": None if expected is None else expected.low,
        "expected_high": None if expected is None else expected.high,
        "observed": attack.headline.epsilon,
        "tp": sum(canary.counts.tp for canary in attack.canaries),
        "fp": sum(canary.counts.fp for canary in attack.canaries),
    }


def _facts(run: Run) -> dict[str, str]:
    """Return what was done with what, a line each."""
    results, manifest = run.results, run.manifest
    mechanism, audit, setup, evolution = results.mechanism, results.audit, results.setup, results.evolution
    delta = f"{mechanism.delta:g}, add or remove one user"
    if setup is None and evolution is None:
        facts = {"System": clean(audit.system, 120)}
    else:
        facts = {"Users": clean(Path(str(manifest.config.get("users.source", "?"))).name, 120)}
    if evolution is not None:
        facts |= _evolution_facts(evolution)
        if evolution.voters is not None:
            facts["Users"] += f"; {evolution.voters:,} could take part in a round"
        if evolution.slack:
            delta += f"; the noise's arithmetic adds {evolution.slack:.2g}, and never more than delta"
    if setup is not None:
        bank = f"{setup.bank:,} entries, {setup.probes:,} positions for probes"
        facts |= {
            "Records": f"at most {setup.records:,} a user; {setup.evaluation:,} users eligible",
            "Set aside": f"{setup.auxiliary:,} auxiliary users, {setup.calibration:,} calibration users",
            "Canaries": f"{setup.canaries:,} an attack",
            "Encoder": f"{clean(setup.encoder, 80)}, {setup.dimension:,} dimensions",
            "Bank": bank if evolution is None else f"{bank} in every round",
        }
    if results.attacks:
        facts |= {
            "Trials": f"{audit.trials:,} of each hypothesis of each canary",
            "Method": f"{audit.method}, alpha {audit.alpha:g} an attack, threshold {audit.threshold}",
        }
    facts |= {
        "Mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:.4g}",
        "Delta": delta if evolution is not None else f"{delta}, one release",
        **{name.capitalize(): line for name, line in written_lines(results).items()},
    }
    if asked := generator_line(manifest):
        facts["Generator"] = asked
    return facts


def _evolution_facts(evolution: EvolutionFacts) -> dict[str, str]:
    evolve = evolution.evolve
    stays = f"{evolve.keep:,}" if evolve.keep is not None else f"{100 * evolve.share:g}% of the entries"
    noise = {"discrete": "discrete Gaussian, exact, by OpenDP", "float": "floating point"}[evolve.noise]
    if evolution.insecure_seed is not None:
        noise = "floating point, from a seed: a simulation"
    elif evolution.rounds and not evolution.slack:
        noise = "floating point, by an earlier version that stated no slack"
    facts = {
        "Rounds": f"{len(evolution.rounds)} of {evolve.rounds}; {stays} stay after each",
        "Feedback": f"{evolve.feedback}, by {clean(evolution.generator, 80)}",
        "Encoder": clean(evolution.encoder, 80),
        "Noise": noise,
        "Budget": "none declared" if evolve.budget is None else f"epsilon {evolve.budget:g}",
        "Epsilon covers": account_text(evolution),
        "Final population": f"{evolution.candidates:,} candidates, in population.parquet, .jsonl and .csv",
    }
    if (held := evolution.utility) is not None:
        facts["Held out"] = f"{held.reference_users:,} users with {held.reference_records:,} records, for utility alone"
    return facts


def _attack(attack: AttackResult, mechanism: Mechanism) -> dict[str, Any]:
    return {
        "name": label(attack.attack),
        "description": clean(attack.description),
        "headline": _bound(attack.headline),
        "pooled": None if attack.pooled is None else _bound(attack.pooled),
        "canaries": [_canary(canary, mechanism, attack.ladder.mechanism.epsilon) for canary in attack.canaries],
        "shown": attack.headline_canary,
        "rungs": {rung.name: _rung(attack.ladder, rung) for rung in attack.ladder.rungs},
        "ledger": _ledger(attack.ledger),
        "notes": [clean(note, 600) for note in attack.notes],
        "evidence": _evidence(attack.evidence),
    }


def _ledger(ledger: AlphaLedger) -> dict[str, Any]:
    return {"total": ledger.total, "entries": [(clean(name, 80), share) for name, share in ledger.entries]}


def _bound(bound: Bound) -> dict[str, Any]:
    return asdict(bound) | {"warning": None if bound.warning is None else clean(bound.warning, 600)}


def _canary(canary: CanaryResult, mechanism: Mechanism, most: float) -> dict[str, Any]:
    fpr, tpr = counted_rates(canary, mechanism)
    return {
        "id": label(canary.canary),
        "mu_eff": canary.mu_eff,
        "counts": asdict(canary.counts),
        "counted": {"fpr": fpr, "tpr": tpr},
        "bound": _bound(canary.bound),
        "upper": rule_upper(canary, mechanism),
        "rule": _at_most(canary.rule, most),
        "supremum": _at_most(canary.supremum, most),
        "fpr": None if canary.absent_rate is None else canary.absent_rate.midpoint,
        "tpr": None if canary.eligible_rate is None else canary.eligible_rate.midpoint,
    }


def _rung(ladder: Ladder, rung: Rung) -> dict[str, Any]:
    """Return a rung; no attack exceeds its mechanism on it."""
    shown = asdict(rung) | {"source": clean(rung.source, 600), "is_least": False}
    reached = ladder.reached(rung.name) if rung.name in {"attack", "rule"} else None  # type: ignore[arg-type]
    if reached is not None:
        high = max(rung.low, min(rung.high, ladder.mechanism.epsilon))
        shown |= {"epsilon": reached[0], "is_least": reached[1], "high": high}
    return shown


def _at_most(interval: Interval | None, most: float) -> dict[str, float] | None:
    return (
        None if interval is None else {"lower": interval.lower, "upper": max(interval.lower, min(interval.upper, most))}
    )


def counted_rates(canary: CanaryResult, mechanism: Mechanism) -> tuple[Ends, Ends]:
    """Return the counted false and true positive rates of an eligible canary, each between the ends of its interval.

    Each of the four ends is one-sided, at a quarter of the canary's share of alpha.
    """
    counts, gamma = canary.counts, (1 - canary.bound.confidence) / 4
    low, high = (float(end) for end in clopper_pearson(counts.fp, counts.n0, gamma))
    fpr = (low, counts.fp / counts.n0, high)
    low, high = (float(end) for end in clopper_pearson(counts.tp, counts.n1, gamma))
    tpr = (low, counts.tp / counts.n1, high)
    method = own_method(canary.bound.method)
    if method is not None and method.included:
        q = mechanism.q
        low, middle, high = ((1 - q) * absent + q * included for absent, included in zip(fpr, tpr, strict=True))
        tpr = (low, middle, high)
    return fpr, tpr


def rule_upper(canary: CanaryResult, mechanism: Mechanism) -> float:
    """Return an upper end for the exact epsilon of a canary's frozen rule, from its counts alone.

    The truth exceeds it with probability at most the canary's share of alpha. It is no bound on the mechanism's
    epsilon, which other rules may show.
    """
    (fpr, _, _), (_, _, tpr) = counted_rates(canary, mechanism)
    forward = _log_ratio(tpr - mechanism.delta, fpr)
    reverse = _log_ratio(1 - fpr - mechanism.delta, 1 - tpr)
    return max(0.0, forward, reverse)


def _log_ratio(above: float, below: float) -> float:
    if above <= 0:
        return -math.inf
    return math.inf if below <= 0 else math.log(above / below)


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
    several = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    return ", ".join(map(str, several)) or UNKNOWN
