"""Hold a run to its budget account: what pays, what is refused, and what a copy of its folder may do."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canarybank.errors import BudgetError, ConfigError, StoreError
from canarybank.evolution import ACCOUNT, EvolutionLoop, EvolutionPlan, Ledger, evolve
from canarybank.mechanism import Account, Mechanism, epsilon
from canarybank.store import Log, hash_array, read_checked, read_json, write_json


@pytest.fixture
def account(world: Any, tmp_path: Path) -> Account:
    """Open an account that pays three releases of the small world."""
    mechanism = world.mechanism
    budget = epsilon(mechanism, 3) + 1e-6
    return Account.open(tmp_path / "people.log", "people", budget=budget, q=mechanism.q, sigma=mechanism.sigma)


def run(world: Any, account: Account | None, folder: Path | None, rounds: int = 2, **more: Any) -> Any:
    path = None if account is None else account.path
    return evolve(*world.arguments, rounds, keep=world.keep, account=path, folder=folder, **more)


def test_every_release_is_debited_and_sealed_under_the_runs_id(world: Any, account: Account, tmp_path: Path) -> None:
    result = run(world, account, tmp_path / "run")
    name = read_json(tmp_path / "run" / ACCOUNT)["run"]
    debits = Account(account.path).debits
    assert [(debit.run, debit.round, debit.bank) for debit in debits] == [
        (name, done.number, done.bank.hash) for done in result.rounds
    ]
    assert [debit.seal for debit in debits] == [hash_array(done.release) for done in result.rounds]
    assert all(debit.variation > 0 for debit in debits)
    assert read_json(tmp_path / "run" / "run.json")["account"] == account.opening.hash


def test_runs_share_the_budget_and_the_last_one_stops(world: Any, account: Account, tmp_path: Path) -> None:
    run(world, account, tmp_path / "one")
    with pytest.raises(BudgetError, match="cannot pay another release"):
        run(world, account, tmp_path / "two")
    assert len(list((tmp_path / "two" / "rounds").glob("*/release.npy"))) == 1
    assert [record["kind"] for record in Log(tmp_path / "two" / "ledger.log").records()] == [
        "declaration",
        "entry",
        "seal",
    ]
    assert len(Account(account.path).debits) == 3
    run(world, account, tmp_path / "one")  # a finished run needs nothing more


def test_a_run_in_memory_pays_too(world: Any, account: Account) -> None:
    run(world, account, None)
    run(world, account, None, rounds=1)
    assert len({debit.run for debit in Account(account.path).debits}) == 2


def test_a_simulation_debits_nothing_and_needs_no_account(world: Any, account: Account, tmp_path: Path) -> None:
    before = account.path.read_bytes()
    run(world, account, tmp_path / "run", insecure_seed=1)
    assert account.path.read_bytes() == before
    assert read_json(tmp_path / "run" / "run.json")["account"] is None
    assert not (tmp_path / "run" / ACCOUNT).exists()


def test_what_the_runs_own_budget_refuses_is_not_debited(world: Any, account: Account, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="declared budget"):
        run(world, account, tmp_path / "run", budget=epsilon(world.mechanism, 1) + 1e-6)
    assert len(Account(account.path).debits) == 1


def test_q_and_sigma_must_be_the_accounts(world: Any, account: Account, tmp_path: Path) -> None:
    world.mechanism = Mechanism(k=3, clip=0.2, sigma=2.0, q=0.5)
    with pytest.raises(ConfigError, match=r"sigma is 1\.0 there and 2\.0 here"):
        run(world, account, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_account_that_is_not_there_is_refused_before_anything_is_made(world: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no budget account"):
        evolve(*world.arguments, 1, account=tmp_path / "nothing", folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def started(world: Any, account: Account, folder: Path, rounds: int = 2) -> EvolutionLoop:
    plan = EvolutionPlan(world.mechanism, rounds, keep=world.keep, account=account.path)
    return EvolutionLoop(world.users, world.start, plan, world.encoder, world.generator, folder=folder)


def test_a_copied_folder_cannot_draw_under_the_originals_debit(world: Any, account: Account, tmp_path: Path) -> None:
    with started(world, account, tmp_path / "run"):
        pass
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with started(world, account, tmp_path / "run") as first:
        first.advance()
    with started(world, account, tmp_path / "copy") as copy, pytest.raises(StoreError, match="copy of the run"):
        copy.advance()
    assert not list((tmp_path / "copy" / "rounds").glob("*/release.npy"))
    assert len(Account(account.path).debits) == 1


def test_a_folder_that_drew_apart_from_the_account_is_refused(world: Any, account: Account, tmp_path: Path) -> None:
    # The original died after its draw and before its seal; a copy drew in its place and sealed.
    with started(world, account, tmp_path / "run"):
        pass
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    unsealed = account.path.read_bytes()
    with started(world, account, tmp_path / "run") as first:
        first.advance()
    debit = Log(account.path).records()[1]
    account.path.write_bytes(unsealed)
    Log(account.path).append(debit)
    with started(world, account, tmp_path / "copy") as copy:
        copy.advance()
    with pytest.raises(StoreError, match="copy of the run"):
        started(world, account, tmp_path / "run")


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_folder_whose_releases_were_not_paid_is_refused(
    world: Any, account: Account, tmp_path: Path, rounds: int
) -> None:
    empty = account.path.read_bytes()
    with started(world, account, tmp_path / "run") as made:
        for _ in range(rounds):
            made.advance()
    account.path.write_bytes(empty)
    with pytest.raises(StoreError, match="never paid for"):
        started(world, account, tmp_path / "run")


def test_another_account_is_refused(world: Any, account: Account, tmp_path: Path) -> None:
    with started(world, account, tmp_path / "run") as made:
        made.advance()
    other = Account.open(tmp_path / "other.log", "people", budget=99.0, q=0.5, sigma=1.0)
    with pytest.raises(ConfigError, match="account was"):
        started(world, other, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"account was .* and is now None"):
        run(world, None, tmp_path / "run")


def test_an_account_is_the_same_however_its_path_is_spelled(world: Any, account: Account, tmp_path: Path) -> None:
    with started(world, account, tmp_path / "run") as made:
        made.advance()
    (tmp_path / "link.log").symlink_to(account.path)
    with started(world, Account(tmp_path / "link.log"), tmp_path / "run") as resumed:
        assert len(resumed.finish().rounds) == 2
    assert len(Account(account.path).debits) == 2


def test_a_sampler_that_would_more_than_double_delta_is_refused_before_the_folder_is_made(
    world: Any, tmp_path: Path
) -> None:
    world.mechanism = Mechanism(k=3, clip=0.2, sigma=0.5, q=0.5)
    with pytest.raises(ConfigError, match=r"cannot be drawn.*to delta 1e-05.*noise = .discrete"):
        run(world, None, tmp_path / "run", noise="float")
    assert not (tmp_path / "run").exists()
    assert len(run(world, None, tmp_path / "run").rounds) == 2  # drawn exactly, the same run is fine


def test_a_run_that_its_budget_ends_early_is_judged_by_the_rounds_it_makes(world: Any) -> None:
    world.mechanism = Mechanism(k=3, clip=0.2, sigma=0.55, q=0.5)
    with pytest.raises(ConfigError, match="cannot be drawn"):
        run(world, None, None, noise="float")
    with pytest.raises(BudgetError, match="declared budget"):
        run(world, None, None, noise="float", budget=epsilon(world.mechanism, 1) + 1e-6)


class Fixed:
    """Give the same release every time, and remember over which banks."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def release(self, round_number: int, bank: Any) -> np.ndarray:
        self.asked.append((round_number, bank.size))
        return np.arange(bank.size, dtype=np.float64)


def test_a_releaser_replaces_the_draw_and_nothing_else(world: Any, account: Account, tmp_path: Path) -> None:
    fixed = Fixed()
    plan = EvolutionPlan(world.mechanism, 2, keep=world.keep, account=account.path)
    given = (world.users, world.start, plan, world.encoder, world.generator)
    with EvolutionLoop(*given, folder=tmp_path / "run", releaser=fixed) as made:
        result = made.finish()
    assert fixed.asked == [(0, 24), (1, 24)]
    assert all(np.array_equal(done.release, np.arange(24)) for done in result.rounds)
    assert len(Account(account.path).debits) == len(made.ledger.entries) == 2


# --- layouts ---------------------------------------------------------------------------------------------------------


def test_a_ledger_of_the_first_layout_is_refused_in_words(tmp_path: Path) -> None:
    Ledger(Mechanism(), path=tmp_path / "ledger.log")
    old = Log(tmp_path / "ledger.log").records()[0] | {"version": 1}
    Log(tmp_path / "ledger.log").rewrite([old])
    with pytest.raises(
        ConfigError, match=r"layout 1.*start a new run in another folder; what was released stays spent"
    ):
        Ledger(Mechanism(), path=tmp_path / "ledger.log")


def test_a_folder_of_the_first_layout_is_refused_in_words(world: Any, tmp_path: Path) -> None:
    run(world, None, tmp_path, rounds=1)
    old = {key: value for key, value in read_checked(tmp_path / "run.json").items() if key not in {"noise", "account"}}
    write_json(tmp_path / "run.json", json.loads(json.dumps(old | {"version": 1})))
    with pytest.raises(ConfigError, match=r"layout 1.*what was released stays spent"):
        run(world, None, tmp_path, rounds=1)


def test_a_sampler_cannot_change_within_a_run(world: Any, tmp_path: Path) -> None:
    run(world, None, tmp_path, rounds=1)
    with pytest.raises(ConfigError, match="noise was 'discrete' and is now 'float'"):
        run(world, None, tmp_path, rounds=1, noise="float")
