import numpy as np
import pytest

from canarybank.attack import Canary, Pool
from canarybank.errors import InputError


def test_a_pool_keeps_a_read_only_copy() -> None:
    given = np.ones((3, 2))
    pool = Pool(given, texts=("a", "b", "c"), sources=(0, 1, 0))
    given[0] = 7
    assert pool.vectors.dtype == np.float32
    assert (pool.vectors == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        pool.vectors[0] = 0
    assert len(pool) == 3


def test_records_become_a_pool_in_order() -> None:
    canary = Canary(np.arange(6.0).reshape(3, 2), texts=("a", "b", "c"))
    pool = Pool.of_records(canary)
    assert np.array_equal(pool.vectors, canary.vectors)
    assert pool.texts == canary.texts
    assert pool.sources == (0, 1, 2)


def test_unusable_pools_are_refused() -> None:
    with pytest.raises(InputError, match="pool entry 0 is NaN"):
        Pool(np.full((1, 2), np.nan))
    with pytest.raises(InputError, match="2 texts for 1 vectors"):
        Pool(np.ones((1, 2)), texts=("a", "b"))
    with pytest.raises(InputError, match="2 sources for 1 vectors"):
        Pool(np.ones((1, 2)), sources=(0, 1))
    with pytest.raises(InputError, match="source of the pool is -1"):
        Pool(np.ones((1, 2)), sources=(-1,))
    with pytest.raises(InputError, match="pool entry 0 is NaN or infinite"):
        Pool(np.full((1, 2), 1e39))
