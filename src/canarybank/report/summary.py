"""Reduce a run to a plain summary: everything that a page, a table or a text shows, named, worded and cleaned once.

All text that came from users, models or files is cleaned here, and nowhere else is it taken from the run.

The verdict never says more than the trials do: a bound above the claim is a violation, with its confidence; a claim
below what is computed without trials is too small; anything else is "no violation detected at this power", with that
power beside it.
"""

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
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
from canarybank.mechanism import Mechanism, delta_text
from canarybank.mechanism.account import left_text
from canarybank.report.text import UNKNOWN, clean, confidence, epsilon, label, percent, reach_text
from canarybank.run.commitment import finite
from canarybank.run.folder import COMMITMENT, RESULTS, SEALED, GeneratorRecord, Manifest, Run
from canarybank.run.gating import GateOutcome, claim_of, compare, exceeded_ledger, power_text, shown_epsilon
from canarybank.run.results import EvolutionFacts, Results
from canarybank.score import Interval
from canarybank.store import hash_file

__all__ = [
    "Tone",
    "Verdict",
    "account_text",
    "assumptions",
    "evolution_headline",
    "generator_line",
    "limits",
    "provenance",
    "round_rows",
    "rule_upper",
    "strongest",
    "summarise_run",
    "verdict",
    "written_lines",
]

_COMMAND, _LONG, _SHORT, _NAME = 2000, 600, 120, 80
"""The most characters of a command, a note, a value and a name."""
_REASONS = 3
_WORTH = ("mauve", "precision", "recall", "distinct_2", "near_duplicates")
_SHOWN = ("exact", "expected", "bound", "confidence", "method")
Ends = tuple[float, float, float]
"""A rate with the two ends of its interval around it: lower end, rate, upper end."""


class Tone(StrEnum):
    """What kind of news a verdict is."""

    QUIET = "quiet"
    VIOLATION = "violation"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence, what kind of news it is, and what to read beside it."""

    tone: Tone
    sentence: str
    beside: tuple[str, ...]


def summarise_run(run: Run) -> dict[str, Any]:
    """Return the summary of a finished run, as plain values; None is what nobody computed.

    ``attacks`` are over all releases, ``prefixes`` after each of them.
    """
    results, evolution = run.results, run.results.evolution
    summary = {
        "name": clean(run.folder.resolve().name, _NAME),
        "version": results.canarybank,
        "mechanism": results.mechanism.to_json(),
        "facts": list(_facts(run).items()),
        "notes": [clean(note, _LONG) for note in results.notes],
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
                "notes": [clean(note, _LONG) for note in attack.notes],
                "evidence": _evidence(attack.evidence),
            }
            for attack in results.final
        ],
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
        "claim": str(claim_of(results, results.claim)),
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
        f"{clean(account.population, _SHORT)}: {account.releases:,} releases of all runs cost epsilon "
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
    worth = {}
    for each in () if evolution.utility is None else evolution.utility.figures:
        values = asdict(each) | asdict(each.variety)
        worth[each.round] = {key: values[key] for key in _WORTH}
    told = {"insecure_seed": evolution.insecure_seed, "attack": name}
    return [
        asdict(each) | dict.fromkeys((*_WORTH, *_SHOWN)) | told | worth.get(each.round, {}) | shown.get(each.round, {})
        for each in evolution.rounds
    ]


def _evolution(results: Results, evolution: EvolutionFacts) -> dict[str, Any]:
    values, no_votes = evolution.model_dump(), dict.fromkeys(("kept_share", "effective", "probe_share"))
    for measured in filter(None, (values["utility"], values["plain"])):
        measured["figures"] = [
            {**each, **each["variety"], **(each["concentration"] or no_votes), "after": each["round"]}
            for each in measured["figures"]
        ]
    return {
        **{name: values[name] for name in ("insecure_seed", "rounds", "utility", "plain", "cost")},
        "headline": evolution_headline(results),
        "stopped": None if evolution.stopped is None else clean(evolution.stopped, _LONG),
        "examples": [clean(text) for text in evolution.examples],
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
    source = clean(Path(str(manifest.config.get("users.source", "?"))).name, _SHORT)
    bank, delta = "{:,} entries, {:,} positions for probes", f"{mechanism.delta:g}, add or remove one user"
    if evolution is not None:
        voters = "" if evolution.voters is None else f"; {evolution.voters:,} could take part in a round"
        facts = {"Users": f"{source}{voters}", **_evolution_facts(evolution)}
        bank += " in every round"
        if evolution.slack:
            delta += f"; the noise's arithmetic adds {evolution.slack:.2g}, and never more than delta"
    else:
        facts = {"System": clean(audit.system, _SHORT)} if setup is None else {"Users": source}
        delta += ", one release"
    if setup is not None:
        facts |= {
            "Records": f"at most {setup.records:,} a user; {setup.evaluation:,} users eligible",
            "Set aside": f"{setup.auxiliary:,} auxiliary users, {setup.calibration:,} calibration users",
            "Canaries": f"{setup.canaries:,} an attack",
            "Encoder": f"{clean(setup.encoder, _NAME)}, {setup.dimension:,} dimensions",
            "Bank": bank.format(setup.bank, setup.probes),
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
        "Feedback": f"{evolve.feedback}, by {clean(evolution.generator, _NAME)}",
        "Encoder": clean(evolution.encoder, _NAME),
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
        facts["Held out"] = f"{held.reference_users:,} users with {held.reference_records:,} records, for utility alone"
    return facts


def _ledger(ledger: AlphaLedger) -> dict[str, Any]:
    return {"total": ledger.total, "entries": [(clean(name, _NAME), share) for name, share in ledger.entries]}


def _bound(bound: Bound) -> dict[str, Any]:
    return asdict(bound) | {"warning": None if bound.warning is None else clean(bound.warning, _LONG)}


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
    shown = asdict(rung) | {"source": clean(rung.source, _LONG), "is_least": False}
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
        "command": clean(manifest.command, _COMMAND) or "(run from Python)",
        "started": manifest.started,
        "seed": seed,
        "versions": [
            ("canarybank", manifest.canarybank),
            ("commit", around.commit or "not run from a checkout"),
            ("python", around.python),
            *sorted(around.packages.items()),
        ],
        "hardware": f"{clean(around.platform, _SHORT)}; {clean(around.processor, _NAME)}, {around.cores} cores",
        "hashes": hashes,
        "config": [
            (key, clean(_written(value), _SHORT), clean(manifest.origins.get(key, ""), _SHORT))
            for key, value in sorted(manifest.config.items())
        ],
    }


def _written(value: Any) -> str:
    several = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    return ", ".join(map(str, several)) or UNKNOWN


def verdict(run: Run) -> Verdict:
    """Return the verdict over all attacks of a run, each at its share of alpha, against what the accountant claims."""
    results = run.results
    outcome = compare(run, results.claim)
    shown = any(cause.kind == "trials" for cause in outcome.causes)
    tone = Tone.VIOLATION if shown else Tone.QUIET if outcome.ok else Tone.CLAIM
    power = power_text(outcome.frozen_power, outcome.power, results.mechanism)
    played = f"The audit played {outcome.trials:,} trials of each hypothesis of each canary. {power}"
    beside = [_reach_sentence(results), played]
    sentence = _sentence(tone, outcome, results)
    if exceeded := exceeded_ledger(results):
        if tone is Tone.QUIET:
            tone, sentence = Tone.VIOLATION if exceeded.by_trials else Tone.CLAIM, f"{exceeded.sentence}."
        else:
            beside.insert(0, f"{exceeded.sentence}.")
    return Verdict(tone, sentence, tuple(beside))


def strongest(results: Results) -> int:
    """Return the index of the attack with the largest exact epsilon; among equals as shown, of the largest bound."""
    ranks = [(round(reach(attack), 3), attack.headline.epsilon) for attack in results.final]
    return max(range(len(ranks)), key=ranks.__getitem__)


def reach(attack: AttackResult) -> float:
    """Return the exact epsilon of an attack, computed over all thresholds; or what it is known to be at least."""
    known = attack.ladder.reached("attack")
    return 0.0 if known is None else known[0]


def _sentence(tone: Tone, outcome: GateOutcome, results: Results) -> str:
    number, rounds = len(results.final), results.rounds
    over = f"over {number} attacks" if number > 1 else "by the one attack tried"
    over += f" on {rounds} releases" if rounds > 1 else ""
    level, found = confidence(outcome.confidence), epsilon(outcome.epsilon)
    against = f"the {'exact' if results.audit.accounted is None else 'accounted'} {epsilon(outcome.claimed)}"
    if tone is Tone.VIOLATION:
        return (
            f"Violation detected: the attack {outcome.attack} shows an epsilon of at least {found}, above {against}, "
            f"with {level} confidence {over}."
        )
    if tone is Tone.CLAIM:
        return (
            f"The claim is too small: {_computed(outcome)}, above {against}, whatever trials show; these show at least "
            f"{found}, with {level} confidence {over}."
        )
    return (
        f"No violation detected at this power: the largest lower bound on epsilon {over} is {found} "
        f"({outcome.attack}), against {against}, with {level} confidence."
    )


def _computed(outcome: GateOutcome) -> str:
    """Say which exact epsilon exceeds the claim: the mechanism's, or that of the attack that reaches furthest."""
    computed = [cause for cause in outcome.causes if cause.kind != "trials"]
    worst = max(
        computed, key=lambda cause: (cause.kind == "mechanism", math.inf if cause.epsilon is None else cause.epsilon)
    )
    if worst.attack is None:
        return f"the exact epsilon of this mechanism is {shown_epsilon(worst.epsilon)}"
    return f"the exact epsilon of the attack {worst.attack} is at least {shown_epsilon(worst.epsilon)}"


def _reach_sentence(results: Results) -> str:
    attack = results.final[strongest(results)]
    known = attack.ladder.reached("attack")
    if known is None:
        return (
            "Nothing is computed exactly, because the audited system states no law of its releases: all that is known "
            "is what the trials showed."
        )
    server = "that only shapes the bank" if attack.plants else "that changes nothing in the bank"
    exactly = f"Computed exactly, without trials, the strongest attack ({attack.attack})"
    reached = f"{exactly} reaches epsilon {reach_text(known)}"
    if math.isinf(results.epsilon):
        return f"{reached} on these users; the mechanism has no finite epsilon at delta 0.{_people(attack, results)}"
    least = "at least " if known[1] else ""
    share = known[0] / results.epsilon if results.epsilon else 0.0  # a tiny q leaves no budget to spend
    return (
        f"{reached} of {epsilon(results.epsilon)} on these users: {least}{percent(share)} of the budget can be spent "
        f"by a server {server}.{_people(attack, results)}"
    )


def _people(best: AttackResult, results: Results) -> str:
    """Say what attacks on real users reach, where the strongest attack is on made-up texts."""
    attack = max((each for each in results.final if each.on_people), key=reach, default=None)
    if best.on_people or attack is None:
        return ""
    return (
        f" Its canaries are made-up texts; on real users as canaries the strongest ({attack.attack}) reaches "
        f"{epsilon(reach(attack))}."
    )


def assumptions(results: Results) -> list[str]:
    """Return what the claims of a run stand on."""
    pairs = results.attacks[0].headline
    return [
        f"Neighbours differ by adding or removing one user, with all of that user's records; delta is {pairs.delta:g}.",
        f"The {pairs.method} bound assumes {pairs.assumption}.",
        (
            "Score, method, number of trials, alpha and the recipe of the threshold were fixed in the commitment, on "
            "disk before the system was first called; sealed.json, on disk before the first evaluation trial, holds "
            "the threshold and the commitment's hash. Anybody who saw its hash before the results can check that."
            if results.setup is None
            else "Bank, probes, score, threshold, method, number of trials and alpha were fixed in the commitment, on "
            "disk before the first evaluation trial. Anybody who saw its hash before the results can check that."
        ),
        (
            "Each attack's headline is a claim of its own at level alpha. The verdict covers all attacks together, "
            "so it gives each an even share of alpha. A pooled bound stands beside a headline as one more claim; the "
            "larger of two claims is not a claim."
        ),
        (
            "Exact figures (mechanism, attack, rule, rates) are computed from the law of the score for these "
            "evaluation users, by Fourier inversion with certified ends. They hold for the mechanism as configured, "
            "not for code that differs from it."
            if any(attack.ladder.attack is not None for attack in results.attacks)
            else "The mechanism's epsilon is that of the mechanism as configured. Whether the audited system is such a "
            "mechanism is what the trials test."
        ),
    ]


def limits(results: Results) -> list[str]:
    """Return what the claims of a run do not say."""
    own_releases = [
        (
            "The release is simulated by this program with the given parameters. A fault in another implementation "
            "shows only when that implementation makes the releases."
        ),
        (
            "Background and rates are those of the users at hand: another population moves the attack's rungs, while "
            "the mechanism's rung stays."
        ),
    ]
    foreign_releases = (
        f"The releases are made by the system {clean(results.audit.system, _SHORT)}, which is not canarybank's own and "
        "is named by whoever ran the audit. That this system is the one that is deployed, and that its releases are "
        "independent from call to call, is not checked."
    )
    nonces = ["Nonce canaries are no people: they show what the mechanism allows, not what a user risks."]
    return [
        (
            "Bounds are lower bounds. A small one means that these attacks, with this many trials, showed little; a "
            "stronger attack or more trials may show more."
        ),
        (
            "One release is audited, by a server that shapes the bank and sees the release. Several rounds, "
            "colluding users and side channels such as timing, logs or the generator's own memory lie outside."
            if results.rounds == 1
            else f"{results.rounds} releases are audited, by a server that shapes the first bank and sees them all. "
            "Colluding users and side channels such as timing, logs or the generator's own memory lie outside."
        ),
        *(own_releases if results.audit.system == "mechanism" else [foreign_releases]),
        *([] if all(attack.on_people for attack in results.attacks) else nonces),
    ]


def written_lines(results: Results) -> dict[str, str]:
    """Return a line for a bank and one for paraphrases, where a generator wrote them; and one for what was searched."""
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
    return {name: clean(line, _LONG) for name, line in lines.items()}


def generator_line(manifest: Manifest) -> str | None:
    """Say which generators a run asked, where its requests went and what was in them; None where that is unknown."""
    return "; ".join(map(_asked, manifest.generators)) or None


def _asked(record: GeneratorRecord) -> str:
    name = clean(record.model, _NAME)
    if record.server is None:
        return f"{name}, in the run's own process: nothing was sent"
    proxy = f" through the proxy {clean(record.proxy, _SHORT)}" if record.proxy else ""
    shown = "none to paraphrase a user's record"
    if record.requests_with_records:
        shown = f"{record.requests_with_records:,} of them with a user's record ({record.records:,} different ones)"
    unsent = "no request is made from users' records"
    sent = unsent if record.requests is None else f"{record.requests:,} requests sent, {shown}"
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
