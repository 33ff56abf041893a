"""Give each user one role, as a type: what designs, what calibrates and what evaluates are never confused."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import CohortError
from canarybank.users.records import Users

__all__ = [
    "Auxiliary",
    "Calibration",
    "Cohort",
    "CohortSizes",
    "Cohorts",
    "DrawnIndices",
    "Evaluation",
    "draw_cohorts",
    "draw_indices",
]

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cohort:
    """Users with one role. Only the three roles below are ever built."""

    users: Users

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, slots=True)
class Auxiliary(Cohort):
    """Public users like the private ones: they design probes and estimate the background, nothing else."""


@dataclass(frozen=True, slots=True)
class Calibration(Cohort):
    """Users on whom the threshold is fixed, and nothing else."""


@dataclass(frozen=True, slots=True)
class Evaluation(Cohort):
    """The eligible users of the releases that are judged; they influence no choice."""


@dataclass(frozen=True, slots=True)
class CohortSizes:
    """How many users play each role; canaries counts one attack's set."""

    auxiliary: int = 500
    calibration: int = 500
    evaluation: int = 1000
    canaries: int = 5

    def __post_init__(self) -> None:
        for name in ("auxiliary", "calibration", "evaluation", "canaries"):
            if getattr(self, name) < 1:
                raise CohortError(f"The {name} cohort needs at least one user, not {getattr(self, name)}.")

    @property
    def needed(self) -> int:
        """Return how many users the three cohorts take together, canaries apart."""
        return self.auxiliary + self.calibration + self.evaluation

    @classmethod
    def fit(cls, users: int, *, canaries: int = 5, sets: int = 1) -> "CohortSizes":
        """Return the largest sizes, 1 : 1 : 2 and at most the defaults, that this many users can fill.

        ``sets`` is the number of canary sets that stand aside: one for each attack, or one when shared.
        """
        left = users - canaries * sets
        quarter = min(left // 4, cls().auxiliary)
        if quarter < 1:
            least, fewer = canaries * sets + 4, (users - 4) // sets if sets else 0
            fix = f"use at least {least} users"
            if fewer >= 1:
                fix += f", or fewer canaries: --cohorts.canaries {fewer}"
            elif canaries > 1 and sets:
                fix += f", or at least {sets + 4} with one canary in each set: --cohorts.canaries 1"
            raise CohortError(
                f"{users} users less {sets} sets of {canaries} canaries leave {max(left, 0)}, but three cohorts "
                f"take at least 4 (1 auxiliary + 1 calibration + 2 evaluation); {fix}."
            )
        return cls(quarter, quarter, 2 * quarter, canaries)


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Disjoint cohorts, and the real canaries of each attack, who are in none of them.

    ``records`` is m, the number of records that canaries are drawn with.
    """

    auxiliary: Auxiliary
    calibration: Calibration
    evaluation: Evaluation
    canaries: Mapping[str, Users] = field(default_factory=dict)
    records: int | None = None

    def __post_init__(self) -> None:
        members: dict[str, Users] = {}
        for name, kind in (("auxiliary", Auxiliary), ("calibration", Calibration), ("evaluation", Evaluation)):
            given = getattr(self, name)
            if type(given) is not kind:
                raise CohortError(
                    f"The {name} cohort must be of type {kind.__name__}, not {type(given).__name__}: "
                    f"a cohort never plays another's role."
                )
            members[name] = given.users
        for (one, left), (other, right) in combinations(members.items(), 2):
            _refuse_overlap(f"cohorts {one} and {other}", left, right)
        for attack, chosen in self.canaries.items():
            for name, users in members.items():
                _refuse_overlap(f"canaries of {attack} and the cohort {name}", chosen, users)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts of everybody who plays a role, in the order of the roles."""
        return tuple(text for users in self._everybody for text in users.require_texts())

    def encoded(self, encode: Callable[[Sequence[str]], ArrayLike]) -> "Cohorts":
        """Return the same cohorts with vectors; whoever plays no role is never encoded."""
        everybody = self._everybody
        ends = np.cumsum([len(users.owners) for users in everybody])[:-1]
        parts = np.split(np.asarray(encode(self.texts)), ends)
        auxiliary, calibration, evaluation, *canaries = (
            users.with_vectors(part) for users, part in zip(everybody, parts, strict=True)
        )
        return Cohorts(
            Auxiliary(auxiliary),
            Calibration(calibration),
            Evaluation(evaluation),
            dict(zip(self.canaries, canaries, strict=True)),
            self.records,
        )

    @property
    def canary_records(self) -> int:
        """Return the number of records of a canary: m, or the largest auxiliary user's where nobody said m."""
        return int(self.auxiliary.users.counts.max()) if self.records is None else self.records

    @property
    def _everybody(self) -> tuple[Users, ...]:
        return (self.auxiliary.users, self.calibration.users, self.evaluation.users, *self.canaries.values())


def _refuse_overlap(pair: str, left: Users, right: Users) -> None:
    common = sorted(set(left.ids) & set(right.ids))
    if common:
        raise CohortError(
            f"The {pair} share {len(common)} users, {common[0]!r} among them; every user may play only one role."
        )


def draw_cohorts(
    users: Users,
    sizes: CohortSizes,
    *,
    attacks: Sequence[str],
    records: int,
    seed: int,
    shared: bool = False,
) -> Cohorts:
    """Draw disjoint cohorts by seed, independent of the order in which the users came.

    Each attack named gets its own canaries, drawn from users with exactly ``records`` records, independently
    of the other attacks: its set follows from the seed and its name alone, and two attacks may have a canary in
    common. With ``shared`` all of them get one and the same set. Every canary is then kept out of all cohorts.

    Args:
        users: The admitted users.
        sizes: How many users play each role.
        attacks: The names of the attacks that get canaries.
        records: The number of records that a canary has.
        seed: The seed of the draw.
        shared: Whether all attacks get the same canaries.

    Example:
        >>> from canarybank.users import CohortSizes, admit
        >>> users = admit("my-users.csv").users
        >>> sizes = CohortSizes(auxiliary=5, calibration=5, evaluation=10, canaries=1)
        >>> cohorts = draw_cohorts(users, sizes, attacks=["exact"], records=6, seed=0)
        >>> canary = cohorts.canaries["exact"].ids[0]
        >>> canary in users.ids, canary in cohorts.evaluation.users.ids
        (True, False)
    """
    drawn = draw_indices(users.ids, users.counts, sizes, attacks=attacks, records=records, seed=seed, shared=shared)
    return Cohorts(
        auxiliary=Auxiliary(users.take(drawn.auxiliary)),
        calibration=Calibration(users.take(drawn.calibration)),
        evaluation=Evaluation(users.take(drawn.evaluation)),
        canaries={attack: users.take(chosen) for attack, chosen in drawn.canaries.items()},
        records=records,
    )


@dataclass(frozen=True, slots=True, eq=False)
class DrawnIndices:
    """Who plays which role, as indices into the users that they were drawn from."""

    auxiliary: Indices
    calibration: Indices
    evaluation: Indices
    canaries: Mapping[str, Indices]


def draw_indices(
    ids: Sequence[str],
    counts: NDArray[np.int64],
    sizes: CohortSizes,
    *,
    attacks: Sequence[str],
    records: int,
    seed: int,
    shared: bool = False,
) -> DrawnIndices:
    """Draw what ``draw_cohorts`` draws, from ids and numbers of records alone.

    Args:
        ids: The users' ids.
        counts: How many records each user has.
        sizes: How many users play each role.
        attacks: The names of the attacks that get canaries.
        records: The number of records that a canary has.
        seed: The seed of the draw.
        shared: Whether all attacks get the same canaries.

    Example:
        >>> import numpy as np
        >>> from canarybank.users import CohortSizes
        >>> ids, sizes = [f"user {i}" for i in range(9)], CohortSizes(2, 2, 4, canaries=1)
        >>> drawn = draw_indices(ids, np.full(9, 3), sizes, attacks=["exact"], records=3, seed=0)
        >>> roles = [*drawn.auxiliary, *drawn.calibration, *drawn.evaluation, *drawn.canaries["exact"]]
        >>> len(roles), len(set(roles))
        (9, 9)
    """
    if len(set(attacks)) != len(attacks):
        raise CohortError(f"The attacks {list(attacks)} name one twice; name each attack once.")
    sets = {attack: "shared" if shared else f"attack {attack}" for attack in attacks}
    full = np.flatnonzero(counts == records)
    if sets and len(full) < sizes.canaries:
        fewer = f"use fewer canaries (--cohorts.canaries {len(full)}), " if len(full) else ""
        raise CohortError(
            f"There are {len(full)} users with exactly {records} records, but a set of canaries needs "
            f"{sizes.canaries}; {fewer}admit more users, or lower the cap on records (--users.cap)."
        )
    drawn = {attack: _ordered(ids, full, seed, role)[: sizes.canaries] for attack, role in sets.items()}
    is_taken = np.zeros(len(ids), dtype=bool)
    for chosen in drawn.values():
        is_taken[chosen] = True
    rest = _ordered(ids, np.flatnonzero(~is_taken), seed, "cohorts")
    if len(rest) < sizes.needed:
        raise CohortError(
            f"There are {len(ids)} users: {is_taken.sum()} canaries leave {len(rest)}, but {sizes.auxiliary} auxiliary "
            f"+ {sizes.calibration} calibration + {sizes.evaluation} evaluation = {sizes.needed} are asked for; "
            f"use smaller cohorts or more users."
        )
    first, second = sizes.auxiliary, sizes.auxiliary + sizes.calibration
    return DrawnIndices(rest[:first], rest[first:second], rest[second : sizes.needed], drawn)


def _ordered(ids: Sequence[str], indices: Indices, seed: int, role: str) -> Indices:
    """Return these users in an order that follows from seed, role and id alone."""
    digests = bytearray()
    for i in map(int, indices):
        digests += hashlib.sha256(f"{seed}\0{role}\0{ids[i]}".encode()).digest()
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4)
    return indices[np.lexsort(words.T[::-1])]
