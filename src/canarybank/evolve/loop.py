"""Run Private Evolution: publish, release, keep, give feedback, generate, and again."""

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from canarybank.encode import Encoder
from canarybank.errors import BudgetError, ConfigError, StoreError
from canarybank.evolve.archive import Archive, FolderArchive, MemoryArchive, Published
from canarybank.evolve.differences import differences
from canarybank.evolve.draw import DrawnReleases, Releaser, Voters
from canarybank.evolve.feedback import Feedback, Voted
from canarybank.evolve.layout import Probes, split
from canarybank.evolve.ledger import Entry, Ledger
from canarybank.evolve.offspring import Taking, offspring
from canarybank.evolve.plan import Plan
from canarybank.evolve.population import Population, encoded
from canarybank.evolve.result import Evolution, Round
from canarybank.evolve.selection import Keep
from canarybank.generate import CachedGenerator, CandidateBank, Generator, ResponseCache
from canarybank.mechanism import Account, Bank, Mechanism
from canarybank.progress import SILENT, Progress, Stage
from canarybank.store import (
    canonical_json,
    hash_array,
    lock_folder,
    parse_json,
    read_checked,
    write_checked,
    write_json,
)
from canarybank.users import Users

__all__ = ["ACCOUNT", "Run", "evolve"]

ACCOUNT = "account.json"
"""The file in a run's folder that holds the id by which the budget account knows the run."""
DEFAULT = Plan(Mechanism(), 1)
Start = Population | Bank | CandidateBank | Sequence[str]


def evolve(
    users: Users,
    start: Start,
    mechanism: Mechanism,
    encoder: Encoder,
    generator: Generator,
    rounds: int,
    *,
    keep: Keep = DEFAULT.keep,
    new: int | None = None,
    feedback: Feedback = DEFAULT.feedback,
    taking: Taking = DEFAULT.taking,
    cap: int | None = DEFAULT.cap,
    budget: float | None = None,
    seed: int = 0,
    insecure_seed: int | None = None,
    noise: str = DEFAULT.noise,
    account: Path | str | None = None,
    probes: Probes | None = None,
    folder: Path | str | None = None,
    progress: Progress = SILENT,
) -> Evolution:
    """Run Private Evolution for ``rounds`` releases and return all that it made.

    ``users`` come with vectors from the same encoder. ``start`` is the first population: texts with labels or
    without, a bank (what stands at its reserved positions are the probes), or a population with lineage. ``Plan``
    says what the further choices mean.
    With a folder every step is durable before the next begins, and the same call resumes a run that ended early;
    a resume never repeats a release. Together the releases are (epsilon, delta + slack)-private for adding or removing
    one user, by ``Evolution.spent``; a release that would pass ``budget``, or that ``account`` cannot pay, is not made,
    and ``BudgetError`` is raised. Without an account other runs over the same people add to that epsilon.

    A run is real unless ``insecure_seed`` is given. A real run promises that its folder and all that it returns are
    functions of public inputs and of noisy releases, for these ``users`` as they are. How they were chosen is up to
    you: each user's records must follow from that user's data alone. Do not cut users to a length that depends on other
    users, do not drop one user because another one came, and encode their texts with an isolated encoder
    (``canarybank.encode.is_isolated``). Take every other argument from public knowledge, and publish no count of the
    users. ``canarybank evolve`` does all of this for you; ``docs/threat-model.md`` says what is promised.
    """
    plan = Plan(mechanism, rounds, keep, new, feedback, taking, cap, budget, seed, insecure_seed, noise, account)
    with Run(users, start, plan, encoder, generator, probes=probes, folder=folder, progress=progress) as run:
        return run.finish()


class Run:
    """A run under way, one round at a time; as a context it holds its folder's lock.

    ``releaser`` is where its noisy histograms come from; left out, they are drawn from the users' votes.
    """

    def __init__(
        self,
        users: Users,
        start: Start,
        plan: Plan,
        encoder: Encoder,
        generator: Generator,
        *,
        probes: Probes | None = None,
        folder: Path | str | None = None,
        progress: Progress = SILENT,
        releaser: Releaser | None = None,
    ) -> None:
        self.plan, self.folder = plan, None if folder is None else Path(folder)
        plan.variation(1)  # refuses what cannot be drawn before anything is read or spent
        self._account = Account(plan.account) if plan.is_real and plan.account is not None else None
        if self._account is not None:
            self._account.require(plan.mechanism)
        voters = Voters(users, plan.cap)
        self._releaser: Releaser = releaser or DrawnReleases(voters, plan)
        self._encoder, self._progress = encoder, progress
        first = _first(start, probes, encoder)
        voters.check(first.bank)
        plan.check(first)
        self._held = contextlib.ExitStack()
        try:
            self._open(first, generator)
        except BaseException:
            self._held.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    @property
    def ledger(self) -> Ledger:
        """Return the list of this run's releases."""
        return self._ledger

    @property
    def done(self) -> int:
        """Return how many rounds are complete: released, and the next bank published."""
        return self._done

    def finish(self) -> Evolution:
        """Run the rounds that are left and return the whole run."""
        try:
            for _ in range(self.done, self.plan.rounds):
                self.advance()
        except BudgetError:
            self.conclude()
            raise
        return self.conclude()

    def advance(self) -> Round:
        """Run the next round: release over its bank, then build and publish the bank after it."""
        number = self._done
        published = self._bank(number)
        _, new = self.plan.sizes(len(published.population), len(published.probes or ()))
        entry, release = self._released(number, published.bank)
        spent = f"epsilon {entry.spent.epsilon:.4f} (adding up rounds: {entry.spent.bound:.4f})"
        name = f"round {number + 1} of {self.plan.rounds}, {spent} at {entry.spent.at_delta}"
        with self._progress.stage(name, new, "texts") as stage:
            done = Round.of(number, published, release, self.plan.keep, entry.spent)
            self._archive.put_bank(number + 1, self._next(done, published, new, stage))
        self._done += 1
        return done

    def conclude(self) -> Evolution:
        """Return the run as far as it has come, and write its population and summary where it has a folder."""
        result = Evolution.gather(self._archive, self._ledger, self.plan.keep, self.plan.insecure_seed, self.folder)
        if self.folder is not None:
            names = [path.name for path in result.write(self.folder)]
            write_json(self.folder / "evolution.json", self._summary(result, names))
        return result

    def _open(self, first: Published, generator: Generator) -> None:
        opening = None if self._account is None else self._account.opening.hash
        declaration = self.plan.declaration(first, self._encoder, generator, opening)
        self._id = secrets.token_hex(16)
        path: dict[str, Path | None] = {"ledger": None, "responses": None}
        self._archive: Archive = MemoryArchive()
        if self.folder is not None:
            self._held.enter_context(lock_folder(self.folder, "evolve"))
            _declare(self.folder / "run.json", declaration)
            path = {name: self.folder / f"{name}.log" for name in path}
            self._archive = FolderArchive(self.folder, self.plan.insecure_seed)
            if self._account is not None:
                self._id = _kept_id(self.folder / ACCOUNT, self._id)
        plan = self.plan
        self._ledger = Ledger(
            plan.mechanism,
            budget=plan.budget,
            insecure_seed=plan.insecure_seed,
            noise=plan.sampler,
            path=path["ledger"],
        )
        self._generator = CachedGenerator(generator, ResponseCache(path["responses"]))
        if self._archive.bank(0) is None:
            self._archive.put_bank(0, first)
        self._done = next(t for t in count() if self._archive.bank(t + 1) is None)
        if [entry.round for entry in self._ledger.entries if entry.seal][: self._done] != list(range(self._done)):
            raise StoreError(
                f"{self._done} rounds are complete, but the ledger does not account for the release of each; "
                "restore the ledger from a copy: without it nobody knows what was spent."
            )
        with self._held_account() as account:
            if account is not None:
                for entry in self._ledger.entries[: self._done]:
                    account.debit(self._id, entry.round, entry.bank, entry.variation, entry.seal)

    @contextlib.contextmanager
    def _held_account(self) -> Iterator[Account | None]:
        with contextlib.nullcontext() if self._account is None else self._account.held():
            yield self._account

    def _bank(self, number: int) -> Published:
        published = self._archive.bank(number)
        if published is None:
            raise StoreError(
                f"The bank of round {number} is missing although later steps are there; restore its files."
            )
        return published

    def _released(self, number: int, bank: Bank) -> tuple[Entry, NDArray[np.float64]]:
        """Return a round's entry and release: those that are durable, or what is paid for, entered and drawn now.

        The account is held from the debit to the seal, so that no other process draws under the same debit.
        """
        with self._held_account() as account:
            release, entry = self._archive.release(number), self._ledger.entry(number)
            variation = self.plan.variation(bank.size)
            if entry is None and release is not None:
                raise StoreError(f"Round {number} has a release that the ledger does not know; restore the ledger.")
            if entry is None:
                self._ledger.next_spent(variation)
            if account is not None:
                account.debit(self._id, number, bank.hash, variation, None if release is None else hash_array(release))
            entry = entry or self._ledger.record(number, bank.hash, variation)
            if entry.bank != bank.hash:
                raise StoreError(
                    f"The ledger's entry of round {number} is over another bank; restore the round's files."
                )
            release = self._drawn(entry, bank) if release is None else release
            if entry.seal is None:
                entry = self._ledger.seal(number, hash_array(release))
            if entry.seal != hash_array(release):
                raise StoreError(f"The release of round {number} is not the one in the ledger; restore its file.")
            if account is not None:
                account.seal(self._id, number, hash_array(release))
            return entry, release

    def _drawn(self, entry: Entry, bank: Bank) -> NDArray[np.float64]:
        if entry.seal is not None:
            raise StoreError(
                f"The release of round {entry.round} was made and its file is gone; another in its place would be a "
                "second release under one entry. Restore the file from a copy, or start a new run."
            )
        release = self._releaser.release(entry.round, bank)
        self._archive.put_release(entry.round, release)
        return release

    def _next(self, done: Round, published: Published, new: int, stage: Stage) -> Published:
        candidates, kept = done.population.candidates, done.kept_candidates
        voted = Voted(done.number, candidates, done.votes, kept, new, self.plan.seed)
        born = offspring(voted, self.plan.feedback, self._generator, self.plan.taking, stage)
        vectors = encoded(self._encoder, [candidate.text for candidate in born.candidates])
        population = done.population.followed_by(kept, born.candidates, vectors)
        return Published.of(population, published.probes, born.rejected)

    def _summary(self, result: Evolution, files: list[str]) -> dict[str, Any]:
        spent = result.spent
        return {
            "rounds": len(result.rounds),
            "complete": len(result.rounds) == self.plan.rounds,
            "releases": spent.releases,
            "epsilon": spent.epsilon,
            "epsilon_by_adding_up_rounds": spent.bound,
            "delta": spent.delta,
            "slack": spent.slack,
            "neighbours": "adding or removing one user",
            "population": files,
            "insecure_seed": self.plan.insecure_seed,
        }


def _first(start: Start, probes: Probes | None, encoder: Encoder) -> Published:
    if isinstance(start, Bank):
        population, planted = split(start)
        if planted is not None and probes is not None:
            raise ConfigError("The first bank holds probes already; give probes once, in the bank or beside it.")
        return Published.of(population, probes or planted)
    if isinstance(start, Population):
        return Published.of(start, probes)
    texts, labels = (start.texts, start.labels) if isinstance(start, CandidateBank) else (start, None)
    return Published.of(Population.start(texts, encoded(encoder, texts), labels), probes)


def _declare(path: Path, declaration: dict[str, Any]) -> None:
    """Write down what a run does, or hold a resumed run to what was written."""
    plain = parse_json(canonical_json(declaration), path)
    if not path.exists():
        write_checked(path, plain)
        return
    declared = read_checked(path, or_unmarked=True)
    if declared.get("version") != plain["version"]:
        raise ConfigError(
            f"The run in {str(path.parent)!r} has layout {declared.get('version')!r}, and this version of canarybank "
            f"writes layout {plain['version']}. Finish it with the version that began it, or start a new run in "
            "another folder; what was released stays spent."
        )
    if changed := differences(declared, plain):
        raise ConfigError(
            f"The run in {str(path.parent)!r} was started with other settings: {'; '.join(changed)}. "
            "Restore them to resume it, or start a new run in another folder."
        )


def _kept_id(path: Path, fresh: str) -> str:
    """Return the id by which a budget account knows the run in a folder; the first call writes it down."""
    if not path.exists():
        write_checked(path, {"run": fresh})
    return str(read_checked(path)["run"])
