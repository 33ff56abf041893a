"""Hold the account to its promises: debit before draw, once, kept; nothing past the budget; nothing guessed."""

import math
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from canarybank.errors import BudgetError, ConfigError, InputError, StoreError
from canarybank.mechanism import Account, Mechanism, delta_slack, epsilon
from canarybank.mechanism.account import left_text
from canarybank.mechanism.accounting import rounds_epsilon
from canarybank.store import Log

MECHANISM = Mechanism(sigma=1.1088)


def opened(folder: Path, budget: float = 1.7) -> Account:
    return Account.open(folder / "people.log", "people", budget=budget, q=0.1, sigma=1.1088)


def pay(account: Account, run: str, number: int, variation: float = 0.0) -> None:
    with account.held():
        account.debit(run, number, f"bank {number}", variation)
        account.seal(run, number, f"release {run} {number}")


def test_an_account_reads_back_what_it_was_opened_with(tmp_path: Path) -> None:
    account = opened(tmp_path)
    again = Account(tmp_path / "people.log")
    assert again.opening == account.opening
    opening = again.opening
    assert (opening.population, opening.epsilon, opening.delta, opening.q, opening.sigma) == (
        "people",
        1.7,
        1e-5,
        0.1,
        1.1088,
    )
    assert opening.neighbours == "add-remove"
    assert (again.debits, again.spent, again.slack, again.releases_left) == ((), 0.0, 0.0, 3)


def test_two_accounts_of_the_same_values_are_told_apart(tmp_path: Path) -> None:
    first = opened(tmp_path / "one")
    assert first.opening.hash != opened(tmp_path / "two").opening.hash


def test_an_account_is_opened_once(tmp_path: Path) -> None:
    opened(tmp_path)
    before = (tmp_path / "people.log").read_bytes()
    with pytest.raises(ConfigError, match="already a file"):
        opened(tmp_path)
    assert (tmp_path / "people.log").read_bytes() == before


@pytest.mark.parametrize(
    "change", [{"budget": 0.0}, {"budget": float("inf")}, {"q": 2.0}, {"sigma": -1.0}, {"delta": 1.0}]
)
def test_an_opening_that_cannot_be_composed_is_refused(tmp_path: Path, change: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Account.open(tmp_path / "a.log", "people", **({"budget": 1.0, "q": 0.1, "sigma": 1.0} | change))
    assert not (tmp_path / "a.log").exists()


def test_a_population_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name"):
        Account.open(tmp_path / "a.log", " ", budget=1.0, q=0.1, sigma=1.0)


def test_the_releases_of_all_runs_are_composed_and_what_cannot_be_paid_is_refused(tmp_path: Path) -> None:
    account = opened(tmp_path)
    for count, (run, number) in enumerate([("one", 0), ("two", 0), ("one", 1)], start=1):
        pay(account, run, number)
        assert account.spent == epsilon(MECHANISM, count)
        assert account.releases_left == 3 - count
    before = account.path.read_bytes()
    with pytest.raises(BudgetError, match=r"bring epsilon to 1\.7902 at delta 1e-05, past the 1\.7 .* 3 releases"):
        pay(account, "three", 0)
    assert account.path.read_bytes() == before
    assert BudgetError.exit_code == 2


def test_the_slack_is_that_of_all_releases_at_the_composed_epsilon(tmp_path: Path) -> None:
    account = opened(tmp_path)
    pay(account, "one", 0, 1e-9)
    pay(account, "two", 0, 3e-9)
    assert account.slack == pytest.approx(delta_slack(epsilon(MECHANISM, 2), 4e-9))


def test_q_and_sigma_are_committed(tmp_path: Path) -> None:
    account = opened(tmp_path)
    account.require(Mechanism(k=9, clip=3.0, sigma=1.1088, delta=1e-7))
    with pytest.raises(ConfigError, match=r"q is 0\.1 there and 0\.2 here; sigma is 1\.1088 there and 1\.2 here"):
        account.require(Mechanism(sigma=1.2, q=0.2))


def test_a_debit_is_durable_before_it_returns_and_paid_once(tmp_path: Path) -> None:
    account = opened(tmp_path)
    for _ in range(3):
        with account.held():
            account.debit("one", 0, "bank 0", 0.0)
        assert [record["kind"] for record in Log(account.path).records()] == ["opening", "debit"]
    with account.held():
        account.debit("one", 0, "bank 0", 0.0)
        account.seal("one", 0, "release")
        account.seal("one", 0, "release")
    assert [record["kind"] for record in Log(account.path).records()] == ["opening", "debit", "seal"]
    assert Account(account.path).debits[0].seal == "release"


def test_a_sealed_debit_pays_for_no_second_draw(tmp_path: Path) -> None:
    account = opened(tmp_path)
    pay(account, "one", 0)
    with account.held():
        account.debit("one", 0, "bank 0", 0.0, "release one 0")  # the release is there: nothing is drawn
        with pytest.raises(StoreError, match="second release under one debit"):
            account.debit("one", 0, "bank 0", 0.0)
        with pytest.raises(StoreError, match="copy of the run"):
            account.debit("one", 0, "bank 0", 0.0, "another release")
        with pytest.raises(StoreError, match="another bank"):
            account.debit("one", 0, "bank 9", 0.0, "release one 0")


def test_a_release_that_was_never_paid_is_refused(tmp_path: Path) -> None:
    account = opened(tmp_path)
    copy = account.path.read_bytes()
    pay(account, "one", 0)
    account.path.write_bytes(copy)  # rolled back
    with account.held(), pytest.raises(StoreError, match=r"never paid for.*earlier state"):
        account.debit("one", 0, "bank 0", 0.0, "release one 0")


def test_what_another_process_wrote_counts(tmp_path: Path) -> None:
    first = opened(tmp_path)
    second = Account(first.path)
    for number in range(3):
        pay(first, "one", number)
    with pytest.raises(BudgetError):
        pay(second, "two", 0)


def test_an_account_that_is_replaced_meanwhile_is_refused(tmp_path: Path) -> None:
    account = opened(tmp_path)
    account.path.unlink()
    opened(tmp_path)
    with pytest.raises(StoreError, match="replaced by another"), account.held():
        pass


def test_a_torn_last_line_was_never_paid(tmp_path: Path) -> None:
    account = opened(tmp_path)
    pay(account, "one", 0)
    with account.path.open("ab") as file:
        file.write(b'0123 {"kind": "deb')
    assert len(Account(account.path).debits) == 1
    assert Account(account.path).is_torn
    pay(account, "one", 1)
    assert len(Account(account.path).debits) == 2
    assert not Account(account.path).is_torn
    assert (tmp_path / "people.log.torn").read_bytes() == b'0123 {"kind": "deb\n'


def test_a_release_whose_debit_was_cut_off_is_refused_with_the_reason(tmp_path: Path) -> None:
    account = opened(tmp_path)
    with account.held():
        account.debit("one", 0, "bank 0", 0.0)
    account.path.write_bytes(account.path.read_bytes()[:-1])
    with account.held(), pytest.raises(StoreError, match=r"never paid for.*its last line is incomplete"):
        account.debit("one", 0, "bank 0", 0.0, "release one 0")


def test_slack_past_delta_is_not_paid(tmp_path: Path) -> None:
    account = opened(tmp_path, budget=5.0)
    small = 1e-5 / (1 + math.exp(epsilon(MECHANISM, 2))) / 2
    pay(account, "one", 0, small)
    before = account.path.read_bytes()
    with pytest.raises(BudgetError, match=r"cannot pay another release: .* to delta 1e-05; it may at most double it"):
        pay(account, "two", 0, 1.01 * small)
    assert account.path.read_bytes() == before
    pay(account, "two", 0, 0.99 * small)
    assert account.slack <= 1e-5


def test_every_path_to_an_account_leads_to_one_lock(tmp_path: Path) -> None:
    account = opened(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(account.path)
    (tmp_path / "folder").symlink_to(tmp_path)
    others = [tmp_path / "elsewhere" / "link", tmp_path / "folder" / "people.log"]
    for path in others:
        with account.held():
            waiting = threading.Thread(target=pay, args=(Account(path), path.name, 0))
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()  # it waits for the lock
            assert path.name not in account.path.read_text()
        waiting.join(30)
        assert path.name in account.path.read_text()


def test_an_account_with_several_names_is_refused(tmp_path: Path) -> None:
    account = opened(tmp_path)
    pay(account, "one", 0)
    (tmp_path / "other.log").hardlink_to(account.path)
    for path in (account.path, tmp_path / "other.log"):
        with pytest.raises(ConfigError, match=r"2 names \(hard links\).*Keep one name"):
            Account(path)
    with pytest.raises(ConfigError, match="hard links"):
        pay(account, "one", 1)
    (tmp_path / "other.log").unlink()
    assert len(Account(account.path).debits) == 1


def test_an_account_cannot_be_opened_through_a_link_to_another(tmp_path: Path) -> None:
    account = opened(tmp_path)
    (tmp_path / "link.log").symlink_to(account.path)
    with pytest.raises(ConfigError, match="already a file"):
        Account.open(tmp_path / "link.log", "people", budget=1.0, q=0.1, sigma=1.0)


def test_what_is_left_is_counted_with_few_epsilons(tmp_path: Path) -> None:
    def asked() -> int:
        known = rounds_epsilon.cache_info()
        return known.hits + known.misses

    before = asked()
    rich = Account.open(tmp_path / "rich.log", "people", budget=100.0, q=0.1, sigma=1.0)
    assert rich.releases_left == 1000
    assert left_text(1000) == "1,000 or more releases"
    assert left_text(7) == "7 more releases"
    assert 0 < asked() - before <= 3
    before = asked()
    account = Account.open(tmp_path / "a.log", "people", budget=5.0, q=0.1, sigma=1.1088)
    left = account.releases_left
    assert 0 < asked() - before <= 8
    assert epsilon(account.opening.mechanism, left) <= 5.0 < epsilon(account.opening.mechanism, left + 1)


@pytest.mark.parametrize("record", [{"kind": "else"}, {"kind": "seal", "run": "x", "round": 0, "release": "y"}])
def test_a_record_out_of_order_is_refused(tmp_path: Path, record: dict[str, object]) -> None:
    account = opened(tmp_path)
    Log(account.path).append(record)
    with pytest.raises(StoreError, match=r"out of order.*pays for nothing"):
        Account(account.path)


def test_a_debit_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    account = opened(tmp_path)
    pay(account, "one", 0)
    Log(account.path).append(Log(account.path).records()[1])
    with pytest.raises(StoreError, match="out of order"):
        Account(account.path)


def test_a_damaged_account_is_refused(tmp_path: Path) -> None:
    account = opened(tmp_path)
    pay(account, "one", 0)
    account.path.write_bytes(account.path.read_bytes().replace(b"bank 0", b"bank 9"))
    with pytest.raises(StoreError, match="checksum"):
        Account(account.path)


def test_what_is_no_account_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no budget account"):
        Account(tmp_path / "nothing")
    (tmp_path / "users.csv").write_text("id,text\n1,hello\n")
    with pytest.raises(StoreError, match=r"users\.csv' is no budget account"):
        Account(tmp_path / "users.csv")
    for name, record in (
        ("empty", None),
        ("other", {"kind": "declaration"}),
        ("new", {"kind": "opening", "version": 9}),
    ):
        path = tmp_path / name
        path.touch()
        if record:
            Log(path).append(record)
        with pytest.raises(StoreError, match="no budget account of layout 1"):
            Account(path)


def spend(path: str, run: str, draws: str) -> None:
    """Pay as often as the account does; write a file for each draw, and die in every second one before its seal."""
    account = Account(path)
    for number in range(50):
        try:
            with account.held():
                account.debit(run, number, "bank", 0.0)
                (Path(draws) / f"{run}-{number}").touch()
                if number % 2:
                    os._exit(9)
                account.seal(run, number, "release")
        except BudgetError:
            return


def test_processes_at_once_never_draw_more_than_is_paid(tmp_path: Path) -> None:
    account = Account.open(tmp_path / "people.log", "people", budget=1.9, q=0.1, sigma=1.1088)
    assert account.releases_left == 5
    (tmp_path / "draws").mkdir()
    # One server imports, and its forks begin at once: spawned, each would import first, and hardly meet another.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["canarybank.mechanism.account"])
    workers = [
        context.Process(target=spend, args=(str(account.path), f"run{i}", str(tmp_path / "draws"))) for i in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    drawn = {path.name for path in (tmp_path / "draws").iterdir()}
    assert drawn == {f"{debit.run}-{debit.round}" for debit in Account(account.path).debits}
    assert len(drawn) == 5
