"""Reduce the audit of somebody else's system to what its page, its Markdown and its tables show.

The verdict comes first, then the claim that it is about. Where runs depend on each other, nothing that the counts would
say is stated: no bound, no rate and no figure.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from canarybank.auditing import Counts, clopper_pearson
from canarybank.auditing.declaration import Evidence
from canarybank.auditing.rules import Rule
from canarybank.auditing.system import Shown, SystemResult, Verdict
from canarybank.mechanism import Claim, attained_epsilon
from canarybank.report.next_steps import system_steps
from canarybank.report.summary import provenance
from canarybank.report.tables import known_columns, markdown_table, plain, verdict_markdown
from canarybank.report.text import UNKNOWN, clean, confidence, counted, epsilon, label, rate
from canarybank.report.verdicts import Number, Tone, shown_verdict
from canarybank.run.commitment import finite
from canarybank.run.folder import COMMITMENT, RESULTS, SEALED, Run
from canarybank.run.plant import CANARIES, PROBES, SCHEDULE, Plant
from canarybank.store import hash_file

__all__ = [
    "BETTING_COLUMNS",
    "EVIDENCE_COLUMNS",
    "PLANTED_COLUMNS",
    "POWER_COLUMNS",
    "RULE_COLUMNS",
    "CountedRule",
    "counted_rules",
    "exact_of",
    "summarise_system",
    "system_markdown",
    "system_rows",
]

_LONG, _SHORT, _NAME = 2000, 120, 80
_LARGEST_LOG = 700.0
EVIDENCE_COLUMNS = ("score", "evidence", "it tests that", "outcome", "epsilon at least", "share of alpha")
POWER_COLUMNS = ("evidence", "what it assumes", "the smallest violation that so many runs would show")
BETTING_COLUMNS = ("score", "wealth at the end", "largest wealth", "refutes at", "crossed at pair", "pairs played")
PLANTED_COLUMNS = ("canary", "label", "probes", "positions in the bank")
RULE_COLUMNS = (
    "score",
    "evidence",
    "canary",
    "true positives",
    "of runs",
    "TPR, lower end",
    "TPR, upper end",
    "false positives",
    "of absent runs",
    "FPR, lower end",
    "FPR, upper end",
)


@dataclass(frozen=True, slots=True)
class CountedRule:
    """What one frozen rule counted on one canary, between Clopper–Pearson ends at its share of alpha."""

    shown: Shown
    rule: Rule
    counts: Counts
    fpr: tuple[float, float, float]
    tpr: tuple[float, float, float]


def counted_rules(run: Run) -> list[CountedRule]:
    """Return every rule of every kind of evidence, canary by canary; none where nothing is stated."""
    found, rules = run.system_results.found, run.sealed_rules.fitted
    return [
        CountedRule(shown, rule, counts, *_ends(counts, shown.alpha / (2 * len(shown.counts))))
        for shown in found.shown
        for rule, counts in zip(rules.of(shown.score), shown.counts, strict=True)
    ]


def _ends(counts: Counts, gamma: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Return the false and the true positive rate, each between one-sided ends at gamma."""
    rates = []
    for seen, runs in ((counts.fp, counts.n0), (counts.tp, counts.n1)):
        low, high = clopper_pearson(seen, runs, gamma)
        rates.append((float(low), seen / runs, float(high)))
    return rates[0], rates[1]


def summarise_system(run: Run) -> dict[str, Any]:
    """Return everything that the report of a system's audit shows, as plain values, worded and cleaned.

    Args:
        run: The finished audit of a system.

    Example:
        >>> import numpy as np
        >>> from canarybank import Mechanism, Settings, audit_system
        >>> def release(eligible, size, rng):  # noise of half the size that is claimed
        ...     return rng.normal(0.0, 0.05, (size, 2)) + eligible * np.array([0.1, 0.0])
        >>> _ = audit_system(release, claim=Mechanism(q=1.0), settings=Settings(trials=300), folder="system")
        >>> summarise_system(Run.open("system"))["verdict"]["heading"]
        'The claim is refuted'
    """
    results, plant = run.system_results, run.plant
    found = results.found
    return {
        "name": clean(run.folder.resolve().name, _NAME),
        "system": clean(results.system, _SHORT),
        "version": results.canarybank,
        "verdict": _verdict(found, clean(results.system, _SHORT), plant),
        "claim": str(found.claim),
        "facts": list(_facts(found, plant).items()),
        "planted": _planted(run, plant),
        "notes": [clean(note, _LONG) for note in results.notes],
        "statement": results.statement,
        "evidence": [_evidence_row(each) for each in found.shown],
        "said": [(f"{each.score} score, {each.evidence}", clean(each.statement, _LONG)) for each in found.shown],
        "powers": list(dict.fromkeys((str(each.evidence), each.assumption, each.power) for each in found.shown)),
        "betting": [_betting_row(each) for each in found.shown if each.betting is not None],
        "rules": [_rule_row(each) for each in counted_rules(run)],
        "rungs": _rungs(found) if found.independence.ok else [],
        "independence": clean(found.independence.statement, _LONG),
        "findings": [(str(each.kind), f"{each.p_value:.2g}", each.statement) for each in found.independence.findings],
        "leaks": [clean(each.statement, _LONG) for each in found.leaks],
        "runs": _runs_sentences(found, plant),
        "assumptions": _assumptions(found, plant),
        "limits": _limits(found),
        "ledger": [(f"{name}", f"{share:.4g}", f"{plant.alpha:g}") for name, share in _ledger(found, plant)],
        "provenance": provenance(run.manifest, _hashes(run), plant.seed),
    }


def _verdict(found: SystemResult, system: str, plant: Plant) -> dict[str, Any]:
    """Return the verdict in numbers and a sentence, what became of the claim, and what to read beside it."""
    tone, sentence, beside = _judged(found, system, plant)
    dependent = found.verdict is Verdict.DEPENDENT
    numbers = _numbers(found) if not dependent else []
    steps = system_steps(tone, dependent=dependent)
    return shown_verdict(tone, sentence, [clean(each, _LONG) for each in beside], numbers, steps)


def _numbers(found: SystemResult) -> list[Number]:
    """Return what was claimed, what the claimed mechanism has, and what the runs certify."""
    claim, exact = found.claim, exact_of(found.claim)
    over = "one release" if claim.rounds == 1 else f"{claim.rounds} releases"
    bounds = [each for each in found.shown if each.epsilon is not None]
    best = max(bounds, key=lambda each: each.epsilon or 0.0, default=None)
    level = f"{confidence(1 - found.alpha)} confidence over all evidence, {found.judged:,} runs"
    return [
        Number("budget claimed", epsilon(claim.epsilon), f"epsilon for {over}, by the operator"),
        *([] if exact is None else [Number("of the claimed mechanism", epsilon(exact), "exact; computed, no runs")]),
        Number(
            "certified by runs",
            UNKNOWN if best is None else f"at least {epsilon(best.epsilon)}",
            level if best is None else f"{best.score} score, {best.evidence}; {level}",
        ),
    ]


def _judged(found: SystemResult, system: str, plant: Plant) -> tuple[Tone, str, list[str]]:
    level = f"{confidence(1 - found.alpha)} confidence over all evidence"
    if found.verdict is Verdict.DEPENDENT:
        sentence = f"No bound is stated: the runs of {system} depend on each other."
        beside = [found.independence.statement, *([found.claim.refutation] if found.claim.refutation else [])]
        return Tone.UNTESTED, sentence, [*beside, f"The claim was: {found.claim}."]
    against = [each for each in found.shown if each.refuted]
    claim, about = found.claim, f"The claim: {found.claim}."
    bounds = [each for each in found.shown if each.epsilon is not None]
    largest = max(bounds, key=lambda each: each.epsilon or 0.0, default=None)
    judged = f"{found.judged:,} runs of each hypothesis of each canary were judged."
    bound = [] if largest is None else [f"The largest lower bound on epsilon is {_bound_text(largest)}, with {level}."]
    if claim.refutation is not None:
        shown = f"The runs refute it too, with {level}." if against else "The runs alone do not refute it."
        return Tone.REFUTED, claim.refutation, [f"No run is needed for that. {shown}", about, *bound, judged]
    if largest is not None and (largest.epsilon or 0.0) > claim.epsilon:
        shown = f"{system} shows an epsilon of at least {_bound_text(largest)}, above the claimed"
        sentence = f"Violation detected: {shown} {epsilon(claim.epsilon)}, with {level}."
        return Tone.REFUTED, sentence, [about, _refuted_by(against), judged]
    if found.strongest is not None:
        sentence, beside = _refutation(found.strongest, system, level), [about, _refuted_by(against)]
        if found.strongest.curve is not None:
            no_bound = f"That is no bound on epsilon, and no bound here exceeds the claimed {epsilon(claim.epsilon)}."
            beside.append(no_bound)
        return Tone.REFUTED, sentence, [*beside, *bound, judged]
    shown = f"{judged[:-1]}, and nothing refutes the claim"
    if largest is not None:
        shown = (
            f"the largest lower bound on epsilon is {_bound_text(largest)}, against the claimed "
            f"{epsilon(claim.epsilon)}"
        )
    beside = [about, judged, *dict.fromkeys(each.power for each in found.shown)]
    if not plant.can_refute:
        untested = "The claim could not be tested at this power: so few runs cannot refute it, whatever the system does"
        return Tone.UNTESTED, f"{untested}; {shown}, with {level}.", beside
    return Tone.STANDS, f"No violation detected at this power: {shown}, with {level}.", beside


def _refutation(shown: Shown, system: str, level: str) -> str:
    """Say what refutes a claim without a bound above it: the curve, or bets that refute the claimed epsilon itself."""
    if shown.curve is None:
        by = f"the {shown.score} score and its {shown.evidence}"
        return f"The claim is refuted: {by} refute that {shown.refutes}, with {level}."
    test = shown.curve
    return (
        f"The claim is refuted: {system} is not the mechanism that is claimed. By the {shown.score} score a rule says "
        f'"present" in at least {test.rate:.1%} of runs with the canary and at most {test.against:.1%} without it, '
        f"where the claim allows at most {test.allowed:.1%}, with {level}."
    )


def _bound_text(shown: Shown) -> str:
    return f"{epsilon(shown.epsilon)} ({shown.score} score, {shown.evidence})"


def _refuted_by(against: list[Shown]) -> str:
    return f"Refuted by: {'; '.join(f'{each.score} score, {each.evidence}' for each in against)}."


def exact_of(claim: Claim) -> float | None:
    """Return the exact epsilon of the claimed mechanism; None where none is named, or none is known for replacement."""
    if claim.mechanism is None or claim.neighbours != "add-remove":
        return None
    return attained_epsilon(claim.mechanism, claim.rounds)


def _facts(found: SystemResult, plant: Plant) -> dict[str, str]:
    claim, mechanism = found.claim, found.claim.mechanism
    neighbours = {
        "add-remove": "adding or removing one user: a canary stands in the eligible runs and in no absent one",
        "replace": "replacing one user by another: in the absent runs another canary stands in its place",
    }
    named = "none is named: the claim is an epsilon alone"
    if mechanism is not None:
        named = f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:.4g}"
        named += mechanism.defence_text
    exact = exact_of(claim)
    return {
        "System": clean(plant.system, _SHORT),
        "Claim": str(claim),
        "Neighbours": neighbours[claim.neighbours],
        "Mechanism": named,
        **({} if exact is None else {"Exact epsilon": f"{epsilon(exact)} of that mechanism, computed without runs"}),
        "Runs": f"{found.runs:,} declared, in random order, {plant.batch:,} at once",
        "Set apart": f"{plant.apart:,} of each hypothesis of each canary, to fit scores and thresholds on",
        "Judged": f"{found.judged:,} of each hypothesis of each canary, of {plant.trials:,} declared",
        "Lost": counted(found.lost, "run"),
        "Scores": ", ".join(plant.scores),
        "Evidence": f"{', '.join(plant.evidence)}; bounds by the method {plant.method}",
        "Alpha": f"{plant.alpha:g} over all evidence, declared beforehand",
    }


def _planted(run: Run, plant: Plant) -> dict[str, Any]:
    """Return what was planted: in words, and where canarybank designed it, position by position."""
    canaries = f"{len(plant.canaries)} canar{'y' if len(plant.canaries) == 1 else 'ies'}"
    if not (run.folder / PROBES).is_file():
        names = ", ".join(map(label, plant.canaries))
        own = "What is planted is the system's own: it was audited from Python, by its releases alone."
        return {"sentence": clean(f"{canaries}, named {names}. {own}", _LONG), "rows": []}
    sizes = ", ".join(
        f"{size:,}" + (f" of the label {label(name)}" if name else "") for name, size in plant.bank_sizes.items()
    )
    replaced = "".join(f" {label(a)} is replaced by {label(b)}." for a, b in plant.replaced_by.items())
    places: dict[tuple[str, str], list[str]] = {}
    probes = counted(len(plant.positions), "probe")
    with (run.folder / PROBES).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            places.setdefault((row["canary"], row["label"]), []).append(row["position"])
    return {
        "sentence": f"{canaries}, with {probes} in the bank ({sizes} entries).{replaced}",
        "rows": [
            (label(canary), label(of) or UNKNOWN, f"{len(at):,}", clean(", ".join(at)))
            for (canary, of), at in places.items()
        ],
    }


def _evidence_row(each: Shown) -> tuple[str, ...]:
    return (
        str(each.score),
        str(each.evidence),
        each.refutes,
        "refuted" if each.refuted else "not refuted",
        UNKNOWN if each.epsilon is None else epsilon(each.epsilon),
        f"{each.alpha:.4g}",
    )


def _betting_row(each: Shown) -> tuple[str, ...]:
    bet = each.betting
    assert bet is not None  # noqa: S101, the caller looked
    return (
        str(each.score),
        f"{math.exp(min(bet.log_wealth, _LARGEST_LOG)):.3g}",
        f"{math.exp(min(bet.best_log_wealth, _LARGEST_LOG)):.3g}",
        f"{1 / bet.alpha:.3g}",
        UNKNOWN if bet.pair is None else f"{bet.pair:,}",
        f"{bet.pairs:,}",
    )


def _rule_row(each: CountedRule) -> tuple[str, ...]:
    counts = each.counts
    return (
        str(each.shown.score),
        str(each.shown.evidence),
        label(each.rule.canary),
        f"{counts.tp:,}",
        f"{counts.n1:,}",
        rate(each.tpr[0]),
        rate(each.tpr[2]),
        f"{counts.fp:,}",
        f"{counts.n0:,}",
        rate(each.fpr[0]),
        rate(each.fpr[2]),
    )


def _rungs(found: SystemResult) -> list[dict[str, Any]]:
    """Return the ladder: what is claimed, what the claimed mechanism has, and each bound that the runs gave."""
    claim, exact = found.claim, exact_of(found.claim)
    rungs = [_rung("claimed", "what the operator claims", claim.epsilon, "accounted", str(claim))]
    if exact is not None:
        rungs.append(
            _rung("mechanism", "exact, as it is claimed", exact, "mechanism", "computed without runs, from the claim")
        )
    return rungs + [
        _rung(f"{each.score} {each.evidence}", "what the runs show", each.epsilon, "observed", each.statement)
        for each in found.shown
        if each.epsilon is not None
    ]


def _rung(name: str, note: str, value: float, css: str, source: str) -> dict[str, Any]:
    ends = {"epsilon": value, "low": value, "high": value, "is_least": css == "observed"}
    return {"name": name, "note": note, "css": css, "source": clean(source, _LONG), **ends}


def _runs_sentences(found: SystemResult, plant: Plant) -> list[str]:
    """Say which runs were lost, and what an audit that stopped early may still say."""
    said = []
    if found.judged < plant.trials:
        silent = [str(each) for each in plant.evidence if each is not Evidence.BETTING]
        others = f" {' and '.join(silent).capitalize()} would need all declared runs, so nothing is said by them."
        said.append(
            f"Stopped early: {found.judged:,} of {plant.trials:,} declared runs of each hypothesis of each canary were "
            f"judged. Betting is valid whenever one stops.{others if silent else ''}"
        )
    if found.lost:
        said.append(
            f"{found.lost:,} of {found.runs:,} runs were lost. A lost eligible run counts as a miss and a lost absent "
            "run as a hit: losses count against a refutation, whatever made them."
        )
    return said


def _ledger(found: SystemResult, plant: Plant) -> list[tuple[str, float]]:
    """Return the share of each kind of evidence: as it was used, or as it was declared where nothing is stated."""
    used = [(f"{each.score}/{each.evidence}", each.alpha) for each in found.shown]
    return used or list(plant.ledger.entries)


def _assumptions(found: SystemResult, plant: Plant) -> list[str]:
    looked = found.independence.assumption
    return [
        f"The claim: {found.claim}.",
        f"Runs are independent of each other. That is looked for and cannot be proven. {looked}",
        (
            "Claim, schedule, scores, evidence, method and alpha were fixed in the commitment, on disk before any "
            "release was read. Fitted scores, thresholds and bets were sealed before any judged run was looked at. "
            "Anybody who saw the commitment's hash before the results can check that."
        ),
        (
            f"Alpha {plant.alpha:g} is split evenly over all scores and evidence, so a true claim is refuted by any of "
            "them at most that often."
        ),
    ]


def _limits(found: SystemResult) -> list[str]:
    lower = (
        "Bounds are lower bounds. A small one means that these canaries, in so many runs, showed little; another "
        "canary or more runs may show more."
    )
    curve = (
        "The curve test refutes the claimed mechanism. It is no bound: noise of another shape can leave the curve and "
        "keep the epsilon."
    )
    return [
        *([lower] if found.shown else []),
        *([curve] if any(each.curve is not None for each in found.shown) else []),
        "That the releases were made by the system that is deployed, and as the schedule says, is the operator's word.",
    ]


def _hashes(run: Run) -> list[tuple[str, str]]:
    results, plant = run.system_results, run.plant
    return [
        (COMMITMENT, run.commitment_hash),
        (SEALED, hash_file(run.folder / SEALED)),
        (RESULTS, hash_file(run.folder / RESULTS)),
        ("releases", results.releases),
        *([("bank with its probes", plant.bank_hash)] if plant.bank_hash else []),
        *((name, digest) for name, digest in sorted(plant.files.items()) if name in {SCHEDULE, CANARIES, PROBES}),
    ]


def system_rows(run: Run) -> list[dict[str, Any]]:
    """Return a row for each canary under each kind of evidence on each score; none where nothing is stated."""
    found, method = run.system_results.found, run.plant.method
    return [
        {
            "score": str(shown.score),
            "evidence": str(shown.evidence),
            "canary": label(each.rule.canary),
            "refuted": shown.refuted,
            "epsilon": shown.epsilon,
            "alpha": shown.alpha,
            "method": method if shown.evidence is Evidence.BOUND else str(shown.evidence),
            "tp": each.counts.tp,
            "fp": each.counts.fp,
            "n1": each.counts.n1,
            "n0": each.counts.n0,
            "tpr_lower": each.tpr[0],
            "tpr_upper": each.tpr[2],
            "fpr_lower": each.fpr[0],
            "fpr_upper": each.fpr[2],
            "threshold": each.rule.thresholds[shown.evidence],
            "separation": each.rule.separation,
            "curve_p_value": None if shown.curve is None else shown.curve.p_value,
            "log_wealth": None if shown.betting is None else shown.betting.log_wealth,
            "crossed_at_pair": None if shown.betting is None else shown.betting.pair,
            "claimed": finite(found.claim.epsilon),
            "delta": found.claim.delta,
            "neighbours": found.claim.neighbours,
            "rounds": found.claim.rounds,
            "exact_mechanism": finite(exact_of(found.claim)),
        }
        for each in counted_rules(run)
        for shown in (each.shown,)
    ]


def system_markdown(summary: dict[str, Any]) -> str:
    """Return the summary of a system's audit as Markdown.

    Args:
        summary: What ``summarise_system`` returns.

    Example:
        >>> import numpy as np
        >>> from canarybank import Mechanism, Settings, audit_system
        >>> def release(eligible, size, rng):  # noise of the size that is claimed
        ...     return rng.normal(0.0, 0.1, (size, 2)) + eligible * np.array([0.1, 0.0])
        >>> settings = Settings(trials=300)
        >>> _ = audit_system(release, claim=Mechanism(q=1.0), settings=settings, folder="honest", name="mine")
        >>> system_markdown(summarise_system(Run.open("honest"))).splitlines()[0]
        '# canarybank audit of the system mine'
    """
    return "\n\n".join(_markdown_parts(summary)) + "\n"


def _markdown_parts(summary: dict[str, Any]) -> Iterator[str]:
    verdict = summary["verdict"]
    yield f"# canarybank audit of the system {plain(summary['system'])}"
    yield from verdict_markdown(verdict)
    yield f"> {summary['statement']}"
    yield "## What was audited"
    yield markdown_table(["what", "value"], summary["facts"])
    yield from (f"Note: {plain(note)}" for note in (*summary["notes"], *summary["runs"]))
    yield "## What was planted"
    yield plain(summary["planted"]["sentence"])
    if summary["planted"]["rows"]:
        yield markdown_table(*known_columns(PLANTED_COLUMNS, summary["planted"]["rows"]))
    if summary["evidence"]:
        yield "## Evidence"
        yield markdown_table(*known_columns(EVIDENCE_COLUMNS, summary["evidence"]))
        yield "\n".join(f"- {name}: {plain(text)}" for name, text in summary["said"])
        yield markdown_table(POWER_COLUMNS, summary["powers"])
        yield markdown_table(RULE_COLUMNS, summary["rules"])
    if summary["betting"]:
        yield "## Betting"
        yield markdown_table(BETTING_COLUMNS, summary["betting"])
    yield "## Independence"
    yield plain(summary["independence"])
    if summary["leaks"]:
        yield "## Leaks"
        yield "\n".join(f"- {plain(leak)}" for leak in summary["leaks"])
    yield "## What it stands on"
    yield "\n".join(f"- {plain(line)}" for line in summary["assumptions"])
    yield "## What it does not say"
    yield "\n".join(f"- {plain(line)}" for line in summary["limits"])
    yield "## Provenance"
    yield f"Command: {plain(summary['provenance']['command'])}"
    yield markdown_table(["what", "sha256"], summary["provenance"]["hashes"])
