"""Make one small real run whose users, bank and command are hostile, and let tests look at its report."""

import csv

import numpy as np
import pytest

from canarybank.experiment import Run, resolve, run_audit
from canarybank.report import summarise_run

SCRIPT = "<script>window.hacked=1</script>"
HOSTILE = (
    f"</style></svg></title>{SCRIPT}\u202egnp.exe <img src=x onerror=window.hacked=1> \"'`&{{{{7}}}} | $x$ \\in{{x}}"
)
LONG = "long" * 2_500
WORDS = tuple(f"{a}{b}" for a in ("ba", "ko", "li", "mu", "sa", "te") for b in ("ra", "ni", "po", "ka", "du", "lo"))


@pytest.fixture(scope="session")
def hostile():
    """Return a text that tries to break out of every format."""
    return HOSTILE


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Return a finished run on hostile users and a hostile bank, three attacks with two canaries each."""
    folder = tmp_path_factory.mktemp("report")
    _users(folder / "users.csv")
    _bank(folder / "bank.csv")
    flags = {
        "users.source": str(folder / "users.csv"),
        "users.minimum_words": 1,
        "encoder.name": "hashing",
        "bank.source": str(folder / "bank.csv"),
        "attack.names": "ordinary,exact,nonce-norm",
        "attack.probes": 8,
        "attack.pool": 24,
        "audit.trials": 20_000,
        "audit.accounted": 1.695,
        "cohorts.canaries": 2,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARYBANK_CACHE", str(folder / "cache"))
        return run_audit(resolve(flags=flags), folder / "a <b> run", command=f"canarybank audit {HOSTILE}")


@pytest.fixture(scope="session")
def summary(run):
    """Return the summary of that run."""
    return summarise_run(run)


@pytest.fixture
def changed(run):
    """Return a function that gives the run with other results, as if its files said so."""

    def change(**update):
        other = Run(run.folder)
        other.__dict__["results"] = run.results.model_copy(update=update)
        return other

    return change


@pytest.fixture
def counted(changed, run):
    """Return a function that gives the run with these true and false positives for every canary of its first attack."""

    def change(tp, fp):
        first, *others = run.results.attacks
        canaries = [
            canary.model_copy(update={"counts": canary.counts.model_copy(update={"tp": tp, "fp": fp})})
            for canary in first.canaries
        ]
        return changed(attacks=(first.model_copy(update={"canaries": tuple(canaries)}), *others))

    return change


def _users(path):
    rng = np.random.default_rng(11)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "text"])
        for user in range(40):
            name = f"=user {user} *b* {SCRIPT}\u202e" if user % 2 else f"user {user}"
            for record in range(8):
                text = " ".join(rng.choice(WORDS[user % 4 * 6 :][:12], size=6))
                writer.writerow([name, {0: f"{HOSTILE} {text}", 1: f"{LONG} {text}"}.get(record, text)])


def _bank(path):
    rng = np.random.default_rng(12)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        for entry in range(120):
            text = " ".join(rng.choice(WORDS, size=6))
            writer.writerow([{0: f"{HOSTILE} {text}", 1: f"{LONG} {text}"}.get(entry % 5, text)])


@pytest.fixture(scope="session")
def attack(summary):
    """Return the summary of one attack."""
    return summary["attacks"][1]
