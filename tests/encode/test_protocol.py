import numpy as np
import pytest

from canarybank.encode import Encoder, HashingEncoder, Precision, WordLlamaEncoder, unit_vectors
from canarybank.errors import InputError


def test_rows_become_float32_of_length_one() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 33)) * np.logspace(-12, 12, 50)[:, None]
    unit = unit_vectors(rows)
    assert unit.dtype == np.float32
    assert np.abs(np.linalg.norm(unit.astype(np.float64), axis=1) - 1).max() < 2e-7
    naive = np.array([row / np.sqrt(sum(x * x for x in row)) for row in rows])
    assert np.abs(unit - naive).max() < 2e-7


def test_a_row_is_scaled_alike_whatever_stands_beside_it() -> None:
    # More numbers than numpy takes into a buffer at a time, in rows that do not divide it.
    rows = np.random.default_rng(0).normal(size=(100, 384)).astype(np.float32)
    alone = np.concatenate([unit_vectors(rows[i : i + 1]) for i in range(100)])
    assert np.array_equal(unit_vectors(rows), alone)
    assert np.array_equal(unit_vectors(rows[::-1])[::-1], alone)


def test_a_zero_row_becomes_the_even_vector_and_others_stay() -> None:
    unit = unit_vectors([[0, 0, 0, 0], [3, 0, 4, 0]])
    assert np.array_equal(unit[0], np.full(4, 0.5, np.float32))
    assert np.allclose(unit[1], [0.6, 0, 0.8, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_an_error(bad: float) -> None:
    with pytest.raises(InputError, match=r"text 1 a vector with NaN or infinity"):
        unit_vectors([[1, 0], [bad, 0]])


def test_no_rows_are_no_rows() -> None:
    assert unit_vectors(np.empty((0, 5))).shape == (0, 5)


def test_only_sequences_of_strings_are_texts() -> None:
    encoder = HashingEncoder()
    assert np.array_equal(encoder.encode(("a", "b")), encoder.encode(["a", "b"]))
    with pytest.raises(InputError, match="not one text; put it in a list"):
        encoder.encode("abc")
    with pytest.raises(InputError, match="Text 1 is of type float"):
        encoder.encode(["a", float("nan")])  # type: ignore[list-item]


def test_broken_surrogates_are_replaced_and_the_rest_is_kept() -> None:
    encoder = WordLlamaEncoder()
    broken, mended = encoder.encode(["a\ud800b", "\ud83d\ude00", "ok\n"]), encoder.encode(["a�b", "😀", "ok\n"])
    assert np.array_equal(broken, mended)
    assert not np.array_equal(mended[0], mended[2])


def test_precisions_have_names() -> None:
    assert Precision.of("float16") is Precision.FLOAT16
    with pytest.raises(InputError, match="no precision 'half'; choose one of float32, float16, bfloat16"):
        Precision.of("half")


def test_the_protocol_knows_an_encoder_when_it_sees_one() -> None:
    assert isinstance(HashingEncoder(), Encoder)
    assert not isinstance(object(), Encoder)
