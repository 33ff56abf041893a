"""Ask for new candidates, from noisy votes alone, until every slot of a round has one.

A feedback rule is a value that is called with what was voted, a slot and an attempt, and answers with what to ask of
the generator. A rule sees nothing that the release does not determine, so whatever it does is post-processing.
Any callable of that shape is a rule; the same slot and attempt must give the same question, so that a resumed run
asks for nothing twice. Answers are cleaned, duplicates are refused, and what is missing is asked for again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import GenerationError, InputError
from canarybank.evolution.population import Candidate, candidate_id
from canarybank.generate import Cleaning, Distinct, Generator, Prompt, Rejection, Request, Response, load_prompt
from canarybank.mechanism.mechanism import whole
from canarybank.progress import Stage
from canarybank.seeds import stream

__all__ = [
    "Ask",
    "Feedback",
    "InContext",
    "Offspring",
    "ParaphraseKept",
    "Taking",
    "Voted",
    "describe",
    "offspring",
]


@dataclass(frozen=True, eq=False)
class Voted:
    """What a round leaves for feedback: its candidates without the probes, their noisy votes, and who stays.

    ``kept`` indexes the candidates, most votes first; ``wanted`` new candidates fill the slots 0 to wanted - 1;
    ``seed`` is the run's public seed.
    """

    round: int
    candidates: tuple[Candidate, ...]
    votes: NDArray[np.float64]
    kept: tuple[int, ...]
    wanted: int
    seed: int = 0

    def stream(self, *path: str | int) -> np.random.Generator:
        """Return the public random stream of this round at a path."""
        return stream(self.seed, "evolve", "feedback", self.round, *path)

    def slot_label(self, slot: int) -> str:
        """Return the label that a slot is meant for: slots share out the labels as the candidates have them."""
        return self._sorted_labels[slot * len(self._sorted_labels) // self.wanted]

    @cached_property
    def lowest(self) -> tuple[int, ...]:
        """Return the candidates with the lowest votes, lowest first: as many as are kept, none of them kept."""
        kept = set(self.kept)
        return tuple([int(i) for i in np.argsort(self.votes, kind="stable") if int(i) not in kept][: len(kept)])

    @cached_property
    def _sorted_labels(self) -> list[str]:
        return sorted(candidate.label for candidate in self.candidates)


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to the generator on behalf of a slot: the request, the label of the answer, and its lineage."""

    request: Request
    prompt: Prompt | str
    parents: tuple[str, ...] = ()
    label: str = ""

    @property
    def prompt_name(self) -> str:
        """Return the name of the prompt, for the lineage."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt.name

    def read(self, response: Response) -> Response:
        """Return the response without words that only led into it."""
        return response if isinstance(self.prompt, str) else self.prompt.answer(self.request, response)


class Feedback(Protocol):
    """A feedback rule."""

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return what to ask for a slot; ``attempt`` counts the answers that were rejected before."""


@dataclass(frozen=True)
class ParaphraseKept:
    """Ask for another wording of a kept candidate: slots go round the kept ones, and so do attempts.

    A question depends on the candidate's text and how often it was asked before, not on how many votes it had, so
    recorded answers serve another run that keeps it in the same round.
    """

    prompt: str | Path | Prompt = "paraphrase"

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return the request for another wording of the slot's kept candidate."""
        turn, parent = slot // len(voted.kept), voted.candidates[voted.kept[(slot + attempt) % len(voted.kept)]]
        path = ("evolve", voted.round, parent.text, turn, attempt)
        # The prompt puts the record in double quotes, so those within it become single ones.
        record = " ".join(parent.text.replace('"', "'").split())
        request = self._loaded.request({"record": record}, seed=voted.seed, path=path, label=parent.label)
        return Ask(request, self._loaded, (parent.id,), parent.label)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        return {"rule": "paraphrase-kept", "prompt": self._loaded.hash}

    @cached_property
    def _loaded(self) -> Prompt:
        return load_prompt(self.prompt)


@dataclass(frozen=True)
class InContext:
    """Ask for a new text in the manner of highly voted examples and unlike lowly voted ones.

    A slot's ``high`` examples are drawn from the kept candidates of its label (from all kept ones where its label has
    none), its ``low`` ones from as many of the lowest votes. ``kind`` stands for the label where candidates have none.
    """

    high: int = 3
    low: int = 3
    prompt: str | Path | Prompt = "continue"
    kind: str = "a short message"

    def __post_init__(self) -> None:
        whole("high", self.high)
        if self.low < 0:
            raise InputError(f"The number of lowly voted examples cannot be negative, but is {self.low}.")

    def __call__(self, voted: Voted, slot: int, attempt: int) -> Ask:
        """Return the request with the slot's examples."""
        label, rng = voted.slot_label(slot), voted.stream("examples", slot, attempt)
        high = _draw_examples(rng, voted, voted.kept, label, self.high)
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
        }

    @cached_property
    def _loaded(self) -> Prompt:
        return load_prompt(self.prompt)


def _draw_examples(
    rng: np.random.Generator, voted: Voted, indices: Sequence[int], label: str, count: int
) -> list[Candidate]:
    """Draw so many of these candidates in their order: of those with the label, or of all where none has it."""
    among = [i for i in indices if voted.candidates[i].label == label] or indices
    return [voted.candidates[among[i]] for i in sorted(rng.permutation(len(among))[:count])]


def describe(feedback: Feedback) -> dict[str, Any]:
    """Return what decides a rule's questions; of one's own rule that says nothing of itself, its name."""
    settings = getattr(feedback, "settings", None)
    if callable(settings):
        return dict(settings())
    name = getattr(feedback, "__qualname__", type(feedback).__qualname__)
    return {"rule": f"{getattr(feedback, '__module__', '')}.{name}"}


@dataclass(frozen=True, slots=True)
class Taking:
    """Which answers become candidates: cleaned ones that resemble no kept or new candidate, in ``tries`` a slot."""

    cleaning: Cleaning = field(default_factory=Cleaning)
    similarity: float = 0.7
    tries: int = 12

    def __post_init__(self) -> None:
        Distinct(self.similarity)
        whole("tries", self.tries)

    def judge(self, answer: Response, others: Distinct) -> str | Rejection:
        """Return the text of an answer as a candidate has it, or why it cannot be one beside these others."""
        text = self.cleaning.clean(answer.text, finished=answer.finished)
        if isinstance(text, Rejection):
            return text
        if others.duplicates(text):
            return Rejection.DUPLICATE
        return Rejection.NEAR_DUPLICATE if others.resembles(text) else text


@dataclass(frozen=True, slots=True)
class Offspring:
    """New candidates in the order of their slots, and how many answers were rejected for which reason."""

    candidates: tuple[Candidate, ...]
    rejected: dict[str, int]


def offspring(
    voted: Voted, feedback: Feedback, generator: Generator, taking: Taking, stage: Stage | None = None
) -> Offspring:
    """Return exactly ``voted.wanted`` new candidates, or fail and say what was rejected and why.

    The outcome follows from the answers alone, not from the order in which they arrive.
    """
    others = Distinct(taking.similarity, (voted.candidates[i].text for i in voted.kept))
    born, empty = voted.round + 1, list(range(voted.wanted))
    filled: dict[int, Candidate] = {}
    rejected: Counter[str] = Counter()
    for attempt in range(taking.tries):
        asks = {slot: feedback(voted, slot, attempt) for slot in empty}
        answers = _answer(generator, [ask.request for ask in asks.values()], stage if attempt == 0 else None)
        for (slot, ask), answer in zip(asks.items(), answers, strict=True):
            text = taking.judge(ask.read(answer), others)
            if isinstance(text, Rejection):
                rejected[text.value] += 1
                continue
            others.add(text)
            filled[slot] = Candidate(candidate_id(born, slot), text, ask.label, born, ask.parents, ask.prompt_name)
        empty = [slot for slot in empty if slot not in filled]
        if not empty:
            return Offspring(tuple(filled[slot] for slot in sorted(filled)), dict(sorted(rejected.items())))
    counts = ", ".join(f"{count} {reason}" for reason, count in rejected.most_common())
    raise GenerationError(
        f"Only {len(filled)} of {voted.wanted} new candidates were found after {taking.tries} tries for each; "
        f"rejected: {counts}. The round's release is kept: resume with more tries, or use another generator or "
        "prompt in a new run."
    )


def _answer(generator: Generator, requests: Sequence[Request], stage: Stage | None) -> list[Response]:
    """Return the answers in the order of the requests, counted on the display as they arrive."""
    answers: dict[int, Response] = {}
    for index, response in generator.generate(requests):
        answers[index] = response
        if stage is not None:
            stage.advance()
    if len(answers) != len(requests):
        raise GenerationError(
            f"The generator {generator.name!r} answered {len(answers)} of {len(requests)} requests; run the same "
            "command to resume: the round's release is kept."
        )
    return [answers[index] for index in range(len(requests))]
