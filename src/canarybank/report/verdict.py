"""Say in one sentence what an audit showed, and in a few more what it could have shown.

The sentence never says more than the trials do: a bound above the claim is a violation, with its confidence; a claim
below what is computed without trials is too small; anything else is "no violation detected at this power", with that
power beside it.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from canarybank.auditing import AttackResult
from canarybank.report.numbers import confidence, epsilon, percent, reach_text
from canarybank.run.folder import Run
from canarybank.run.gating import GateOutcome, compare, exceeded_ledger
from canarybank.run.power import power_text, shown_epsilon
from canarybank.run.results import Results

__all__ = ["Tone", "Verdict", "reach", "strongest", "verdict"]


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


def verdict(run: Run) -> Verdict:
    """Return the verdict over all attacks of a run, each at its share of alpha, against what the accountant claims."""
    results = run.results
    outcome = compare(run, results.claim)
    tone = _tone(outcome)
    beside = [_reach_sentence(results), _power_sentence(outcome, results)]
    if exceeded := exceeded_ledger(results):
        tone = Tone.VIOLATION if exceeded.startswith("Violation") else tone if tone is not Tone.QUIET else Tone.CLAIM
        beside.insert(0, f"{exceeded}.")
    return Verdict(tone, _sentence(tone, outcome, results), tuple(filter(None, beside)))


def strongest(results: Results) -> int:
    """Return the index of the attack with the largest exact epsilon; among equals as shown, of the largest bound."""
    ranks = [(round(reach(attack), 3), attack.headline.epsilon) for attack in results.final]
    return max(range(len(ranks)), key=ranks.__getitem__)


def reach(attack: AttackResult) -> float:
    """Return the exact epsilon of an attack, computed over all thresholds; or what it is known to be at least."""
    known = attack.ladder.reached("attack")
    return 0.0 if known is None else known[0]


def _tone(outcome: GateOutcome) -> Tone:
    if any(cause.kind == "trials" for cause in outcome.causes):
        return Tone.VIOLATION
    return Tone.QUIET if outcome.ok else Tone.CLAIM


def _sentence(tone: Tone, outcome: GateOutcome, results: Results) -> str:
    number, rounds = len(results.final), results.rounds
    over = f"over {number} attacks" if number > 1 else "by the one attack tried"
    over += f", after {rounds} releases" if rounds > 1 else ""
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
    worst = next((cause for cause in computed if cause.kind == "mechanism"), None)
    if worst is not None:
        return f"the exact epsilon of this mechanism is {shown_epsilon(worst.epsilon)}"
    worst = max(computed, key=lambda cause: float("inf") if cause.epsilon is None else cause.epsilon)
    return f"the exact epsilon of the attack {worst.attack} is at least {shown_epsilon(worst.epsilon)}"


def _reach_sentence(results: Results) -> str:
    attack = results.final[strongest(results)]
    known = attack.ladder.reached("attack")
    if known is None:
        return "Nothing is computed exactly: the system that released has no law."
    server = "that only shapes the bank" if attack.plants else "that changes nothing in the bank"
    exactly = "Computed exactly, without trials, the strongest attack"
    reached = f"{exactly} ({attack.attack}) reaches epsilon {reach_text(known)}"
    if math.isinf(results.epsilon):
        return f"{reached} on these users; the mechanism has no finite epsilon at delta 0.{_people(attack, results)}"
    least = "at least " if known[1] else ""
    share = known[0] / results.epsilon if results.epsilon else 0.0  # a tiny q leaves no budget to spend
    return (
        f"{reached} of {epsilon(results.epsilon)} on these users: {least}{percent(share)} of the budget can be spent "
        f"by a server {server}.{_people(attack, results)}"
    )


def _people(best: AttackResult, results: Results) -> str:
    """Say what attacks on real users reach, where the strongest attack is on nonces."""
    real = [attack for attack in results.final if attack.on_people]
    if best.on_people or not real:
        return ""
    attack = max(real, key=reach)
    return (
        f" That attack is on nonces; on real users as canaries the strongest ({attack.attack}) reaches "
        f"{epsilon(reach(attack))}."
    )


def _power_sentence(outcome: GateOutcome, results: Results) -> str:
    said = power_text(outcome.frozen_power, outcome.power, results.mechanism)
    return f"With {outcome.trials:,} trials of each hypothesis of each canary: {said}"
