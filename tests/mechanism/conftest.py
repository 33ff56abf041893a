"""Naive twins that several tests of the mechanism share."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.mechanism import Bank

NaiveRoute = Callable[..., NDArray[np.int64]]


def _naive_route(records: object, bank: object, k: int) -> NDArray[np.int64]:
    """Compute every distance in float64 and sort all of them, ties to the lowest index."""
    x, b = (_as_double(values) for values in (records, bank.vectors if isinstance(bank, Bank) else bank))
    return np.array([np.lexsort((np.arange(len(b)), np.square(row - b).sum(axis=1)))[:k] for row in x])


def _as_double(values: object) -> NDArray[np.float64]:
    array = np.asarray(values)
    return array if array.dtype == np.float64 else array.astype(np.float32).astype(np.float64)


@pytest.fixture(scope="session")
def naive_route() -> NaiveRoute:
    return _naive_route
