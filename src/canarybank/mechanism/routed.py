"""Join a cohort to its route table, keeping the cohort's role in the type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.contributions import contributions
from canarybank.mechanism.mechanism import Mechanism
from canarybank.mechanism.table import RouteTable
from canarybank.users import Cohort

__all__ = ["Ask", "Routed"]

C = TypeVar("C", bound=Cohort)


@dataclass(frozen=True, eq=False)
class Ask:
    """What is asked of a cohort: its contributions over a bank, on these columns alone.

    Where there are ``entries``, they stand behind the bank, the j-th at column bank size + j, and what stands at
    reserved positions gets no vote.
    """

    bank: Bank
    columns: NDArray[np.int64]
    entries: NDArray[np.float32] | None = None

    @classmethod
    def beyond(cls, bank: Bank, entries: ArrayLike) -> "Ask":
        """Ask for the contributions on further entries behind a bank."""
        vectors = np.asarray(entries, dtype=np.float32)
        return cls(bank, np.arange(bank.size, bank.size + len(vectors)), vectors)


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

    @property
    def role(self) -> type[C]:
        """Return the role that the cohort plays."""
        return type(self.cohort)

    @property
    def hash(self) -> str:
        """Return the content address of the users, their records and vectors."""
        return self.cohort.users.hash

    def has(self, name: str) -> bool:
        """Say whether the user of that id is in the cohort."""
        return name in self.cohort.users.ids

    def restricted(self, asks: Sequence[Ask], mechanism: Mechanism) -> list[csr_array]:
        """Return what is asked, each as a table (users, columns)."""
        return [
            (self.contributions(ask.bank, mechanism) if ask.entries is None else self.extended(ask.entries, mechanism))[
                :, ask.columns
            ]
            for ask in asks
        ]

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
