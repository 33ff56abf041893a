"""Judge a run in numbers and words: its verdict, what its claims stand on, and what they do not say.

The verdict never says more than the trials do: a bound above the claim is a violation, with its confidence; a claim
below what is computed without trials is too small; anything else is "no violation detected at this power", with that
power beside it.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from canarybank.auditing import AttackResult, TrialEngine
from canarybank.report.text import SHORT, clean, confidence, counted, epsilon, percent, reach_text
from canarybank.run.folder import Run
from canarybank.run.gating import OWN_SYSTEM, GateOutcome, compare, exceeded_ledger
from canarybank.run.power import power_text
from canarybank.run.results import Results
from canarybank.wording import shown_epsilon

__all__ = [
    "HEADINGS",
    "Number",
    "Tone",
    "Verdict",
    "asked",
    "assumptions",
    "limits",
    "reach",
    "shown_verdict",
    "strongest",
    "verdict",
]


class Tone(StrEnum):
    """What became of the claim; a page has one colour for each."""

    STANDS = "stands"
    """Nothing refutes it, and a violation of some size would typically have been seen."""
    REFUTED = "refuted"
    """Trials, or an exact computation, show more than it allows."""
    UNTESTED = "untested"
    """Nothing refutes it, and typically nothing could have: there are too few trials, or they depend on each other."""


HEADINGS = {
    Tone.STANDS: "The claim stands",
    Tone.REFUTED: "The claim is refuted",
    Tone.UNTESTED: "The claim could not be tested",
}
"""What became of the claim, in the few words that stand over a verdict."""


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a verdict, the words for it, and what it stands on."""

    words: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim: in a sentence, in numbers, and what to read beside them."""

    tone: Tone
    sentence: str
    beside: tuple[str, ...]
    numbers: tuple[Number, ...]
    outcome: GateOutcome
    """The same as the gate sees it, against what the accountant claims."""


def shown_verdict(
    tone: Tone, sentence: str, beside: Iterable[str], numbers: Iterable[Number], steps: Iterable[str]
) -> dict[str, Any]:
    """Return a verdict as a page shows it; what came from outside is clean already."""
    return {
        "tone": tone.value,
        "heading": HEADINGS[tone],
        "sentence": sentence,
        "beside": list(beside),
        "numbers": [asdict(each) for each in numbers],
        "next": list(steps),
    }


def verdict(run: Run) -> Verdict:
    """Return the verdict over all attacks of a run, each at its share of alpha, against what the accountant claims.

    Args:
        run: A finished audit, or an audited evolution.

    Example:
        >>> found = verdict(Run.open("runs/demo"))
        >>> str(found.tone), [number.words for number in found.numbers][-1]
        ('untested', 'certified by trials')
    """
    results = run.results
    outcome = compare(run, results.claim)
    tone = Tone.REFUTED if not outcome.ok else Tone.STANDS if outcome.is_tested else Tone.UNTESTED
    power = power_text(outcome.frozen_power, outcome.power, results.mechanism)
    beside = [_reach_sentence(results), f"{_played(run, outcome.trials)} {power}"]
    sentence = _sentence(tone, outcome, results)
    if exceeded := exceeded_ledger(results):
        if tone is Tone.REFUTED:
            beside.insert(0, f"{exceeded.sentence}.")
        else:
            tone, sentence = Tone.REFUTED, f"{exceeded.sentence}."
    return Verdict(tone, sentence, tuple(beside), tuple(_numbers(outcome, results)), outcome)


def _played(run: Run, trials: int) -> str:
    """Say how many trials there were, whose they are, and which of them were drawn."""
    results, number = run.results, f"{trials:,} trials of each hypothesis of each canary"
    if results.audit.system != OWN_SYSTEM:
        return f"The audit played {number} on the system {clean(results.audit.system, SHORT)}."
    simulated = f"The audit simulated {number}, by the mechanism as configured"
    one_release = run.kind == "audit" and results.mechanism.share == 1
    if one_release and run.manifest.config.get("audit.engine") == TrialEngine.TAIL:
        return f"{simulated}; those above the threshold were drawn, and their number has the law that all would give."
    return f"{simulated}."


def _numbers(outcome: GateOutcome, results: Results) -> Iterator[Number]:
    """Return what was claimed, what the strongest attacks reach, and what trials certify."""
    stated = "the accountant's figure" if results.audit.accounted is not None else "exact, of this mechanism"
    over = "for one release" if results.rounds == 1 else f"over {results.rounds} releases"
    yield Number("budget claimed", epsilon(outcome.claimed), f"epsilon {over}; {stated}")
    people = [attack for attack in results.final if attack.on_people]
    asked = {
        "reachable by the strongest attack": results.final[strongest(results)],
        "reachable on real people": max(people, key=reach, default=None),
    }
    for words, attack in asked.items():
        known = None if attack is None else attack.ladder.reached("attack")
        note = "no attack on real people was run" if attack is None else "not computed: the system states no law"
        if attack is not None and known is not None:
            of = "" if attack.on_people else ", on made-up texts"
            note = f"attack {clean(attack.attack, SHORT)}{of}; computed, no trials needed"
        yield Number(words, reach_text(known), note)
    number = len(results.final)
    attacks = f"over {number} attacks" if number > 1 else "by one attack"
    yield Number(
        "certified by trials",
        f"at least {epsilon(outcome.epsilon)}",
        f"attack {clean(outcome.attack, SHORT)}; {confidence(outcome.confidence)} confidence {attacks}, "
        f"{outcome.trials:,} trials",
    )


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
    if any(cause.kind == "trials" for cause in outcome.causes):
        return (
            f"Violation detected: the attack {outcome.attack} shows an epsilon of at least {found}, above {against}, "
            f"with {level} confidence {over}."
        )
    if tone is Tone.REFUTED:
        return (
            f"The claim is too small: {_computed(outcome)}, above {against}, whatever trials show; these show at least "
            f"{found}, with {level} confidence {over}."
        )
    shown = f"the largest lower bound on epsilon {over} is {found} ({outcome.attack}), against {against}"
    if tone is Tone.UNTESTED:
        blind = (
            "the trials show nothing"
            if outcome.frozen_power is None
            else "neither too little noise nor a contribution above the clip would typically have been seen, whatever "
            "its size"
        )
        return (
            f"The claim could not be tested at this power: {blind}. It is not refuted: {shown}, with {level} "
            "confidence."
        )
    return f"No violation detected at this power: {shown}, with {level} confidence."


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
        f"by a server {server}.{_people(attack, results)}{_learns(attack, results)}"
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


def _learns(best: AttackResult, results: Results) -> str:
    """Say how sure an attack makes a server that starts from even odds, where that is more than nothing."""
    if not 0 < reach(best) < math.inf:
        return ""
    people = max((each for each in results.final if each.on_people), key=reach, default=None)
    whom = "one of these users" if best.on_people else "a made-up person"
    other = "" if best.on_people or people is None else f", and {_sureness(reach(people))} sure of a real user"
    return (
        f" What such a server learns is whether somebody took part: from even odds, the outcomes that tell most make "
        f"it about {_sureness(reach(best))} sure of {whom}{other}."
    )


def _sureness(epsilon: float) -> str:
    """Return the probability that even odds become when they change by a factor of exp(epsilon)."""
    return f"{1 / (1 + math.exp(-epsilon)):.0%}"


def asked(run: Run) -> str | None:
    """Say what was audited and which question was put to it; None where a system or an evolution says so itself."""
    results, setup = run.results, run.results.setup
    if setup is None or results.evolution is not None or not results.attacks:
        return None
    source = clean(Path(str(run.manifest.config.get("users.source", "?"))).name, SHORT)
    return (
        f"Audited is the noisy sum of the votes of {counted(setup.evaluation, 'user')} ({source}) over a bank of "
        f"{counted(setup.bank, 'text')}, of which the server may plant {setup.probes:,}. The question: can a server "
        "that writes the bank and reads the sum tell whether one user took part?"
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
        f"The releases are made by the system {clean(results.audit.system, SHORT)}, which is not canarybank's own and "
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
