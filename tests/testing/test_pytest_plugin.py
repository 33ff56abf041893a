"""The fixture ``canarybank``, in a test session of its own."""

import random
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from canarybank.run import open_run, verify

pytest_plugins = ["pytester"]

AUDITED = """
    FLAGS = {
        "bank.source": "bank.txt", "encoder.name": "hashing", "attack.names": "nonce-norm", "attack.probes": 12,
        "attack.pool": 40, "cohorts.canaries": 1, "audit.trials": 500, "mechanism.sigma": 0.5, "mechanism.q": 0.5,
    }

    def test_too_small(canarybank):
        canarybank.audit("users.csv", claimed=0.5, flags=FLAGS)

    def test_large_enough(canarybank):
        assert canarybank.audit("users.csv", claimed=20.0, flags=FLAGS).ok

    def test_gated(canarybank):
        assert canarybank.gate("kept/test_too_small", claimed=20.0).ok
        canarybank.gate("kept/test_too_small", claimed=0.5)
"""
SYSTEM = """
    import numpy as np
    import pytest
    from canarybank import Mechanism, Settings

    @pytest.mark.parametrize("noise", [0.05, 0.2])
    def test_release(canarybank, noise):
        def release(eligible, size, rng):
            return rng.normal(0.0, noise, (size, 2)) + eligible * np.array([0.1, 0.0])

        canarybank.audit_system(release, claim=Mechanism(q=1.0, sigma=1.0), settings=Settings(trials=200))
"""


@pytest.fixture
def small_people(pytester):
    """Write a small file of users and a bank into the folder of the session."""
    rng = random.Random(3)  # noqa: S311, made-up texts
    words = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music")

    def sentence():
        return " ".join(rng.choices(words, k=rng.randint(4, 9)))

    rows = [f"u{user},{sentence()}" for user in range(30) for _ in range(8)]
    (pytester.path / "users.csv").write_text("\n".join(["user,text", *rows]) + "\n")
    (pytester.path / "bank.txt").write_text("\n".join(dict.fromkeys(sentence() for _ in range(120))) + "\n")


@pytest.fixture
def session(pytester):
    """Run a test file in a session of its own that keeps its runs, and return what pytest printed."""

    def run(content):
        pytester.makepyfile(content)
        known = {point.name for point in entry_points(group="pytest11")}
        plugin = () if "canarybank" in known else ("-p", "canarybank.testing.pytest_plugin")
        return pytester.runpytest_inprocess(*plugin, "-p", "no:randomly", "--canarybank-runs", "kept", "-q")

    return run


def test_an_audit_in_a_test_fails_with_the_sentence_and_keeps_the_page(session, pytester, monkeypatch, small_people):
    del small_people
    monkeypatch.setenv("CANARYBANK_CACHE", str(pytester.path / "cache"))
    (pytester.path / "kept" / "test_large_enough").mkdir(parents=True)  # an old run does not answer for a new one
    done = session(AUDITED)
    done.assert_outcomes(passed=1, failed=2)
    failed = [line for line in done.outlines if line.startswith("Violation: the bound")]
    assert len(failed) == 2, done.outlines
    assert "kept/test_too_small/report.html" in " ".join(done.outlines)
    assert "Traceback" not in str(done.stdout)
    runs = sorted(path.name for path in (pytester.path / "kept").iterdir())
    assert runs == ["test_large_enough", "test_large_enough-2", "test_too_small"]
    kept = [pytester.path / "kept" / name for name in runs]
    assert [(folder / "report.html").is_file() for folder in kept] == [False, True, True]
    assert all(verify(open_run(folder)).ok for folder in kept[1:])


def test_a_system_in_a_test_fails_where_its_claim_is_refuted(session):
    done = session(SYSTEM)
    done.assert_outcomes(passed=1, failed=1)
    assert "FAILED" in str(done.stdout)
    assert "test_release[0.05]" in str(done.stdout)
    assert "refuted" in str(done.stdout)


def test_loading_the_plug_in_loads_nothing_heavy():
    heavy = "{'numpy', 'scipy', 'polars', 'pydantic'}"
    code = f"import sys, canarybank.testing.pytest_plugin; print(*{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
