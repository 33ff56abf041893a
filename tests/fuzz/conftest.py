"""Fuzz the command line: seeded mutations of every input, run in this process, all held to one invariant.

Whatever the input is, a command ends within its test's time limit and with a documented exit code, says what is wrong
in a sentence without control characters, and shows no traceback. A failure names its seed, and the input stays in
pytest's folder.
"""

import contextlib
import io
import os
import random
import re
import shutil
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from canarybank.cli import main

CODES = {0, 1, 2, 3, 4, 5, 130}
WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
NATIVE = re.compile(r"thread '.*panicked|RUST_BACKTRACE|Traceback|core dumped", re.DOTALL)
TOKENS = (
    b"\0",
    b"\x1b[31m",
    b"\x9b2J",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    "\u202e\u2066".encode(),
    "\u2028".encode(),
    b'"',
    b"'",
    b",",
    b"\t",
    b"\r",
    b"\n",
    b"\r\n",
    b"{",
    b"}",
    b"[" * 5000,
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"NaN",
    b"9" * 5000,
    b"0x7fffffffffffffff",
    b"\\ud800",
    b"\\u0000",
    b"=cmd|' /C calc'!A0",
    b"../../../../etc/passwd",
    b"/dev/zero",
    b"%s%n{0}",
)
TOML = """\
[users]
source = "users.csv"
minimum = 1

[bank]
source = "bank.txt"

[encoder]
name = "hashing"

[mechanism]
k = 2
sigma = 1.0
q = 0.5

[attack]
names = ["ordinary"]
probes = 2
pool = 4

[cohorts]
canaries = 1

[audit]
trials = 50
threshold = "analytic"

[run]
workers = 1
"""


@dataclass(frozen=True)
class World:
    """A folder of small inputs, fresh for each case."""

    folder: Path

    def write(self, name: str, data: bytes) -> Path:
        """Write an input."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


def sentence(rng: random.Random) -> str:
    """Return a few words."""
    return " ".join(rng.choice(WORDS) for _ in range(6))


def mutate(data: bytes, rng: random.Random, times: int | None = None) -> bytes:
    """Return bytes with some of them flipped, cut out, doubled, moved or replaced."""
    made = bytearray(data)
    for _ in range(times or rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(made) + 1)
        end = min(len(made), at + rng.choice((1, 1, 2, 4, 16, 200)))
        match rng.randrange(7):
            case 0 if made:
                made[at % len(made)] ^= 1 << rng.randrange(8)
            case 1 if made:
                made[at % len(made)] = rng.randrange(256)
            case 2:
                del made[at:end]
            case 3:
                made[at:at] = made[at:end]
            case 4:
                made[at:at] = rng.choice(TOKENS)
            case 5:
                made[at:end] = rng.choice(TOKENS)
            case _:
                if rng.random() < 0.3:
                    del made[at:]
                else:
                    made[at:at] = rng.randbytes(4)
    return bytes(made)


@contextlib.contextmanager
def descriptor_2():
    """Catch what native code writes on standard error."""
    with Path(os.environ["CANARYBANK_CACHE"], "descriptor-2").open("w+b") as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield caught
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def faults(code: int, out: str, err: str, native: str, *, gates: bool) -> list[str]:
    """Return in what a case broke the invariant."""
    found = []
    if code not in CODES or (code == 1 and not gates):
        found.append(f"exit code {code}")
    if NATIVE.search(out + err + native):
        found.append("a traceback or panic")
    if any(not (char.isprintable() or char == "\n" or unicodedata.category(char) == "Zs") for char in out + err):
        found.append("control characters")
    if code and not (out + err).strip():
        found.append("no sentence")
    return found


def disagreeing(folder: Path, words: list[str], code: int) -> list[str]:
    """Return in what the files that a gate wrote for a CI system differ from its exit code."""
    if "--junit" not in words:
        return []
    suite = ET.fromstring((folder / "gate.xml").read_text(encoding="utf-8")).find("testsuite")  # noqa: S314, we wrote it
    title = (folder / "gate.md").read_text(encoding="utf-8").splitlines()[0]
    shown = (suite.get("failures") != "0", suite.get("errors") != "0", title.endswith(": refused"))
    return [] if shown == (code == 1, code > 1, code > 1) else [f"JUnit and Markdown that show {shown}"]


def call(words: list[str], *, gates: bool = False) -> tuple[int, list[str], str]:
    """Run a command in this process and judge it."""
    out, err = io.StringIO(), io.StringIO()
    with descriptor_2() as caught:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(words)
            except BaseException as error:  # noqa: BLE001, a panic is no Exception
                code, _ = 70, err.write(f"Traceback: {error!r}")
        sys.stderr.flush()
        caught.seek(0)
        native = caught.read().decode(errors="replace")
    said = err.getvalue()
    return code, faults(code, out.getvalue(), said, native, gates=gates), said + native


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """Keep caches apart, and colours out."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """Write the inputs of a tiny audit once: users, a bank, a configuration."""
    folder, rng = tmp_path_factory.mktemp("fuzz"), random.Random(1)  # noqa: S311, made-up texts
    rows = [f"u{i % 8},{sentence(rng)}\n" for i in range(24)]
    (folder / "users.csv").write_text("user,text\n" + "".join(rows))
    (folder / "bank.txt").write_text("".join(f"{sentence(rng)} {i}\n" for i in range(12)))
    (folder / "own.toml").write_text(TOML)
    return folder


@pytest.fixture
def fuzz(tmp_path, template, count):
    """Return a loop over cases: ``make(world, rng)`` writes one and returns the words of the command that meets it."""

    def loop(name, make, seeds, *, gates=False):
        codes, failed = Counter(), []
        for seed in seeds:
            folder = tmp_path / str(seed)
            shutil.copytree(template, folder)
            os.chdir(folder)
            rng = random.Random(f"{name} {seed}")  # noqa: S311, reproducible on purpose
            words = [str(word) for word in make(World(folder), rng)]
            code, found, said = call(words, gates=gates)
            found += disagreeing(folder, words, code)
            codes[code] += 1
            if found:
                failed.append(f"seed {seed}: {', '.join(found)}; {words} said {said[:600]!r}")
            else:
                os.chdir(tmp_path)
                shutil.rmtree(folder)
        numbers = {f"exited with {code}": codes[code] for code in sorted(codes)}
        count(f"fuzzed {name}", cases=sum(codes.values()), faults=len(failed), **numbers)
        assert not failed, "\n".join(failed)

    return loop


@pytest.fixture
def mutated():
    """Return the function that mutates bytes."""
    return mutate


@pytest.fixture
def judge():
    """Return what a case is judged by."""
    return faults
