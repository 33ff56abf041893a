"""Hold what a run made: every round's bank and release, what they spent, and the final population."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import IncompleteError, StoreError
from canarybank.evolution.archive import Archive, FolderArchive, Published, write_population
from canarybank.evolution.ledger import Ledger, Spent
from canarybank.evolution.plan import Keep, top
from canarybank.evolution.population import Population
from canarybank.mechanism import Bank, Mechanism
from canarybank.store import hash_array, read_checked

__all__ = ["Evolution", "Round"]


@dataclass(frozen=True, eq=False)
class Round:
    """One round as it was seen in public: the bank, the release over it, who stayed, and what was spent with it.

    ``kept`` holds bank positions, most votes first.
    """

    number: int
    bank: Bank
    population: Population
    release: NDArray[np.float64]
    kept: NDArray[np.int64]
    spent: Spent

    @classmethod
    def of(cls, number: int, published: Published, release: NDArray[np.float64], keep: Keep, spent: Spent) -> "Round":
        """Return the round that a release over a published bank makes."""
        bank = published.bank
        kept = bank.base[top(release[bank.base], keep.of(bank.size))]
        return cls(number, bank, published.population, release, kept, spent)

    @property
    def votes(self) -> NDArray[np.float64]:
        """Return the noisy votes of the population's candidates; those of the probes are not among them."""
        return self.release[self.bank.base]

    @property
    def kept_candidates(self) -> tuple[int, ...]:
        """Return who stayed as indices into the population, most votes first."""
        return tuple(int(i) for i in np.searchsorted(self.bank.base, self.kept))


@dataclass(frozen=True, eq=False)
class Evolution:
    """A run: its rounds, and the population after the last of them.

    All of it is public: made of noisy releases and public text. A run with an insecure seed is a simulation; whoever
    has the seed can take the noise off its releases.
    """

    population: Population
    rounds: tuple[Round, ...]
    mechanism: Mechanism
    spent: Spent
    insecure_seed: int | None = None
    folder: Path | None = None

    def __repr__(self) -> str:
        stamp = "" if self.insecure_seed is None else f"; INSECURE, seeded with {self.insecure_seed}"
        return f"Evolution({len(self.rounds)} rounds, {len(self.population)} candidates; {self.spent}{stamp})"

    @classmethod
    def gather(
        cls, archive: Archive, ledger: Ledger, keep: Keep, insecure_seed: int | None = None, folder: Path | None = None
    ) -> "Evolution":
        """Return the run that an archive and its ledger hold, as far as it has come."""
        rounds: list[Round] = []
        for entry in ledger.entries:
            published, release = archive.bank(entry.round), archive.release(entry.round)
            if published is None or release is None or entry.seal is None:
                break
            if hash_array(release) != entry.seal:
                raise StoreError(f"The release of round {entry.round} is not the one in the ledger; restore its file.")
            rounds.append(Round.of(entry.round, published, release, keep, entry.spent))
        last = archive.bank(len(rounds)) or archive.bank(len(rounds) - 1)
        if last is None:
            raise IncompleteError("This run has not published its first bank yet; run the same command to resume it.")
        return cls(last.population, tuple(rounds), ledger.mechanism, ledger.spent, insecure_seed, folder)

    @classmethod
    def load(cls, folder: Path | str) -> "Evolution":
        """Read a run from its folder, finished or as far as it has come, every file checked against its hash."""
        folder = Path(folder)
        if not (folder / "ledger.log").exists():
            raise IncompleteError(f"There is no run in {str(folder)!r}: it has no ledger; check the path.")
        declared = read_checked(folder / "run.json", or_unmarked=True)
        try:
            seed, budget, keep = declared["insecure_seed"], declared["budget"], Keep(**declared["keep"])
            mechanism, noise = Mechanism(**declared["mechanism"]), declared.get("noise", "discrete")
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"run.json in {str(folder)!r} declares no run ({error!r}); restore it.") from error
        ledger = Ledger(mechanism, budget=budget, insecure_seed=seed, noise=noise, path=folder / "ledger.log")
        return cls.gather(FolderArchive(folder, seed), ledger, keep, seed, folder)

    def write(self, folder: Path | str) -> tuple[Path, ...]:
        """Write the population with its lineage as parquet, JSON lines and CSV, and return the three paths."""
        return write_population(self.population, folder, insecure_seed=self.insecure_seed)
