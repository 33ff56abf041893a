"""Keep the account of alpha: what was declared, what each claim was given, what is left."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from canarybank.errors import BudgetError, InputError

__all__ = ["AlphaLedger"]

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class AlphaLedger:
    """A declared total of alpha and the shares spent from it, in the order in which they were spent.

    If each claim named here fails with probability at most its share, then some claim fails with probability at
    most the total. A ledger never changes: spending gives a new one.
    """

    total: float
    """The alpha that was declared."""
    entries: tuple[tuple[str, float], ...] = ()
    """The claims by name, and the share of each."""

    def __post_init__(self) -> None:
        if not 0 < self.total < 1:
            raise InputError(f"The total alpha must lie strictly between 0 and 1, not be {self.total!r}.")
        object.__setattr__(self, "entries", tuple((str(name), float(share)) for name, share in self.entries))
        for position, (name, share) in enumerate(self.entries):
            self._admit(name, share, self.entries[:position])

    def _admit(self, name: str, share: float, before: tuple[tuple[str, float], ...]) -> None:
        if not share > 0:
            raise InputError(
                f"The share of {name!r} must be positive, not {share!r}; a claim at no alpha cannot be made."
            )
        if name in dict(before):
            raise BudgetError(
                f"{name!r} already has its share of alpha, {dict(before)[name]:g}; one claim is made once."
            )
        spent = math.fsum(amount for _, amount in before)
        if spent + share > self.total * (1 + _ROUNDING):
            raise BudgetError(
                f"{name!r} asks for alpha {share:g}, but {self.total - spent:g} of {self.total:g} is left; declare a "
                "larger total before the trials, or make fewer claims."
            )

    @classmethod
    def split(cls, total: float, names: Iterable[str]) -> Self:
        """Return a ledger that has given each name an equal share of the total."""
        claims = list(names)
        if not claims:
            raise InputError("There is no claim to split alpha over; name at least one.")
        return cls(total, tuple((name, total / len(claims)) for name in claims))

    def spend(self, name: str, share: float) -> Self:
        """Return the ledger after giving a share to a claim; refuse to overspend, and to pay one claim twice."""
        return type(self)(self.total, (*self.entries, (name, share)))

    def share(self, name: str) -> float:
        """Return the alpha that a claim was given."""
        if name not in dict(self.entries):
            known = ", ".join(name for name, _ in self.entries) or "none"
            raise BudgetError(f"{name!r} has no share of alpha; the claims with one: {known}.")
        return dict(self.entries)[name]

    @property
    def spent(self) -> float:
        """Return the sum of all shares."""
        return math.fsum(share for _, share in self.entries)

    @property
    def left(self) -> float:
        """Return what can still be spent."""
        return max(0.0, self.total - self.spent)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain values for JSON."""
        return {"total": self.total, "entries": [{"name": name, "share": share} for name, share in self.entries]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the ledger that ``to_dict`` wrote, checked again."""
        return cls(values["total"], tuple((entry["name"], entry["share"]) for entry in values["entries"]))

    def __str__(self) -> str:
        claims = ", ".join(f"{name} {share:g}" for name, share in self.entries) or "nothing spent"
        return f"alpha {self.total:g}: {claims}; {self.left:.3g} left"
