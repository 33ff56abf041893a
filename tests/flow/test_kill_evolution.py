"""Kill audited evolutions among their trials: the same command ends with the same bytes. No model is needed."""

import os
import signal
import time

import pytest

from canarybank.run import Run, verify

COMMAND = (
    *("evolve", "--preset", "embedded-evolution", "--insecure-seed", "0", "--audit", "nonce-mueff,ordinary"),
    *("--evolve.mauve=false", "--evolve.reference", "0", "--audit.trials", "270000", "--audit.threshold", "analytic"),
    *("--run.workers", "1", "--quiet"),
)


def shards(folder):
    """Return how many shards of trials are on disk."""
    log = folder / "trials.log"
    return log.read_bytes().count(b'"positives"') if log.exists() else 0


def finish(nursery, folder, cache):
    nursery.start({}, folder, cache, COMMAND)
    assert nursery.wait() == 0
    return (folder / "results.json").read_bytes()


@pytest.mark.timeout(600)
def test_an_audited_evolution_killed_among_its_trials_ends_with_the_same_bytes(nursery, tmp_path):
    cache, folder = tmp_path / "cache", tmp_path / "run"
    whole = finish(nursery, tmp_path / "whole", cache)
    every, before = shards(tmp_path / "whole"), 0
    assert every == 2 * 2 * 3
    for _ in range(2):
        child = nursery.start({}, folder, cache, COMMAND)
        while shards(folder) <= before:
            time.sleep(0.005)
        os.kill(child, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL
        committed, before = Run.open(folder).commitment_hash, shards(folder)
        assert before < every
        assert not (folder / "results.json").exists()
    releases = {path: path.read_bytes() for path in folder.rglob("release*.npy")}
    assert finish(nursery, folder, cache) == whole
    assert shards(folder) == every
    assert {path: path.read_bytes() for path in folder.rglob("release*.npy")} == releases
    assert Run.open(folder).results.commitment == committed
    assert verify(folder).ok
