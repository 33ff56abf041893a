"""Estimate mean and covariance of the canary-free release on the inspected coordinates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism

__all__ = ["RIDGE", "SHRINKAGE", "Moments"]

SHRINKAGE = 0.1
RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of the release without the canary, restricted to the inspected coordinates."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def __post_init__(self) -> None:
        mean = np.array(self.mean, dtype=np.float64)
        covariance = np.array(self.covariance, dtype=np.float64)
        if mean.ndim != 1 or not mean.size or covariance.shape != (mean.size, mean.size):
            raise InputError(
                f"A mean of shape {mean.shape} and a covariance of shape {covariance.shape} do not belong together; "
                f"r inspected coordinates, at least one, need shapes (r,) and (r, r)."
            )
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            raise InputError("The moments hold NaN or infinite entries; check the contributions they come from.")
        if not np.allclose(covariance, covariance.T, rtol=1e-9, atol=0.0):
            raise InputError("The covariance is not symmetric; pass (A + A.T) / 2 if only rounding makes it so.")
        for name, array in (("mean", mean), ("covariance", covariance)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def estimate(cls, auxiliary: Any, mechanism: Mechanism, eligible: int) -> "Moments":
        """Estimate the moments of a release of ``eligible`` users from the auxiliary users' contributions.

        ``auxiliary`` is a dense or sparse table (auxiliary users, r) of clipped contributions on the inspected
        coordinates. With mu the mean row and M the uncentred second moment, the mean is q N mu and the covariance
        q (1 - q) N shrink(M) + (noise² + ridge) I, where shrink multiplies the off-diagonal entries by 0.9. The
        moment is not centred, because a coin of probability q puts q (1 - q) c cᵀ on a contribution c.
        """
        if eligible < 1:
            raise InputError(f"The eligible population needs at least one user, not {eligible}.")
        mu, second = _raw_moments(auxiliary)
        shrunk = (1.0 - SHRINKAGE) * second
        np.fill_diagonal(shrunk, second.diagonal())
        spread = mechanism.q * (1.0 - mechanism.q) * eligible
        floor = (mechanism.noise**2 + RIDGE) * np.eye(mu.size)
        return cls(mechanism.q * eligible * mu, spread * shrunk + floor)


def _raw_moments(auxiliary: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sparse = issparse(auxiliary)
    table: Any = auxiliary.astype(np.float64) if sparse else np.asarray(auxiliary, dtype=np.float64)
    if table.ndim != 2 or not table.shape[0] or not table.shape[1]:  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"The auxiliary contributions must be a table of at least one user and one inspected coordinate, "
            f"not of shape {table.shape}."
        )
    if not np.isfinite(table.data if sparse else table).all():
        raise InputError("The auxiliary contributions hold NaN or infinite entries; check the vectors they come from.")
    product = table.T @ table
    second = np.asarray(product.toarray() if sparse else product) / table.shape[0]
    mu = np.asarray(table.sum(axis=0), dtype=np.float64).ravel() / table.shape[0]
    return mu, (second + second.T) / 2.0
