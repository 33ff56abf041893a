import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.mechanism.vectors import check_dimensions, check_vectors, norms, squared_distances


def test_float64_stays_and_all_else_becomes_float32() -> None:
    assert check_vectors(np.ones((2, 3)), "record").dtype == np.float64
    assert check_vectors(np.ones((2, 3), dtype=np.float16), "record").dtype == np.float32
    assert check_vectors(np.ones((2, 3), dtype=np.int8), "record").dtype == np.float32
    assert check_vectors([[1, 2], [3, 4]], "record").tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_result_is_contiguous_whatever_came() -> None:
    assert check_vectors(np.ones((4, 6))[::2, ::3], "record").flags.c_contiguous


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones(3), ["(rows, dimension)", "(3,)"]),
        (np.ones((0, 3)), ["non-empty", "(0, 3)"]),
        (np.ones((3, 0)), ["non-empty", "(3, 0)"]),
        (np.array([["a"]]), ["real numbers"]),
        (np.ones((2, 2), dtype=complex), ["real numbers", "complex"]),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), ["record 1", "NaN or infinite"]),
        (np.array([[np.inf, 1.0]], dtype=np.float32), ["record 0", "NaN or infinite"]),
        (np.array([[1e200]]), ["1e+200", "overflows"]),
    ],
)
def test_refuses_what_is_no_table_of_vectors(values: object, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check_vectors(values, "record")  # type: ignore[arg-type]
    assert all(word in str(caught.value) for word in words)


def test_refuses_different_dimensions() -> None:
    with pytest.raises(InputError, match="dimension 3 but bank entries have dimension 4"):
        check_dimensions(np.ones((1, 3)), np.ones((1, 4)))


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_squared_distance_is_right_and_does_not_depend_on_its_company(dimension: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records, entries = rng.normal(size=(7, dimension)), rng.normal(size=(5, dimension)).astype(np.float32)
    rows, columns = np.divmod(np.arange(35), 5)
    together = squared_distances(records, entries, rows, columns)
    for i in range(35):
        alone = squared_distances(records, entries, rows[i : i + 1], columns[i : i + 1])
        pairs = zip(records[rows[i]], entries[columns[i]], strict=True)
        exact = sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in pairs)
        assert alone[0] == together[i]
        assert math.isclose(together[i], float(exact), rel_tol=(dimension + 2) * 2**-52)


def test_blocks_do_not_change_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    records, entries = rng.normal(size=(20, 9)), rng.normal(size=(20, 9))
    rows, columns = np.divmod(np.arange(400), 20)
    whole, lengths = squared_distances(records, entries, rows, columns), norms(records)
    monkeypatch.setattr("canarybank.mechanism.vectors.BLOCK_VALUES", 30)
    assert np.array_equal(squared_distances(records, entries, rows, columns), whole)
    assert np.array_equal(norms(records), lengths)
    assert np.allclose(lengths, np.linalg.norm(records, axis=1))
