"""Count the canary's own votes over a bank."""

import numpy as np
from numpy.typing import NDArray

from canarybank.mechanism import Bank, Mechanism, RouteTable, contributions

__all__ = ["canary_contribution"]


def canary_contribution(table: RouteTable, bank: Bank, mechanism: Mechanism) -> NDArray[np.float64]:
    """Return the contribution of the canary whose records a table routes, over all of a bank that shares its base.

    It is clipped by its full norm. Probes are merged in; nothing is searched again.
    """
    table.require_k(mechanism.k)
    routes = table.swap(bank)[:, : mechanism.k]
    owners = np.zeros(len(routes), dtype=np.int64)
    row = contributions(routes, owners, 1, bank.size, mechanism.clip, entry_cap=mechanism.entry_cap)
    return np.asarray(row.toarray()[0], dtype=np.float64)
