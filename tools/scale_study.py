"""Audit users in shards at several sizes, each in a fresh process, and print what it cost.

    python tools/scale_study.py [--users 20000,200000,1000000] [--folder FOLDER] [--workers 2]

Users have 32 records of six words, drawn by a seed and written as Parquet; the bank has 8,192 entries; the encoder is
``hashing``, so that encoding does not hide the rest. The audit is of ``nonce-norm`` on five canaries, exact and by a
million trials, with 500 auxiliary and 500 calibration users; all others are eligible. It works on threads. What is
counted is the audit from the file to ``results.json`` with empty caches: the processor time and the largest memory of
its process, and not the writing of the file. The table is Markdown. Where several sizes were measured, what was
promised stands below it, and a promise that is not kept ends the program with status 1.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

__all__ = ["Cost", "Promise", "audit_users", "measure", "promises", "table", "write_users"]

SIZES = (20_000, 200_000, 1_000_000)
RECORDS, WORDS, BANK, ASIDE = 32, 6, 8_192, 500
VOCABULARY, CHUNK = 500, 8_192
MOST_TIME, MOST_MEMORY, MOST_MIB = 1.25, 1.5, 4096.0
"""How many times the processor time of a user and the memory may grow with the users, and the most memory."""


@dataclass(frozen=True)
class Cost:
    """What one audit took."""

    users: int
    shards: int
    cpu_seconds: float
    wall_seconds: float
    peak_mib: float
    epsilon: float
    """The exact epsilon of the attack."""
    bound: float
    """The lower bound that a million trials give."""

    @property
    def per_user(self) -> float:
        """Return the processor time of a user, in milliseconds."""
        return 1e3 * self.cpu_seconds / self.users


def write_users(path: Path, users: int, seed: int = 0) -> None:
    """Write users as Parquet, some thousands at a time; the first of them are the same whatever their number is."""
    import polars as pl
    from polars.io.plugins import register_io_source

    words = pl.Series([f"{a}{b}{c}" for a in _LEFT for b in _MIDDLE for c in _RIGHT][:VOCABULARY])
    schema = {"user": pl.String, "text": pl.String}

    def chunks(*_: object) -> Iterator[pl.DataFrame]:
        for first in range(0, users, CHUNK):
            many = min(CHUNK, users - first)
            drawn = np.random.default_rng([seed, first]).integers(len(words), size=(many * RECORDS, WORDS))
            texts = pl.DataFrame({str(i): words.gather(drawn[:, i]) for i in range(WORDS)})
            names = pl.Series([f"u{number:07d}" for number in range(first, first + many)])
            owners = np.repeat(np.arange(many), RECORDS)
            yield texts.select(user=names.gather(owners), text=pl.concat_str(pl.all(), separator=" "))

    register_io_source(chunks, schema=schema).sink_parquet(path, row_group_size=CHUNK * RECORDS)


def write_bank(path: Path, seed: int = 1) -> None:
    """Write the bank, a text a line."""
    words = [f"{a}{b}{c}" for a in _LEFT for b in _MIDDLE for c in _RIGHT][:VOCABULARY]
    drawn = np.random.default_rng(seed).integers(len(words), size=(BANK, WORDS))
    path.write_text("".join(" ".join(words[i] for i in row) + "\n" for row in drawn.tolist()))


_LEFT = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
_MIDDLE = [a + b for a in "dklmnrst" for b in "aeiou"]
_RIGHT = ["", "n", "s", "r", "l", "ta", "ko", "mi", "du", "re"]


def audit_users(folder: Path, users: int, workers: int | None = None) -> Cost:
    """Audit the users in ``folder/users.parquet`` in this process, and return what it took."""
    began, before = time.perf_counter(), _processor_seconds()
    from canarybank.config import resolve
    from canarybank.flow import run_audit
    from canarybank.users import shard_count

    os.environ["CANARYBANK_CACHE"] = str(folder / "cache")
    shards = shard_count(folder / "users.parquet")
    flags = {
        "users.source": str(folder / "users.parquet"),
        "users.cap": RECORDS,
        "bank.source": str(folder / "bank.txt"),
        "encoder.name": "hashing",
        "attack.names": "nonce-norm",
        "cohorts.auxiliary": ASIDE,
        "cohorts.calibration": ASIDE,
        "cohorts.evaluation": users - 2 * ASIDE,
        "audit.trials": 1_000_000,
        "run.shards": shards,
    }
    if workers is not None:
        flags["run.workers"] = workers
    run = run_audit(resolve(flags=flags), folder / "run")
    (result,) = run.results.attacks
    return Cost(
        users,
        shards,
        _processor_seconds() - before,
        time.perf_counter() - began,
        max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024,
        result.ladder.attack.epsilon if result.ladder.attack else float("nan"),
        result.headline.epsilon,
    )


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(users: int, folder: Path | None = None, workers: int | None = None) -> Cost:
    """Write so many users and audit them, each in a fresh process, so that memory is that of the audit alone."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        words = [sys.executable, __file__, "--users", str(users), "--within", place]
        words += [] if workers is None else ["--workers", str(workers)]
        alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a worker has a core to itself
        subprocess.run([*words, "--step", "write"], check=True)  # noqa: S603, this file itself
        done = subprocess.run(  # noqa: S603
            [*words, "--step", "audit"], check=True, stdout=subprocess.PIPE, text=True, env=alone
        )
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def table(costs: list[Cost]) -> str:
    """Return the costs as a Markdown table."""
    head = "| users | shards | CPU s | ms a user | wall s | peak MiB | exact epsilon | bound |"
    rows = [
        f"| {cost.users:,} | {cost.shards} | {cost.cpu_seconds:,.0f} | {cost.per_user:.3f} | {cost.wall_seconds:,.0f} "
        f"| {cost.peak_mib:,.0f} | {cost.epsilon:.4f} | {cost.bound:.4f} |"
        for cost in costs
    ]
    return "\n".join([head, "|---:|---:|---:|---:|---:|---:|---:|---:|", *rows])


@dataclass(frozen=True)
class Promise:
    """A number beside the most that it may be."""

    what: str
    found: float
    most: float

    @property
    def is_kept(self) -> bool:
        """Say whether the number is no larger than it may be."""
        return self.found <= self.most

    def __str__(self) -> str:
        return f"{self.what}: {self.found:,.2f}, at most {self.most:,g}: {'kept' if self.is_kept else 'BROKEN'}"


def promises(costs: list[Cost]) -> list[Promise]:
    """Return what was promised of the largest size: its time beside the smallest's, and its memory.

    Memory stands beside that of the next smaller size: what Python and its packages take hides growth at small ones.
    """
    if len(costs) < 2:
        return []
    ordered = sorted(costs, key=lambda cost: cost.users)
    least, before, most = ordered[0], ordered[-2], ordered[-1]
    return [
        Promise(
            f"CPU time of a user at {most.users:,} over that at {least.users:,}",
            most.per_user / least.per_user,
            MOST_TIME,
        ),
        Promise(
            f"peak memory at {most.users:,} over that at {before.users:,}", most.peak_mib / before.peak_mib, MOST_MEMORY
        ),
        Promise(f"peak memory at {most.users:,} in MiB", most.peak_mib, MOST_MIB),
    ]


def main() -> int:
    """Measure every size, or do one step of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--users", default=",".join(map(str, SIZES)))
    parser.add_argument("--folder", type=Path, help="where users and caches are written; by default with temporaries")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--within", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=("write", "audit"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [int(size) for size in given.users.split(",")]
    if given.step == "write":
        write_users(given.within / "users.parquet", sizes[0])
        write_bank(given.within / "bank.txt")
    elif given.step == "audit":
        print(json.dumps(asdict(audit_users(given.within, sizes[0], given.workers))))
    else:
        costs = []
        for size in sizes:
            costs.append(measure(size, given.folder, given.workers))
            print(table(costs[-1:]), flush=True)
        print(table(costs))
        found = promises(costs)
        print("", *found, sep="\n")
        return 0 if all(each.is_kept for each in found) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
