"""Write down every release before it is made, and stop before the budget is passed.

A ledger opens with a declaration: the mechanism, how noise is drawn, the budget, and the seed where the run is an
insecure one. Then each release has two records: an entry, written before anything is drawn, and its seal, the hash of
the release, written once the release is durable. An entry without a seal and without a durable release was never seen
by anyone, so it is drawn anew under the same entry; an entry with a seal is never drawn again.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from canarybank.errors import BudgetError, ConfigError, InputError, StoreError
from canarybank.mechanism import Mechanism, composition_bound, delta_slack, delta_text, epsilon, slack_refusal
from canarybank.store import Log, differences

__all__ = ["Entry", "Ledger", "Spent", "require_unchanged"]

VERSION = 2
"""The layout of a run's declaration and of its ledger."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a number of releases of one mechanism spend together, for adding or removing one user.

    ``epsilon`` is exact up to its accountant's discretisation, from the privacy loss distribution; ``bound`` is what
    adding up the rounds one by one proves. Both are computed at ``delta`` for ideal noise; ``slack`` is what the
    noise's arithmetic adds, so that the releases are (epsilon, delta + slack)-private.
    """

    releases: int
    epsilon: float
    bound: float
    delta: float
    slack: float = 0.0

    @classmethod
    def by(cls, mechanism: Mechanism, releases: int, variation: float = 0.0) -> "Spent":
        """Return what so many releases of a mechanism spend, at this total variation from ideal ones; none is free."""
        if releases == 0:
            return cls(0, 0.0, 0.0, mechanism.delta)
        spent, bound = epsilon(mechanism, releases), composition_bound(mechanism, releases)
        return cls(releases, spent, bound, mechanism.delta, delta_slack(spent, variation))

    @property
    def at_delta(self) -> str:
        """Say at which delta: that of ideal noise, and the slack on top."""
        return delta_text(self.delta, self.slack)

    def __str__(self) -> str:
        return (
            f"epsilon {self.epsilon:.4f} at {self.at_delta} after {self.releases} releases, for adding or "
            f"removing one user (from the privacy loss distribution; adding up rounds: {self.bound:.4f})"
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One release in the ledger: its round, the bank it is over, the mechanism, the total with it, and its seal.

    ``variation`` bounds the release's distance from an ideal one, in total variation.
    """

    round: int
    bank: str
    mechanism: Mechanism
    spent: Spent
    variation: float = 0.0
    seal: str | None = None


class Ledger:
    """The list of a run's releases, in a file that only grows, or in memory without a path."""

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        budget: float | None = None,
        insecure_seed: int | None = None,
        noise: str = "discrete",
        path: Path | str | None = None,
    ) -> None:
        if budget is not None and not 0 < budget < math.inf:
            raise InputError(f"A privacy budget must be a positive, finite epsilon, not {budget!r}.")
        self.mechanism, self.budget = mechanism, budget
        self._log = None if path is None else Log(path)
        self._entries: list[Entry] = []
        declaration = {
            "kind": "declaration",
            "version": VERSION,
            "mechanism": mechanism.to_json(),
            "noise": noise,
            "budget": budget,
            "insecure_seed": insecure_seed,
        }
        records = self._log.records() if self._log is not None else ()
        if records:
            require_unchanged(records[0], declaration, "This run's ledger")
        else:
            self._append(declaration)
        for record in records[1:]:
            self._read(record)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return the entries, one for each release that was made or is about to be."""
        return tuple(self._entries)

    @property
    def spent(self) -> Spent:
        """Return what the entries spend together."""
        return self._entries[-1].spent if self._entries else Spent.by(self.mechanism, 0)

    def entry(self, round_number: int) -> Entry | None:
        """Return a round's entry, or None where it has none yet."""
        return self._entries[round_number] if round_number < len(self._entries) else None

    def next_spent(self, variation: float = 0.0) -> Spent:
        """Return the total with one more release, or refuse it where it would pass the budget or delta.

        It passes delta where what the noise's arithmetic adds is more than delta itself.
        """
        total = variation + sum(entry.variation for entry in self._entries)
        after = Spent.by(self.mechanism, len(self._entries) + 1, total)
        if self.budget is not None and after.epsilon > self.budget:
            raise BudgetError(
                f"Release {after.releases} would bring epsilon to {after.epsilon:.6f} at delta {after.delta:g}, past "
                f"the declared budget of {self.budget:g}; it was not made. {after.releases - 1} releases are made and "
                "stay spent: another run over the same people spends on top of them. To keep one budget over all runs, "
                "open an account with `canarybank budget open` and name it as evolve.account."
            )
        if refusal := slack_refusal(after.delta, after.slack):
            raise BudgetError(f"Release {after.releases} was not made: {refusal}")
        return after

    def record(self, round_number: int, bank: str, variation: float = 0.0) -> Entry:
        """Enter a release that is about to be made, durably, or refuse it where it would pass the budget."""
        if round_number != len(self._entries):
            raise StoreError(
                f"Round {round_number} cannot be entered after {len(self._entries)} entries; every round has one."
            )
        entry = Entry(round_number, bank, self.mechanism, self.next_spent(variation), variation)
        self._append({"kind": "entry", **asdict(entry), "mechanism": entry.mechanism.to_json()})
        self._entries.append(entry)
        return entry

    def seal(self, round_number: int, release: str) -> Entry:
        """Write down the hash of a round's release, once that release is durable."""
        sealed = replace(self._entries[round_number], seal=release)
        self._append({"kind": "seal", "round": round_number, "release": release})
        self._entries[round_number] = sealed
        return sealed

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._log is not None:
            self._log.append(record)

    def _read(self, record: Mapping[str, Any]) -> None:
        entries = self._entries
        refusal = StoreError(f"The ledger holds a record out of order: {dict(record)}; restore the file from a copy.")
        try:
            if record["kind"] == "entry" and record["round"] == len(entries):
                spent, variation = Spent(**record["spent"]), float(record["variation"])
                entries.append(Entry(record["round"], record["bank"], self.mechanism, spent, variation))
            elif record["kind"] == "seal" and entries[record["round"]].seal is None:
                entries[record["round"]] = replace(entries[record["round"]], seal=str(record["release"]))
            else:
                raise refusal
        except (KeyError, IndexError, TypeError):
            raise refusal from None


def require_unchanged(declared: Mapping[str, Any], now: Mapping[str, Any], what: str) -> None:
    """Refuse to go on with what was declared in another layout, or with other settings than now."""
    if declared.get("version") != now["version"]:
        raise ConfigError(
            f"{what} has layout {declared.get('version')!r}, and this version of canarybank writes layout "
            f"{now['version']}. Finish the run with the version that began it, or start a new run in another folder; "
            "what was released stays spent."
        )
    if changed := differences(declared, now):
        phrases = (f"{key} was {old!r} and is now {new!r}" for key, (old, new) in changed.items())
        raise ConfigError(
            f"{what} was started with other settings, which never change within a run: {'; '.join(phrases)}. Restore "
            "them to resume the run, or start a new run in another folder."
        )
