"""Join a cohort to its route table, keeping the cohort's role in the type."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.contributions import contributions
from canarybank.mechanism.mechanism import Mechanism
from canarybank.mechanism.table import RouteTable
from canarybank.users import Cohort

__all__ = ["Routed"]

C = TypeVar("C", bound=Cohort)


@dataclass(frozen=True, eq=False)
class Routed(Generic[C]):
    """A cohort whose records are routed once over the base of a bank; its role stays part of the type."""

    cohort: C
    table: RouteTable

    def __post_init__(self) -> None:
        if len(self.table.positions) != len(self.cohort.users.owners):
            raise InputError(
                f"The route table holds {len(self.table.positions)} records but the cohort has "
                f"{len(self.cohort.users.owners)}; build the table from this cohort's records."
            )

    @classmethod
    def build(cls, cohort: C, bank: Bank, k: int) -> "Routed[C]":
        """Route every record of a cohort over the base of a bank."""
        return cls(cohort, RouteTable.build(cohort.users.require_vectors(), bank, k))

    def __len__(self) -> int:
        return len(self.cohort)

    def contributions(self, bank: Bank, mechanism: Mechanism) -> csr_array:
        """Return the cohort's contributions (users, bank size) over a bank that shares the table's base.

        They are those of users who vote over the whole bank; under a secret share what a user contributes is random.
        """
        self.table.require_k(mechanism.k)
        users = self.cohort.users
        routes = self.table.swap(bank)[:, : mechanism.k]
        return contributions(routes, users.owners, len(users), bank.size, mechanism.clip, entry_cap=mechanism.entry_cap)

    def extended(self, entries: ArrayLike, mechanism: Mechanism) -> csr_array:
        """Return the contributions (users, bank size + entries) over the base with further entries behind the bank.

        What stands at reserved positions gets no vote; the j-th entry is column bank size + j.
        """
        self.table.require_k(mechanism.k)
        users, size = self.cohort.users, self.table.bank.size
        count = len(np.asarray(entries))
        routes = self.table.merge(entries, np.arange(size, size + count))[:, : mechanism.k]
        return contributions(
            routes, users.owners, len(users), size + count, mechanism.clip, entry_cap=mechanism.entry_cap
        )
