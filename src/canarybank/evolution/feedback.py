"""Ask for new candidates, from noisy votes alone.

A feedback rule is a value that is called with what was voted, a slot and an attempt, and answers with what to ask of
the generator. A rule sees nothing that the release does not determine, so whatever it does is post-processing.
Any callable of that shape is a rule; the same slot and attempt must give the same question, so that a resumed run
asks for nothing twice.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from canarybank.errors import InputError
from canarybank.evolution.keeping import describe, naming_errors_of
from canarybank.evolution.parents import ParentRule, ParentsEvenly, apply_parents
from canarybank.evolution.population import Candidate
from canarybank.evolution.schedules import Schedule, at_round, check_schedule
from canarybank.evolution.voted import Voted
from canarybank.generate import Prompt, Request, Response, load_prompt
from canarybank.mechanism.mechanism import whole
from canarybank.store import hash_json

__all__ = [
    "DISTANCES",
    "Ask",
    "Feedback",
    "FillBlanks",
    "Fresh",
    "InContext",
    "MixedFeedback",
    "ParaphraseKept",
    "Vary",
    "apply_feedback",
    "interleave",
    "share_out",
]

DISTANCES = ("near", "middle", "far")
"""How far a variation goes; a prompt has a list of phrases for each in its section vary."""
_BLANK = "_"


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to the generator on behalf of a slot: the request, the label of the answer, and its lineage.

    Where there is a ``blank``, an answer in which one still stands as a word of its own counts as empty.
    """

    request: Request
    prompt: Prompt | str
    parents: tuple[str, ...] = ()
    label: str = ""
    blank: str = ""

    @property
    def prompt_name(self) -> str:
        """Return the name of the prompt, for the lineage."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt.name

    def read(self, response: Response) -> Response:
        """Return the response without words that only led into it."""
        found = response if isinstance(self.prompt, str) else self.prompt.answer(self.request, response)
        return replace(found, text="") if self.blank and _holds_blank(found.text, self.blank) else found


class Feedback(Protocol):
    """A feedback rule."""

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return what to ask for a slot; ``attempt`` counts the answers that were rejected before."""


def apply_feedback(rule: Feedback, voted: Voted, slot: int, attempt: int) -> Ask:
    """Return what a feedback rule asks for, or say what is wrong with it."""
    with naming_errors_of("feedback", rule):
        found = rule(voted, slot, attempt)
    if not isinstance(found, Ask):
        raise InputError(
            f"The feedback {describe(rule)['rule']!r} returned a {type(found).__name__}; return a "
            "canarybank.evolution.Ask."
        )
    return found


@dataclass(frozen=True)
class ParaphraseKept:
    """Ask for another wording of a kept candidate: the rule's slots go round the kept ones, and so do attempts.

    A question depends on the candidate's text and how often it was asked before, not on how many votes it had, so
    recorded answers serve another run that keeps it in the same round. ``parents`` may draw the candidate instead.
    """

    prompt: str | Path | Prompt = "paraphrase"
    parents: ParentRule | None = None

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return the request for another wording of the slot's kept candidate."""
        order = slot if voted.slots is None else bisect_left(voted.slots, slot)
        turn, place = order // len(voted.kept), voted.kept[(order + attempt) % len(voted.kept)]
        if self.parents is not None:
            turn, place = slot, _one_parent(self.parents, voted, slot, attempt, "paraphrase")
        parent = voted.candidates[place]
        path = ("evolve", voted.round, parent.text, turn, attempt)
        request = self._loaded.request({"record": _quotable(parent)}, seed=voted.seed, path=path, label=parent.label)
        return Ask(request, self._loaded, (parent.id,), parent.label)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        parents = {} if self.parents is None else {"parents": describe(self.parents)}
        return {"rule": "paraphrase-kept", "prompt": self._loaded.hash, **parents}

    @cached_property
    def _loaded(self) -> Prompt:
        return load_prompt(self.prompt)


@dataclass(frozen=True)
class InContext:
    """Ask for a new text in the manner of highly voted examples and unlike lowly voted ones.

    ``parents`` draws a slot's ``high`` examples from the kept candidates of its label (from all kept ones where its
    label has none). Its ``low`` ones are drawn evenly from as many of the lowest votes. ``kind`` stands for the label
    where candidates have none.
    """

    high: int = 3
    low: int = 3
    prompt: str | Path | Prompt = "continue"
    kind: str = "a short message"
    parents: ParentRule = field(default_factory=ParentsEvenly)

    def __post_init__(self) -> None:
        whole("high", self.high)
        if self.low < 0:
            raise InputError(f"The number of lowly voted examples cannot be negative, but is {self.low}.")

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return the request with the slot's examples."""
        label, rng = voted.slot_label(slot), voted.stream("examples", slot, attempt)
        high = [voted.candidates[i] for i in apply_parents(self.parents, voted, slot, attempt, self.high, rng)]
        low = _draw_examples(rng, voted, voted.lowest, label, self.low)
        positive, negative = ("\n".join(f"- {each.text}" for each in shown) or "- (none)" for shown in (high, low))
        request = self._loaded.request(
            {"positive": positive, "negative": negative, "label": label or self.kind},
            seed=voted.seed,
            path=("evolve", voted.round, slot, attempt),
            label=label,
        )
        return Ask(request, self._loaded, tuple(each.id for each in (*high, *low)), label)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        return {
            "rule": "in-context",
            "high": self.high,
            "low": self.low,
            "kind": self.kind,
            "prompt": self._loaded.hash,
            **({} if self.parents == ParentsEvenly() else {"parents": describe(self.parents)}),
        }

    @cached_property
    def _loaded(self) -> Prompt:
        return load_prompt(self.prompt)


@dataclass(frozen=True)
class Vary:
    """Ask for a variation of one kept candidate: near to it at a ``distance`` of 0, far from it at 1.

    The section vary of the prompt holds phrases for ``near``, ``middle`` and ``far``, and its field ``{change}`` shows
    one of them. Near is a distance of 0, middle of 0.5 and far of 1; between two of them each is drawn with the
    probability that makes the distance the mean. A prompt without these phrases varies as it says itself.
    """

    prompt: str | Path | Prompt = "vary"
    distance: Schedule = 0.5
    kind: str = "a short message"
    parents: ParentRule = field(default_factory=ParentsEvenly)

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", check_schedule("distance", self.distance, 0, 1))

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return the request for a variation of the slot's parent."""
        parent = voted.candidates[_one_parent(self.parents, voted, slot, attempt, "vary")]
        place = 2 * at_round(self.distance, voted.round)
        step = int(place) + int(voted.stream("distance", slot, attempt).random() < place - int(place))
        prompt = self._prompts[DISTANCES[step]]
        values = {"text": _quotable(parent), "label": parent.label or self.kind}
        path = ("evolve", voted.round, "vary", slot, attempt)
        request = prompt.request(values, seed=voted.seed, path=path, label=parent.label)
        return Ask(request, prompt, (parent.id,), parent.label)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        return {
            "rule": "vary",
            "prompt": load_prompt(self.prompt).hash,
            "distance": self.distance,
            "kind": self.kind,
            "parents": describe(self.parents),
        }

    @cached_property
    def _prompts(self) -> dict[str, Prompt]:
        """Return the prompt of each distance: the phrases of that distance alone fill its field ``{change}``."""
        prompt = load_prompt(self.prompt)
        own = {name: phrases for name, phrases in prompt.vary.items() if name not in DISTANCES}
        found = {name: prompt.vary[name] for name in DISTANCES if name in prompt.vary}
        if found and len(found) != len(DISTANCES):
            raise InputError(
                f"The prompt {prompt.name!r} has phrases for {', '.join(found)} only; its section vary needs "
                f"{', '.join(DISTANCES)}, or none of them."
            )
        return {name: replace(prompt, vary={**own, "change": found[name]}) if found else prompt for name in DISTANCES}


@dataclass(frozen=True)
class FillBlanks:
    """Blank words of one kept candidate, each with probability ``distance``, and ask to fill them in again.

    This is how aug-pe varies a text (Xie et al. 2024, arXiv:2403.01749). One word at least is blanked.
    """

    prompt: str | Path | Prompt = "blanks"
    distance: Schedule = 0.5
    kind: str = "a short message"
    parents: ParentRule = field(default_factory=ParentsEvenly)

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", check_schedule("distance", self.distance, 0, 1))

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return the request to fill in the blanks of the slot's parent."""
        parent = voted.candidates[_one_parent(self.parents, voted, slot, attempt, "blanks")]
        rng, words = voted.stream("blanks", slot, attempt), _quotable(parent).split()
        blanked = rng.random(len(words)) < at_round(self.distance, voted.round)
        blanked[int(rng.integers(len(words)))] |= not blanked.any()
        shown = " ".join(_BLANK if is_blank else word for word, is_blank in zip(words, blanked, strict=True))
        values = {"blanked": shown, "label": parent.label or self.kind}
        path = ("evolve", voted.round, "blanks", slot, attempt)
        request = self._loaded.request(values, seed=voted.seed, path=path, label=parent.label)
        return Ask(request, self._loaded, (parent.id,), parent.label, _BLANK)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        return {
            "rule": "blanks",
            "prompt": self._loaded.hash,
            "distance": self.distance,
            "kind": self.kind,
            "parents": describe(self.parents),
        }

    @cached_property
    def _loaded(self) -> Prompt:
        return load_prompt(self.prompt)


@dataclass(frozen=True)
class Fresh:
    """Ask for a text as those of a first bank are written: from the label, and public ``examples`` where it has any.

    Nobody's votes decide it, so it brings back what selection lost. A candidate of this rule has no parents.
    """

    prompt: str | Path | Prompt = "bank-label"
    kind: str = "a short message"
    examples: tuple[str, ...] = ()
    shots: int = 3

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return the request for a text of the slot's label."""
        label = voted.slot_label(slot)
        drawn = voted.stream("fresh", slot, attempt).permutation(len(self.examples))[: self.shots]
        shown = "\n".join(f"- {self.examples[i]}" for i in drawn) or "- (none)"
        values = {"label": label or self.kind, "examples": shown, "positive": shown, "negative": "- (none)"}
        path = ("evolve", voted.round, "fresh", slot, attempt)
        return Ask(self._loaded.request(values, seed=voted.seed, path=path, label=label), self._loaded, (), label)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        return {
            "rule": "fresh",
            "prompt": self._loaded.hash,
            "kind": self.kind,
            "examples": hash_json(list(self.examples)),
            "shots": self.shots,
        }

    @cached_property
    def _loaded(self) -> Prompt:
        return load_prompt(self.prompt)


@dataclass(frozen=True)
class MixedFeedback:
    """Share the slots out among several rules by their shares, interleaved, so that every label gets its part of each.

    ``parts`` hold a rule and its share each; shares need not sum to 1.
    """

    parts: tuple[tuple[Feedback, float], ...]
    _views: WeakKeyDictionary[Voted, tuple[tuple[int, ...], tuple[Voted, ...]]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        share_out([share for _, share in self.parts], 1)

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return what the slot's rule asks for."""
        if voted not in self._views:
            turns = interleave(share_out([share for _, share in self.parts], voted.wanted))
            slots = [tuple(i for i, part in enumerate(turns) if part == number) for number in range(len(self.parts))]
            self._views[voted] = turns, tuple(replace(voted, slots=own) for own in slots)
        turns, views = self._views[voted]
        return apply_feedback(self.rules[turns[slot]], views[turns[slot]], slot, attempt)

    @property
    def rules(self) -> tuple[Feedback, ...]:
        """Return the rules without their shares."""
        return tuple(rule for rule, _ in self.parts)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        return {"rule": "mixed", "parts": [{**describe(rule), "share": share} for rule, share in self.parts]}


def share_out(shares: Sequence[float], slots: int) -> tuple[int, ...]:
    """Return how many slots each share gets: its part rounded down, and what is left to the largest remainders."""
    parts = [Fraction(str(share)) for share in shares]
    if not parts or min(parts) < 0 or not sum(parts):
        raise InputError(f"Shares must be at least 0, and one of them positive; they are {list(shares)}.")
    quotas = [part * slots / sum(parts) for part in parts]
    counts = [int(quota) for quota in quotas]
    by_remainder = sorted(range(len(parts)), key=lambda i: (counts[i] - quotas[i], i))
    for i in by_remainder[: slots - sum(counts)]:
        counts[i] += 1
    return tuple(counts)


def interleave(counts: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers 0, 1, ... so often as ``counts`` says, each spread evenly over the whole."""
    spread = [(Fraction(2 * j + 1, 2 * count), i) for i, count in enumerate(counts) for j in range(count)]
    return tuple(i for _, i in sorted(spread))


def _one_parent(rule: ParentRule, voted: Voted, slot: int, attempt: int, name: str) -> int:
    return apply_parents(rule, voted, slot, attempt, 1, voted.stream("parent", name, slot, attempt))[0]


def _holds_blank(text: str, blank: str) -> bool:
    """Say whether a blank stands in a text as a word of its own, with nothing but punctuation at its sides."""
    return re.search(rf"""(?<!\S)["'(\[]*(?:{re.escape(blank)})+["')\].,;:!?]*(?!\S)""", text) is not None


def _quotable(candidate: Candidate) -> str:
    # Prompts put the text in double quotes, so those within it become single ones.
    return " ".join(candidate.text.replace('"', "'").split())


def _draw_examples(
    rng: np.random.Generator, voted: Voted, indices: Sequence[int], label: str, count: int
) -> list[Candidate]:
    """Draw so many of these candidates in their order: of those with the label, or of all where none has it."""
    among = [i for i in indices if voted.candidates[i].label == label] or indices
    return [voted.candidates[among[i]] for i in sorted(rng.permutation(len(among))[:count])]
