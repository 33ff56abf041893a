"""Kill a run with SIGKILL before every single write, rename and flush, and resume it."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from canarybank.evolution import Evolution
from canarybank.mechanism import Account
from canarybank.store import Log, hash_array

# One process imports once and forks a child for each moment; the child dies by SIGKILL before the n-th call that
# changes a disk. A second child resumes the run. Each child leaves its own folder behind, for the test to look at.
SCRIPT = textwrap.dedent(
    """
    import importlib.util, itertools, os, pathlib, shutil, signal, sys

    sys.path.insert(0, sys.argv[5])
    from killing import arm, child

    specification = importlib.util.spec_from_file_location("conftest", sys.argv[1])
    conftest = importlib.util.module_from_spec(specification)
    sys.modules["conftest"] = conftest
    specification.loader.exec_module(conftest)
    from canarybank.evolution import (
        Fresh, InContext, Keep, KeepAboveNoise, MixedFeedback, NeighbouringParents, Vary, evolve
    )
    from canarybank.mechanism import Account, epsilon
    import polars
    base, seed, stride = pathlib.Path(sys.argv[2]), (int(sys.argv[3]) if sys.argv[3] else None), int(sys.argv[4])

    users = conftest.make_users()

    def work(folder, account=None):
        world = conftest.World(users, conftest.World.start[:8])
        probes, canaries = world.planted()
        settings = {"keep": world.keep, "new": 2, "insecure_seed": seed, "folder": folder, "account": account}
        if seed is not None:  # by rules that are not the default ones, which change from round to round
            settings |= {"keep": Keep((0.3, 0.2)), "keeper": KeepAboveNoise(0.1), "temperature": (1.2, 0.6)}
            parts = (InContext(parents=NeighbouringParents()), 0.5), (Vary(distance=(0, 1)), 0.3), (Fresh(), 0.2)
            settings |= {"new": 4, "feedback": MixedFeedback(parts)}
        return evolve(*world.arguments, 2, probes=probes, canaries=canaries, **settings)

    def opened(path):
        # It pays for the two releases of the run and for no third.
        mechanism = conftest.World.mechanism
        budget = epsilon(mechanism, 2) + 1e-6
        return Account.open(path, "people", budget=budget, q=mechanism.q, sigma=mechanism.sigma).path

    os.fsync = lambda descriptor: None  # A kill loses nothing that was written; only a loss of power does.
    work(None)  # The accountant's figures are in memory from here on.
    for moment in itertools.count(step=stride):
        folder = base / f"{moment:04d}"
        account = opened(base / f"{moment:04d}.account")
        def killed():
            arm(moment, ("fsync", "ftruncate", "write", "open", "mkdir"), ("replace", "open"))
            work(folder, account)
        code = child(killed)
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
        if folder.exists():
            shutil.copytree(folder, base / f"{moment:04d}-dead")
        shutil.copy(account, f"{account}-dead")
        assert child(lambda: work(folder, account)) == 0, moment
    print(moment)
    """
)


# A real run has more moments, for it debits an account and seals there too; `make test-slow` kills it at every one.
SEEDED, REAL, EVERY = ("3", 4), ("", 3), pytest.param(("", 1), marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[SEEDED, REAL, EVERY], ids=["seeded", "real", "every"])
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    seed, stride = request.param
    base = tmp_path_factory.mktemp("seeded" if seed else "real")
    here = Path(__file__).with_name("conftest.py")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    outcome = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(here), str(base), seed, str(stride), str(here.parents[1] / "doubles")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    moments = int(outcome.stdout)
    yield [base / f"{moment:04d}" for moment in range(0, moments + 1, stride)]
    shutil.rmtree(base)


def releases(folder: Path) -> dict[int, np.ndarray]:
    return {int(path.parent.name): np.load(path) for path in folder.glob("rounds/*/release*.npy")}


def test_there_are_many_moments(killed: list[Path]) -> None:
    assert len(killed) > 12


def test_after_a_resume_the_ledger_equals_the_releases(killed: list[Path]) -> None:
    for folder in killed:
        records = Log(folder / "ledger.log").records()[1:]
        kinds = [(record["kind"], record["round"]) for record in records]
        assert kinds == [("entry", 0), ("seal", 0), ("entry", 1), ("seal", 1)], folder.name
        seals = {record["round"]: record["release"] for record in records if record["kind"] == "seal"}
        assert {t: hash_array(release) for t, release in releases(folder).items()} == seals, folder.name
        assert len(Evolution.load(folder).rounds) == 2


def test_a_release_that_was_durable_is_never_replaced(killed: list[Path]) -> None:
    seen = 0
    for folder in killed[:-1]:
        after = releases(folder)
        for t, release in releases(folder.with_name(f"{folder.name}-dead")).items():
            assert np.array_equal(after[t], release), (folder.name, t)
            seen += 1
    assert seen > 20


def coins(folder: Path) -> dict[int, bytes]:
    return {int(path.parent.name): path.read_bytes() for path in folder.glob("rounds/*/coins.json")}


def test_a_release_that_was_durable_keeps_its_own_coins(killed: list[Path]) -> None:
    alone = 0
    for folder in killed[:-1]:
        dead, after = folder.with_name(f"{folder.name}-dead"), coins(folder)
        assert set(releases(dead)) <= set(coins(dead))
        assert all(after[t] == coins(dead)[t] for t in releases(dead)), folder.name
        alone += len(set(coins(dead)) - set(releases(dead)))
    assert alone > 2  # moments between the coins and their release
    # Taking part adds 1/sigma = 1 deviation to a canary's three probes together. Of 400 canary-rounds or more, half of
    # them in, the difference of the means has a deviation of .1: false alarm and miss below 1e-6.
    found = [each for folder in killed for each in Evolution.load(folder).rounds]
    scores = np.array([each.release[2:14].reshape(4, 3).sum(axis=1) / (0.2 * 3**0.5) for each in found])
    took = np.array([each.took for each in found])
    assert took.size > 400
    difference = scores[took].mean() - scores[~took].mean()
    assert "seeded" in killed[0].parent.name or 0.5 < difference < 1.5


def test_no_release_was_durable_before_its_entry(killed: list[Path]) -> None:
    for folder in killed[:-1]:
        dead = folder.with_name(f"{folder.name}-dead")
        if dead.exists():
            entered = {r["round"] for r in Log(dead / "ledger.log").read().records if r["kind"] == "entry"}
            assert set(releases(dead)) <= entered


def test_no_remnant_of_another_draw_lies_beside_a_release(killed: list[Path]) -> None:
    for folder in killed:
        assert not [*folder.glob("rounds/*/.release*"), *folder.glob("rounds/*/.coins*")], folder.name


@pytest.mark.parametrize("killed", [REAL, EVERY], indirect=True, ids=["real", "every"])
def test_every_debit_is_kept_used_once_and_sealed_with_the_one_release(killed: list[Path]) -> None:
    kept = 0
    for folder in killed:
        debits = Account(folder.with_suffix(".account")).debits
        assert [debit.round for debit in debits] == [0, 1], folder.name
        assert len({debit.run for debit in debits}) == 1
        assert {debit.round: debit.seal for debit in debits} == {
            t: hash_array(release) for t, release in releases(folder).items()
        }
    for folder in killed[:-1]:
        dead = folder.with_name(f"{folder.name}.account-dead")
        before, after = Account(dead).debits, Account(folder.with_suffix(".account")).debits
        assert [(d.run, d.round, d.bank) for d in before] == [(d.run, d.round, d.bank) for d in after[: len(before)]]
        assert {d.round for d in before} >= set(releases(folder.with_name(f"{folder.name}-dead")))
        kept += sum(debit.seal is None for debit in before)
    assert kept > 5  # moments between a debit and its seal


@pytest.mark.parametrize("killed", [SEEDED], indirect=True, ids=["seeded"])
def test_a_seeded_run_ends_in_the_same_bytes_wherever_it_was_killed(killed: list[Path]) -> None:
    names = ["population.jsonl", "population.csv", "population.parquet", "evolution.json", "ledger.log", "run.json"]
    names += ["rounds/000/coins.json", "rounds/001/coins.json", "rounds/000/kept.json", "rounds/001/kept.json"]
    for folder in killed[:-1]:
        for name in names:
            assert (folder / name).read_bytes() == (killed[-1] / name).read_bytes(), (folder.name, name)
