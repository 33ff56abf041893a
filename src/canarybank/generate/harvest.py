"""Ask a generator, round by round, until enough texts pass; the loop behind banks and pools alike."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from canarybank.errors import GenerationError, InputError
from canarybank.generate.cleaning import Cleaned, Cleaning, Rejection, Strip
from canarybank.generate.counters import rejections
from canarybank.generate.distinct import Distinct
from canarybank.generate.prompts import Prompt
from canarybank.generate.protocol import Generator, Request, Response, in_order
from canarybank.progress import SILENT, Progress

__all__ = ["Check", "HarvestPlan", "Harvested", "attempts_each", "even_shares", "harvest"]

_FIRST_YIELD = 0.75
_LEAST_YIELD = 0.1
_MOST_TRIES = 1000

Check = Callable[[Sequence[int], Sequence[str]], Sequence[tuple[Rejection | None, float]]]


@dataclass(frozen=True, slots=True)
class Harvested:
    """One text that passed: where it came from, the figure that its check gave it, and what was stripped off it."""

    text: str
    slot: int
    attempt: int
    value: float = 0.0
    stripped: frozenset[Strip] = frozenset()


@dataclass(frozen=True)
class HarvestPlan:
    """What to ask, and what to take.

    ``request(slot, attempt)`` depends on nothing else, so that a run under another rule of acceptance asks for
    the same things. Each slot (a label, a record) is asked at most ``attempts`` times. ``check`` judges cleaned
    texts against their slots, many at once. ``what`` names the wanted things in messages.
    """

    slots: int
    attempts: int
    request: Callable[[int, int], Request]
    prompt: Prompt
    cleaning: Cleaning
    check: Check | None = None
    what: str = "candidates"

    def requests(self) -> list[Request]:
        """Return everything that the plan can ever ask for, so that it can be asked for beforehand in one go."""
        return [self.request(slot, attempt) for attempt in range(self.attempts) for slot in range(self.slots)]


@dataclass
class _State:
    good: list[list[Harvested]]
    asked: list[int]
    counters: Counter[str] = field(default_factory=Counter)


def harvest(
    generator: Generator, plan: HarvestPlan, size: int, distinct: Distinct, progress: Progress = SILENT
) -> tuple[list[Harvested], dict[str, int]]:
    """Return exactly that many texts, spread over the slots as evenly as their answers allow, and the counters.

    Every answer that was asked for is counted once: as kept, as surplus, or under the rule that rejected it. What was
    stripped off the kept ones is counted besides. The outcome depends on the answers alone, not on the order in which
    they arrived.
    """
    if size < 1 or plan.slots < 1:
        raise InputError(f"There must be at least one text and one slot to fill, not {size} and {plan.slots}.")
    state = _State(good=[[] for _ in range(plan.slots)], asked=[0] * plan.slots)
    with progress.stage(f"writing {plan.what}", size, plan.what) as stage:
        while batch := _next_batch(plan, state, size):
            requests = [plan.request(slot, attempt) for slot, attempt in batch]
            before = sum(map(len, state.good))
            _judge(plan, state, distinct, batch, requests, in_order(generator, requests))
            stage.advance(min(sum(map(len, state.good)), size) - min(before, size))
    taken = _taken(state, size)
    counters = {"asked": sum(state.asked), "kept": len(taken), "surplus": sum(map(len, state.good)) - len(taken)}
    state.counters.update(strip.value for text in taken for strip in text.stripped)
    counters |= {name.value: state.counters[name] for name in (*Rejection, *Strip) if state.counters[name]}
    if len(taken) < size:
        raise GenerationError(_shortfall(generator, plan, size, counters))
    return taken, counters


def attempts_each(tries: float, size: int, slots: int, what: str) -> int:
    """Return how often each slot may be asked, so that on average a wanted thing has so many tries."""
    if not 1 <= tries <= _MOST_TRIES:
        raise InputError(
            f"At least one answer must be asked for a {what}, and {_MOST_TRIES:,} at most on average, not {tries}."
        )
    return math.ceil(tries * size / slots)


def even_shares(size: int, caps: Sequence[float]) -> list[int]:
    """Split a size over slots with caps: as evenly as the caps allow, the remainder to the first slots."""
    shares = [0] * len(caps)
    left = size
    while left and (open_slots := [i for i, cap in enumerate(caps) if shares[i] < cap]):
        room = min(caps[i] - shares[i] for i in open_slots)
        step = min(left // len(open_slots), room)
        for i in open_slots if step else open_slots[:left]:
            shares[i] += int(step) if step else 1
        left = size - sum(shares)
    return shares


def _next_batch(plan: HarvestPlan, state: _State, size: int) -> list[tuple[int, int]]:
    """Return the (slot, attempt) pairs to ask next: enough for each slot's lack at the yield seen so far."""
    opened = [asked < plan.attempts for asked in state.asked]
    caps = [math.inf if is_open else len(good) for is_open, good in zip(opened, state.good, strict=True)]
    shares = even_shares(size, caps)
    asked = sum(state.asked)
    rate = max(sum(map(len, state.good)) / asked, _LEAST_YIELD) if asked else _FIRST_YIELD
    batch = []
    for slot, share in enumerate(shares):
        lack = share - len(state.good[slot])
        if lack > 0 and opened[slot]:
            upto = min(plan.attempts, state.asked[slot] + max(lack, round(lack / rate)))
            batch += [(slot, attempt) for attempt in range(state.asked[slot], upto)]
            state.asked[slot] = upto
    return sorted(batch, key=lambda pair: (pair[1], pair[0]))


def _judge(
    plan: HarvestPlan,
    state: _State,
    distinct: Distinct,
    batch: Sequence[tuple[int, int]],
    requests: Sequence[Request],
    responses: Sequence[Response],
) -> None:
    cleaned: list[tuple[int, int, Cleaned]] = []
    for (slot, attempt), request, response in zip(batch, requests, responses, strict=True):
        answer = plan.prompt.answer(request, response)
        judged = plan.cleaning.judge(answer.text, finished=answer.finished)
        if isinstance(judged, Rejection):
            state.counters[judged.value] += 1
        else:
            cleaned.append((slot, attempt, judged))
    verdicts = _checked(plan, cleaned)
    for (slot, attempt, passed), (rejection, value) in zip(cleaned, verdicts, strict=True):
        reason = rejection or _repeats(distinct, passed.text)
        if reason is not None:
            state.counters[reason.value] += 1
        else:
            distinct.add(passed.text)
            state.good[slot].append(Harvested(passed.text, slot, attempt, value, passed.stripped))


def _checked(
    plan: HarvestPlan, cleaned: Sequence[tuple[int, int, Cleaned]]
) -> Sequence[tuple[Rejection | None, float]]:
    if plan.check is None or not cleaned:
        return [(None, 0.0)] * len(cleaned)
    return plan.check([slot for slot, _, _ in cleaned], [passed.text for _, _, passed in cleaned])


def _repeats(distinct: Distinct, text: str) -> Rejection | None:
    if distinct.duplicates(text):
        return Rejection.DUPLICATE
    return Rejection.NEAR_DUPLICATE if distinct.resembles(text) else None


def _taken(state: _State, size: int) -> list[Harvested]:
    shares = even_shares(size, [len(good) for good in state.good])
    taken = [text for good, share in zip(state.good, shares, strict=True) for text in good[:share]]
    return sorted(taken, key=lambda text: (text.attempt, text.slot))


def _shortfall(generator: Generator, plan: HarvestPlan, size: int, counters: Mapping[str, int]) -> str:
    why = ", ".join(f"{count} {reason}" for reason, count in rejections(counters).items())
    return (
        f"{generator.name} wrote {counters['kept']} of {size} {plan.what} in {counters['asked']} answers, "
        f"{plan.attempts} for each of {plan.slots} slots; rejected were {why or 'none'}. "
        "Allow more tries, ask for fewer, or use another prompt, looser cleaning or a larger model."
    )
