import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from canarybank.config import resolve
from canarybank.flow import run_audit


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """Keep every cache of these tests in a folder of their own."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("CANARYBANK_CACHE")
    os.environ["CANARYBANK_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["CANARYBANK_CACHE"]
    else:
        os.environ["CANARYBANK_CACHE"] = before


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """Give one test an empty cache."""
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def flags(world):
    return {
        "users.source": str(world / "users.csv"),
        "bank.source": str(world / "bank.csv"),
        "encoder.name": "hashing",
        "mechanism.k": 3,
        "attack.names": ("ordinary", "nonce-norm"),
        "attack.probes": 12,
        "attack.pool": 40,
        "cohorts.canaries": 2,
        "audit.trials": 3000,
        "run.workers": 1,
    }


@pytest.fixture(scope="session")
def resolved(flags):
    return resolve(flags=flags)


@pytest.fixture(scope="session")
def finished(resolved, tmp_path_factory):
    """Run the small audit once; tests that change it take a copy."""
    return run_audit(resolved, tmp_path_factory.mktemp("runs") / "run", command="canarybank audit small.toml")


@pytest.fixture(scope="session")
def strong(flags, tmp_path_factory):
    """Enough trials for a bound that is worth gating."""
    told = {**flags, "audit.trials": 300_000, "audit.threshold": "analytic"}
    return run_audit(resolve(flags=told), tmp_path_factory.mktemp("strong") / "run")


@pytest.fixture
def copied(finished, tmp_path):
    """Give a test a copy of the finished run that it may alter."""
    shutil.copytree(finished.folder, tmp_path / "run")
    return tmp_path / "run"


NURSERY = f"""
import contextlib, importlib.util, json, os, sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "doubles")!r})
import canarybank.auditing.evidence
import polars
from canarybank.cli import main
from canarybank.config import resolve
from canarybank.flow import run_audit, run_evolution
from canarybank.mechanism import Mechanism, epsilon, prv_epsilon
from scripted_answers import answering
epsilon(Mechanism())
if importlib.util.find_spec("opacus"):
    for rounds in (1, 2):
        prv_epsilon(Mechanism(k=3, q=0.5), rounds)
def sentence(request):
    return "I saw the " + " ".join("abcdefgh"[request.seed // 8**i % 8] * 4 for i in range(6)) + "."
def run(order):
    if order["words"]:
        with answering(sentence), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            return main([*order["words"], "--folder", order["folder"]])
    run_audit(resolve(flags=order["flags"]), order["folder"])
    return 0
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ["CANARYBANK_CACHE"] = order["cache"]
        status = 1
        try:
            status = run(order)
        except Exception as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """A process that has everything imported and forks a child for each run, so that a run begins at once."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._process.stdout.readline() == "ready\n"

    def start(self, flags, folder: Path, cache: Path, words=()) -> int:
        """Begin an audit with these flags, or the command of these words, and return its process."""
        order = {"flags": flags, "folder": str(folder), "cache": str(cache), "words": words}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def wait(self) -> int:
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def nursery():
    made = Nursery()
    yield made
    made.close()
