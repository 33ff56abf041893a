"""Draw releases: the sum of sampled contributions plus Gaussian noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import Mechanism

__all__ = ["release"]

CHUNK_VALUES = 1 << 22


def release(
    contributions: csr_array | NDArray[np.float64], mechanism: Mechanism, rng: np.random.Generator, size: int = 1
) -> NDArray[np.float64]:
    """Draw independent releases, one a row, of shape (size, bank_size).

    Each row is sum over users of I_u c_u + Z with I_u ~ Bernoulli(q) and Z ~ N(0, (sigma·clip)² I), all of them
    independent and fresh in every row. The contributions (users, bank_size) are sparse or dense and are taken as
    they are: clipping happened when they were made. Beyond the result, memory stays below some 100 MB.

    Args:
        contributions: What each user adds when taking part, users by bank size.
        mechanism: The parameters of the release.
        rng: Draws who takes part, and the noise; a simulation's, never that of a real release.
        size: How many releases are drawn.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Mechanism
        >>> release(np.full((3, 4), 0.05), Mechanism(), np.random.default_rng(0), size=2).shape
        (2, 4)
    """
    table = _checked(contributions, size)
    result = np.empty((size, table.shape[1]))
    step = max(1, CHUNK_VALUES // max(table.shape))
    for start in range(0, size, step):
        part = result[start : start + step]
        rng.standard_normal(out=part)
        part *= mechanism.noise
        taking_part = (rng.random((len(part), table.shape[0])) < mechanism.q).astype(np.float64)
        part += (table.T @ taking_part.T).T
    return result


def _checked(contributions: Any, size: int) -> Any:
    if size < 0:
        raise InputError(f"The number of releases must not be negative, but is {size}.")
    sparse = issparse(contributions)
    table: Any = contributions if sparse else np.asarray(contributions, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"Contributions must be a non-empty table (users, bank_size), not an array of shape {table.shape}."
        )
    values: Any = table.data if sparse else table
    if not np.isfinite(values).all():
        raise InputError("Contributions hold NaN or infinite values; a contribution is a clipped histogram of votes.")
    return table
