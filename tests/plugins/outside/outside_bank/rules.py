"""Rules for the rounds of an evolution: every second candidate stays, and the first kept one is every parent."""

from dataclasses import dataclass

from canarybank.evolution import Ask, Kept
from canarybank.generate import Request

called = set()


@dataclass(frozen=True)
class EverySecond:
    """Keep every second candidate."""

    def __call__(self, choice):
        called.add("keeper")
        kept = list(range(0, len(choice.votes), 2))[: choice.size]
        return Kept(kept, [1.0] * len(kept))


@dataclass(frozen=True)
class FirstKept:
    """Let the first kept candidate of the label be every parent."""

    def __call__(self, voted, slot, *_):
        called.add("parent rule")
        return voted.kept_for(voted.slot_label(slot))[:1]


@dataclass(frozen=True)
class Echo:
    """Ask for the parent once more, by its number."""

    parents: object = FirstKept()

    def __call__(self, voted, slot, attempt):
        called.add("feedback")
        (parent,) = self.parents(voted, slot, attempt, 1, voted.stream("echo", slot, attempt))
        candidate = voted.candidates[parent]
        request = Request(f"Echo {slot}: {candidate.text}", seed=1000 * slot + attempt, label=candidate.label)
        return Ask(request, "echo", (candidate.id,), candidate.label)

    def settings(self):
        return {"rule": "echo"}
