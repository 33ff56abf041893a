"""Fill a round's slots with new candidates: ask, clean, refuse duplicates, ask again."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from canarybank.errors import GenerationError
from canarybank.evolve.feedback import Ask, Feedback, Voted
from canarybank.evolve.population import Candidate, candidate_id
from canarybank.generate import Cleaning, Distinct, Generator, Rejection, Request, Response
from canarybank.mechanism.mechanism import whole
from canarybank.progress import Stage

__all__ = ["Offspring", "Taking", "offspring"]

Answered = Callable[[Sequence[Request]], dict[int, Response]]


@dataclass(frozen=True, slots=True)
class Taking:
    """Which answers become candidates: cleaned ones that resemble no kept or new candidate, in ``tries`` a slot."""

    cleaning: Cleaning = field(default_factory=Cleaning)
    similarity: float = 0.7
    tries: int = 12

    def __post_init__(self) -> None:
        Distinct(self.similarity)
        whole("tries", self.tries)


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
    filling = _Filling(voted, feedback, taking)
    for attempt in range(taking.tries):
        if not (empty := filling.empty):
            break
        filling.take(empty, attempt, _shown(generator, stage if attempt == 0 else None))
    return filling.outcome()


def _shown(generator: Generator, stage: Stage | None) -> Answered:
    """Return a function that answers requests and counts the answers on the display as they arrive."""

    def answered(requests: Sequence[Request]) -> dict[int, Response]:
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
        return answers

    return answered


class _Filling:
    """The slots of one round while they fill."""

    def __init__(self, voted: Voted, feedback: Feedback, taking: Taking) -> None:
        self._voted, self._feedback, self._taking = voted, feedback, taking
        self._distinct = Distinct(taking.similarity, (voted.candidates[i].text for i in voted.kept))
        self._slots: dict[int, Candidate] = {}
        self._rejected: Counter[str] = Counter()

    @property
    def empty(self) -> list[int]:
        return [slot for slot in range(self._voted.wanted) if slot not in self._slots]

    def take(self, slots: Sequence[int], attempt: int, answered: Answered) -> None:
        asks = [self._feedback(self._voted, slot, attempt) for slot in slots]
        answers = answered([ask.request for ask in asks])
        for index, (slot, ask) in enumerate(zip(slots, asks, strict=True)):
            text = self._judged(ask, answers[index])
            if isinstance(text, Rejection):
                self._rejected[text.value] += 1
                continue
            self._distinct.add(text)
            self._slots[slot] = self._born(slot, text, ask)

    def outcome(self) -> Offspring:
        if empty := self.empty:
            wanted, tries = self._voted.wanted, self._taking.tries
            counts = ", ".join(f"{count} {reason}" for reason, count in self._rejected.most_common())
            raise GenerationError(
                f"Only {wanted - len(empty)} of {wanted} new candidates were found after {tries} tries for each; "
                f"rejected: {counts}. The round's release is kept: resume with more tries, or use another generator or "
                "prompt in a new run."
            )
        return Offspring(tuple(self._slots[slot] for slot in sorted(self._slots)), dict(sorted(self._rejected.items())))

    def _judged(self, ask: Ask, response: Response) -> str | Rejection:
        answer = ask.read(response)
        text = self._taking.cleaning.clean(answer.text, finished=answer.finished)
        if isinstance(text, Rejection):
            return text
        if self._distinct.duplicates(text):
            return Rejection.DUPLICATE
        return Rejection.NEAR_DUPLICATE if self._distinct.resembles(text) else text

    def _born(self, slot: int, text: str, ask: Ask) -> Candidate:
        born = self._voted.round + 1
        return Candidate(candidate_id(born, slot), text, ask.label, born, ask.parents, ask.prompt_name)
