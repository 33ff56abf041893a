"""The paper's main table from cached vectors, against encoding its texts once.

Users, bank, nonces and paraphrases are synthetic, with the geometry of real ones, at the paper's size: 2,030 users with
64 records, a bank of 8,192, eight attacks on five canaries each, a million trials of each hypothesis. The baseline is
what MiniLM needs for all texts on this machine, from a sample. Each is timed once, for a table takes minutes.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from bench_encode import chat_messages
from harness import Result, ratio

USERS, RECORDS, BANK, TOPICS, DIMENSION, SAMPLE = 2_030, 64, 8_192, 400, 384, 256
CASES = 40
MAIN_SECONDS, EXACT_SECONDS = 42, 30
BEFORE_SECONDS = 85.0
"""What the table took on two idle cores before shards and engines: docs/scale.md."""


class SyntheticEncoder:
    """Topics for natural texts, one direction for all nonces, and paraphrases beside their records."""

    name, dimension, fingerprint = "synthetic", DIMENSION, "synthetic-1"

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self._topics = _unit(rng.standard_normal((TOPICS, DIMENSION)) + 2.0 * rng.standard_normal(DIMENSION))
        self._nonces = _unit(rng.standard_normal(DIMENSION))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return a unit vector for each text, always the same for the same text."""
        return np.array([self._vector(text) for text in texts], np.float32).reshape(len(texts), DIMENSION)

    def _vector(self, text: str) -> np.ndarray:
        record, again, _ = text.partition(" again ")
        if again:
            return _unit(self._vector(record) + 0.35 * _own(text))
        if not text.startswith("topic "):
            return _unit(self._nonces + 0.25 * _own(text))
        return _unit(self._topics[int(text.split()[1]) % TOPICS] + 0.8 * _own(text))


def run() -> list[Result]:
    """Time the whole table and its exact column, beside encoding."""
    with _surroundings() as folder:
        texts, table, exact = _timed(folder)
    encoding = _encoding_seconds(texts)
    size = f"8 attacks x 5 canaries x 1M trials, {texts:,} texts"
    return [
        ratio("reproduce main", size, encoding, table, 3, _share(table, encoding, MAIN_SECONDS)),
        ratio("reproduce main, beside the version before", size, BEFORE_SECONDS, table, 2, "on two idle cores"),
        ratio("exact column", size, encoding, exact, 20, _share(exact, encoding, EXACT_SECONDS)),
    ]


def _share(seconds: float, encoding: float, allowed: int) -> str:
    verdict = "within" if seconds <= allowed else "OVER"
    return f"{100 * seconds / encoding:.2g}% of the encoding time; {verdict} the {allowed} s promised on two idle cores"


@contextmanager
def _surroundings() -> Iterator[Path]:
    from canarybank.generate import ScriptedGenerator

    writer = ScriptedGenerator(lambda request: f'{request.prompt.split(chr(34))[1]} again {request.seed}"', "bench")
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"CANARYBANK_CACHE": f"{folder}/cache"}),
        mock.patch("canarybank.flow.inputs.load_encoder", return_value=SyntheticEncoder()),
        mock.patch("canarybank.flow.audit.build_generator", return_value=writer),
    ):
        yield Path(folder)


def _timed(folder: Path) -> tuple[int, float, float]:
    from canarybank.config import resolve
    from canarybank.encode import CachedEncoder, VectorCache
    from canarybank.paper import Order, make_piece
    from canarybank.report import write_pieces

    texts = _written(folder)
    CachedEncoder(SyntheticEncoder(), VectorCache()).encode(texts)
    flags = {"cohorts.shared": True, "users.minimum": 32, "users.cap": 64, "generator.kind": "smollm2"}
    order = Order(resolve(flags=flags), folder / "rep", data=str(folder / "users.csv"), bank=str(folder / "bank.txt"))
    began = time.perf_counter()
    piece = make_piece("main", order)
    write_pieces((piece,), order.folder)
    table = time.perf_counter() - began
    assert all(cell.is_explained for cell in piece.cells)
    assert all(abs(cell.exact - 1.6845) < 0.005 for cell in piece.cells if str(cell.at["attack"]).startswith("nonce"))
    return len(texts), table, _exact_seconds(order)


def _exact_seconds(order: object) -> float:
    from canarybank.auditing import epsilon_at, supremum
    from canarybank.flow.audit import one_release
    from canarybank.paper.runs import arm_a

    work = one_release(arm_a(order).config)  # type: ignore[arg-type]
    delta, systems = work.auditor.mechanism.delta, work.auditor.evaluation(work.routes)
    assert len(work.cases) == CASES
    began = time.perf_counter()
    for case in work.cases:
        law = work.auditor.law(case, systems(case))
        supremum(law, delta)
        epsilon_at(law, case.thresholds[0].value, delta)
    return time.perf_counter() - began


def _written(folder: Path) -> list[str]:
    """Write users and bank as files, and return all of their texts."""
    rng = np.random.default_rng(3)
    favourites = rng.integers(TOPICS, size=(USERS, 6))
    rows, texts = ["user,text"], []
    for user in range(USERS):
        for record in range(RECORDS):
            text = f"topic {favourites[user, record % 6]} of user {user} in record {record}"
            rows.append(f"u{user:05d},{text}")
            texts.append(text)
    bank = [f"topic {entry % TOPICS} as candidate {entry}" for entry in range(BANK)]
    (folder / "users.csv").write_text("\n".join(rows) + "\n")
    (folder / "bank.txt").write_text("\n".join(bank) + "\n")
    return [*texts, *bank]


def _encoding_seconds(texts: int) -> float:
    from canarybank.encode import load_encoder

    encoder, sample = load_encoder("minilm", device="cpu"), chat_messages(SAMPLE)
    encoder.encode(sample[:32])
    began = time.perf_counter()
    encoder.encode(sample)
    return (time.perf_counter() - began) / SAMPLE * texts


def _own(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(DIMENSION) / np.sqrt(DIMENSION)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
