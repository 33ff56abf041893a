"""Time ``canarybank reproduce main`` on a file of users, from cached vectors, and print where the time goes.

    python tools/reproduce_study.py court.parquet [--engines tail,projected]

The file has the columns ``user`` and ``text``, with 32 to 64 records for each of some thousand users. Vectors and
answers come from stand-ins that need no model: WordLlama's vectors, spread over the 384 dimensions of MiniLM, and
records with a word more for paraphrases. The bank is 8,192 texts of the file. A first run fills the caches; each engine
is then timed in a fresh process with the vectors and answers in the cache, and nothing else.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["StandInEncoder", "StandInWriter", "main"]

BANK, DIMENSION = 8_192, 384
SETTINGS = """
[users]
user = "user"
text = "text"
minimum = 32
cap = 64
[cohorts]
shared = true
[encoder]
name = "reproduce_study:StandInEncoder"
[generator]
kind = "reproduce_study:StandInWriter"
[attack]
tries = 5
send_records = true
[audit]
engine = "{engine}"
"""


class StandInEncoder:
    """WordLlama's vectors, turned into 384 dimensions; they are kept in the cache as those of a sentence model are."""

    name, dimension, fingerprint = "stand-in", DIMENSION, "reproduce-study-1"

    @cached_property
    def _turn(self) -> tuple[Any, np.ndarray]:
        from canarybank.encode import load_encoder

        own = load_encoder("wordllama")
        drawn = np.random.default_rng(0).standard_normal((DIMENSION, own.dimension))
        return own, np.linalg.qr(drawn)[0].T.astype(np.float32)

    def encode(self, texts: Sequence[str], /) -> np.ndarray:
        """Return a unit vector for each text."""
        encoder, turn = self._turn
        vectors = encoder.encode(texts) @ turn
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


class StandInWriter:
    """Answer a request for a paraphrase by the record that it quotes, and a word more."""

    name, fingerprint, server = "stand-in", "reproduce-study-1", None

    def __init__(self, _section: object) -> None:
        """Take the section of the configuration, of which nothing is needed."""

    def generate(self, requests: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield an answer to every request."""
        from canarybank.generate import Response

        for index, request in enumerate(requests):
            record = request.prompt.partition('"')[2].rpartition('"')[0]
            yield index, Response(f"{record} again {request.seed % 1000}", 1, 1)


def main() -> int:
    """Fill the caches, then time each engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("users", type=Path)
    parser.add_argument("--engines", default="tail,projected")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_bank(given.users, folder / "bank.txt")
        words = [sys.executable, "-m", "canarybank", "reproduce", "main", "study.toml", "--bank", "bank.txt"]
        words += ["--data", str(given.users.resolve())]
        surroundings = os.environ | {"CANARYBANK_CACHE": str(folder / "cache"), "PYTHONPATH": _path()}
        engines = given.engines.split(",")
        for number, engine in enumerate([engines[0], *engines]):
            shutil.rmtree(folder / "cache" / "stages", ignore_errors=True)
            (folder / "study.toml").write_text(SETTINGS.format(engine=engine))
            before, began = _children_seconds(), time.perf_counter()
            done = subprocess.run(  # noqa: S603, our own command
                [*words, "--folder", str(number)],
                env=surroundings,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                print(done.stderr)
                return done.returncode
            taken, used = time.perf_counter() - began, _children_seconds() - before
            if number:
                stages = re.findall(r"^(\w[\w ]*): done in ([\d.]+ s|[\d.]+ min.*)$", done.stderr, re.MULTILINE)
                print(f"{engine}: {taken:.1f} s by the clock, {used:.1f} s of processor time on {os.cpu_count()} cores")
                print("  " + ", ".join(f"{name} {seconds}" for name, seconds in stages), flush=True)
    return 0


def write_bank(users: Path, path: Path) -> None:
    """Write texts of the file as a bank, a line each."""
    import polars as pl

    texts = pl.read_parquet(users)["text"].unique(maintain_order=True).sample(BANK, seed=1, shuffle=True)
    path.write_text("".join(" ".join(text.split()) + "\n" for text in texts))


def _path() -> str:
    return os.pathsep.join(filter(None, [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH")]))


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
