"""Where an encoder says so, a vector depends on its own text alone, to the bit."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from canarybank.config import EncoderConfig
from canarybank.encode import (
    CachedEncoder,
    Encoder,
    GivenVectors,
    HashingEncoder,
    SentenceEncoder,
    VectorCache,
    WordLlamaEncoder,
    is_isolated,
    load_encoder,
    wordllama,
)
from canarybank.flow import cached_encoder

Check = Callable[..., list[str]]


@pytest.fixture(scope="module")
def isolated() -> SentenceEncoder:
    return SentenceEncoder("minilm", device="cpu", isolated=True)


@pytest.fixture(scope="module")
def batched() -> SentenceEncoder:
    return SentenceEncoder("minilm", device="cpu", batch_size=4)


@pytest.fixture
def few(messages: list[str]) -> list[str]:
    """Return texts of one token, of many, of other scripts and of none."""
    return [*messages[:6], *messages[-3:-1], "", "word " * 40]


def test_light_encoders_are_isolated(
    moved_texts: Check, messages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordllama, "_BATCH_TEXTS", 5)
    monkeypatch.setattr(wordllama, "_PIECE_TOKENS", 20)
    for encoder in (HashingEncoder(), WordLlamaEncoder()):
        assert is_isolated(encoder)
        assert is_isolated(CachedEncoder(encoder, VectorCache(tmp_path)))
        assert moved_texts(encoder, messages, rounds=60) == []
    np.savez(tmp_path / "v.npz", vectors=HashingEncoder().encode(messages), texts=np.array(messages))
    assert is_isolated(GivenVectors(tmp_path / "v.npz"))


def test_an_encoder_that_says_nothing_is_not_isolated() -> None:
    class Silent:
        name, dimension, fingerprint = "silent", 2, "0" * 64

        def encode(self, texts: Sequence[str], /) -> np.ndarray:
            return np.zeros((len(texts), 2), np.float32)

    assert isinstance(Silent(), Encoder)
    assert not is_isolated(Silent())


def test_the_check_finds_an_encoder_whose_vectors_depend_on_their_company(moved_texts: Check) -> None:
    class Moving(HashingEncoder):
        def encode(self, texts: Sequence[str], /) -> np.ndarray:
            vectors = super().encode(texts)
            return np.nextafter(vectors, np.float32(1)) if len(texts) > 3 else vectors

    assert moved_texts(Moving(), ["one", "two", "three", "four", "five"])


@pytest.mark.models
def test_company_moves_bits_of_a_batched_model_and_none_of_an_isolated_one(
    isolated: SentenceEncoder, batched: SentenceEncoder, moved_texts: Check, few: list[str]
) -> None:
    assert not is_isolated(batched)
    assert moved_texts(batched, few)
    assert is_isolated(isolated)
    assert moved_texts(isolated, few) == []
    assert np.abs(isolated.encode(few) - batched.encode(few)).max() < 2e-6


@pytest.mark.models
def test_a_pass_holds_one_text_and_no_padding(
    isolated: SentenceEncoder, few: list[str], passes: list[tuple[int, int]]
) -> None:
    isolated.encode(few)
    assert passes == [(1, 0)] * len(few)


@pytest.mark.models
def test_the_number_of_threads_moves_no_bit_and_is_left_as_it_was(isolated: SentenceEncoder, few: list[str]) -> None:
    import torch

    before, first = torch.get_num_threads(), isolated.encode(few)
    assert torch.get_num_threads() == before
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            assert np.array_equal(isolated.encode(few), first)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.models
def test_no_state_of_the_cache_moves_a_bit(
    isolated: SentenceEncoder, batched: SentenceEncoder, few: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, first = VectorCache(tmp_path), isolated.encode(few)
    CachedEncoder(batched, cache).encode(few)
    # What an audit encoded in batches lies on a shelf of its own.
    assert CachedEncoder(isolated, cache).missing(few) == len(few)
    monkeypatch.setattr(isolated, "block", 3)
    for held in ([few[4]], few[1:3], few[::-1], few * 2):
        vectors = CachedEncoder(isolated, cache).encode(held)
        assert np.array_equal(vectors, np.stack([first[few.index(text)] for text in held]))


@pytest.mark.models
def test_the_fingerprint_covers_what_decides_the_bits(
    isolated: SentenceEncoder, batched: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {isolated.fingerprint, batched.fingerprint}
    assert load_encoder("minilm", device="cpu", isolated=True, batch_size=7).fingerprint == isolated.fingerprint
    for name, other in (("_processor", lambda: ["another"]), ("version", lambda _: "99.0")):
        with monkeypatch.context() as patch:
            patch.setattr(f"canarybank.encode.sentence.{name}", other)
            made.add(SentenceEncoder("minilm", device="cpu", isolated=True).fingerprint)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    made.add(SentenceEncoder("minilm", device="cpu", isolated=True).fingerprint)
    assert len(made) == 5


@pytest.mark.models
def test_a_configured_encoder_is_isolated_where_that_is_asked(
    isolated: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path))
    config = EncoderConfig(name="minilm", device="cpu")
    asked = cached_encoder(config, isolated=True)
    assert asked.isolated
    assert asked.fingerprint == isolated.fingerprint
    assert not cached_encoder(config).isolated
    assert cached_encoder(EncoderConfig(name="hashing")).isolated
