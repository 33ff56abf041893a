import hashlib
import itertools
import re

import numpy as np
import pytest

from canarybank.encode import HashingEncoder, unit_vectors
from canarybank.errors import InputError


def test_vectors_are_unit_and_depend_on_the_text_alone(messages: list[str]) -> None:
    encoder = HashingEncoder()
    vectors = encoder.encode(messages)
    assert vectors.shape == (len(messages), 64)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.array_equal(vectors[::-1], HashingEncoder().encode(messages[::-1]))


def test_the_scheme_is_pinned() -> None:
    # Changing these numbers means changing the scheme in the fingerprint.
    assert HashingEncoder(8).encode(["A cat"])[0] == pytest.approx(PINNED, abs=1e-6)
    assert HashingEncoder(8).fingerprint == HashingEncoder(8).fingerprint != HashingEncoder(9).fingerprint


PINNED = [0, 0, 0, 4 / 26**0.5, 0, -3 / 26**0.5, 1 / 26**0.5, 0]


def test_vectors_are_those_of_adding_every_feature_by_itself(messages: list[str]) -> None:
    texts = ["", "!", "The cat, the CAT", "\ud800x \u00fcber", *messages]
    for dimension in (1, 5, 64):
        rows = np.zeros((len(texts), dimension))
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                pairs = [f"{a}{b}/" for a, b in itertools.pairwise(word)]
                for feature, weight in [(word, 1.0), *((pair, 0.25) for pair in pairs)]:
                    digest = hashlib.sha256(feature.encode("utf-8", "surrogatepass")).digest()
                    number = int.from_bytes(digest[:8], "little")
                    row[(number >> 1) % dimension] += weight if number & 1 else -weight
        assert HashingEncoder(dimension).encode(texts).tobytes() == unit_vectors(rows).tobytes()


def test_shared_words_bring_texts_together() -> None:
    a, b, c = HashingEncoder().encode(["the cat sat on the mat", "The cat sat on a mat!", "quarterly revenue fell"])
    assert a @ b > 0.7
    assert abs(a @ c) < 0.3


def test_texts_without_words_are_alike_and_a_dimension_is_needed() -> None:
    vectors = HashingEncoder(4).encode(["", "  !? "])
    assert np.array_equal(vectors, np.full((2, 4), 0.5, np.float32))
    assert HashingEncoder(4).encode(["\ud800x"]).shape == (1, 4)
    assert HashingEncoder(4).encode([]).shape == (0, 4)
    with pytest.raises(InputError, match="at least one coordinate, not 0"):
        HashingEncoder(0)
