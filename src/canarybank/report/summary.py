"""Reduce a run to a plain summary: everything that a page, a table or a text shows, named, worded and cleaned once.

All text that came from users, models or files is cleaned here, and nowhere else is it taken from the run.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from canarybank.attack import PoolFacts
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
from canarybank.generate.counters import outcome_text
from canarybank.mechanism import Mechanism
from canarybank.report.evolution import evolution_facts, summarise_evolution
from canarybank.report.next_steps import audit_steps
from canarybank.report.text import COMMAND, LONG, NAME, SHORT, UNKNOWN, clean, counted, label
from canarybank.report.verdicts import asked, assumptions, limits, shown_verdict, strongest, verdict
from canarybank.run.folder import COMMITMENT, RESULTS, SEALED, GeneratorRecord, Manifest, Run
from canarybank.run.gating import claim_of
from canarybank.run.results import Results
from canarybank.score import Interval
from canarybank.store import hash_file

__all__ = [
    "SMALL_COHORT",
    "cohorts_text",
    "generator_line",
    "provenance",
    "rule_upper",
    "small_cohorts",
    "summarise_run",
    "written_lines",
]

_REASONS = 3
SMALL_COHORT = 20
"""A cohort with fewer users than this is warned about."""
Ends = tuple[float, float, float]
"""A rate with the two ends of its interval around it: lower end, rate, upper end."""


def summarise_run(run: Run) -> dict[str, Any]:
    """Return the summary of a finished run, as plain values; None is what nobody computed.

    ``attacks`` are over all releases, ``prefixes`` after each of them.

    Args:
        run: A finished audit or evolution.

    Example:
        >>> summary = summarise_run(Run.open("runs/demo"))
        >>> [attack["name"] for attack in summary["attacks"]], summary["verdict"]["heading"]
        (['ordinary', 'nonce-norm'], 'The claim could not be tested')
    """
    results = run.results
    summary: dict[str, Any] = {
        "name": clean(run.folder.resolve().name, NAME),
        "version": results.canarybank,
        "mechanism": results.mechanism.to_json(),
        "facts": list(_facts(run).items()),
        "notes": [clean(note, LONG) for note in (*small_cohorts(results), *results.notes)],
        "statement": results.statement,
        "provenance": provenance(run.manifest, _hashes(run), results.seed),
        "epsilon": results.epsilon,
        "attacks": [
            {
                "name": label(attack.attack),
                "description": clean(attack.description),
                "headline": _bound(attack.headline),
                "pooled": None if attack.pooled is None else _bound(attack.pooled),
                "canaries": [_canary(each, results.mechanism, attack.ladder) for each in attack.canaries],
                "shown": attack.headline_canary,
                "rungs": {rung.name: _rung(attack.ladder, rung) for rung in attack.ladder.rungs},
                "ledger": _ledger(attack.ledger),
                "notes": [clean(note, LONG) for note in attack.notes],
                "evidence": _evidence(attack.evidence),
            }
            for attack in results.final
        ],
        "prefixes": [_prefix(attack) for attack in results.attacks],
        "verdict": None,
        "evolution": summarise_evolution(run),
    }
    if not results.attacks:
        return summary
    found = verdict(run)
    steps = audit_steps(results, found.outcome, found.tone)
    beside = [*filter(None, [asked(run)]), *found.beside]
    for attack, read in zip(summary["attacks"], found.outcome.attacks, strict=True):
        attack["share"] = {"epsilon": read.bound.epsilon, "alpha": read.alpha}
    return summary | {
        "verdict": shown_verdict(found.tone, found.sentence, beside, found.numbers, steps),
        "joint": {"epsilon": found.outcome.epsilon, "attack": label(found.outcome.attack)},
        "strongest": strongest(results),
        "accounted": results.claim,
        "claim": str(claim_of(results, results.claim)),
        "claimed": results.audit.accounted is not None,
        "audit": results.audit.model_dump(),
        "gate": _ledger(run.commitment.gate),
        "assumptions": assumptions(results),
        "limits": limits(results),
    }


def _prefix(attack: AttackResult) -> dict[str, Any]:
    """Return what an attack showed in so many rounds."""
    ladder, expected = attack.ladder, attack.ladder.expected
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
    source = clean(Path(str(manifest.config.get("users.source", "?"))).name, SHORT)
    delta = f"{mechanism.delta:g}, add or remove one user"
    if evolution is not None:
        voters = "" if evolution.voters is None else f"; {evolution.voters:,} could take part in a round"
        facts = {"Users": f"{source}{voters}", **evolution_facts(evolution)}
        if evolution.slack:
            delta += f"; the noise's arithmetic adds {evolution.slack:.2g}, and never more than delta"
    else:
        facts = {"System": clean(audit.system, SHORT)} if setup is None else {"Users": source}
        delta += ", one release"
    if setup is not None:
        facts |= {
            "Records": f"at most {setup.records:,} a user; {counted(setup.evaluation, 'user')} eligible",
            "Set aside": cohorts_text(results),
            "Canaries": f"{setup.canaries:,} an attack",
            "Encoder": f"{clean(setup.encoder, NAME)}, {setup.dimension:,} dimensions",
            "Bank": f"{counted(setup.bank, 'entry', 'entries')}, {counted(setup.probes, 'position')} for probes"
            + " in every round" * (evolution is not None),
        }
    if results.attacks:
        facts |= {
            "Trials": f"{audit.trials:,} of each hypothesis of each canary",
            "Claim": str(claim_of(results, results.claim)),
            "Method": f"{audit.method}, alpha {audit.alpha:g} an attack, threshold {audit.threshold}",
        }
    asked = generator_line(manifest)
    return facts | {
        "Mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:.4g}"
        + mechanism.defence_text,
        "Delta": delta,
        **{name.capitalize(): line for name, line in written_lines(results).items()},
        **({} if asked is None else {"Generator": asked}),
    }


def cohorts_text(results: Results) -> str:
    """Say how many admitted users are in which cohort besides the evaluation users, and how many are in none."""
    setup = results.setup
    assert setup is not None  # noqa: S101, the caller looked
    said = [f"{setup.auxiliary:,} auxiliary", f"{setup.calibration:,} calibration"]
    admitted = setup.users.get("admitted")
    if isinstance(admitted, int) and results.evolution is None:
        drawn = len({each.canary for attack in results.attacks if attack.on_people for each in attack.canaries})
        unused = admitted - drawn - setup.auxiliary - setup.calibration - setup.evaluation
        said += [f"{drawn:,} drawn as {'a canary' if drawn == 1 else 'canaries'}", f"{unused:,} in no cohort"]
        return f"{', '.join(said)}, of {counted(admitted, 'admitted user')}"
    return ", ".join(said)


def small_cohorts(results: Results) -> Iterator[str]:
    """Warn about cohorts too small to stand for a population: figures about attacks then hold for these users alone."""
    setup = results.setup
    if setup is None:
        return
    sizes = {"evaluation": setup.evaluation, "auxiliary": setup.auxiliary, "calibration": setup.calibration}
    small = [counted(size, f"{name} user") for name, size in sizes.items() if size < SMALL_COHORT]
    if small:
        yield (
            f"Small cohorts: {', '.join(small)}. With fewer than {SMALL_COHORT}, what an attack reaches says little "
            "about other people, and a score is learnt from too few. The mechanism's epsilon does not depend on it. "
            "Give more users, or lower users.minimum_words or users.cap so that more are admitted."
        )


def _ledger(ledger: AlphaLedger) -> dict[str, Any]:
    return {"total": ledger.total, "entries": [(clean(name, NAME), share) for name, share in ledger.entries]}


def _bound(bound: Bound) -> dict[str, Any]:
    return asdict(bound) | {"warning": None if bound.warning is None else clean(bound.warning, LONG)}


def _canary(canary: CanaryResult, mechanism: Mechanism, ladder: Ladder) -> dict[str, Any]:
    most = ladder.mechanism.epsilon
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
    shown = asdict(rung) | {"source": clean(rung.source, LONG), "is_least": False}
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
    fpr, tpr = _rate_ends(counts.fp, counts.n0, gamma), _rate_ends(counts.tp, counts.n1, gamma)
    method = own_method(canary.bound.method)
    if method is not None and method.included:
        q = mechanism.q
        low, middle, high = ((1 - q) * absent + q * included for absent, included in zip(fpr, tpr, strict=True))
        return fpr, (low, middle, high)
    return fpr, tpr


def _rate_ends(seen: int, trials: int, gamma: float) -> Ends:
    low, high = clopper_pearson(seen, trials, gamma)
    return float(low), seen / trials, float(high)


def rule_upper(canary: CanaryResult, mechanism: Mechanism) -> float:
    """Return an upper end for the exact epsilon of a canary's frozen rule, from its counts alone.

    The truth exceeds it with probability at most the canary's share of alpha. It is no bound on the mechanism's
    epsilon, which other rules may show.
    """
    (fpr, _, _), (_, _, tpr) = counted_rates(canary, mechanism)
    ratios = [(tpr - mechanism.delta, fpr), (1 - fpr - mechanism.delta, 1 - tpr)]
    known = [math.log(above / below) if below > 0 else math.inf for above, below in ratios if above > 0]
    return max([0.0, *known])


def _evidence(evidence: dict[str, Any]) -> dict[str, Any]:
    if not evidence:
        return {}
    entries = [
        each | {"text": None if each["text"] is None else clean(str(each["text"]))}
        for each in evidence["votes"]["entries"]
    ]
    return evidence | {"canary": label(str(evidence["canary"])), "votes": evidence["votes"] | {"entries": entries}}


def _hashes(run: Run) -> list[tuple[str, str]]:
    results, sealed, setup = run.results, run.folder / SEALED, run.results.setup
    hashes = [
        *([] if results.commitment is None else [(COMMITMENT, run.commitment_hash)]),
        *([(SEALED, hash_file(sealed))] if sealed.exists() else []),
        (RESULTS, hash_file(run.folder / RESULTS)),
    ]
    if setup is not None and results.commitment is not None:
        hashes += [
            ("bank before any probe", setup.bank_hash),
            ("encoder", setup.encoder_fingerprint),
            *((f"{name} cohort", digest) for name, digest in sorted(run.commitment.cohorts.items())),
        ]
    if results.evolution is not None:
        hashes += [(f"bank of round {each.round}", each.bank) for each in results.evolution.rounds]
    return hashes


def provenance(manifest: Manifest, hashes: list[tuple[str, str]], seed: int) -> dict[str, Any]:
    """Return where figures come from: command, versions, hardware, settings, and the hashes of files."""
    around = manifest.surroundings
    return {
        "command": clean(manifest.command, COMMAND) or "(run from Python)",
        "started": manifest.started,
        "seed": seed,
        "versions": [
            ("canarybank", manifest.canarybank),
            ("commit", around.commit or "not run from a checkout"),
            ("python", around.python),
            *sorted(around.packages.items()),
        ],
        "hardware": f"{clean(around.platform, SHORT)}; {clean(around.processor, NAME)}, "
        + counted(around.cores, "core"),
        "hashes": hashes,
        "config": [
            (key, clean(_written(value), SHORT), clean(manifest.origins.get(key, ""), SHORT))
            for key, value in sorted(manifest.config.items())
        ],
    }


def _written(value: Any) -> str:
    several = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    return ", ".join(map(str, several)) or UNKNOWN


def written_lines(results: Results) -> dict[str, str]:
    """Return a line for a bank and one for paraphrases, where a generator wrote them; and one for what was searched.

    Args:
        results: The results of a run.

    Example:
        >>> written_lines(Run.open("runs/demo").results)  # its bank is a file, and its attacks write no paraphrases
        {}
    """
    lines = {}
    if results.setup is not None and (counters := results.setup.bank_counters):
        lines["bank answers"] = outcome_text(counters, _REASONS)
    # Each canary's pool once: attacks that share a canary share its pool.
    pools = {each.canary: each.pool for attack in results.attacks for each in attack.canaries if each.pool is not None}
    if pools:
        lines["paraphrases"] = _similar(list(pools.values()))
        outcomes = dict.fromkeys(name for pool in pools.values() for name in pool.counters)
        answers = {name: sum(pool.counters.get(name, 0) for pool in pools.values()) for name in outcomes}
        if answers:
            lines["paraphrases"] += f"; answers: {outcome_text(answers, _REASONS)}"
    searches = [each.search for attack in results.attacks for each in attack.canaries if each.search is not None]
    if searches:
        weakest = min(searches, key=lambda each: each.limit if each.epsilon is None else each.epsilon)
        lines["search"] = f"the weakest of {len(searches)}: {weakest}" if weakest.epsilon is not None else str(weakest)
    return {name: clean(line, LONG) for name, line in lines.items()}


def generator_line(manifest: Manifest) -> str | None:
    """Say which generators a run asked, where its requests went and what was in them; None where that is unknown.

    Args:
        manifest: The manifest of a run.

    Example:
        >>> generator_line(Run.open("runs/evolved").manifest)
        "scripted, in the run's own process: nothing was sent"
    """
    return "; ".join(map(_asked, manifest.generators)) or None


def _asked(record: GeneratorRecord) -> str:
    name = clean(record.model, NAME)
    if record.server is None:
        return f"{name}, in the run's own process: nothing was sent"
    proxy = f" through the proxy {clean(record.proxy, SHORT)}" if record.proxy else ""
    shown = "none to paraphrase a user's record"
    if record.requests_with_records:
        shown = f"{record.requests_with_records:,} of them with a user's record ({record.records:,} different ones)"
    unsent = "no request is made from users' records"
    sent = unsent if record.requests is None else f"{counted(record.requests, 'request')} sent, {shown}"
    return f"{name} at {clean(record.server, 200)}{proxy}: {sent}"


def _similar(pools: list[PoolFacts]) -> str:
    size = f"{pools[0].size:,} a canary"
    found = [pool.similarity for pool in pools if pool.similarity is not None]
    if not found:
        return size
    ends = f"{min(each.smallest for each in found):.2f} to {max(each.largest for each in found):.2f}"
    low, high = (f"{end(each.median for each in found):.2f}" for end in (min, max))
    middle = f"median {low}" if low == high else f"medians {low} to {high}"
    return f"{size}, {found[0].measure} to their records {ends}, {middle}"
