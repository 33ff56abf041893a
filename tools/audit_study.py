"""Audit users in shards on a GPU, in low precision first and in float32, and compare what the two give.

    python tools/audit_study.py court.parquet MODEL [--users 20000] [--shards 16] [--engines threads,ray]

The Parquet file has a column ``text``. Users get 32 of its texts each, drawn by a seed, and the bank 8,192 of them.
MODEL is the name or folder of a sentence-transformers model. ``canarybank audit`` runs in a fresh process with empty
caches: with ``encoder.keep_vectors`` true, where every text is encoded in float32 and kept, and with it left out, where
texts are encoded in low precision first and nothing is kept. All runs must give the same ``results.json``; a byte that
differs ends the program with status 1.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

__all__ = ["main", "write_world"]

RECORDS, BANK, ASIDE = 32, 8_192, 500
SETTINGS = """
[users]
source = "users.parquet"
cap = {records}
[cohorts]
auxiliary = {aside}
calibration = {aside}
evaluation = {evaluation}
[encoder]
name = "{model}"
device = "{device}"
[bank]
source = "bank.txt"
[attack]
names = ["exact", "nonce-norm"]
[audit]
trials = 100000
[run]
shards = {shards}
workers = {workers}
"""


def write_world(texts_file: Path, folder: Path, users: int) -> None:
    """Write users and a bank of texts of the file."""
    import polars as pl

    texts = pl.read_parquet(texts_file)["text"].unique(maintain_order=True)
    rng = np.random.default_rng(0)
    drawn = texts.gather(rng.integers(len(texts), size=users * RECORDS))
    names = pl.Series([f"u{number:06d}" for number in range(users)]).gather(np.repeat(np.arange(users), RECORDS))
    pl.DataFrame({"user": names, "text": drawn}).write_parquet(folder / "users.parquet")
    bank = texts.gather(rng.permutation(len(texts))[:BANK])
    (folder / "bank.txt").write_text("".join(" ".join(text.split()) + "\n" for text in bank))


def audit(folder: Path, name: str, words: list[str]) -> bytes:
    """Run the audit with these further words, print what it took, and return the bytes of its results."""
    surroundings = os.environ | {"CANARYBANK_CACHE": str(folder / f"cache-{name}")}
    command = [sys.executable, "-m", "canarybank", "audit", "study.toml", "--folder", f"run-{name}", *words]
    began = time.perf_counter()
    done = subprocess.run(command, env=surroundings, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    taken = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    stages = re.findall(r"^(\w[\w ]*): done in ([\d.]+ s|[\d.]+ min.*)$", done.stderr, re.MULTILINE)
    kept = sum(path.stat().st_size for path in (folder / f"cache-{name}" / "vectors").rglob("*") if path.is_file())
    print(f"{name}: {taken:.1f} s, {kept / 2**20:,.0f} MiB of vectors kept")
    print("  " + ", ".join(f"{stage} {seconds}" for stage, seconds in stages), flush=True)
    return (folder / f"run-{name}" / "results.json").read_bytes()


def main() -> int:
    """Audit in float32 and in low precision first, and say whether the results are the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("texts", type=Path)
    parser.add_argument("model")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--engines", default="threads")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_world(given.texts, folder, given.users)
        model = str(Path(given.model).resolve()) if Path(given.model).is_dir() else given.model
        sizes = {"records": RECORDS, "aside": ASIDE, "evaluation": given.users - 2 * ASIDE - 100}
        (folder / "study.toml").write_text(
            SETTINGS.format(**sizes, model=model, device=given.device, shards=given.shards, workers=given.workers)
        )
        expected = audit(folder, "float32", ["--encoder.keep_vectors"])
        same = True
        for engine in given.engines.split(","):
            found = audit(folder, f"low-precision-first-{engine}", ["--run.engine", engine])
            same = same and found == expected
            print(f"  results.json is {'the same' if found == expected else 'ANOTHER'}: {len(found):,} bytes")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
