"""Say whom a slot's examples, or its one parent, are drawn from: the kept candidates, by a rule.

A parent rule is called with what was voted, a slot, an attempt, how many parents the slot needs, and a public random
stream of that slot and attempt. It answers with indices of kept candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from canarybank.errors import InputError
from canarybank.evolution.keeping import describe, draw_by_weight, naming_errors_of
from canarybank.evolution.voted import Voted

__all__ = ["NeighbouringParents", "ParentRule", "ParentsByVotes", "ParentsEvenly", "ParentsInTurn", "apply_parents"]


class ParentRule(Protocol):
    """A rule that draws parents."""

    def __call__(self, voted: Voted, slot: int, attempt: int, count: int, rng: np.random.Generator) -> Sequence[int]:
        """Return at most ``count`` different kept candidates, and one at least, as indices into the candidates."""


def apply_parents(
    rule: ParentRule, voted: Voted, slot: int, attempt: int, count: int, rng: np.random.Generator
) -> list[int]:
    """Return whom a parent rule draws, or say what is wrong with it."""
    with naming_errors_of("parent rule", rule):
        found = [int(i) for i in rule(voted, slot, attempt, count, rng)]
    if not 1 <= len(found) <= count or len(set(found)) != len(found) or not set(found) <= voted.kept_set:
        raise InputError(
            f"The parent rule {describe(rule)['rule']!r} returned {found}; return 1 to {count} different candidates "
            "that are kept, as indices."
        )
    return found


@dataclass(frozen=True)
class ParentsEvenly:
    """Draw each kept candidate of the slot's label with the same probability."""

    def __call__(
        self,
        voted: Voted,
        slot: int,
        attempt: int,  # noqa: ARG002, the stream knows it
        count: int,
        rng: np.random.Generator,
    ) -> Sequence[int]:
        """Return so many of them in the order of their votes."""
        among = voted.kept_for(voted.slot_label(slot))
        return [among[i] for i in sorted(rng.permutation(len(among))[:count])]

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "even"}


@dataclass(frozen=True)
class ParentsInTurn:
    """Go round the kept candidates of the slot's label, so that all of them have the same number of children."""

    def __call__(
        self,
        voted: Voted,
        slot: int,
        attempt: int,
        count: int,
        rng: np.random.Generator,  # noqa: ARG002, nothing is drawn
    ) -> Sequence[int]:
        """Return those whose turn it is; a further attempt goes on to the next."""
        among = voted.kept_for(voted.slot_label(slot))
        start = voted.turn(slot) + attempt
        return [among[(start + i) % len(among)] for i in range(min(count, len(among)))]

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "turns"}


@dataclass(frozen=True)
class ParentsByVotes:
    """Draw kept candidates of the slot's label in proportion to their weights."""

    def __call__(
        self,
        voted: Voted,
        slot: int,
        attempt: int,  # noqa: ARG002, the stream knows it
        count: int,
        rng: np.random.Generator,
    ) -> Sequence[int]:
        """Return so many of them as they were drawn."""
        among = voted.kept_for(voted.slot_label(slot))
        return [among[i] for i in draw_by_weight(rng, voted.weights_of(among), count)]

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "votes"}


@dataclass(frozen=True)
class NeighbouringParents:
    """Draw one kept candidate of the slot's label by its weight; the others are the nearest kept ones to it."""

    def __call__(
        self,
        voted: Voted,
        slot: int,
        attempt: int,  # noqa: ARG002, the stream knows it
        count: int,
        rng: np.random.Generator,
    ) -> Sequence[int]:
        """Return the drawn one, then its neighbours, the nearest first."""
        among = voted.kept_for(voted.slot_label(slot))
        drawn = int(draw_by_weight(rng, voted.weights_of(among), 1)[0])
        vectors = voted.vectors[list(among)].astype(np.float64)
        distances = ((vectors - vectors[drawn]) ** 2).sum(axis=1)
        distances[drawn] = -1.0
        return [among[i] for i in np.argsort(distances, kind="stable")[:count]]

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "neighbours"}
