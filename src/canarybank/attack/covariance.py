"""Estimate, once, how the background varies on every candidate of a pool."""

import numpy as np
from numpy.typing import NDArray

from canarybank.attack.pool import Pool
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.score import Moments
from canarybank.users import Auxiliary

__all__ = ["pool_covariance", "require_auxiliary"]


def pool_covariance(
    pool: Pool, routed: Routed[Auxiliary], bank: Bank, mechanism: Mechanism, eligible: int
) -> NDArray[np.float64]:
    """Return the covariance of a release without the canary on all M candidates, estimated from the auxiliary users.

    Their records are routed over the base of the bank with all of the pool added, and their contributions clipped by
    their full norm; the estimator is that of ``Moments.estimate``, for ``eligible`` users. Greedy selection takes
    principal submatrices of this one matrix, which is never estimated again.

    Args:
        pool: The candidate probes.
        routed: The auxiliary users, routed over the base of the bank.
        bank: The bank, with the positions for probes reserved.
        mechanism: The parameters of the release.
        eligible: How many users the covariance is scaled to.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> people = Users.from_vectors(rng.normal(size=(8, 3, 4)))
        >>> routed = Routed.build(Auxiliary(people), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> pool_covariance(Pool(canary.vectors), routed, bank, mechanism, eligible=8).shape
        (3, 3)
    """
    require_auxiliary(routed)
    _require_base(bank, routed.table.bank)
    votes = routed.extended(pool.vectors, mechanism)[:, routed.table.bank.size :]
    return Moments.estimate(votes, mechanism, eligible).covariance


def _require_base(bank: Bank, routed: Bank) -> None:
    same = bank is routed or (
        np.array_equal(bank.base, routed.base) and np.array_equal(bank.vectors[bank.base], routed.vectors[routed.base])
    )
    if not same:
        raise InputError(
            f"The auxiliary users were routed over another base ({routed!r}) than that of {bank!r}; route them again."
        )


def require_auxiliary(routed: object) -> None:
    """Refuse any cohort but the auxiliary one: no other may influence what is planted."""
    cohort = routed.cohort if isinstance(routed, Routed) else routed
    if not (isinstance(routed, Routed) and type(cohort) is Auxiliary):
        raise CohortError(
            f"An attack is designed on routed auxiliary users alone, but {type(cohort).__name__} was given; "
            f"pass Routed.build(Auxiliary(users), bank, k)."
        )
