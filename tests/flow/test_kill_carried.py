"""Kill an evolution that carries canaries before some of its writes, all over the run, and resume it."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from canarybank.evolution import Evolution
from canarybank.run import Run, verify

# As in tests/evolution/test_kill.py: one process forks a child for each moment, which dies by SIGKILL before the n-th
# call that changes a disk, and then one that resumes.
SCRIPT = textwrap.dedent(
    """
    import itertools, os, pathlib, shutil, signal, sys

    sys.path.insert(0, sys.argv[1])
    from killing import arm, child
    from scripted_answers import answering
    from canarybank.config import resolve
    from canarybank.flow import run_evolution
    from canarybank.mechanism import Mechanism, epsilon
    from canarybank.registry import GENERATORS
    import opendp.prelude, polars
    base, seed, first, stride = pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    words = [one + two for one in ("river", "stone", "cloud") for two in ("song", "yard", "door", "cup")]

    def sentence(number):
        return "I saw the " + " ".join(words[number // 12**i % 12] for i in range(6)) + "."

    def work(folder):
        flags = {
            "users.source": str(base / "users.csv"),
            "bank.source": str(base / "bank.txt"),
            "bank.size": 60,
            "encoder.name": "hashing",
            "generator.kind": "scripted_answers:write",
            "mechanism.k": 3,
            "mechanism.q": 1.0,
            "evolve.rounds": 2,
            "evolve.keep": 20,
            "evolve.near": 1,
            "evolve.audit_one_run": True,
            "one_run.canaries": 10,
            "run.workers": 1,
        }
        if seed:
            flags["evolve.insecure_seed"] = int(seed)
        with answering(lambda request: sentence(request.seed)):
            run_evolution(resolve(flags=flags), folder)

    base.joinpath("users.csv").write_text(
        "user,text\\n" + "".join(f"u{i},{sentence(7919 * i + j)}\\n" for i in range(20) for j in range(3))
    )
    base.joinpath("bank.txt").write_text("\\n".join(sentence(104_729 * i) for i in range(60)) + "\\n")
    os.fsync = lambda descriptor: None
    # In memory from here on: the accountant's figures, and which package the script that answers is from.
    for rounds in (1, 2):
        epsilon(Mechanism(k=3, q=1.0), rounds)
    GENERATORS.pin("scripted_answers:write")
    # A process that has used polars must not fork, so children do all the work; the first fills the caches on disk.
    assert child(lambda: work(base / "whole")) == 0
    for moment in itertools.count(first, stride):
        folder = base / f"{moment:04d}"
        def killed():
            arm(moment, ("fsync", "ftruncate", "write", "mkdir"))
            work(folder)
        code = child(killed)
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
        if folder.exists():
            shutil.copytree(folder, base / f"{moment:04d}-dead")
        assert child(lambda: work(folder)) == 0, moment
    print(moment)
    """
)


@pytest.fixture(scope="module", params=["3", ""], ids=["seeded", "real"])
def killed(request, tmp_path_factory):
    base = tmp_path_factory.mktemp("seeded" if request.param else "real")
    doubles = Path(__file__).parents[1] / "doubles"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    environment["CANARYBANK_CACHE"] = str(base / "cache")
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(doubles), str(base), request.param, "2", "31"]
    outcome = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    yield base, [base / f"{moment:04d}" for moment in range(2, int(outcome.stdout), 31)]
    shutil.rmtree(base)


def test_a_killed_run_resumes_to_one_that_verifies(killed):
    _, folders = killed
    assert len(folders) > 4
    for folder in folders:
        run = Run.open(folder)
        assert run.is_finished
        assert verify(folder).findings == (), folder.name
        assert run.results.evolution.certificate.claim.rounds == 2


def test_what_was_committed_to_and_who_was_in_stay(killed):
    _, folders = killed
    kept = 0
    for folder in folders:
        dead = folder.with_name(f"{folder.name}-dead") / "commitment.json"
        if dead.exists():
            assert dead.read_bytes() == (folder / "commitment.json").read_bytes()
            kept += 1
    assert kept > 2


def test_no_release_was_made_before_the_commitment_and_each_keeps_its_coins(killed):
    _, folders = killed
    seen = 0
    for folder in folders:
        dead = folder.with_name(f"{folder.name}-dead")
        for release in dead.rglob("release*.npy"):
            assert (dead / "commitment.json").exists()
            names = ["coins.json", *(["background.npz"] if "insecure" in release.name else [])]
            for path in (release, *map(release.with_name, names)):
                assert path.read_bytes() == (folder / path.relative_to(dead)).read_bytes()
            seen += 1
        # At q = 1 a canary takes part if and only if it is in.
        eligible = list(Run.open(folder).one_run.eligible)
        assert all(each.took.tolist() == eligible for each in Evolution.load(folder / "evolution").rounds)
    assert seen > 2


def test_a_seeded_run_ends_in_the_same_bytes_wherever_it_was_killed(killed):
    base, folders = killed
    for folder in folders if base.name.startswith("seeded") else ():
        for name in ("results.json", "commitment.json", "population.jsonl"):
            assert (folder / name).read_bytes() == (base / "whole" / name).read_bytes(), (folder.name, name)
