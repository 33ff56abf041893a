"""Count the canary's own votes over a bank."""

import numpy as np
from numpy.typing import NDArray

from canarybank.mechanism import Bank, Mechanism, RouteTable, contributions

__all__ = ["canary_contribution"]


def canary_contribution(table: RouteTable, bank: Bank, mechanism: Mechanism) -> NDArray[np.float64]:
    """Return the contribution of the canary whose records a table routes, over all of a bank that shares its base.

    It is clipped by its full norm. Probes are merged in; nothing is searched again.

    Args:
        table: The canary's records, routed over the base of the bank.
        bank: The bank, with its probes.
        mechanism: The parameters of the release.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.mechanism import Bank, Mechanism, Routed
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> people = Users.from_vectors(rng.normal(size=(8, 3, 4)))
        >>> routed = Routed.build(Auxiliary(people), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> from canarybank.attack import design
        >>> made = design(ATTACKS["exact"], canary, bank, routed, mechanism, eligible=8, seed=0)
        >>> round(float(np.linalg.norm(canary_contribution(made.table, made.bank, mechanism))), 6) <= mechanism.clip
        True
    """
    table.require_k(mechanism.k)
    routes = table.swap(bank)[:, : mechanism.k]
    owners = np.zeros(len(routes), dtype=np.int64)
    row = contributions(routes, owners, 1, bank.size, mechanism.clip, entry_cap=mechanism.entry_cap)
    return np.asarray(row.toarray()[0], dtype=np.float64)
