"""Keep all tests offline, and hold what tests of several rooms share: a small world, and an evolution in it.

``count`` is for loops that say how many cases they tried. Connections that would leave this machine are refused, here
and in each Python started.
"""

import contextlib
import gc
import os
import runpy
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

COUNTED = "counted"
GUARD = Path(__file__).parent / "guard"
DOUBLES = Path(__file__).parent / "doubles"
WRITER = "scripted_answers:write"
WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sun",
    "rain",
    "soup",
    "bread",
    "walk",
    "run",
    "blue",
    "green",
    "tall",
    "small",
    "happy",
    "sad",
    "music",
    "train",
    "river",
    "stone",
    "glass",
    "light",
    "dark",
    "old",
    "new",
    "fast",
    "slow",
    "open",
    "close",
    "hill",
    "road",
    "book",
    "tree",
    "wind",
]
USERS, RECORDS, ENTRIES = 30, 8, 150

# Before ray is imported: its clusters stay on this machine, where the guard lets them.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
sys.path.insert(0, str(DOUBLES))  # so that a configuration can name what stands there
# A worker of pytest-xdist starts with the guard already in its environment.
if str(GUARD) not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(GUARD), os.environ.get("PYTHONPATH")]))
if "sitecustomize" not in sys.modules or Path(sys.modules["sitecustomize"].__file__ or "").parent != GUARD:
    runpy.run_path(str(GUARD / "sitecustomize.py"))


def pytest_configure():
    gc.disable()  # what is collected stays, and to look for garbage in it takes seconds


def pytest_collection_finish():
    gc.enable()


@pytest.fixture
def count(request):
    """Return a function that adds up what a loop did: ``count("caches", corruptions=400, silent=0)``.

    The end of the run prints one line for each name, summed over all tests and workers: see
    ``pytest_terminal_summary``.
    """

    def add(name: str, **numbers: int) -> None:
        request.node.user_properties.append((COUNTED, [name, numbers]))

    return add


def pytest_terminal_summary(terminalreporter):
    """Print what the loops counted, such as "caches: 400 corruptions, 0 silent"."""
    totals: dict[str, Counter[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for kind, value in report.user_properties:
                    if kind == COUNTED:
                        name, numbers = value
                        # Adding counters drops zeros, and a zero is what most of these lines are for.
                        totals.setdefault(name, Counter()).update(numbers)
    if totals:
        terminalreporter.section("counted")
    for name, numbers in sorted(totals.items()):
        words = ", ".join(f"{number:,} {word.replace('_', ' ')}" for word, number in numbers.items())
        terminalreporter.line(f"{name}: {words}")


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Write a file of users with only the columns user and text, and a bank."""
    folder, rng = tmp_path_factory.mktemp("world"), np.random.default_rng(1)

    def sentence():
        return " ".join(rng.choice(WORDS, size=rng.integers(4, 10)))

    rows = [f"u{i:02d},{sentence()}" for i in range(USERS) for _ in range(RECORDS)]
    (folder / "users.csv").write_text("\n".join(["user,text", *rows]) + "\n")
    entries = dict.fromkeys(sentence() for _ in range(ENTRIES))
    (folder / "bank.csv").write_text("\n".join(["text", *entries]) + "\n")
    return folder


@pytest.fixture
def drifting():
    """Return a recipe of the hashing encoder with a fast one beside it, off by up to a drift, and both encoders."""
    from canarybank.encode import EncoderRecipe, HashingEncoder

    class Drifting:
        name, dimension, fingerprint, cheap = "drifting", HashingEncoder().dimension, "drifting", True
        least_texts = 1

        def __init__(self, drift):
            self.drift, self.asked = drift, 0

        def encode(self, texts):
            self.asked += len(texts)
            own = HashingEncoder().encode(texts)
            moves = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=own.shape[1]) for text in texts]
            return (own + 0.99 * self.drift * np.array([move / np.linalg.norm(move) for move in moves])).astype("f4")

    class Counted:
        name, dimension, fingerprint = "counted", HashingEncoder().dimension, HashingEncoder().fingerprint

        def __init__(self, fast):
            self.fast_encoder, self.asked = fast, 0

        def encode(self, texts, /):
            self.asked += len(texts)
            return HashingEncoder().encode(texts)

    def make(drift):
        encoder = Counted(Drifting(drift))
        recipe = EncoderRecipe(f"drifting by {drift}", encoder.fingerprint)
        recipe.provide(encoder)
        return recipe, encoder, encoder.fast_encoder

    return make


@pytest.fixture(scope="session")
def evolving(world):
    """Return the settings of a small evolution: two rounds, seeded, by a generator that a script stands in for."""
    return {
        "users.source": str(world / "users.csv"),
        "bank.source": str(world / "bank.csv"),
        "bank.size": 60,
        "encoder.name": "hashing",
        "generator.kind": WRITER,
        "mechanism.k": 3,
        "mechanism.q": 0.5,
        "evolve.rounds": 2,
        "evolve.share": 0.5,
        "evolve.near": 1.0,
        "evolve.insecure_seed": 3,
        "run.workers": 1,
    }


@pytest.fixture(scope="session")
def audited(evolving):
    """Return the settings of the same evolution, audited, with a few users held out."""
    return evolving | {
        "evolve.audit": "nonce-norm",
        "evolve.reference": 6,
        "evolve.mauve": False,
        "attack.probes": 8,
        "attack.pool": 20,
        "audit.trials": 4000,
        "audit.threshold": "analytic",
        "cohorts.canaries": 1,
    }


@pytest.fixture(scope="session")
def answering():
    """Return a context in which a script answers where a configuration names ``WRITER`` as its generator."""
    from scripted_answers import answering as answering_by

    def sentence(request):
        return f"I saw the {' '.join(np.random.default_rng(request.seed).choice(WORDS, size=6))}."

    def answer(script=sentence, name="scripted"):
        return answering_by(script, name)

    return answer


@pytest.fixture
def writing(answering):
    """Return a function that lets a script answer until the test ends, and returns the generator."""
    with contextlib.ExitStack() as stack:
        yield lambda script, name="scripted": stack.enter_context(answering(script, name))


@pytest.fixture
def scripted(answering):
    """Let a script answer throughout a test."""
    with answering() as made:
        yield made
