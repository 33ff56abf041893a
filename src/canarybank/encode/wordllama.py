"""Encode with WordLlama: averaged token vectors of 256 numbers, from inside its own wheel.

Nothing is downloaded: weights and tokenizer come with the package. A vector depends on its text alone: batch-mates
change no bit of it. The fingerprint covers the weights' and the tokenizer's sha256 and the pooling scheme.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.protocol import Vectors, check_texts, plain_tokens, readable, unit_vectors
from canarybank.errors import MissingError
from canarybank.store import hash_file, hash_json

__all__ = ["WordLlamaEncoder"]

_MODEL = "l2_supercat"
_DIMENSION = 256
# Texts are taken a few at a time, so that the token vectors of a batch stay near 16 MB.
_BATCH_TEXTS = 1024
_BATCH_CHARACTERS = 1 << 16
_PIECE_TOKENS = 1 << 14


class WordLlamaEncoder:
    """The light default encoder."""

    name = "wordllama"
    dimension = _DIMENSION
    block = 4096
    isolated = True
    cheap = True

    def __init__(self) -> None:
        package, model = _load()
        self._tokenizer: Any = model.tokenizer
        self._tokenizer.no_padding()
        self._table: Vectors = np.ascontiguousarray(model.embedding, dtype=np.float32)
        self.fingerprint = hash_json(
            {
                "encoder": "wordllama",
                "scheme": 1,
                "weights": hash_file(package / "weights" / f"{_MODEL}_{_DIMENSION}.safetensors"),
                "tokenizer": hash_file(package / "tokenizers" / f"{_MODEL}_tokenizer_config.json"),
            }
        )

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order."""
        checked = readable(check_texts(texts))
        means = np.empty((len(checked), self.dimension), dtype=np.float32)
        for start, stop in _batches(checked):
            means[start:stop] = self._means(checked[start:stop])
        return unit_vectors(means)

    def vocabulary(self) -> tuple[str, ...]:
        """Return the tokens that the encoder has vectors for, as texts."""
        return plain_tokens(self._tokenizer.get_vocab(), ("\u2581",))

    def _means(self, texts: list[str]) -> Vectors:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        tokens = [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]
        counts = np.array([len(ids) for ids in tokens])
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        short = np.flatnonzero((counts > 0) & (counts <= _PIECE_TOKENS))
        if len(short):
            sums[short] = self._sums([tokens[position] for position in short])
        for position in np.flatnonzero(counts > _PIECE_TOKENS):
            ids = tokens[position]
            pieces = [ids[start : start + _PIECE_TOKENS] for start in range(0, len(ids), _PIECE_TOKENS)]
            sums[position] = sum(self._sums([piece])[0] for piece in pieces)
        means: Vectors = sums / np.maximum(counts, 1).astype(np.float32)[:, None]
        return means

    def _sums(self, tokens: list[NDArray[np.int64]]) -> Vectors:
        """Return the sum of each text's token vectors; the order of a text's additions depends on that text alone."""
        counts = np.array([len(ids) for ids in tokens])
        known = np.minimum(np.concatenate(tokens), len(self._table) - 1)
        return np.add.reduceat(self._table[known], np.cumsum(counts) - counts, axis=0)


def _batches(texts: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of batches with at most so many texts and characters; a longer text goes alone."""
    start = characters = 0
    for position, text in enumerate(texts):
        if position > start and (position - start == _BATCH_TEXTS or characters + len(text) > _BATCH_CHARACTERS):
            yield start, position
            start, characters = position, 0
        characters += len(text)
    if start < len(texts):
        yield start, len(texts)


def _load() -> tuple[Path, Any]:
    with _root_logger_kept():
        try:
            import wordllama
        except ImportError as error:
            raise MissingError("The wordllama encoder needs its package; run: pip install wordllama") from error
    package = Path(wordllama.__file__).parent
    try:
        model = wordllama.WordLlama.load(_MODEL, cache_dir=package, dim=_DIMENSION, disable_download=True)
    except FileNotFoundError as error:
        raise MissingError(
            f"The installed wordllama lacks its weights ({error}); run: pip install --force-reinstall wordllama"
        ) from error
    return package, model


@contextlib.contextmanager
def _root_logger_kept() -> Iterator[None]:
    # Importing wordllama configures the root logger, which belongs to the program that uses us.
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
