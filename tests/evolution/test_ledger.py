from dataclasses import replace
from pathlib import Path

import pytest

from canarybank.errors import BudgetError, ConfigError, InputError, StoreError
from canarybank.evolution import Ledger, Spent
from canarybank.mechanism import Mechanism, composition_bound, delta_slack, epsilon
from canarybank.store import Log

MECHANISM = Mechanism(sigma=1.1088)


def filled(path: Path | None, rounds: int = 2) -> Ledger:
    ledger = Ledger(MECHANISM, budget=1.7, path=path)
    for number in range(rounds):
        ledger.record(number, f"bank {number}")
        ledger.seal(number, f"release {number}")
    return ledger


def test_each_entry_carries_its_parameters_and_the_total_with_it() -> None:
    for number, entry in enumerate(filled(None).entries):
        assert (entry.round, entry.bank, entry.seal) == (number, f"bank {number}", f"release {number}")
        assert entry.mechanism == MECHANISM
        assert entry.spent.epsilon == epsilon(MECHANISM, number + 1)
        assert entry.spent.bound == composition_bound(MECHANISM, number + 1)


def test_the_total_of_nothing_is_nothing() -> None:
    assert Ledger(MECHANISM).spent == Spent(0, 0.0, 0.0, 1e-5)


def test_the_total_says_what_it_is() -> None:
    text = str(filled(None).spent)
    assert text.startswith("epsilon 1.5299 at delta 1e-05 after 2 releases")
    assert "adding or removing one user" in text


def test_the_slack_of_all_releases_is_stated_and_read_back(tmp_path: Path) -> None:
    ledger = Ledger(MECHANISM, path=tmp_path / "ledger.log")
    for number, variation in enumerate((1e-10, 4e-10)):
        ledger.record(number, "bank", variation)
    assert ledger.spent.slack == pytest.approx(delta_slack(epsilon(MECHANISM, 2), 5e-10))
    assert "at delta 1e-05 + 2.8e-09 after 2" in str(ledger.spent)
    assert Ledger(MECHANISM, path=tmp_path / "ledger.log").entries == ledger.entries


def test_a_ledger_reads_back_what_it_wrote(tmp_path: Path) -> None:
    written = filled(tmp_path / "ledger.log")
    again = Ledger(MECHANISM, budget=1.7, path=tmp_path / "ledger.log")
    assert again.entries == written.entries
    assert again.spent == written.spent


def test_an_entry_on_disk_names_only_the_defences_that_are_on(tmp_path: Path) -> None:
    for mechanism in (MECHANISM, replace(MECHANISM, share=0.5, entry_cap=0.1)):
        path = tmp_path / f"{mechanism.share}.log"
        Ledger(mechanism, path=path).record(0, "bank")
        assert Log(path).records()[1]["mechanism"] == mechanism.to_json()
        assert Ledger(mechanism, path=path).entry(0).mechanism == mechanism
    assert "share" not in (tmp_path / "1.0.log").read_text()


def test_an_entry_is_on_disk_before_it_returns_and_its_seal_after(tmp_path: Path) -> None:
    path = tmp_path / "ledger.log"
    ledger = Ledger(MECHANISM, path=path)
    ledger.record(0, "bank")
    assert [record["kind"] for record in Log(path).records()] == ["declaration", "entry"]
    assert Log(path).records()[1]["mechanism"]["sigma"] == 1.1088
    again = Ledger(MECHANISM, path=path)
    assert again.entries[0].seal is None
    again.seal(0, "release")
    assert Ledger(MECHANISM, path=path).entries[0].seal == "release"


def test_a_release_past_the_budget_is_refused_before_it_is_entered(tmp_path: Path) -> None:
    path = tmp_path / "ledger.log"
    ledger = filled(path, rounds=3)
    before = path.read_bytes()
    with pytest.raises(BudgetError, match=r"Release 4 would bring epsilon to 1\.790\d+ .* budget of 1\.7") as caught:
        ledger.record(3, "bank 3")
    assert "another run over the same people spends on top" in str(caught.value)
    assert "evolve.account" in str(caught.value)
    assert path.read_bytes() == before
    assert len(ledger.entries) == 3


def test_a_budget_that_is_met_exactly_is_not_passed() -> None:
    ledger = Ledger(MECHANISM, budget=epsilon(MECHANISM, 1))
    ledger.record(0, "bank")
    with pytest.raises(BudgetError):
        ledger.record(1, "bank")


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"mechanism": Mechanism(sigma=2.0)}, r"mechanism\.sigma was 1\.1088 and is now 2\.0"),
        ({"mechanism": Mechanism(sigma=1.1088, k=4)}, r"mechanism\.k was 5 and is now 4"),
        ({"mechanism": Mechanism(sigma=1.1088, q=0.2)}, r"mechanism\.q was 0\.1 and is now 0\.2"),
        ({"mechanism": Mechanism(sigma=1.1088, clip=0.2)}, r"mechanism\.clip"),
        ({"mechanism": Mechanism(sigma=1.1088, delta=1e-6)}, r"mechanism\.delta"),
        ({"budget": 3.0}, r"budget was 1\.7 and is now 3\.0"),
        ({"insecure_seed": 1}, r"insecure_seed was None and is now 1"),
    ],
)
def test_changed_privacy_parameters_are_refused_with_a_diff(tmp_path: Path, change: dict, phrase: str) -> None:
    filled(tmp_path / "ledger.log")
    settings = {"mechanism": MECHANISM, "budget": 1.7} | change
    with pytest.raises(ConfigError, match=phrase):
        Ledger(settings.pop("mechanism"), **settings, path=tmp_path / "ledger.log")


def test_rounds_are_entered_in_order_and_once() -> None:
    ledger = filled(None, rounds=1)
    for number in (0, 2):
        with pytest.raises(StoreError, match="cannot be entered after 1"):
            ledger.record(number, "bank")


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "entry", "round": 5, "bank": "b"},
        {"kind": "seal", "round": 0, "release": "again"},
        {"kind": "seal", "round": 7, "release": "x"},
        {"kind": "else"},
    ],
)
def test_records_out_of_order_are_refused(tmp_path: Path, record: dict) -> None:
    path = tmp_path / "ledger.log"
    filled(path)
    Log(path).append(record)
    with pytest.raises(StoreError, match="out of order"):
        Ledger(MECHANISM, budget=1.7, path=path)


def test_an_altered_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.log"
    filled(path)
    path.write_bytes(path.read_bytes().replace(b"bank 0", b"bank 9"))
    with pytest.raises(StoreError, match="checksum"):
        Ledger(MECHANISM, budget=1.7, path=path)


def test_a_torn_last_line_was_never_entered(tmp_path: Path) -> None:
    path = tmp_path / "ledger.log"
    filled(path, rounds=1)
    with path.open("ab") as file:
        file.write(b'0123 {"kind": "ent')
    ledger = Ledger(MECHANISM, budget=1.7, path=path)
    assert len(ledger.entries) == 1
    ledger.record(1, "bank 1")
    assert len(Ledger(MECHANISM, budget=1.7, path=path).entries) == 2


@pytest.mark.parametrize("budget", [0, -1.0, float("inf"), float("nan")])
def test_a_budget_must_be_positive_and_finite(budget: float) -> None:
    with pytest.raises(InputError, match="budget"):
        Ledger(MECHANISM, budget=budget)
