"""Give each user one role, as a type: what designs, what calibrates and what evaluates are never confused."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from canarybank.errors import CohortError
from canarybank.users.records import Users

__all__ = ["Auxiliary", "Calibration", "Cohort", "CohortSizes", "Cohorts", "Evaluation", "draw_cohorts"]


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


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Disjoint cohorts, and the real canaries of each attack, who are in none of them."""

    auxiliary: Auxiliary
    calibration: Calibration
    evaluation: Evaluation
    canaries: Mapping[str, Users] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in (
            ("auxiliary", Auxiliary),
            ("calibration", Calibration),
            ("evaluation", Evaluation),
        ):
            given = getattr(self, name)
            if type(given) is not kind:
                raise CohortError(
                    f"The {name} cohort must be of type {kind.__name__}, not {type(given).__name__}: a cohort never plays another's role."
                )
        members = {
            "auxiliary": self.auxiliary.users,
            "calibration": self.calibration.users,
            "evaluation": self.evaluation.users,
        }
        for (one, left), (other, right) in combinations(members.items(), 2):
            _refuse_overlap(one, left, other, right)
        for attack, chosen in self.canaries.items():
            for name, users in members.items():
                _refuse_overlap(f"canaries of {attack}", chosen, name, users)


def _refuse_overlap(one: str, left: Users, other: str, right: Users) -> None:
    common = sorted(set(left.ids) & set(right.ids))
    if common:
        raise CohortError(
            f"The cohorts {one} and {other} share {len(common)} users, {common[0]!r} among them; every user may play only one role."
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

    Each attack named gets its own set of canaries, drawn without replacement from users with exactly ``records``
    records; with ``shared`` all of them get the same set. Canaries are drawn first and play no other role.
    """
    order = sorted(range(len(users)), key=lambda i: hashlib.sha256(f"{seed}\0{users.ids[i]}".encode()).digest())
    counts = users.counts
    groups = ["shared"] if shared and attacks else list(attacks)
    wanted = sizes.canaries * len(groups)
    full = [i for i in order if counts[i] == records]
    if len(full) < wanted:
        raise CohortError(
            f"There are {len(full)} users with exactly {records} records, but {len(groups)} sets of {sizes.canaries} canaries need {wanted}; "
            f"use fewer canaries or attacks, share one set among the attacks, or lower the cap on records."
        )
    drawn = [full[g * sizes.canaries : (g + 1) * sizes.canaries] for g in range(len(groups))]
    taken = {i for group in drawn for i in group}
    rest = [i for i in order if i not in taken]
    needed = sizes.auxiliary + sizes.calibration + sizes.evaluation
    if len(rest) < needed:
        raise CohortError(
            f"There are {len(users)} users: {wanted} canaries leave {len(rest)}, but {sizes.auxiliary} auxiliary + {sizes.calibration} "
            f"calibration + {sizes.evaluation} evaluation = {needed} are asked for; use smaller cohorts or more users."
        )
    cuts = np.cumsum([sizes.auxiliary, sizes.calibration, sizes.evaluation])
    sets = {name: users.take(drawn[0 if shared else g]) for g, name in enumerate(attacks)}
    return Cohorts(
        auxiliary=Auxiliary(users.take(rest[: cuts[0]])),
        calibration=Calibration(users.take(rest[cuts[0] : cuts[1]])),
        evaluation=Evaluation(users.take(rest[cuts[1] : cuts[2]])),
        canaries=sets,
    )
