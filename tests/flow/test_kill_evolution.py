"""Kill audited evolutions among their trials: the same command ends with the same bytes."""

import os
import signal
import time

import pytest

from canarybank.run import Run, verify

SHARDS = 2 * 2 * 3
"""Of two attacks and two hypotheses."""


@pytest.fixture(scope="module")
def command(evolving):
    """Return the words of a small evolution that is audited by two attacks."""
    chosen = evolving | {
        "attack.probes": 8,
        "attack.pool": 20,
        "audit.trials": 300_000,
        "audit.threshold": "analytic",
    }
    named = {"evolve.insecure_seed": "insecure-seed"}
    words = [str(word) for key, value in chosen.items() for word in (f"--{named.get(key, key)}", value)]
    return ["evolve", *words, "--audit", "nonce-norm,ordinary", "--quiet"]


def shards(folder):
    """Return how many shards of trials are on disk."""
    log = folder / "trials.log"
    return log.read_bytes().count(b'"positives"') if log.exists() else 0


def finish(nursery, command, folder, cache):
    nursery.start({}, folder, cache, command)
    assert nursery.wait() == 0
    return (folder / "results.json").read_bytes()


def test_an_audited_evolution_killed_among_its_trials_ends_with_the_same_bytes(nursery, command, tmp_path):
    cache, folder, before = tmp_path / "cache", tmp_path / "run", 0
    whole = finish(nursery, command, tmp_path / "whole", tmp_path / "another-cache")
    assert shards(tmp_path / "whole") == SHARDS
    for _ in range(2):
        child = nursery.start({}, folder, cache, command)
        while shards(folder) <= before:
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL
        committed, before = Run.open(folder).commitment_hash, shards(folder)
        assert before < SHARDS
        assert not (folder / "results.json").exists()
    releases = {path: path.read_bytes() for path in folder.rglob("release*.npy")}
    assert len(releases) == 2
    assert finish(nursery, command, folder, cache) == whole
    assert shards(folder) == SHARDS
    assert {path: path.read_bytes() for path in folder.rglob("release*.npy")} == releases
    assert Run.open(folder).results.commitment == committed
    assert verify(folder).ok


@pytest.mark.slow
def test_an_evolution_killed_among_its_shards_goes_on_there_and_ends_with_the_same_bytes(nursery, evolving, tmp_path):
    named = {"evolve.insecure_seed": "insecure-seed"}
    words = [str(word) for key, value in evolving.items() for word in (f"--{named.get(key, key)}", value)]
    command = ["evolve", *words, "--users.cap", "5", "--quiet", "--run.shards"]
    whole = finish(nursery, [*command, "0"], tmp_path / "whole", tmp_path / "another-cache")
    folder, counts = tmp_path / "run", tmp_path / "cache" / "stages" / "pass"
    for least in (3, 20):
        child = nursery.start({}, folder, tmp_path / "cache", [*command, "16"])
        while len(list(counts.glob("*.arrays"))) < least:
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL
        kept = {path: path.stat().st_ino for path in counts.glob("*.arrays")}
        assert not (folder / "results.json").exists()
    assert finish(nursery, [*command, "16"], folder, tmp_path / "cache") == whole
    assert {path: path.stat().st_ino for path in kept} == kept
    stages = Run.open(folder).manifest.stages
    assert stages["found"]["pass"] >= 1
    releases = [path.read_bytes() for path in sorted(folder.rglob("release*.npy"))]
    assert releases == [path.read_bytes() for path in sorted((tmp_path / "whole").rglob("release*.npy"))]
