"""Encode in low precision first, and in full precision what that leaves open.

Tensor cores multiply float16 parts of float32 numbers several times as fast as float32 itself. The vectors are off by a
little: the drift. Whoever asks something of vectors can say for which of them the answer is the same within the drift.
Only the other texts are encoded again. So the answers are those of float32, and most texts never see it.

The bound on the drift is a property of the model and the device: eight times the largest drift over rows of random
tokens, of all lengths. No text of a user has a part in it. It is measured, not proved, so every text that is encoded
twice is checked against it, some of those that are settled among them, and one that breaks it ends the work.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.fixed_shapes import TOLERANCE, FixedShapes, SplitLayers, TokenBatch
from canarybank.encode.protocol import FastEncoder, Precision, Vectors, check_texts, readable
from canarybank.errors import InputError

__all__ = ["Question", "SplitEncoder", "answer_texts"]

Question = Callable[[Vectors, float], Iterable[tuple[NDArray[Any], NDArray[np.bool_]]]]
"""A function of vectors and a drift. It yields tables with a row for each vector, and for each row whether it stays the
same when its vector moves by at most the drift. A row must depend on its own vector alone.
"""

SAFETY = 8.0
SAMPLE_ROWS = 64
CHECKED = 256
"""One settled text in this many is encoded again, to check the bound on the drift."""
LEAST_TEXTS = 1 << 14
"""With fewer texts, the dummies that fill up the last batch of each length cost more than is saved."""


class SplitEncoder:
    """The vectors of an encoder in fixed shapes, nearly, by products that tensor cores compute of float16 parts.

    Args:
        exact: The encoder in float32; the other one shares its tokens and buckets.
    """

    least_texts = LEAST_TEXTS

    def __init__(self, exact: FixedShapes) -> None:
        self._exact = exact

    @cached_property
    def _split(self) -> FixedShapes:
        exact = self._exact
        return FixedShapes(SplitLayers(exact.layers.model, exact.device), exact.tokens, exact.device)

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 vector a text, in order; NaN or infinity where float16 overflows."""
        return self._split.encode(readable(check_texts(texts)))

    @cached_property
    def drift(self) -> float:
        """Return the bound on the distance between a text's vector and its float32 vector; it is measured once."""
        return SAFETY * max(TOLERANCE[Precision.FLOAT32], *map(self._measure, range(len(self._exact.tokens.buckets))))

    def _measure(self, bucket: int) -> float:
        """Return the largest drift over rows of random tokens in the shape of a bucket."""
        import torch

        most, rng = int(self._exact.tokens.buckets[bucket]), np.random.default_rng(bucket)
        rows = min(SAMPLE_ROWS, self._exact.rows_of(most))
        ids = rng.integers(self._exact.layers.model.config.vocab_size, size=(rows, most), dtype=np.int32)
        lengths = rng.integers(1, most, size=rows, dtype=np.int32, endpoint=True)
        device = self._exact.device
        batch = TokenBatch(np.arange(rows), *(torch.from_numpy(each).to(device) for each in (ids, lengths)))
        moved = self._split.forward(batch).double() - self._exact.forward(batch)
        # A row that overflows is encoded again in any case.
        return float(torch.linalg.vector_norm(moved, dim=1).nan_to_num(0.0, 0.0).max())


def answer_texts(
    texts: Sequence[str], fast: FastEncoder, exact: Callable[[Sequence[str]], Vectors], question: Question
) -> list[NDArray[Any]]:
    """Return the tables of ``question(exact(texts), 0.0)``, most rows of them by the fast encoder's vectors.

    Args:
        texts: The texts to ask about.
        fast: Encodes all of them.
        exact: Encodes those whose answers its drift leaves open.
        question: What is asked of the vectors.

    Raises:
        InputError: A text with both vectors has them farther apart than the fast encoder's bound.
    """
    vectors = fast.encode(texts)
    usable = np.asarray(np.isfinite(vectors).all(axis=1))
    vectors = np.where(usable[:, None], vectors, np.float32(1.0))
    tables, sure = [], usable.copy()
    for table, settled in question(vectors, fast.drift):
        tables.append(np.array(table))
        sure &= settled
    sure[::CHECKED] = False
    again = np.flatnonzero(~sure)
    if len(again):
        own = exact([texts[place] for place in again.tolist()])
        _check_drift(vectors[again], own, usable[again], fast.drift)
        for table, (rows, _) in zip(tables, question(own, 0.0), strict=True):
            table[again] = rows
    return tables


def _check_drift(vectors: Vectors, own: Vectors, usable: NDArray[np.bool_], bound: float) -> None:
    moved = np.linalg.norm(vectors[usable].astype(np.float64) - own[usable], axis=1)
    if moved.max(initial=0.0) > bound:
        raise InputError(
            f"Encoding in low precision is off by {moved.max():.1e} for a text, more than the {bound:.1e} that was "
            "measured for this model on this device, so what it settles cannot be trusted. Set encoder.keep_vectors to "
            "true, and every text is encoded in float32."
        )
