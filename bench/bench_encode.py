"""Time encoding: through the cache against bare, cached against WordLlama, minilm against its library and isolated.

Texts are short chat messages. A first use writes a fresh cache; a cached read opens the cache anew each time, so
that reading the segments from the disk's cache, checking them and indexing them all count.
"""

import gc
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from canarybank.encode import CachedEncoder, Encoder, VectorCache, load_encoder
from harness import Result, ratio

WORDLLAMA_TEXTS = 20_000
MINILM_TEXTS = 512
REPEATS = 9


def run() -> list[Result]:
    """Measure the four promises, and the price of isolation."""
    return [*_wordllama(), *_minilm()]


def chat_messages(count: int) -> list[str]:
    """Return that many different chat messages of 4 to 60 words."""
    import chitchat_dataset

    messages = (" ".join(m.split()) for talk in chitchat_dataset.ConversationDataset() for m in talk)
    fitting = (m for m in dict.fromkeys(messages) if 4 <= len(m.split()) <= 60)
    return list(itertools.islice(fitting, count))


def _wordllama() -> list[Result]:
    encoder = load_encoder("wordllama")
    texts = chat_messages(WORDLLAMA_TEXTS)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        CachedEncoder(encoder, VectorCache(root / "full")).encode(texts)

        def cached() -> None:
            CachedEncoder(_Refusing(encoder), VectorCache(root / "full")).encode(texts)

        bare, first, read = _fastest(lambda: encoder.encode(texts), _first_use(encoder, texts, root), cached)
    size = f"{len(texts):,} texts"
    return [
        ratio("wordllama, first use of the cache", size, bare, first, 1 / 1.3, "bare wordllama is the baseline"),
        ratio("fully cached read", size, bare, read, 10, "bare wordllama is the baseline"),
    ]


def _minilm() -> list[Result]:
    from sentence_transformers import SentenceTransformer

    from canarybank.encode.models import find_model

    encoder = load_encoder("minilm", device="cpu")
    isolated = load_encoder("minilm", device="cpu", isolated=True)
    library = SentenceTransformer(str(find_model("minilm")), device="cpu", local_files_only=True)
    texts = chat_messages(MINILM_TEXTS)
    with tempfile.TemporaryDirectory() as folder:
        bare, first, direct, alone = _fastest(
            lambda: encoder.encode(texts),
            _first_use(encoder, texts, Path(folder)),
            lambda: library.encode(texts, normalize_embeddings=True, show_progress_bar=False),
            lambda: isolated.encode(texts),
        )
    size = f"{len(texts):,} texts"
    return [
        ratio("minilm, first use of the cache", size, bare, first, 1 / 1.05, "bare minilm is the baseline"),
        ratio("minilm", size, direct, bare, 1, "SentenceTransformer.encode is the baseline"),
        ratio("minilm, isolated", size, bare, alone, 1 / 8, "minilm in batches is the baseline"),
    ]


def _first_use(encoder: Encoder, texts: list[str], root: Path) -> Callable[[], object]:
    numbers = itertools.count()
    return lambda: CachedEncoder(encoder, VectorCache(root / f"fresh{next(numbers)}")).encode(texts)


def _fastest(*works: Callable[[], object]) -> list[float]:
    """Return the least time of each work, taking turns: what else the machine does only ever adds."""
    times: list[list[float]] = [[] for _ in works]
    for repeat in range(REPEATS + 1):
        for work, taken in zip(works, times, strict=True):
            gc.collect()
            began = time.perf_counter()
            work()
            if repeat:
                taken.append(time.perf_counter() - began)
    return [min(taken) for taken in times]


class _Refusing:
    """An encoder that must not be asked."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dimension, self.fingerprint = encoder.name, encoder.dimension, encoder.fingerprint

    def encode(self, texts: object, /) -> object:
        raise AssertionError(f"the cache lacked {texts}")
