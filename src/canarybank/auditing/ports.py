"""What the pipeline works on, and its ports: cases, routed cohorts, where stages are remembered and counts are kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.attack import Attack, Canary, Design
from canarybank.auditing.settings import Threshold
from canarybank.auditing.trials import Counts, Shard
from canarybank.mechanism import Ask, Bank, Mechanism, Routed, RouteTable, StreamedCohort
from canarybank.progress import SILENT, Progress
from canarybank.score import LinearScore
from canarybank.store import hash_array, stage_key
from canarybank.systems.mechanism import ReleaseSystem
from canarybank.users import Auxiliary, Calibration, Cohort, Cohorts, Evaluation

__all__ = [
    "Case",
    "Claims",
    "Memo",
    "MemoryTally",
    "Place",
    "Routes",
    "Systems",
    "Tally",
    "restricted_tables",
    "route_cohort",
    "route_cohorts",
]

C = TypeVar("C", bound=Cohort)
Place = tuple[str, int]
"""A canary's place: the attack's name, and its index among the attack's canaries."""


class Memo(Protocol):
    """Where stages are remembered: what stands under a key, or is made and kept there."""

    def document(self, stage: str, key: str, make: Callable[[], Any], /) -> Any:
        """Return a JSON value."""

    def arrays(self, stage: str, key: str, make: Callable[[], Mapping[str, NDArray[Any]]], /) -> Mapping[str, Any]:
        """Return named arrays."""


class Tally(Protocol):
    """Where the counts of finished shards are kept: in memory, or in a run's folder."""

    @property
    def done(self) -> Mapping[tuple[Place, Shard], tuple[int, ...]]:
        """Return the finished shards."""

    def put(self, place: Place, shard: Shard, positives: tuple[int, ...]) -> None:
        """Keep a finished shard: how many of its trials each prefix's rule called present."""

    def counts(self, place: Place, rounds: int = 1) -> Counts:
        """Return a canary's counts over all finished shards, for the rule of so many rounds."""


@dataclass
class MemoryTally:
    """Keep counts for as long as the process lives."""

    done: dict[tuple[Place, Shard], tuple[int, ...]] = field(default_factory=dict)

    def put(self, place: Place, shard: Shard, positives: tuple[int, ...]) -> None:
        """Keep a finished shard."""
        self.done[place, shard] = positives

    def counts(self, place: Place, rounds: int = 1) -> Counts:
        """Return a canary's counts over all finished shards."""
        return Counts.gather((shard, each[rounds - 1]) for (at, shard), each in self.done.items() if at == place)


class Claims(StrEnum):
    """How alpha covers the prefixes of rounds."""

    EACH = "each"
    TOGETHER = "together"

    @property
    def statement(self) -> str:
        """Say what the bounds claim, taken as a family."""
        if self is Claims.TOGETHER:
            return "Alpha is split evenly over the prefixes: all of them hold at once with probability 1 - alpha."
        return (
            "Each prefix is a claim of its own at the whole of alpha; that several of them hold at once, or that the "
            "largest does, is not claimed."
        )


@dataclass(frozen=True, eq=False)
class Case:
    """One attack on one canary: a score for each round, and once they are frozen, a threshold for each prefix.

    ``designs`` are what the scores come from, where canarybank designed them. Under the seed of the trials, a case's
    random streams stand at ``address``. ``summed`` cases add mixture scores up over their rounds.
    """

    attack: Attack
    index: int
    canary: str
    scores: tuple[LinearScore, ...]
    designs: tuple[Design, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    address: tuple[str | int, ...] = ()
    summed: bool = False

    @classmethod
    def of(cls, index: int, *designs: Design, summed: bool = False) -> "Case":
        """Return the case of a designed attack, one design a round; its rules are not frozen yet."""
        attack, canary = designs[0].attack, designs[0].canary.id
        address = ("multiround", attack.name, canary) if summed else (attack.name, index)
        scores = tuple(each.score for each in designs)
        return cls(attack, index, canary, scores, designs, address=address, summed=summed)

    @property
    def place(self) -> Place:
        """Return where its counts are kept."""
        return self.attack.name, self.index


Systems = Callable[[Case], Sequence[ReleaseSystem]]
"""A case to the systems that release in each of its rounds, on the coordinates that its scores inspect."""


@dataclass(frozen=True)
class Routes:
    """The cohorts, routed once over the base of a bank whose probe positions are reserved."""

    bank: Bank
    auxiliary: Routed[Auxiliary]
    calibration: Routed[Calibration] | StreamedCohort[Calibration]
    evaluation: Routed[Evaluation] | StreamedCohort[Evaluation]
    memo: Memo | None = None

    def canary(self, canary: Canary, k: int) -> RouteTable:
        """Route the records of a canary."""
        return _route_table(canary.vectors, self.bank, k, self.memo)


def route_cohorts(
    cohorts: Cohorts, bank: Bank, k: int, memo: Memo | None = None, progress: Progress = SILENT
) -> Routes:
    """Route every cohort over the base of a bank, once for all attacks and canaries; without a memo nothing is kept.

    Args:
        cohorts: The users of each role, with vectors.
        bank: The bank, with the positions for probes reserved.
        k: How many entries a record votes for.
        memo: Where routes are kept; left out, nowhere.
        progress: Where progress is shown.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> from canarybank.users import Calibration, Cohorts, Evaluation
        >>> people = [{f"{role}{i}": rng.normal(size=(3, 4)) for i in range(8)} for role in "ace"]
        >>> auxiliary, calibration, evaluation = map(Users.from_vectors, people)
        >>> cohorts = Cohorts(Auxiliary(auxiliary), Calibration(calibration), Evaluation(evaluation), {})
        >>> route_cohorts(cohorts, bank, mechanism.k).bank is bank
        True
    """
    return Routes(
        bank,
        route_cohort(cohorts.auxiliary, bank, k, memo, progress),
        route_cohort(cohorts.calibration, bank, k, memo, progress),
        route_cohort(cohorts.evaluation, bank, k, memo, progress),
        memo,
    )


def route_cohort(cohort: C, bank: Bank, k: int, memo: Memo | None = None, progress: Progress = SILENT) -> Routed[C]:
    """Route one cohort over the base of a bank.

    Args:
        cohort: The users, with vectors.
        bank: The bank, with the positions for probes reserved.
        k: How many entries a record votes for.
        memo: Where routes are kept; left out, nowhere.
        progress: Where progress is shown.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Bank
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> people = Auxiliary(Users.from_vectors(rng.normal(size=(8, 3, 4))))
        >>> route_cohort(people, Bank(rng.normal(size=(30, 4))), k=2).table.positions.shape
        (24, 2)
    """
    return Routed(cohort, _route_table(cohort.users.require_vectors(), bank, k, memo, progress))


def restricted_tables(
    cohorts: Sequence[Routed[C] | StreamedCohort[C]], cases: Sequence[Case], mechanism: Mechanism
) -> Callable[[Case], list[csr_array]]:
    """Return a function of a case: what each round's cohort contributes on the positions that its design inspects.

    Cohorts in memory are asked case by case. Streamed ones, which are the same users in every round, are asked for all
    ``cases`` and rounds in one pass, once the first is wanted.
    """

    def asked(case: Case) -> list[Ask]:
        return [Ask(each.bank, each.inspected) for each in case.designs]

    @cache
    def passed() -> dict[Place, list[csr_array]]:
        tables = iter(cohorts[0].restricted([ask for case in cases for ask in asked(case)], mechanism))
        return {case.place: [next(tables) for _ in case.designs] for case in cases}

    def tables(case: Case) -> list[csr_array]:
        if not isinstance(cohorts[0], StreamedCohort):
            pairs = zip(cohorts, asked(case), strict=True)
            return [cohort.restricted([ask], mechanism)[0] for cohort, ask in pairs]
        if any(case.place == other.place for other in cases):
            return passed()[case.place]
        return cohorts[0].restricted(asked(case), mechanism)

    return tables


def _route_table(
    vectors: NDArray[np.float32], bank: Bank, k: int, memo: Memo | None, progress: Progress = SILENT
) -> RouteTable:
    if memo is None:
        return RouteTable.build(vectors, bank, k, progress)
    key = stage_key("routes", records=hash_array(vectors), base=bank.base_hash, k=k)

    def make() -> Mapping[str, NDArray[Any]]:
        table = RouteTable.build(vectors, bank, k, progress)
        return {"positions": table.positions, "distances": table.distances}

    kept = memo.arrays("routes", key, make)
    return RouteTable(vectors, bank, kept["positions"].copy(), kept["distances"].copy())
