import os
import signal
import time

import numpy as np
import pytest

from canarybank.config import resolve
from canarybank.errors import StoreError
from canarybank.flow import run_audit
from canarybank.run import Run, verify

KILLS = 20


@pytest.fixture(scope="session")
def small(flags):
    return {**flags, "attack.names": "ordinary,nonce-norm", "cohorts.canaries": 1, "audit.trials": 60_000}


def test_a_run_killed_at_twenty_random_moments_ends_with_the_same_bytes(small, nursery, tmp_path):
    """Kill at moments spread over a run's whole length, with an empty cache for each fresh folder."""
    began = time.monotonic()
    nursery.start(small, tmp_path / "whole", tmp_path / "whole-cache")
    assert nursery.wait() == 0
    length = time.monotonic() - began
    whole = (tmp_path / "whole" / "results.json").read_bytes()
    rng, killed, number, stages = np.random.default_rng(7), 0, 0, set()
    while killed < KILLS:
        folder, cache = tmp_path / f"run-{number}", tmp_path / f"cache-{number}"
        child = nursery.start(small, folder, cache)
        time.sleep(length * rng.uniform(0.0, 1.1))
        if _alive(child):
            os.kill(child, signal.SIGKILL)
        if nursery.wait() == 0:
            number += 1
            continue
        killed += 1
        stages.add(tuple(sorted(p.name for p in folder.glob("[a-z]*"))) if folder.exists() else ())
        if rng.random() < 0.5:
            _finish(nursery, small, folder, cache, whole)
            number += 1
    _finish(nursery, small, tmp_path / f"run-{number}", tmp_path / f"cache-{number}", whole)
    assert len(stages) >= 2, f"every kill fell on the same stage: {stages}"


def _alive(child):
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        return False
    return True


def _finish(nursery, flags, folder, cache, whole):
    nursery.start(flags, folder, cache)
    assert nursery.wait() == 0
    assert (folder / "results.json").read_bytes() == whole
    assert verify(folder).ok
    assert Run.open(folder).is_finished


def test_a_second_process_on_one_run_is_refused(small, nursery, tmp_path):
    child = nursery.start({**small, "audit.trials": 40_000_000}, tmp_path / "run", tmp_path / "cache")
    try:
        while not (tmp_path / "run" / "manifest.json").exists():
            time.sleep(0.01)
        with pytest.raises(StoreError, match=f"in use by process {child}"):
            run_audit(resolve(flags={**small, "audit.trials": 40_000_000}), tmp_path / "run")
    finally:
        os.kill(child, signal.SIGKILL)
        assert nursery.wait() == -signal.SIGKILL
