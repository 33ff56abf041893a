import numpy as np
import pytest

from canarybank.attack import Pool
from canarybank.errors import InputError
from canarybank.flow.written import PoolRecord, SimilarityRecord, WrittenPool, counters_of, pool_record

VECTORS = np.eye(3)


def test_a_written_pool_is_a_pool_with_a_similarity_for_each_candidate():
    pool = WrittenPool(VECTORS, ("a", "b", "c"), (0, 1, 0), [0.5, 0.75, 1.0], "x cosine", {"asked": 4})
    assert isinstance(pool, Pool)
    assert pool.similarities == (0.5, 0.75, 1.0)
    assert repr(pool) == "Pool(3 candidates)"
    with pytest.raises(InputError, match="2 similarities for 3 vectors"):
        WrittenPool(VECTORS, similarities=(0.5, 0.6))
    with pytest.raises(InputError, match="1 texts for 3 vectors"):
        WrittenPool(VECTORS, texts=("a",))


def test_a_record_holds_the_quantiles_and_the_counters():
    pool = WrittenPool(VECTORS, similarities=(0.9, 0.5, 0.70004), measure="x cosine", counters={"asked": 4, "kept": 3})
    similarity = SimilarityRecord(measure="x cosine", smallest=0.5, low=0.52, median=0.7, high=0.88, largest=0.9)
    assert pool_record(pool) == PoolRecord(size=3, similarity=similarity, counters={"asked": 4, "kept": 3})


def test_the_quantiles_are_those_of_the_definition():
    values = np.random.default_rng(3).random(101)
    ordered = sorted(values)
    found = SimilarityRecord.of(tuple(values), "x")
    naive = [ordered[index] for index in (0, 5, 50, 95, 100)]
    assert [found.smallest, found.low, found.median, found.high, found.largest] == [round(x, 4) for x in naive]


def test_other_pools_have_no_record_and_unmeasured_ones_no_similarity():
    assert pool_record(None) is None
    assert pool_record(Pool(VECTORS)) is None
    assert pool_record(WrittenPool(VECTORS)) == PoolRecord(size=3)


@pytest.mark.parametrize(
    ("provenance", "counters"),
    [
        ({"counters": {"asked": 3, "kept": "2", "meta": True}}, {"asked": 3}),
        ({"counters": [1]}, {}),
        ({}, {}),
        ([], {}),
    ],
)
def test_counters_are_numbers_whatever_a_file_says(provenance, counters):
    assert counters_of(provenance) == counters
