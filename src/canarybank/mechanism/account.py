"""Keep one privacy budget over all runs that touch the same people.

An account is a file for a population that the operator names. It opens with what may be spent, epsilon at delta, and
with the q and sigma of every release: they are committed, for the composition of privacy loss distributions does not
cover parameters that are chosen after seeing releases. Each release then has two records. A debit, durable before
anything is drawn, pays for it; a seal, the hash of the release, is written once the release is durable. A debit is
never given back: whoever is killed between the two draws again under the same debit, which nobody saw the outcome of.
A sealed debit pays for no second draw.

The account sees what it is told: a run that does not name it, and a file that was put back to an earlier state, cannot
be detected. ``docs/budget.md`` says more.
"""

import contextlib
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from canarybank.errors import BudgetError, ConfigError, InputError, StoreError
from canarybank.mechanism.accounting import delta_slack, epsilon, slack_refusal
from canarybank.mechanism.budget import affordable_rounds
from canarybank.mechanism.mechanism import Mechanism
from canarybank.store import Log, file_errors, hash_json, make_folder
from canarybank.store.locks import flocked

__all__ = ["Account", "Debit", "Opening", "left_text"]

VERSION = 1
NEIGHBOURS = "add-remove"
MOST_LEFT = 1_000
FIRST, FIRST_BYTES = re.compile(rb"[0-9a-f]{32} \{"), 34


@dataclass(frozen=True, slots=True)
class Opening:
    """What an account was opened with: whose budget it is, how much, and the q and sigma of every release.

    ``id`` tells accounts apart that were opened with the same values.
    """

    population: str
    epsilon: float
    delta: float
    q: float
    sigma: float
    id: str
    neighbours: str = NEIGHBOURS
    version: int = VERSION

    def __post_init__(self) -> None:
        if not self.population.strip():
            raise InputError("The population of an account needs a name, such as 'patients of 2026'.")
        if not 0 < self.epsilon < math.inf:
            raise InputError(f"An account's epsilon must be positive and finite, not {self.epsilon!r}.")
        _ = self.mechanism

    @property
    def mechanism(self) -> Mechanism:
        """Return the mechanism that the account composes; k and clip play no part in epsilon."""
        return Mechanism(sigma=self.sigma, q=self.q, delta=self.delta)

    @property
    def hash(self) -> str:
        """Return the sha256 of the opening: what a run names the account by."""
        return hash_json(asdict(self))


@dataclass(frozen=True, slots=True)
class Debit:
    """One release that was paid for: by which run and round, over which bank, and its seal once it was durable.

    ``variation`` bounds the release's distance from an ideal one, in total variation.
    """

    run: str
    round: int
    bank: str
    variation: float
    seal: str | None = None


class Account:
    """The budget of a population over all runs, in a file that only grows.

    Whatever path leads to the file, by links or spelled otherwise, it is one account with one lock.

    Args:
        path: The account's file. It must be there: ``Account.open`` makes it.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = _real(path)
        self._log = Log(self._file)
        self._torn = False
        self._debits: dict[tuple[str, int], Debit] = {}
        self.opening = self._read()

    @classmethod
    def open(
        cls, path: Path | str, population: str, *, budget: float, q: float, sigma: float, delta: float = 1e-5
    ) -> "Account":
        """Open an account in a new file and return it.

        Args:
            path: The file to make; one that is there is refused.
            population: The name of the people whose budget it is.
            budget: The epsilon that all releases of all runs together may spend.
            q: Each user's probability of taking part in a release, the same in every run.
            sigma: The noise multiplier, the same in every run.
            delta: The delta at which epsilon is composed.
        """
        opening = Opening(population, float(budget), float(delta), float(q), float(sigma), secrets.token_hex(8))
        file = _real(path)
        make_folder(file.parent)
        with _locked(file):
            if file.exists():
                raise ConfigError(f"There is already a file {os.fspath(path)!r}; choose another name for the account.")
            Log(file).append({"kind": "opening", **asdict(opening)})
        return cls(path)

    @property
    def debits(self) -> tuple[Debit, ...]:
        """Return every release that was paid for, in order."""
        return tuple(self._debits.values())

    @property
    def spent(self) -> float:
        """Return the epsilon of all debits together, at the account's delta."""
        return epsilon(self.opening.mechanism, len(self._debits)) if self._debits else 0.0

    @property
    def slack(self) -> float:
        """Return what the arithmetic of all noise adds to the account's delta."""
        return delta_slack(self.spent, sum(debit.variation for debit in self.debits))

    @property
    def is_torn(self) -> bool:
        """Say whether the file's last line is incomplete, as a kill or a cut leaves it.

        Its append never returned, so nothing was drawn under it. The next append sets it aside in ``NAME.torn``.
        """
        return self._torn

    @property
    def releases_left(self) -> int:
        """Return how many more releases the account's epsilon can pay; 1,000 stands for 1,000 or more."""
        paid = len(self._debits)
        return max(0, affordable_rounds(self.opening.mechanism, self.opening.epsilon, paid + MOST_LEFT) - paid)

    def require(self, mechanism: Mechanism) -> None:
        """Refuse a mechanism whose q or sigma is not the one that the account was opened with."""
        names = ("q", "sigma")
        if other := [name for name in names if getattr(mechanism, name) != getattr(self.opening, name)]:
            said = "; ".join(
                f"{n} is {getattr(self.opening, n)!r} there and {getattr(mechanism, n)!r} here" for n in other
            )
            raise ConfigError(
                f"{self._name} commits every run to one q and sigma, and this run has another: {said}. Use the "
                "account's values."
            )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the account for this process alone, with all that others wrote before; wait while another holds it.

        A debit, its draw and its seal belong into one such context: then no other process can draw under that debit.
        """
        with _locked(self._file):
            opened = self.opening
            self._debits = {}
            self.opening = self._read()
            if self.opening != opened:
                raise StoreError(f"{self._name} was replaced by another while this run was using it; restore its file.")
            yield

    def debit(self, run: str, round_number: int, bank: str, variation: float, release: str | None = None) -> Debit:
        """Pay for a release that is about to be drawn, durably and once, or refuse it; call it while ``held``.

        Args:
            run: The run's id.
            round_number: The round of that run.
            bank: The hash of the bank that the release is over.
            variation: The bound on the release's distance from an ideal one.
            release: The hash of the release where the run has a durable one of this round.
        """
        known = self._debits.get((run, round_number))
        if known is None:
            if release is not None:
                torn = "; its last line is incomplete" if self._torn else ""
                raise StoreError(
                    f"Round {round_number} of this run has a release that {self._name} never paid for: the account was "
                    f"put back to an earlier state, or is another one{torn}. Restore the account's file."
                )
            self._require_funds(variation)
            known = Debit(run, round_number, bank, variation)
            self._log.append({"kind": "debit", **asdict(known)})
            self._debits[run, round_number] = known
        self._require_same(known, bank, release)
        return known

    def seal(self, run: str, round_number: int, release: str) -> None:
        """Write down the hash of a release that is durable now; call it while ``held``."""
        debit = self._debits[run, round_number]
        if debit.seal is None:
            self._log.append({"kind": "seal", "run": run, "round": round_number, "release": release})
            self._debits[run, round_number] = replace(debit, seal=release)

    @property
    def _name(self) -> str:
        return f"The account {os.fspath(self.path)!r} of {self.opening.population!r}"

    def _require_funds(self, variation: float) -> None:
        opening, paid = self.opening, len(self._debits)
        after = epsilon(opening.mechanism, paid + 1)
        if after > opening.epsilon:
            raise BudgetError(
                f"{self._name} cannot pay another release: it would bring epsilon to {after:.4f} at delta "
                f"{opening.delta:g}, past the {opening.epsilon:g} it was opened with. {paid} releases are paid and "
                f"cost {self.spent:.4f}; what is left pays for none. Every run over these people ends here."
            )
        total = variation + sum(debit.variation for debit in self.debits)
        if refusal := slack_refusal(opening.delta, delta_slack(after, total)):
            raise BudgetError(f"{self._name} cannot pay another release: {refusal}")

    def _require_same(self, debit: Debit, bank: str, release: str | None) -> None:
        if debit.bank != bank:
            raise StoreError(f"{self._name} paid for round {debit.round} over another bank; restore the run's files.")
        if debit.seal is not None and release is None:
            raise StoreError(
                f"{self._name} says that the release of round {debit.round} was made, and this folder does not have "
                "it: it is a copy of the run, or the file is gone. Another draw would be a second release under one "
                "debit. Restore the file, or start a new run in another folder."
            )
        if debit.seal not in {None, release}:
            raise StoreError(
                f"{self._name} was told of another release of round {debit.round} than this folder holds: the "
                "folder is a copy of the run. Go on with the original."
            )

    def _read(self) -> Opening:
        if not self.path.is_file():
            raise ConfigError(
                f"There is no budget account {os.fspath(self.path)!r}; check the path, or open one with "
                "`canarybank budget open`."
            )
        self._require_account()
        contents = self._log.read_whole()
        records, self._torn = contents.records, contents.torn
        opening = self._opening(records[0] if records else {})
        for record in records[1:]:
            try:
                self._take(record)
            except (KeyError, TypeError) as error:
                raise StoreError(
                    f"The account {os.fspath(self.path)!r} holds a record out of order: {record}; restore the file "
                    "from a copy. What it spent is unknown, so it pays for nothing."
                ) from error
        return opening

    def _require_account(self) -> None:
        """Refuse a file that cannot be an account from its first bytes on, or that has several names."""
        with file_errors(self.path, "read"), self._file.open("rb") as file:
            start, names = file.read(FIRST_BYTES), os.fstat(file.fileno()).st_nlink
        if start and not FIRST.fullmatch(start):
            raise self._no_account()
        if names > 1:
            raise ConfigError(
                f"The account {os.fspath(self.path)!r} has {names} names (hard links), and runs that use different "
                "ones would not see each other's lock. Keep one name and remove the others; for a backup make a copy."
            )

    def _no_account(self) -> StoreError:
        return StoreError(
            f"{os.fspath(self.path)!r} is no budget account of layout {VERSION}: it does not begin with an opening. "
            "Check the path, or restore the file from a copy."
        )

    def _opening(self, record: Mapping[str, Any]) -> Opening:
        fields = {key: value for key, value in record.items() if key != "kind"}
        if record.get("kind") != "opening" or fields.get("version") != VERSION:
            raise self._no_account()
        return Opening(**fields)

    def _take(self, record: Mapping[str, Any]) -> None:
        key = (record["run"], record["round"])
        known = self._debits.get(key)
        if record["kind"] == "debit" and known is None:
            fields = {name: value for name, value in record.items() if name != "kind"}
            self._debits[key] = Debit(**fields)
        elif record["kind"] == "seal" and known is not None and known.seal is None:
            self._debits[key] = replace(known, seal=str(record["release"]))
        else:
            raise KeyError(record["kind"])


def left_text(left: int) -> str:
    """Say how many releases can be paid, as ``Account.releases_left`` counts them."""
    return f"{left:,} or more releases" if left >= MOST_LEFT else f"{left:,} more releases"


def _real(path: Path | str) -> Path:
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # A file of its own: the log locks itself for each append, and one process cannot hold that lock twice.
    lock = path.with_name(f".{path.name}.lock")
    with file_errors(lock, "lock"):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        flocked(descriptor, lock, wait=True)
        yield
    finally:
        os.close(descriptor)
