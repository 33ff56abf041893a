"""Ask the generator until every slot of a round has a new candidate.

Answers are cleaned, duplicates are refused, and what is missing is asked for again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from canarybank.errors import GenerationError
from canarybank.evolution.feedback import Ask, Feedback, apply_feedback
from canarybank.evolution.population import Candidate, candidate_id
from canarybank.evolution.voted import Voted
from canarybank.generate import Cleaning, Distinct, Generator, Rejection, Request, Response
from canarybank.mechanism.mechanism import whole
from canarybank.progress import Stage

__all__ = ["Offspring", "Taking", "offspring"]


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
    voted: Voted,
    feedback: Feedback,
    generator: Generator,
    taking: Taking,
    stage: Stage | None = None,
    *,
    temperature: float | None = None,
) -> Offspring:
    """Return exactly ``voted.wanted`` new candidates, or fail and say what was rejected and why.

    The outcome follows from the answers alone, not from the order in which they arrive. ``temperature`` stands in place
    of the prompts' own. A new candidate may resemble a kept one only where those do not stay in the bank.

    Args:
        voted: What the round left.
        feedback: How new texts are asked for.
        generator: What writes them.
        taking: Which answers are taken.
        stage: Where progress is shown.
        temperature: Stands in place of the prompts' own; left out, theirs.

    Example:
        >>> import numpy as np
        >>> from canarybank.evolution import InContext, split
        >>> from canarybank.generate import ScriptedGenerator
        >>> from canarybank.mechanism import Bank
        >>> texts = ("we walked by the river", "she baked some bread", "the train was late")
        >>> population, _ = split(Bank(np.eye(3, dtype=np.float32), texts))
        >>> voted = Voted(0, population.candidates, np.array([2.0, 1.0, 0.5]), kept=(0,), wanted=2)
        >>> answers = ["they sang all evening by the fire", "my bicycle has a flat tyre again today"] * 20
        >>> len(offspring(voted, InContext(), ScriptedGenerator(answers), Taking()).candidates)
        2
    """
    others = Distinct(taking.similarity, (voted.candidates[i].text for i in (voted.kept if voted.carry else ())))
    born, empty = voted.round + 1, list(range(voted.wanted))
    filled: dict[int, Candidate] = {}
    rejected: Counter[str] = Counter()
    for attempt in range(taking.tries):
        asks = {slot: _heated(apply_feedback(feedback, voted, slot, attempt), temperature) for slot in empty}
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


def _heated(ask: Ask, temperature: float | None) -> Ask:
    return ask if temperature is None else replace(ask, request=replace(ask.request, temperature=temperature))


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
