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
from canarybank.mechanism import Mechanism, one_round_epsilon

BANK, PROBES, USERS, TRIALS = 24, 4, 16, 60
SIGMAS, QS, DELTAS = (1e-3, 1e3), (1e-9, 1.0), (0.0, 1e-12, 0.4)
COUNTS = (1, BANK - PROBES, BANK, BANK + 1)
CLAIMS = (0.0, 1e-9, 1.0, 1e6)
METHODS = ("paper", "joint", "pooled", "stratified", "clopper-pearson")
EVOLVE = (
    *("--generator.kind", "scripted_answers:write", "--evolve.rounds", 2, "--evolve.share", 0.5, "--evolve.near", 1),
    *("--audit", "nonce-norm", "--insecure-seed", 1, "--audit.trials", 60, "--audit.threshold", "analytic"),
    *("--evolve.reference", 3, "--evolve.mauve=false"),
)
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


def one_release_delta(settings, epsilon):
    """Return delta of one release at fifty digits, for removing the user: at every epsilon the larger direction."""
    with mpmath.workdps(50):
        mu, q, e = 1 / mpmath.mpf(settings.sigma), mpmath.mpf(settings.q), mpmath.mpf(epsilon)
        if e == 0:
            return q * (1 - mpmath.erfc(mu / 2 / mpmath.sqrt(2)))
        z = mpmath.log((mpmath.exp(e) - 1 + q) / q) / mu + mu / 2
        upper = mpmath.erfc(z / mpmath.sqrt(2)) / 2
        return (1 - q - mpmath.exp(e)) * upper + q * mpmath.erfc((z - mu) / mpmath.sqrt(2)) / 2


@pytest.mark.parametrize("settings", cases(2, 300))
def test_epsilon_and_ceiling(settings):
    stated = ask("epsilon", *settings.flags, "--no-opacus", "--json")["epsilon"]
    said = ask("epsilon", *settings.flags, "--no-opacus")
    if settings.delta == 0:
        assert stated is None
        assert "infinite" in said
    else:
        assert one_release_delta(settings, stated * (1 + 1e-9)) <= settings.delta
        assert stated == 0 or one_release_delta(settings, stated * (1 - 1e-9)) >= settings.delta
    rounds = random.Random(repr(settings)).randint(2, 50)  # noqa: S311, reproducible on purpose
    several = ask("epsilon", *settings.flags, "--no-opacus", "--rounds", rounds, "--json")["epsilon"]
    if settings.delta == 0:
        assert several is None
    else:
        # Basic composition from above; from below one round, and all of them as one with less noise when q is 1.
        each = one_round_epsilon(Mechanism(sigma=settings.sigma, q=settings.q, delta=settings.delta / rounds))
        assert stated <= several <= rounds * each * (1 + 1e-6)
        if settings.q == 1:
            whole = one_round_epsilon(Mechanism(sigma=settings.sigma / rounds**0.5, q=1.0, delta=settings.delta))
            assert whole <= several <= whole * (1 + 1e-6) + 1e-6
    made = ask("ceiling", *settings.flags, "--trials", 10**4, "--share", 0.3, "--json")
    if made is not None:
        assert 0 <= made["q05"] <= made["median"] <= made["q95"]
        assert made["exact"] == stated
        assert stated is None or made["rule"] <= stated * (1 + 1e-9)
        assert made["trials_needed"] is None or made["trials_needed"] >= 1
        ask("ceiling", *settings.flags, "--trials", 10**4, "--share", 0.3)


def sound(value, most):
    """Return an epsilon that JSON may hold as null, which stands for infinite; it is at most the one above it."""
    number = math.inf if value is None else value
    assert 0 <= number <= most * (1 + 1e-6) + 1e-6
    return number


@pytest.mark.parametrize("settings", cases(0, 100))
def test_an_audit_and_all_that_reads_its_run(settings, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, method = Path("runs/tiny"), random.Random(repr(settings)).choice(METHODS)  # noqa: S311, reproducible
    words = (tiny, *settings.keys, "--folder", run, "--audit.trials", TRIALS, "--audit.method", method)
    planned = ask("plan", *words, "--json")
    ask("plan", *words)
    made = ask("audit", *words, "--json")
    assert (made is None) == (settings.k > BANK - PROBES)
    if made is None:
        return
    results = read((run / "results.json").read_text())
    exact = math.inf if results["epsilon"] is None else results["epsilon"]
    assert planned["epsilon"] == results["epsilon"]
    for attack in results["attacks"]:
        rungs = attack["ladder"]
        reach = sound(rungs["attack"]["low"], exact)
        sound(rungs["attack"]["epsilon"], exact)
        sound(rungs["attack"]["high"], exact)
        sound(rungs["rule"]["low"], math.inf if rungs["attack"]["high"] is None else rungs["attack"]["high"])
        assert attack["headline"]["epsilon"] <= exact + 1e-6 or reach == 0, "a level of 5%: change the seed"
        for canary in attack["canaries"]:
            for name in ("absent_rate", "eligible_rate"):
                assert 0 <= canary[name]["lower"] <= canary[name]["upper"] <= 1
    assert "Traceback" not in ask("report", run)
    for page in (*run.glob("*.html"), *run.glob("*.md"), *run.glob("*.tex"), *run.rglob("*.svg")):
        shown = re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
        assert not NOT_A_NUMBER.search(shown), (page, NOT_A_NUMBER.search(shown))
    claim = random.Random(repr(settings)).choice(CLAIMS)  # noqa: S311, reproducible
    ask("gate", run, "--claimed-eps", claim, "--junit", "gate.xml", "--markdown", "gate.md", codes=(0, 1))
    for written in ("gate.xml", "gate.md"):
        assert not NOT_A_NUMBER.search(Path(written).read_text())
    ask("gate", run, "--claimed-eps", claim, "--json", codes=(0, 1))
    assert ask("verify", run, "--json")
    assert ask("runs", "list", "--json")["runs"][0]["state"] == "finished"
    ask("runs", "list")


@pytest.mark.parametrize("settings", cases(0, 40)[::6])
def test_a_sweep(settings, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = (*settings.keys, "--over", "mechanism.sigma=1e-3,1e3", "--audit.trials", TRIALS)
    if ask("sweep", tiny, *words, "--json"):
        for page in Path("runs").rglob("*.svg"):
            assert not NOT_A_NUMBER.search(page.read_text()), page


@pytest.mark.parametrize("settings", cases(3, 60)[::3])
def test_an_evolution_and_its_audit(settings, tiny, tmp_path, monkeypatch, writing):
    monkeypatch.chdir(tmp_path)

    def script(request):
        return f"I saw the {' '.join(WORDS[(request.seed // 14**i) % 14] for i in range(5))} today."

    writing(script)
    made = ask("evolve", tiny, *settings.keys, *EVOLVE, "--json")
    if settings.delta == 0 or settings.k > BANK:
        assert made is None
    if made is None:
        return
    assert [each["rounds"] for each in made["attacks"]] == list(range(1, len(made["rounds"]) + 1))
    for each in made["attacks"]:
        assert each["ladder"]["mechanism"]["epsilon"] >= 0
    run = Path("runs/tiny")
    read((run / "results.json").read_text())
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", (run / "report.html").read_text(), flags=re.DOTALL)
    assert not NOT_A_NUMBER.search(shown), NOT_A_NUMBER.search(shown)
    ask("runs", "list", "--json")
