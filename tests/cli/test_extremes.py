"""Extreme settings through every command: a right number, or a refusal in a sentence. Never a crash, nan or inf.

Settings are drawn with a seed, evenly on a logarithmic scale, with the corners of every range among them: sigma from
1e-3 to 1e3, q from 1e-9 to 1, delta 0 and from 1e-12 to 0.4, k from 1 to beyond the bank. Warnings are errors.
"""

import io
import json
import math
import random
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import mpmath
import pytest

from canarybank.cli import main
from canarybank.generate import ScriptedGenerator

BANK, PROBES, USERS, TRIALS = 24, 4, 16, 60
SIGMAS, QS, DELTAS = (1e-3, 1e3), (1e-9, 1.0), (0.0, 1e-12, 0.4)
COUNTS = (1, BANK - PROBES, BANK, BANK + 1)
CLAIMS = (0.0, 1e-9, 1.0, 1e6)
WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
TOML = """\
[users]
source = "users.csv"
minimum = 1
[bank]
source = "bank.txt"
[encoder]
name = "hashing"
[attack]
names = ["ordinary", "nonce-norm"]
probes = 4
pool = 8
[cohorts]
canaries = 1
[run]
workers = 1
"""
NOT_A_NUMBER = re.compile(r"(?<![\w.])[-+]?(nan|inf)(?![\w.])", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """A mechanism at the edge of what is allowed."""

    sigma: float
    q: float
    delta: float
    k: int

    @property
    def flags(self):
        """Return the flags of a command that needs no bank."""
        return ("--sigma", repr(self.sigma), "--q", repr(self.q), "--delta", repr(self.delta))

    @property
    def keys(self):
        """Return the flags of a command that audits."""
        names = ("sigma", "q", "delta", "k")
        return tuple(word for name in names for word in (f"--mechanism.{name}", repr(getattr(self, name))))


CORNERS = [Settings(*each, COUNTS[i % len(COUNTS)]) for i, each in enumerate(product(SIGMAS, QS, DELTAS))]


def drawn(seed):
    rng = random.Random(f"extremes {seed}")  # noqa: S311, reproducible on purpose

    def between(low, high):
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    return Settings(
        sigma=between(1e-3, 1e3),
        q=rng.choice((1.0, between(1e-9, 1), between(1e-3, 1))),
        delta=rng.choice((0.0, between(1e-12, 0.4), between(1e-12, 0.4))),
        k=rng.choice((*COUNTS, rng.randint(1, BANK))),
    )


def cases(few, many):
    settings = [*CORNERS, *(drawn(seed) for seed in range(many))]
    return [
        pytest.param(each, id=str(place), marks=[pytest.mark.slow] if place >= len(CORNERS) + few else [])
        for place, each in enumerate(settings)
    ]


def refuse(constant):
    raise AssertionError(f"JSON cannot hold {constant}")


def read(text):
    return json.loads(text, parse_constant=refuse)


def ask(*words, codes=(0, 2)):
    """Run a command; hold it to its exit codes, to a sentence where it refuses, and to figures that are numbers."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    said = out.getvalue() + err.getvalue()
    assert code in codes, (words, code, said)
    assert "Traceback" not in said, (words, said)
    assert not NOT_A_NUMBER.search(said), (words, said)
    if code == 2:
        assert re.search(r"\w+ \w+ \w+.*[.;:]", said, re.DOTALL), (words, said)
        return None
    return read(out.getvalue()) if "--json" in words else out.getvalue()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Write a few users, a small bank, and the configuration that audits them."""
    folder, rng = tmp_path_factory.mktemp("extremes"), random.Random(5)  # noqa: S311, made-up texts

    def sentence():
        return " ".join(rng.choice(WORDS) for _ in range(6))

    rows = [f"u{i % USERS},{sentence()}\n" for i in range(3 * USERS)]
    (folder / "users.csv").write_text("user,text\n" + "".join(rows))
    (folder / "bank.txt").write_text("".join(f"{sentence()} {i}\n" for i in range(BANK)))
    (folder / "tiny.toml").write_text(TOML)
    return folder / "tiny.toml"


@pytest.mark.parametrize("settings", cases(30, 300))
def test_audit(settings, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for method in ("paper", "joint"):
        ask("plan", tiny, *settings.keys, "--audit.method", method)
        made = ask(
            "audit",
            tiny,
            *settings.keys,
            "--folder",
            f"runs/{method}",
            "--audit.trials",
            TRIALS,
            "--json",
            "--audit.method",
            method,
        )
        if made is None:
            continue
        run = Path(f"runs/{method}")
        ask("report", run)
        for claim in CLAIMS:
            ask("gate", run, "--claimed-eps", claim, "--junit", "j.xml", "--markdown", "m.md", codes=(0, 1, 2))
            ask("gate", run, "--claimed-eps", claim, "--json", codes=(0, 1, 2))
        ask("verify", run, "--json")
        ask("verify", run)
        ask("runs", "list", "--json")
        ask("runs", "list")
