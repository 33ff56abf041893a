"""Ask for new candidates, from noisy votes alone.

A feedback rule is a value that is called with what was voted, a slot and an attempt, and answers with what to ask of
the generator. A rule sees nothing that the release does not determine, so whatever it does is post-processing.
Any callable of that shape is a rule; the same slot and attempt must give the same question, so that a resumed run
asks for nothing twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.evolve.population import Candidate
from canarybank.generate import Prompt, Request, Response, load_prompt
from canarybank.mechanism.mechanism import whole
from canarybank.seeds import stream

__all__ = ["Ask", "Feedback", "InContext", "ParaphraseKept", "Voted", "describe"]


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
        return self._labels[slot * len(self._labels) // self.wanted]

    @cached_property
    def lowest(self) -> tuple[int, ...]:
        """Return the candidates with the lowest votes, lowest first: as many as are kept, none of them kept."""
        kept = set(self.kept)
        return tuple([int(i) for i in np.argsort(self.votes, kind="stable") if int(i) not in kept][: len(kept)])

    @cached_property
    def _labels(self) -> list[str]:
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
        prompt = self._loaded
        turn, kept = slot // len(voted.kept), voted.kept[(slot + attempt) % len(voted.kept)]
        parent = voted.candidates[kept]
        path = ("evolve", voted.round, parent.text, turn, attempt)
        # The prompt puts the record in double quotes, so those within it become single ones.
        record = " ".join(parent.text.replace('"', "'").split())
        request = prompt.request({"record": record}, seed=voted.seed, path=path, label=parent.label)
        return Ask(request, prompt, (parent.id,), parent.label)

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
        prompt = self._loaded
        label = voted.slot_label(slot)
        rng = voted.stream("examples", slot, attempt)
        high = _drawn(rng, _of_label(voted, voted.kept, label), self.high)
        low = _drawn(rng, _of_label(voted, voted.lowest, label), self.low)
        texts = {name: _listed(voted, chosen) for name, chosen in (("positive", high), ("negative", low))}
        path = ("evolve", voted.round, slot, attempt)
        request = prompt.request(texts | {"label": label or self.kind}, seed=voted.seed, path=path, label=label)
        return Ask(request, prompt, tuple(voted.candidates[i].id for i in (*high, *low)), label)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's questions."""
        shown = {"high": self.high, "low": self.low, "kind": self.kind}
        return {"rule": "in-context", **shown, "prompt": self._loaded.hash}

    @cached_property
    def _loaded(self) -> Prompt:
        return load_prompt(self.prompt)


def describe(feedback: Feedback) -> dict[str, Any]:
    """Return what decides a rule's questions; of one's own rule that says nothing of itself, its name."""
    settings = getattr(feedback, "settings", None)
    if callable(settings):
        return dict(settings())
    name = getattr(feedback, "__qualname__", type(feedback).__qualname__)
    return {"rule": f"{getattr(feedback, '__module__', '')}.{name}"}


def _of_label(voted: Voted, indices: Sequence[int], label: str) -> list[int]:
    return [i for i in indices if voted.candidates[i].label == label] or list(indices)


def _drawn(rng: np.random.Generator, indices: Sequence[int], count: int) -> list[int]:
    order = rng.permutation(len(indices))[:count]
    return [indices[int(i)] for i in sorted(order)]


def _listed(voted: Voted, indices: Sequence[int]) -> str:
    return "\n".join(f"- {voted.candidates[i].text}" for i in indices) or "- (none)"
