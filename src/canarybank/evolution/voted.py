"""Hold what a round leaves for feedback: public values only."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from canarybank.evolution.keeping import positive_part
from canarybank.evolution.population import Candidate
from canarybank.seeds import stream

__all__ = ["Voted"]


@dataclass(frozen=True, eq=False)
class Voted:
    """What a round leaves for feedback: its candidates without the probes, their noisy votes, and who stays.

    ``kept`` indexes the candidates, the most wanted first, and ``weights`` are theirs; left out, the positive part of
    their votes. ``wanted`` new candidates fill the slots 0 to wanted - 1; ``seed`` is the run's public seed.
    ``vectors`` are those of the candidates, and ``noise`` is the standard deviation of the noise on each vote.
    ``carry`` says whether the kept ones stand in the next bank too. ``slots`` are those that a rule fills, where
    several share them.
    """

    round: int
    candidates: tuple[Candidate, ...]
    votes: NDArray[np.float64]
    kept: tuple[int, ...]
    wanted: int
    seed: int = 0
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    noise: float = 0.0
    carry: bool = True
    slots: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not len(self.weights):
            object.__setattr__(self, "weights", positive_part(np.asarray(self.votes)[list(self.kept)]))
        if not len(self.vectors):
            object.__setattr__(self, "vectors", np.zeros((len(self.candidates), 1), dtype=np.float32))

    def stream(self, *path: str | int) -> np.random.Generator:
        """Return the public random stream of this round at a path."""
        return stream(self.seed, "evolve", "feedback", self.round, *path)

    def slot_label(self, slot: int) -> str:
        """Return the label that a slot is meant for: slots share out the labels as the candidates have them."""
        return self._sorted_labels[slot * len(self._sorted_labels) // self.wanted]

    def kept_for(self, label: str) -> tuple[int, ...]:
        """Return the kept candidates of a label, the most wanted first; all kept ones where the label has none."""
        return self._kept_by_label.get(label, self.kept)

    def weights_of(self, indices: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the weights of some kept candidates."""
        return np.array([self._weight_by_index[i] for i in indices])

    def turn(self, slot: int) -> int:
        """Return how many slots of the same label come before a slot, of those that the rule fills."""
        return self._turns[slot]

    @cached_property
    def kept_set(self) -> frozenset[int]:
        """Return the kept candidates without their order."""
        return frozenset(self.kept)

    @cached_property
    def lowest(self) -> tuple[int, ...]:
        """Return the candidates with the lowest votes, lowest first: as many as are kept, none of them kept."""
        kept = set(self.kept)
        return tuple([int(i) for i in np.argsort(self.votes, kind="stable") if int(i) not in kept][: len(kept)])

    @cached_property
    def _sorted_labels(self) -> list[str]:
        return sorted(candidate.label for candidate in self.candidates)

    @cached_property
    def _kept_by_label(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for index in self.kept:
            found.setdefault(self.candidates[index].label, []).append(index)
        return {label: tuple(indices) for label, indices in found.items()}

    @cached_property
    def _weight_by_index(self) -> dict[int, float]:
        return dict(zip(self.kept, self.weights.tolist(), strict=True))

    @cached_property
    def _turns(self) -> dict[int, int]:
        counts: Counter[str] = Counter()
        turns: dict[int, int] = {}
        for slot in range(self.wanted) if self.slots is None else self.slots:
            label = self.slot_label(slot)
            turns[slot] = counts[label]
            counts[label] += 1
        return turns
