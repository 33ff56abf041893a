"""What Ray costs: CPU time of a pass over shards on two Ray workers, against the local engine on two threads.

Both do the same tasks in turn, pair by pair; the median over the pairs counts. The time of Ray is that of every process
that it started, raylet and controller among them, but for their start: a cluster is started once for a whole run. Each
task makes the texts of 500 users, encodes them and routes them over a bank of 8,192. BLAS has one thread everywhere,
which is what Ray gives a worker.

`make bench` runs pairs of a few seconds, in which what Ray does beside the tasks weighs more. For runs of a minute:

    python bench/bench_ray.py 60

which ends with status 1 where Ray costs more than is promised.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from canarybank.encode import HashingEncoder
from canarybank.engine import Engine, Ray, Threads
from canarybank.mechanism import Bank, RouteTable
from harness import Result, ratio

SECONDS, PAIRS, WORKERS = 10.0, 5, 2
USERS, RECORDS, WORDS, BANK = 500, 32, 12, 8_192
MOST = 1.15
"""How many times the CPU time of the local engine Ray may take."""


@dataclass(frozen=True)
class Pass:
    """Route the users of a shard, whose texts follow from its number, and return a digest of their routes."""

    bank: Bank

    @cached_property
    def encoder(self) -> HashingEncoder:
        """Return the encoder."""
        return HashingEncoder()

    def __call__(self, shard: int) -> str:
        """Return the digest."""
        texts = make_texts(shard, USERS * RECORDS)
        return hashlib.sha256(
            RouteTable.build(self.encoder.encode(texts), self.bank, 5).positions.tobytes()
        ).hexdigest()


def make_texts(seed: int, count: int) -> list[str]:
    """Return texts of made-up words."""
    words = np.random.default_rng(seed).zipf(1.3, size=(count, WORDS)) % 50_000
    return [" ".join(map(str, row)) for row in words.tolist()]


def run() -> list[Result]:
    """Measure in a process of its own, whose BLAS has one thread, and return the ratio."""
    found = _measured_apart(SECONDS)
    size = f"{WORKERS} workers, {found['tasks']} shards of {USERS} users, bank {BANK:,}, {PAIRS} pairs"
    note = f"CPU time; {found['more']:+.1%}, of which Ray beside its workers {found['beside']:.1%}"
    return [ratio("a pass on Ray", size, found["local"], found["ray"], 1 / MOST, note, strict=True)]


def _measured_apart(seconds: float) -> dict[str, float]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)}
    # Imported by name, so that workers find the work under that name too.
    command = [sys.executable, "-c", f"import bench_ray; bench_ray.measure_pairs({seconds})"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603, ours
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_pairs(seconds: float) -> None:
    """Print the median CPU times of runs of about so many seconds on both engines, and by how much they differ."""
    work = Pass(Bank(HashingEncoder().encode(make_texts(1_000_000, BANK))))
    local, ray = Threads(WORKERS), Ray(WORKERS)
    began = time.perf_counter()
    _answers(local, work, 2 * WORKERS)
    tasks = max(4 * WORKERS, round(2 * WORKERS * seconds / (time.perf_counter() - began)))
    _answers(ray, work, 2 * WORKERS)  # the start of the cluster and of its workers
    pairs = []
    for number in range(PAIRS):
        ours, theirs = (_timed(engine, work, tasks) for engine in (local, ray))
        assert ours[0] == theirs[0], "both engines must give the same bytes"
        pairs.append((ours[1], theirs[2], theirs[3]))
        print(f"pair {number}: local {ours[1]:.2f} s, ray {theirs[2]:.2f} s of CPU", file=sys.stderr, flush=True)
    middle = sorted(pairs, key=lambda pair: pair[1] / pair[0])[len(pairs) // 2]
    found = {
        "tasks": tasks,
        "local": middle[0],
        "ray": middle[1],
        "more": statistics.median(theirs / ours for ours, theirs, _ in pairs) - 1,
        "beside": statistics.median(beside / ours for ours, _, beside in pairs),
    }
    print(json.dumps(found))


def _answers(engine: Engine, work: Callable[[int], str], tasks: int) -> list[tuple[int, str]]:
    return sorted(engine.run(work, range(tasks)))


def _timed(engine: Engine, work: Callable[[int], str], tasks: int) -> tuple[list[tuple[int, str]], float, float, float]:
    """Return the answers, and the CPU seconds of this process, of it with all below, and of these but the workers."""
    own, before = time.process_time(), _tree()
    found = _answers(engine, work, tasks)
    spent = {process: (name, taken - before.get(process, ("", 0.0))[1]) for process, (name, taken) in _tree().items()}
    beside = sum(taken for name, taken in spent.values() if not name.startswith("ray::"))
    return found, time.process_time() - own, sum(taken for _, taken in spent.values()), beside


def _tree() -> dict[int, tuple[str, float]]:
    """Return name and CPU seconds of this process and of all that descend from it, by their numbers."""
    tick, parents, known = os.sysconf("SC_CLK_TCK"), {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            head, _, tail = (place / "stat").read_text().rpartition(")")
            title = (place / "cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        fields, process = tail.split(), int(head.partition(" ")[0])
        parents[process] = int(fields[1])
        known[process] = title, (int(fields[11]) + int(fields[12])) / tick

    def descends(process: int) -> bool:
        while process not in {0, os.getpid()}:
            process = parents.get(process, 0)
        return process != 0

    return {process: facts for process, facts in known.items() if descends(process)}


if __name__ == "__main__":
    measured = _measured_apart(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
    print(json.dumps(measured, indent=2))
    sys.exit(0 if measured["more"] <= MOST - 1 else 1)
