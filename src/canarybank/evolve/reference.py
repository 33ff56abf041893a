"""Hold the real text that utility is measured against: a cohort of its own, apart from all others."""

import hashlib
from dataclasses import dataclass

from canarybank.errors import CohortError
from canarybank.users import Cohort, Cohorts, Users

__all__ = ["Reference", "hold_out", "require_apart"]


@dataclass(frozen=True, slots=True)
class Reference(Cohort):
    """Users whose records stand for real text in utility figures, and for nothing else: they never vote."""


def hold_out(users: Users, size: int, *, seed: int) -> tuple[Users, Reference]:
    """Set ``size`` users aside as the reference, by seed and id alone, and return the others first, in their order."""
    if not 1 <= size < len(users):
        raise CohortError(
            f"{size} of {len(users)} users cannot be the reference; hold out at least one and leave at least one."
        )
    order = sorted(range(len(users)), key=lambda i: _rank(users.ids[i], seed))
    chosen = set(order[:size])
    rest = [i for i in range(len(users)) if i not in chosen]
    return users.take(rest), Reference(users.take(order[:size]))


def require_apart(reference: Reference, others: Users | Cohorts) -> Reference:
    """Return the reference where none of its users plays another role, or refuse it."""
    if not isinstance(reference, Reference):
        raise CohortError(
            f"Utility is measured against a Reference, not a {type(reference).__name__}: a cohort never plays "
            "another's role."
        )
    for role, users in _roles(others).items():
        common = sorted(set(reference.users.ids) & set(users.ids))
        if common:
            raise CohortError(
                f"The reference and the {role} share {len(common)} users, {common[0]!r} among them; hold the reference "
                "out before the other cohorts are drawn."
            )
    return reference


def _roles(others: Users | Cohorts) -> dict[str, Users]:
    if isinstance(others, Users):
        return {"users of the run": others}
    names = ("auxiliary", "calibration", "evaluation")
    cohorts = {f"cohort {name}": getattr(others, name).users for name in names}
    return cohorts | {f"canaries of {attack}": users for attack, users in others.canaries.items()}


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0reference\0{name}".encode()).digest()
