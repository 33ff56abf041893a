import numpy as np
import pytest

from canarybank.attack import Canary, Pool, PoolFacts, Similarity
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


def test_a_written_pool_has_a_similarity_for_each_candidate() -> None:
    pool = Pool(np.eye(3), ("a", "b", "c"), (0, 1, 0), (0.5, 0.75, 1.0), "x cosine", {"asked": 4})
    assert pool.similarities == (0.5, 0.75, 1.0)
    assert repr(pool) == "Pool(3 candidates)"
    with pytest.raises(InputError, match="2 similarities for 3 vectors"):
        Pool(np.eye(3), similarities=(0.5, 0.6))


def test_the_facts_of_a_written_pool_are_its_quantiles_and_counters() -> None:
    made = {"asked": 4, "kept": 3}
    pool = Pool(np.eye(3), similarities=(0.9, 0.5, 0.70004), measure="x cosine", counters=made)
    assert pool.facts == PoolFacts(3, Similarity("x cosine", 0.5, 0.52, 0.7, 0.88, 0.9), made)
    assert Pool(np.eye(3)).facts is None
    assert Pool(np.eye(3), counters={}).facts == PoolFacts(3)


def test_the_quantiles_are_those_of_the_definition() -> None:
    values = np.random.default_rng(3).random(101)
    ordered = sorted(values)
    found = Similarity.of(tuple(values), "x")
    naive = [ordered[index] for index in (0, 5, 50, 95, 100)]
    assert [found.smallest, found.low, found.median, found.high, found.largest] == [round(x, 4) for x in naive]
