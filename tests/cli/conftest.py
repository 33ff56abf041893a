import contextlib
import io
import json
import os
import random
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from canarybank.cli import main

GOLDEN = Path(__file__).parent / "golden"
WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
USERS, RECORDS, ENTRIES = 30, 8, 120


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        """Return the one JSON document on standard output."""
        return json.loads(self.out)


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory):
    """Keep caches apart, and the width of a pipe fixed."""
    before = dict(os.environ)
    os.environ.update(CANARYBANK_CACHE=str(tmp_path_factory.mktemp("cache")), COLUMNS="100", NO_COLOR="1")
    yield
    os.environ.clear()
    os.environ.update(before)


def call(*words, commands=None):
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words], commands=commands)
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture
def broken():
    """Return the command line with commands that all raise an error."""

    def make(error):
        def fail(*_words, **_options):
            raise error

        return partial(call, commands=lambda _chosen: fail)

    return make


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Return the command line, called from an empty folder."""
    monkeypatch.chdir(tmp_path)
    return call


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Write a file of users with only the columns user and text, a bank, and the few lines of TOML that audit them."""
    folder, rng = tmp_path_factory.mktemp("world"), random.Random(3)  # noqa: S311, made-up texts

    def sentence():
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 9)))

    rows = [f"u{i:02d},{sentence()}" for i in range(USERS) for _ in range(RECORDS)]
    (folder / "users.csv").write_text("\n".join(["user,text", *rows]) + "\n")
    (folder / "bank.txt").write_text("\n".join(dict.fromkeys(sentence() for _ in range(ENTRIES))) + "\n")
    (folder / "own.toml").write_text(
        '[users]\nsource = "users.csv"\n\n[bank]\nsource = "bank.txt"\n\n[encoder]\nname = "hashing"\n\n'
        "[mechanism]\nk = 3\nsigma = 0.5\nq = 0.5\n\n"
        '[attack]\nnames = ["ordinary", "nonce-norm"]\nprobes = 12\npool = 40\n\n'
        "[cohorts]\ncanaries = 2\n\n[audit]\ntrials = 3000\n"
    )
    return folder


@pytest.fixture(scope="session")
def own(world):
    """Return the configuration file."""
    return world / "own.toml"


@pytest.fixture(scope="session")
def finished(own, tmp_path_factory):
    """Run the small audit once; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("runs") / "own"
    outcome = call("audit", own, "--folder", folder)
    assert outcome.code == 0, outcome.err
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    """Return a copy of the finished run."""
    return shutil.copytree(finished, tmp_path / "runs" / "own")


@pytest.fixture
def unfinished(copied):
    """Return a run that was stopped before its last trial."""
    manifest = json.loads((copied / "manifest.json").read_text())
    (copied / "manifest.json").write_text(json.dumps(manifest | {"state": "started", "finished": None, "files": {}}))
    (copied / "results.json").unlink()
    return copied


@pytest.fixture
def golden():
    """Compare the form of a document with a kept one, which others read; GOLDEN=write keeps it anew."""

    def compare(name, text):
        path = GOLDEN / name
        if os.environ.get("GOLDEN") == "write":
            path.write_text(text)
        assert text == path.read_text()

    return compare


@pytest.fixture
def words():
    """Return a function that gives an output on one line, with one blank between words."""
    return lambda text: " ".join(text.split())


@pytest.fixture
def shape():
    """Return the form of a JSON document: its keys, and the types of its values."""

    def of(value):
        if isinstance(value, dict):
            return {key: of(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [of(value[0])] if value else []
        return type(value).__name__

    return of
