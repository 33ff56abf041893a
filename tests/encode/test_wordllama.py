import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from canarybank.encode import WordLlamaEncoder
from canarybank.errors import MissingError


@pytest.fixture(scope="module")
def encoder() -> WordLlamaEncoder:
    return WordLlamaEncoder()


@pytest.mark.usefixtures("offline")
def test_it_loads_and_encodes_offline(messages: list[str]) -> None:
    vectors = WordLlamaEncoder().encode(messages)
    assert vectors.shape == (len(messages), 256)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_vectors_are_the_librarys_own(encoder: WordLlamaEncoder, messages: list[str]) -> None:
    import wordllama

    library = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    assert np.abs(encoder.encode(messages) - library.embed(messages, norm=True)).max() < 5e-7


def test_batch_mates_change_no_bit(encoder: WordLlamaEncoder, messages: list[str]) -> None:
    together = encoder.encode(messages)
    assert np.array_equal(np.concatenate([encoder.encode([text]) for text in messages]), together)
    assert np.array_equal(encoder.encode(messages[::-1])[::-1], together)
    # Batches end after a thousand texts, or after so many characters.
    assert np.array_equal(encoder.encode(["a", *messages] * 60)[-len(messages) :], together)
    assert np.array_equal(encoder.encode([*["a"] * 1500, *messages])[-len(messages) :], together)


def test_the_order_of_many_short_texts_changes_no_bit(encoder: WordLlamaEncoder) -> None:
    texts = [" ".join(f"w{n * k}" for k in range(n % 90)) for n in range(600)]
    order = np.random.default_rng(5).permutation(len(texts))
    shuffled = encoder.encode([texts[i] for i in order])
    assert np.array_equal(shuffled, encoder.encode(texts)[order])


def test_a_book_goes_through_in_pieces(encoder: WordLlamaEncoder) -> None:
    book = "privacy is a promise about neighbours " * 5_000
    among = encoder.encode(["a", book, "b"])
    assert np.array_equal(among[1], encoder.encode([book])[0])
    assert np.array_equal(encoder.encode(["x", "😀" * 30_000])[1], encoder.encode(["😀" * 30_000])[0])
    assert among[1] @ encoder.encode(["privacy is a promise about neighbours"])[0] > 0.99


def test_empty_and_odd_texts_have_a_vector(encoder: WordLlamaEncoder) -> None:
    vectors = encoder.encode(["", "word", "\x00", "\ud800", "   ", ""])
    assert np.array_equal(vectors[0], np.full(256, 1 / 16, np.float32))
    assert np.array_equal(vectors[0], vectors[5])
    assert np.isfinite(vectors).all()
    assert encoder.encode([]).shape == (0, 256)
    assert np.array_equal(encoder.encode(["", ""]), vectors[[0, 0]])


def test_the_fingerprint_is_that_of_weights_tokenizer_and_scheme(encoder: WordLlamaEncoder) -> None:
    assert encoder.fingerprint == WordLlamaEncoder().fingerprint
    assert len(encoder.fingerprint) == 64


def test_loading_leaves_the_programs_logging_alone() -> None:
    code = (
        "import logging\n"
        "from canarybank.encode import load_encoder\n"
        "load_encoder('wordllama')\n"
        "root = logging.getLogger()\n"
        "print(root.handlers, root.level)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] 30\n"
    assert done.stderr == ""


def test_a_missing_package_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MissingError, match="pip install wordllama"):
        WordLlamaEncoder()
