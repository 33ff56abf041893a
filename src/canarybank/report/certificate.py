"""Reduce the certificate of one run to what a page, its Markdown and its table show.

The verdict comes first. Every bound stands beside its family, its assumption, its share of alpha and what it was
expected to be. What the canaries are, and what they cost, is said on every page.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.auditing.guessing import guess_scores
from canarybank.auditing.known_coins import Shift, family_epsilon
from canarybank.auditing.one_run import Background, Certificate, Coins, RunDeclaration, RunEvidence, RunScores, RunShown
from canarybank.mechanism import Claim, attained_epsilon
from canarybank.report.next_steps import one_run_steps
from canarybank.report.tables import known_columns, markdown_table, plain
from canarybank.report.text import UNKNOWN, clean, confidence, epsilon, percent, rung_text
from canarybank.report.verdicts import Number, Tone, shown_verdict
from canarybank.run.commitment import finite

__all__ = [
    "COMPARED_COLUMNS",
    "GUESSED_COLUMNS",
    "RUN_EVIDENCE_COLUMNS",
    "RUN_POWER_COLUMNS",
    "Compared",
    "Planted",
    "certificate_markdown",
    "certificate_rows",
    "compared_scores",
    "least_confidence",
    "summarise_certificate",
    "taking_part",
]

RUN_EVIDENCE_COLUMNS = (
    "evidence",
    "outcome",
    "epsilon at least",
    "of one release",
    "at the claimed q",
    "expected, median",
    "expected, 5% to 95%",
    "share of alpha",
)
RUN_POWER_COLUMNS = ("evidence", "family", "what it assumes", "what one run could show")
COMPARED_COLUMNS = (
    "compared",
    "scores in",
    "scores out",
    "difference of means",
    "deviation of a score",
    "degrees of freedom",
    "shift at least",
    "the claim allows",
    "share of alpha",
)
GUESSED_COLUMNS = ("evidence", "guesses counted", "of canaries", "right", "wrong", "confidence from", "shift at least")
_WAYS = {
    "between": "between canaries: all scores in against all scores out",
    "within": "within canaries: each canary's scores in against its own scores out",
}
_LONG = 2000


@dataclass(frozen=True, slots=True)
class Planted:
    """What was planted for one run, and what it took from honest candidates."""

    probes: int
    """The probes of each canary."""
    bank: int
    """The entries of the bank, probes included."""
    style: str
    """What the texts of canaries look like."""
    votes: str | None = None
    """What share of users' votes went to probes, in a sentence, where it was estimated."""
    utility: tuple[str, ...] = ()
    """What the probes cost in utility, in sentences, where it was measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The scores that one comparison is made of, above the mean of the scores out, and where its bound lies."""

    found: Shift
    inside: NDArray[np.float64]
    out: NDArray[np.float64]
    bound: float
    """The difference of means that the bound on the shift stands for."""
    allowed: float
    """The largest one that the claim allows, at the deviation that was found."""
    of_means: bool
    """Whether a score is a canary's mean over all releases."""


def taking_part(declared: RunDeclaration, run: RunScores) -> NDArray[np.bool_] | None:
    """Return who took part in which release, where that is known."""
    if run.took is None and declared.claim.q == 1:
        return np.repeat(run.eligible[:, None], run.scores.shape[1], axis=1)
    return run.took


def compared_scores(declared: RunDeclaration, run: RunScores, found: Certificate) -> list[Compared]:
    """Return the scores in and out of each comparison; none where nobody says who took part."""
    took, shifts = taking_part(declared, run), [shift for each in found.shown for shift in each.shifts]
    if took is None:
        return []
    of_means = bool(np.all(took == took[:, :1]))
    scores = run.scores.mean(axis=1, keepdims=True) if of_means else run.scores
    labels = took[:, :1] if of_means else took
    return [_compared(each, scores, labels, declared.limit, run.scores.shape[1] if of_means else 1) for each in shifts]


def _compared(
    found: Shift, scores: NDArray[np.float64], took: NDArray[np.bool_], limit: float, rounds: int
) -> Compared:
    if found.way == "within":
        both = took.any(axis=1) & ~took.all(axis=1)
        scores, took = scores[both], took[both]
        scores = scores - np.where(took, 0.0, scores).sum(axis=1, keepdims=True) / (~took).sum(axis=1, keepdims=True)
    elif not took.all():
        scores = scores - scores[~took].mean()
    noise = found.deviation * math.sqrt(rounds)  # of one score of one release
    bound = found.lower * noise if math.isfinite(found.lower) else found.difference
    return Compared(found, scores[took], scores[~took], bound, limit * noise, rounds > 1)


def least_confidence(declared: RunDeclaration, run: RunScores, guesses: int) -> float:
    """Return the confidence of the least confident guess that was counted."""
    scores = guess_scores(run.scores, q=declared.claim.q, designed=declared.guessed_by)
    return float(np.sort(np.abs(scores))[-guesses]) if guesses else math.inf


def summarise_certificate(
    declared: RunDeclaration, run: RunScores, found: Certificate, planted: Planted
) -> dict[str, Any]:
    """Return everything that a page shows of one run's certificate, as plain values, worded.

    Args:
        declared: What was declared before the run.
        run: The scores of its canaries, and who was in.
        found: What they showed.
        planted: What was planted for the run.

    Example:
        >>> from canarybank.auditing import judge_run
        >>> declared, rng = RunDeclaration(Claim(1.0, 1e-5), 400, Coins.FAIR, 1.0), np.random.default_rng(0)
        >>> is_in = rng.random(400) < 0.5
        >>> run = RunScores(6.0 * is_in[:, None] + rng.normal(size=(400, 1)), is_in)
        >>> planted = Planted(probes=5, bank=20_000, style="nonce")
        >>> section = summarise_certificate(declared, run, judge_run(declared, run), planted)
        >>> section["verdict"]["heading"], section["claim"]
        ('The claim is refuted', 'epsilon 1 at delta 1e-05 for adding or removing one user, over 1 release')
    """
    compared = compared_scores(declared, run, found)
    return {
        "verdict": _verdict(declared, found),
        "claim": str(found.claim),
        "facts": list(_facts(declared, found).items()),
        "disclosed": _disclosed(found, planted),
        "evidence": [_evidence_row(declared, each) for each in found.shown],
        "said": [(each.evidence.value, each.statement) for each in found.shown],
        "powers": [
            (each.evidence.value, each.family, each.assumption, power)
            for each, power in zip(found.shown, declared.power, strict=True)
        ],
        "compared": [_compared_row(declared, each) for each in compared],
        "sampler": _sampler(declared, found),
        "guessed": [_guessed_row(declared, run, each) for each in found.shown if each.guesses],
        "rungs": _rungs(declared, found),
        "assumptions": _assumptions(declared),
        "limits": _limits(found),
        "ledger": [(name, f"{share:.4g}", f"{found.alpha:g}") for name, share in declared.ledger.entries],
    }


def _verdict(declared: RunDeclaration, found: Certificate) -> dict[str, Any]:
    """Return the verdict in numbers and a sentence, what became of the claim, and what to read beside it."""
    tone, sentence, beside = _judged(declared, found)
    best = max(found.shown, key=lambda each: each.epsilon)
    numbers = [
        Number("budget claimed", epsilon(found.claim.epsilon), f"epsilon over {_releases(found.claim)}"),
        Number(
            "certified by this run",
            f"at least {epsilon(best.epsilon)}",
            f"{best.evidence.value}; {confidence(1 - found.alpha)} confidence over all evidence, "
            f"{found.canaries:,} canaries in one run",
        ),
    ]
    return shown_verdict(tone, sentence, [clean(each, _LONG) for each in beside], numbers, one_run_steps(tone))


def _judged(declared: RunDeclaration, found: Certificate) -> tuple[Tone, str, list[str]]:
    claim, level = found.claim, f"{confidence(1 - found.alpha)} confidence over all evidence"
    best = max(found.shown, key=lambda each: each.epsilon)
    bound = f"{epsilon(best.epsilon)} ({best.evidence.value})"
    against = [each for each in found.shown if each.refuted]
    one_run = f"one run of {_releases(claim)} with {found.canaries:,} canaries"
    beside = [f"The claim: {claim}.", *(each.statement for each in against)]
    if claim.refutation is not None:
        shown = f"The run refutes it too, with {level}." if against else "The run alone does not refute it."
        return Tone.REFUTED, claim.refutation, [f"No run is needed for that. {shown}", *beside]
    if best.epsilon > claim.epsilon:
        sentence = (
            f"Violation detected: {one_run} shows an epsilon of at least {bound}, above the claimed "
            f"{epsilon(claim.epsilon)}, with {level}."
        )
        return Tone.REFUTED, sentence, beside
    if against:
        sentence = f"The claim is refuted: {one_run} is not of the mechanism that is claimed, with {level}."
        largest = f"The largest lower bound on epsilon is {bound}, not above the claimed {epsilon(claim.epsilon)}."
        return Tone.REFUTED, sentence, [*beside, largest]
    shown = f"an epsilon of at least {bound}" if best.epsilon > 0 else "no epsilon above 0"
    shown = f"{one_run} shows {shown}, against the claimed {epsilon(claim.epsilon)}, with {level}."
    if not declared.can_show:
        sentence = "The claim could not be tested at this power: so few canaries typically show nothing"
        return Tone.UNTESTED, f"{sentence}; {shown}", beside
    return Tone.STANDS, f"No violation detected at this power: {shown}", beside


def _releases(claim: Claim) -> str:
    return f"{claim.rounds:,} release{'s' * (claim.rounds > 1)}"


def _facts(declared: RunDeclaration, found: Certificate) -> dict[str, str]:
    claim, mechanism = found.claim, found.claim.mechanism
    took = "nobody says who took part"
    if found.took is not None:
        took = f"took part {found.took:,} times, of {found.eligible * claim.rounds:,} coins"
    coins = {
        Coins.KNOWN: "known: every canary is in, and the sampler says who took part in which release",
        Coins.FAIR: "fair: each canary is in or out of the whole run by the auditor's coin; nobody says who took part",
    }[found.coins]
    if claim.q == 1:
        coins = f"{found.coins.value}: the auditor's fair coin leaves canaries out, and everybody in takes part"
    named = "none is named: the claim is an epsilon alone"
    if mechanism is not None:
        named = f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:.4g}"
        named += mechanism.defence_text
    designed = f"{declared.shift:.3g} deviations of the noise on average"
    allowed = f", of {declared.limit:.3g} that the claim allows" if math.isfinite(declared.limit) else ""
    return {
        "Claim": str(claim),
        "Mechanism": named,
        "Releases": f"{claim.rounds:,}, of one run",
        "Canaries": f"{found.canaries:,}; {found.eligible:,} in, {found.canaries - found.eligible:,} left out; {took}",
        "Coins": coins,
        "Designed shift": designed + allowed,
        "Background": {
            Background.CONTROLS: "control canaries: scores of canaries that did not take part show what others' votes "
            "for the probes do",
            Background.EXACT: "exact tails: the population is known, and each score is normal by the exact law that it "
            "has without the canary",
        }[declared.background],
        "Evidence": ", ".join(each.value for each in declared.evidence),
        "Alpha": f"{found.alpha:g} over all evidence, declared beforehand",
    }


def _disclosed(found: Certificate, planted: Planted) -> list[str]:
    """Say what the canaries are, how much of the bank they take, and what they cost."""
    probes = found.canaries * planted.probes
    votes = f" {planted.votes}" if planted.votes else ""
    measured = planted.utility or ("What that costs in utility was not measured in this run.",)
    return [
        (
            f"The {found.canaries:,} canaries are synthetic users that the auditor made ({planted.style}). None is a "
            "person, and no user's record is in them."
        ),
        (
            f"Each has {planted.probes:,} {'probe' if planted.probes == 1 else 'probes'} of its own in the bank: "
            f"{probes:,} of {planted.bank:,} entries, "
            f"{percent(probes / planted.bank)} of the bank. An honest candidate cannot stand there.{votes}"
        ),
        (
            "They cost real users no privacy: what a canary adds to a release does not depend on anybody's records, so "
            "every user keeps the epsilon that is accounted for."
        ),
        *(clean(each, _LONG) for each in measured),
    ]


def _evidence_row(declared: RunDeclaration, each: RunShown) -> tuple[str, ...]:
    expected = declared.expected(each.evidence)
    return (
        each.evidence.value,
        "refuted" if each.refuted else "not refuted",
        epsilon(each.epsilon),
        epsilon(each.one_release),
        epsilon(each.at_claimed_rate),
        epsilon(expected.median),
        f"{epsilon(expected.q05)} to {epsilon(expected.q95)}",
        f"{each.alpha:.4g}",
    )


def _compared_row(declared: RunDeclaration, each: Compared) -> tuple[str, ...]:
    found, shares = each.found, dict(declared.ledger.entries)
    return (
        _WAYS[found.way] + ", by means over the releases" * each.of_means,
        f"{found.included:,}",
        f"{found.left_out:,}",
        f"{found.difference:+.3f}",
        f"{found.deviation:.3f}",
        f"{found.degrees:,}",
        _shift(found.lower),
        _shift(declared.limit),
        f"{shares[f'{RunEvidence.KNOWN_COINS.value}/{found.way}']:.4g}",
    )


def _shift(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _sampler(declared: RunDeclaration, found: Certificate) -> str | None:
    """Say what the recorded coins show of the sampler; None where there is nothing to test."""
    share = dict(declared.ledger.entries).get(f"{RunEvidence.KNOWN_COINS.value}/sampler")
    rate = next((each.rate for each in found.shown if each.rate is not None), None)
    if share is None or rate is None or found.took is None:
        return None
    coins = found.eligible * found.claim.rounds
    return (
        f"The sampler: {found.took:,} of {coins:,} coins of canaries were heads, {percent(found.took / coins)}. So a "
        f"canary takes part with a probability of at least {rate:.3g}, by an exact binomial test at alpha "
        f"{share:.4g}, where q = {found.claim.q:.3g} is claimed."
    )


def _guessed_row(declared: RunDeclaration, run: RunScores, each: RunShown) -> tuple[str, ...]:
    return (
        each.evidence.value,
        f"{each.guesses:,}",
        f"{declared.canaries:,}",
        f"{each.correct:,}",
        f"{each.guesses - each.correct:,}",
        f"{least_confidence(declared, run, each.guesses):.3f}",
        _shift(each.shift),
    )


def _rungs(declared: RunDeclaration, found: Certificate) -> list[dict[str, Any]]:
    """Return the ladder: accounted, mechanism, attack, and for each kind of evidence what is expected and observed."""
    claim = found.claim
    rungs = [_rung("accounted", "what is claimed", claim.epsilon, str(claim))]
    if claim.mechanism is not None:
        reached = family_epsilon(claim.q, declared.shift, claim.rounds, claim.delta)
        designed = f"of canaries with the designed shift of {declared.shift:.3g}, computed without a run"
        rungs += [
            _rung("mechanism", "exact, as it is claimed", attained_epsilon(claim.mechanism, claim.rounds), _COMPUTED),
            _rung("attack", "exact, of these canaries", reached, designed),
        ]
    for each in found.shown:
        typical, by = declared.expected(each.evidence), f"by {each.evidence.value}"
        median = f"median of the bounds that such runs give, {by}; the ends hold 90% of them"
        rungs.append(_rung("expected", by, typical.median, median) | {"low": typical.q05, "high": typical.q95})
        rungs.append(_rung("observed", by, each.epsilon, each.statement) | {"refuted": each.refuted})
    return rungs


_COMPUTED = "of the claimed mechanism, computed without a run"


def _rung(name: str, note: str, value: float, source: str) -> dict[str, Any]:
    ends = {"epsilon": value, "low": value, "high": value, "is_least": name == "observed"}
    return {"name": name, "note": note, "source": clean(source, _LONG), **ends}


def _assumptions(declared: RunDeclaration) -> list[str]:
    return [
        (
            "Claim, canaries, coins, evidence, the number of guesses and alpha were fixed in the commitment, on disk "
            "before the run. Anybody who saw its hash before the results can check that."
        ),
        (
            f"Alpha {declared.alpha:g} is split over all evidence, so a true claim is refuted by any of it at most "
            "that often, where the assumption of that evidence holds."
        ),
        "A score is scaled so that its deviation is 1 without the canary, if the noise is what is claimed."
        if declared.background is Background.CONTROLS
        else "A score is standard normal without the canary, whatever others vote for, if noise and rate are what is "
        "claimed. With the canary it exceeds any value at most as often as a normal one that is shifted by the noise "
        "alone.",
    ]


def _limits(found: Certificate) -> list[str]:
    kinds = {each.evidence for each in found.shown}
    family = (
        "A bound inside a family says nothing of a system outside it: noise of another shape, or scores that depend "
        "on each other in another way."
    )
    return [
        "Bounds are lower bounds. A small one means that one run with so many canaries showed little.",
        *([family] if kinds - {RunEvidence.GUESSING} else []),
        "Canaries are no people: they show what the mechanism allows, not what a user risks.",
        *(
            ["That the coins are the sampler's own is the word of whoever runs it."]
            if found.coins is Coins.KNOWN and found.claim.q < 1
            else []
        ),
    ]


def certificate_rows(declared: RunDeclaration, found: Certificate) -> list[dict[str, Any]]:
    """Return a row for each kind of evidence."""
    claim, rows = found.claim, []
    for each in found.shown:
        expected = declared.expected(each.evidence)
        rows.append(
            {
                "evidence": each.evidence.value,
                "coins": found.coins.value,
                "refuted": each.refuted,
                "epsilon": finite(each.epsilon),
                "one_release": finite(each.one_release),
                "alpha": each.alpha,
                "expected_median": expected.median,
                "expected_low": expected.q05,
                "expected_high": expected.q95,
                "shift": finite(each.shift),
                "rate": each.rate,
                "guesses": each.guesses or None,
                "correct": each.correct if each.guesses else None,
                "canaries": found.canaries,
                "eligible": found.eligible,
                "took": found.took,
                "claimed": finite(claim.epsilon),
                "delta": claim.delta,
                "rounds": claim.rounds,
                "family": each.family,
            }
        )
    return rows


def certificate_markdown(section: dict[str, Any]) -> Iterator[str]:
    """Yield the parts of a certificate as Markdown, after its verdict.

    Args:
        section: What ``summarise_certificate`` returns.

    Example:
        >>> from canarybank.auditing import judge_run
        >>> declared, rng = RunDeclaration(Claim(1.0, 1e-5), 400, Coins.FAIR, 1.0), np.random.default_rng(0)
        >>> is_in = rng.random(400) < 0.5
        >>> run = RunScores(6.0 * is_in[:, None] + rng.normal(size=(400, 1)), is_in)
        >>> planted = Planted(probes=5, bank=20_000, style="nonce")
        >>> section = summarise_certificate(declared, run, judge_run(declared, run), planted)
        >>> [part for part in certificate_markdown(section) if part.startswith("###")][:2]
        ['### What the canaries are, and what they cost', '### Evidence']
    """
    yield markdown_table(["what", "value"], section["facts"])
    yield "### What the canaries are, and what they cost"
    yield _bullets(section["disclosed"])
    yield "### Evidence"
    yield markdown_table(*known_columns(RUN_EVIDENCE_COLUMNS, section["evidence"]))
    yield _bullets([f"{name}: {text}" for name, text in section["said"]])
    if section["compared"]:
        yield markdown_table(*known_columns(COMPARED_COLUMNS, section["compared"]))
    if section["sampler"]:
        yield plain(section["sampler"])
    if section["guessed"]:
        yield markdown_table(*known_columns(GUESSED_COLUMNS, section["guessed"]))
    yield markdown_table(RUN_POWER_COLUMNS, section["powers"])
    yield "### The gap ladder"
    yield markdown_table(
        ["rung", "of", "epsilon", "low", "high"],
        [
            (rung["name"], rung["note"], rung_text(rung), epsilon(rung["low"]), epsilon(rung["high"]))
            for rung in section["rungs"]
        ],
    )
    yield "### What it stands on"
    yield _bullets(section["assumptions"])
    yield "### What it does not say"
    yield _bullets(section["limits"])


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)
