"""Encode through the cache: only texts that it lacks, each once, in blocks that a kill cannot undo."""

import contextlib
import time
from collections.abc import Generator, Sequence

import numpy as np

from canarybank.encode.cache import VectorCache
from canarybank.encode.protocol import Encoder, Vectors, check_texts, is_isolated, vocabulary_of
from canarybank.encode.shelf import Shelf, text_keys
from canarybank.errors import StoreError
from canarybank.progress import SILENT, Progress

__all__ = ["BLOCK_TEXTS", "CachedEncoder", "encode_blocks"]

BLOCK_TEXTS = 1024
"""Texts in one call of an encoder that does not say what suits it."""
_FLUSH_TEXTS = 8192
_FLUSH_SECONDS = 10.0
_ATTEMPTS = 5


def encode_blocks(
    encoder: Encoder, texts: Sequence[str], progress: Progress = SILENT
) -> Generator[tuple[list[int], Vectors]]:
    """Yield the positions of some texts with their vectors until all have had their turn, the longest texts first.

    Texts of like length go together, which wastes least on padding, and the blocks are the same on every run.
    """
    order = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
    size: int = getattr(encoder, "block", BLOCK_TEXTS)
    with progress.stage(f"encoding with {encoder.name}", total=len(order), unit="texts") as stage:
        for start in range(0, len(order), size):
            positions = order[start : start + size]
            yield positions, encoder.encode([texts[position] for position in positions])
            stage.advance(len(positions))


class CachedEncoder:
    """An encoder that asks another one only for what its cache lacks.

    New vectors reach the disk every few thousand texts or seconds, so a kill loses little and breaks nothing. An
    instance belongs to one thread; any number of processes may share the cache.
    """

    def __init__(self, encoder: Encoder, cache: VectorCache | None = None, *, progress: Progress = SILENT) -> None:
        self.encoder = encoder
        self._progress = progress
        self._shelf = (cache if cache is not None else VectorCache()).shelf(encoder)
        self._shelf.refresh()

    @property
    def name(self) -> str:
        """Return the name of the encoder behind the cache."""
        return self.encoder.name

    @property
    def dimension(self) -> int:
        """Return the length of a vector."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the encoder behind the cache."""
        return self.encoder.fingerprint

    @property
    def isolated(self) -> bool:
        """Return whether a vector depends on its own text alone, as the encoder behind the cache says."""
        return is_isolated(self.encoder)

    def vocabulary(self) -> tuple[str, ...]:
        """Return the tokens that the encoder behind the cache knows."""
        return vocabulary_of(self.encoder)

    def check_writable(self) -> None:
        """Warn now where the cache cannot be written, and not only when a text is absent from it."""
        self._shelf.check_writable()

    def missing(self, texts: Sequence[str]) -> int:
        """Return how many different texts the cache lacks, without encoding any."""
        self._shelf.refresh()
        return len(self._shelf.absent(text_keys(check_texts(texts))))

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order."""
        checked = check_texts(texts)
        keys = text_keys(checked)
        for _ in range(_ATTEMPTS):
            if (vectors := self._shelf.get(keys)) is not None:
                return vectors
            self._shelf.refresh()
            self._fill([(keys[position], checked[position]) for position in self._shelf.absent(keys)])
        raise StoreError(
            f"The cache in {str(self._shelf.folder)!r} loses vectors as fast as they are written; check the disk, "
            "and that nothing prunes the cache meanwhile."
        )

    def _fill(self, lacking: list[tuple[bytes, str]]) -> None:
        writer = _Writer(self._shelf)
        texts = [text for _, text in lacking]
        try:
            with contextlib.closing(encode_blocks(self.encoder, texts, self._progress)) as blocks:
                for positions, vectors in blocks:
                    writer.add([lacking[position][0] for position in positions], vectors)
        finally:
            # An interruption or a failing encoder does not undo what was encoded before it.
            writer.flush()
        self._shelf.compact()


class _Writer:
    """Collect vectors, and write them to the shelf when they are many or old."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._keys: list[bytes] = []
        self._blocks: list[Vectors] = []
        self._flushed = time.monotonic()

    def add(self, keys: list[bytes], vectors: Vectors) -> None:
        self._keys += keys
        self._blocks.append(vectors)
        if len(self._keys) >= _FLUSH_TEXTS or time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        keys, blocks, self._keys, self._blocks = self._keys, self._blocks, [], []
        self._flushed = time.monotonic()
        if keys:
            self._shelf.put(keys, np.concatenate(blocks))
