"""Run Private Evolution: publish, release, keep, give feedback, generate, and again.

A loop does what a plan asks for, round by round. An ``Evolution`` is what it made.
"""

import contextlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.defend import Vetting
from canarybank.encode import Encoder
from canarybank.errors import BudgetError, ConfigError, IncompleteError, InputError, StoreError
from canarybank.evolution.ballots import VotingUsers
from canarybank.evolution.draw import Canaries, Drawn, Voters
from canarybank.evolution.feedback import Feedback
from canarybank.evolution.keeping import Keeper, Kept
from canarybank.evolution.ledger import Entry, Ledger, Spent, require_unchanged
from canarybank.evolution.offspring import Taking, offspring
from canarybank.evolution.plan import EvolutionPlan, Keep, choose
from canarybank.evolution.population import (
    Archive,
    FolderArchive,
    MemoryArchive,
    Population,
    Probes,
    Published,
    encode_texts,
    split,
    write_population,
)
from canarybank.evolution.schedules import Schedule, at_round
from canarybank.evolution.voted import Voted
from canarybank.generate import CachedGenerator, CandidateBank, Generator, ResponseCache
from canarybank.mechanism import Account, Bank, Mechanism
from canarybank.progress import SILENT, Progress
from canarybank.seeds import stream
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

__all__ = [
    "ACCOUNT",
    "DrawnReleases",
    "Evolution",
    "EvolutionLoop",
    "Releaser",
    "ReleaserFactory",
    "Round",
    "evolve",
]

ACCOUNT = "account.json"
"""The file in a run's folder that holds the id by which the budget account knows the run."""
Start = Population | Bank | CandidateBank | Sequence[str]


class Releaser(Protocol):
    """Where an evolution's noisy histograms come from.

    A run draws them from its voters. A test may put in releases of its own, to see what else depends on users.
    """

    def release(self, round_number: int, bank: Bank) -> NDArray[np.float64] | Drawn:
        """Return the noisy histogram of a round over its bank, one value an entry.

        In a run with canaries it comes with the canaries' coins of the round, as ``Drawn``.
        """


@dataclass(frozen=True, eq=False)
class DrawnReleases:
    """Draw a run's releases from its voters: real ones, or those of a simulation with an insecure seed."""

    voters: Voters
    plan: EvolutionPlan

    def release(self, round_number: int, bank: Bank) -> Drawn:
        """Draw a round's release over its bank."""
        plan = self.plan
        if plan.insecure_seed is None:
            return self.voters.release(bank, plan.mechanism, plan.noise)
        return self.voters.simulate(bank, plan.mechanism, stream(plan.insecure_seed, "evolve", "release", round_number))


ReleaserFactory = Callable[[Voters, EvolutionPlan], Releaser]

DEFAULT = EvolutionPlan(Mechanism(), 1)


@dataclass(frozen=True, eq=False)
class Round:
    """One round as it was seen in public: the bank, the release over it, who stayed, and what was spent with it.

    ``kept`` holds bank positions, the most wanted first, and ``weights`` the weights that the keeper gave them. Where
    the run carries them on, they stand in the next bank. ``took`` says which canaries took part, where the run has any
    and keeps their coins. ``background`` is what everybody would contribute to the probes, users first and then
    canaries; only a simulation with canaries has it.
    """

    number: int
    bank: Bank
    population: Population
    release: NDArray[np.float64]
    kept: NDArray[np.int64]
    weights: NDArray[np.float64]
    spent: Spent
    took: NDArray[np.bool_] | None = None
    background: csr_array | None = None

    @classmethod
    def of(
        cls,
        number: int,
        published: Published,
        release: NDArray[np.float64],
        keep: Keep,
        spent: Spent,
        took: NDArray[np.bool_] | None = None,
        background: csr_array | None = None,
        *,
        noise: float,
        keeper: Keeper = DEFAULT.keeper,
        seed: int = 0,
        stored: Kept | None = None,
    ) -> "Round":
        """Return the round that a release over a published bank makes.

        ``keeper`` decides who stays, with the public ``seed`` and the ``noise`` on each vote; unless that is known
        already, as ``stored``.
        """
        kept = stored or choose(number, published, release, keep, keeper, noise, seed)
        bank, population = published.bank, published.population
        return cls(number, bank, population, release, kept.indices, kept.weights, spent, took, background)

    @property
    def votes(self) -> NDArray[np.float64]:
        """Return the noisy votes of the population's candidates; those of the probes are not among them."""
        return self.release[self.bank.base]

    @property
    def kept_candidates(self) -> tuple[int, ...]:
        """Return who stayed as indices into the population, the most wanted first."""
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
        cls,
        archive: Archive,
        ledger: Ledger,
        keep: Keep,
        insecure_seed: int | None = None,
        folder: Path | None = None,
        *,
        keeper: Keeper | None = DEFAULT.keeper,
        seed: int = 0,
    ) -> "Evolution":
        """Return the run that an archive and its ledger hold, as far as it has come.

        Without a ``keeper``, those who stayed are read from the archive alone.
        """
        rounds: list[Round] = []
        for entry in ledger.entries:
            published, release = archive.bank(entry.round), archive.release(entry.round)
            if published is None or release is None or entry.seal is None:
                break
            if hash_array(release) != entry.seal:
                raise StoreError(f"The release of round {entry.round} is not the one in the ledger; restore its file.")
            stored = archive.kept(entry.round)
            if stored is None and keeper is None:
                break
            took = archive.coins(entry.round)
            background = None if insecure_seed is None else archive.background(entry.round)
            rounds.append(
                Round.of(
                    entry.round,
                    published,
                    release,
                    keep,
                    entry.spent,
                    took,
                    background,
                    keeper=keeper or DEFAULT.keeper,
                    seed=seed,
                    noise=ledger.mechanism.noise,
                    stored=stored,
                )
            )
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
            seed, budget = declared["insecure_seed"], declared["budget"]
            share, size = declared["keep"]["share"], declared["keep"]["count"]
            keep = Keep(tuple(share) if isinstance(share, list) else share, size)
            mechanism, noise = Mechanism(**declared["mechanism"]), declared.get("noise", "discrete")
            # Any other keeper may be a plug-in, which is not imported because a folder names it.
            keeper = DEFAULT.keeper if "keeper" not in declared else None
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"run.json in {str(folder)!r} declares no run ({error!r}); restore it.") from error
        ledger = Ledger(mechanism, budget=budget, insecure_seed=seed, noise=noise, path=folder / "ledger.log")
        return cls.gather(FolderArchive(folder, seed), ledger, keep, seed, folder, keeper=keeper)

    def write(self, folder: Path | str) -> tuple[Path, ...]:
        """Write the population with its lineage as parquet, JSON lines and CSV, and return the three paths."""
        return write_population(self.population, folder, insecure_seed=self.insecure_seed)


def evolve(
    users: Users | VotingUsers,
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
    vetting: Vetting | None = None,
    probes: Probes | None = None,
    canaries: Canaries | None = None,
    folder: Path | str | None = None,
    progress: Progress = SILENT,
    keeper: Keeper = DEFAULT.keeper,
    carry: bool = DEFAULT.carry,
    temperature: Schedule | None = DEFAULT.temperature,
) -> Evolution:
    """Run Private Evolution for ``rounds`` releases and return all that it made.

    With a folder every step is durable before the next begins, and the same call resumes a run that ended early; a
    resume never repeats a release. Together the releases are (epsilon, delta + slack)-private for adding or removing
    one user, by ``Evolution.spent``; a release that would pass ``budget``, or that ``account`` cannot pay, is not made,
    and ``BudgetError`` is raised. Without an account other runs over the same people add to that epsilon.

    A run is real unless ``insecure_seed`` is given. A real run promises that its folder and all that it returns are
    functions of public inputs and of noisy releases, for these ``users`` as they are. How they were chosen is up to
    you: each user's records must follow from that user's data alone. Do not cut users to a length that depends on other
    users, do not drop one user because another one came, and encode their texts with an isolated encoder
    (``canarybank.encode.is_isolated``). Take every other argument from public knowledge, and publish no count of the
    users. ``canarybank evolve`` does all of this for you; ``docs/threat-model.md`` says what is promised.

    The algorithm: Lin et al. (https://arxiv.org/abs/2305.15560); for text, Xie et al. (https://arxiv.org/abs/2403.01749).

    Args:
        users: The users who vote, with vectors of the same encoder; or ``StreamedUsers``, who lie in shards and are
            encoded when they vote. The releases of a seed are the same bytes either way.
        start: The first population: texts, a bank (probes stand at its reserved positions), or one with lineage.
        mechanism: The parameters of the release.
        encoder: What turns text into vectors.
        generator: What writes new candidates.
        rounds: How many releases are made.
        keep: How many candidates stay after a round.
        new: How many new ones are asked for; left out, as many as left.
        feedback: How new candidates are asked for.
        taking: Which answers are taken.
        cap: The most records of a user that vote.
        budget: The largest epsilon that may be spent.
        seed: The public seed of requests and keepers.
        insecure_seed: Makes the run a simulation: noise and coins follow from it.
        noise: What draws the noise of a real run.
        account: The budget account that pays for releases.
        vetting: Which entries get no vote.
        probes: What an auditor planted.
        canaries: Synthetic users who vote beside the others; ``Round.took`` says which of them took part.
        folder: Where every step is kept; left out, in memory.
        progress: Where progress is shown.
        keeper: The rule that decides who stays.
        carry: Whether kept candidates stand in the next bank.
        temperature: That of each round's requests; left out, that of the prompts.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.generate import ScriptedGenerator
        >>> encoder, start = HashingEncoder(), [f"note {i} says {i * i} and {i + 7}" for i in range(20)]
        >>> users = Users.from_vectors(encoder.encode(start * 2).reshape(20, 2, -1))
        >>> writer = ScriptedGenerator(lambda request: f"text {request.seed} has {request.seed % 97} words")
        >>> run = evolve(users, start, Mechanism(k=1), encoder, writer, 1, insecure_seed=0)
        >>> len(run.population), run.spent.epsilon > 0
        (20, True)
    """
    plan = EvolutionPlan(
        mechanism,
        rounds,
        keep,
        new,
        feedback,
        taking,
        cap,
        budget,
        seed,
        insecure_seed,
        noise,
        account,
        vetting,
        keeper,
        carry,
        temperature,
    )
    with EvolutionLoop(
        users, start, plan, encoder, generator, probes=probes, canaries=canaries, folder=folder, progress=progress
    ) as loop:
        return loop.finish()


class EvolutionLoop:
    """A run under way, one round at a time; as a context it holds its folder's lock.

    ``releaser`` is where its noisy histograms come from; left out, they are drawn from the users' votes. ``ledger`` is
    the list of its releases; ``done`` counts the rounds that are complete: released, and the next bank published.

    ``canaries`` are synthetic users of the auditor who vote beside the users. Their coins of a round are durable before
    its release is, so a release that is there has its own coins beside it.
    """

    def __init__(
        self,
        users: Users | VotingUsers,
        start: Start,
        plan: EvolutionPlan,
        encoder: Encoder,
        generator: Generator,
        *,
        probes: Probes | None = None,
        folder: Path | str | None = None,
        progress: Progress = SILENT,
        releaser: Releaser | None = None,
        canaries: Canaries | None = None,
    ) -> None:
        self.plan, self.folder = plan, None if folder is None else Path(folder)
        plan.variation(1)  # refuses what cannot be drawn before anything is read or spent
        self._account = Account(plan.account) if plan.is_real and plan.account is not None else None
        if self._account is not None:
            self._account.require(plan.mechanism)
        voters = Voters(users, plan.cap, canaries)
        self._releaser: Releaser = releaser or DrawnReleases(voters, plan)
        # A real run has no hold of its voters but through the releaser.
        self._known = None if plan.is_real or canaries is None else voters
        self._canaries = canaries
        self._encoder, self._progress = encoder, progress
        first = _first_bank(start, probes, encoder)
        voters.check(first.bank)
        plan.check(first)
        first = plan.vetted(first)
        with contextlib.ExitStack() as held:
            if self.folder is not None:
                held.enter_context(lock_folder(self.folder, "evolve"))
            self._open(first, generator)
            self._held = held.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def unvoted_root(self) -> str | None:
        """Return the root of the next round's bank, or None where its release is entered already or no bank is left."""
        published = self._archive.bank(self.done)
        return None if published is None or self.ledger.entry(self.done) is not None else published.root

    def finish(self) -> Evolution:
        """Run the rounds that are left and return the whole run."""
        try:
            while self.done < self.plan.rounds:
                self.advance()
        except BudgetError:
            self.conclude()
            raise
        return self.conclude()

    def advance(self) -> Round:
        """Run the next round: release over its bank, then build and publish the bank after it."""
        plan, number = self.plan, self.done
        published = self._archive.bank(number)
        if published is None:
            raise StoreError(
                f"The bank of round {number} is missing although later steps are there; restore its files."
            )
        size_after = plan.size_after(len(published.population), len(published.probes or ()), number)
        entry, release = self._release(number, published.bank)
        done = Round.of(
            number,
            published,
            release,
            plan.keep,
            entry.spent,
            keeper=plan.keeper,
            seed=plan.seed,
            noise=plan.mechanism.noise,
            stored=self._archive.kept(number),
        )
        if plan.keeper != DEFAULT.keeper:
            self._archive.put_kept(number, Kept(done.kept, done.weights))
        kept = done.kept_candidates
        carried = kept if plan.carry else ()
        voted = Voted(
            number,
            done.population.candidates,
            done.votes,
            kept,
            size_after - len(carried),
            plan.seed,
            done.weights,
            done.population.vectors,
            plan.mechanism.noise,
            plan.carry,
        )
        temperature = None if plan.temperature is None else at_round(plan.temperature, number)
        spent = f"epsilon {entry.spent.epsilon:.4f} (adding up rounds: {entry.spent.bound:.4f})"
        name = f"round {number + 1} of {plan.rounds}, {spent} at {entry.spent.at_delta}"
        with self._progress.stage(name, voted.wanted, "texts") as stage:
            born = offspring(voted, plan.feedback, self._generator, plan.taking, stage, temperature=temperature)
            vectors = encode_texts(self._encoder, [candidate.text for candidate in born.candidates])
            population = done.population.followed_by(carried, born.candidates, vectors)
            after = Published.of(population, published.probes, born.rejected)
            self._archive.put_bank(number + 1, plan.vetted(after))
        self.done += 1
        return done

    def conclude(self) -> Evolution:
        """Return the run as far as it has come, and write its population and summary where it has a folder."""
        plan = self.plan
        result = Evolution.gather(
            self._archive,
            self.ledger,
            plan.keep,
            plan.insecure_seed,
            self.folder,
            keeper=plan.keeper,
            seed=plan.seed,
        )
        if self.folder is not None:
            summary = {
                "rounds": len(result.rounds),
                "complete": len(result.rounds) == self.plan.rounds,
                "releases": result.spent.releases,
                "epsilon": result.spent.epsilon,
                "epsilon_by_adding_up_rounds": result.spent.bound,
                "delta": result.spent.delta,
                "slack": result.spent.slack,
                "neighbours": "adding or removing one user",
                "population": [path.name for path in result.write(self.folder)],
                "insecure_seed": self.plan.insecure_seed,
            }
            write_json(self.folder / "evolution.json", summary)
        return result

    def _open(self, first: Published, generator: Generator) -> None:
        """Begin a run, or take up the one in the folder, and hold it to what was declared and paid for."""
        plan, folder = self.plan, self.folder
        self._id = secrets.token_hex(16)
        self._archive: Archive = MemoryArchive()
        if folder is not None:
            path, opening = folder / "run.json", None if self._account is None else self._account.opening.hash
            now = parse_json(
                canonical_json(plan.declaration(first, self._encoder, generator, opening, self._canaries)), path
            )
            if path.exists():
                require_unchanged(read_checked(path, or_unmarked=True), now, f"The run in {str(folder)!r}")
            else:
                write_checked(path, now)
            self._archive = FolderArchive(folder, plan.insecure_seed)
            if self._account is not None:
                if not (folder / ACCOUNT).exists():
                    write_checked(folder / ACCOUNT, {"run": self._id})
                self._id = str(read_checked(folder / ACCOUNT)["run"])
        self.ledger = Ledger(
            plan.mechanism,
            budget=plan.budget,
            insecure_seed=plan.insecure_seed,
            noise=plan.sampler,
            path=None if folder is None else folder / "ledger.log",
        )
        self._generator = CachedGenerator(
            generator, ResponseCache(None if folder is None else folder / "responses.log")
        )
        if self._archive.bank(0) is None:
            self._archive.put_bank(0, first)
        self.done = next(t for t in count() if self._archive.bank(t + 1) is None)
        if [entry.round for entry in self.ledger.entries if entry.seal][: self.done] != list(range(self.done)):
            raise StoreError(
                f"{self.done} rounds are complete, but the ledger does not account for the release of each; "
                "restore the ledger from a copy: without it nobody knows what was spent."
            )
        if self._account is not None:
            with self._account.held():
                for entry in self.ledger.entries[: self.done]:
                    self._account.debit(self._id, entry.round, entry.bank, entry.variation, entry.seal)

    def _release(self, number: int, bank: Bank) -> tuple[Entry, NDArray[np.float64]]:
        """Return a round's entry and release: those that are durable, or what is paid for, entered and drawn now.

        The account is held from the debit to the seal, so that no other process draws under the same debit.
        """
        account = self._account
        with contextlib.nullcontext() if account is None else account.held():
            release, entry = self._archive.release(number), self.ledger.entry(number)
            variation = self.plan.variation(bank.size)
            if entry is None and release is not None:
                raise StoreError(f"Round {number} has a release that the ledger does not know; restore the ledger.")
            if entry is None:
                self.ledger.next_spent(variation)
            if account is not None:
                account.debit(self._id, number, bank.hash, variation, None if release is None else hash_array(release))
            entry = entry or self.ledger.record(number, bank.hash, variation)
            if entry.bank != bank.hash:
                raise StoreError(
                    f"The ledger's entry of round {number} is over another bank; restore the round's files."
                )
            if release is None:
                if entry.seal is not None:
                    raise StoreError(
                        f"The release of round {number} was made and its file is gone; another in its place would be "
                        "a second release under one entry. Restore the file from a copy, or start a new run."
                    )
                release = self._draw(number, bank)
            seal = hash_array(release)
            if entry.seal is None:
                entry = self.ledger.seal(number, seal)
            if entry.seal != seal:
                raise StoreError(f"The release of round {number} is not the one in the ledger; restore its file.")
            if account is not None:
                account.seal(self._id, number, seal)
            return entry, release

    def _draw(self, number: int, bank: Bank) -> NDArray[np.float64]:
        """Draw a round's release and keep it; before it the canaries' coins, and a simulation's background."""
        drawn = Drawn.of(self._releaser.release(number, bank))
        if self._canaries is not None:
            if len(drawn.took) != len(self._canaries):
                raise InputError(
                    f"The run has {len(self._canaries)} canaries, and its releaser returned the coins of "
                    f"{len(drawn.took)}; return Drawn(histogram, took) with a coin for each."
                )
            self._archive.put_coins(number, drawn.took)
        if self._known is not None:
            self._archive.put_background(number, self._known.background(bank, self.plan.mechanism))
        self._archive.put_release(number, drawn.histogram)
        return drawn.histogram


def _first_bank(start: Start, probes: Probes | None, encoder: Encoder) -> Published:
    if isinstance(start, Bank):
        start, planted = split(start)
        if planted is not None and probes is not None:
            raise ConfigError("The first bank holds probes already; give probes once, in the bank or beside it.")
        probes = probes or planted
    if not isinstance(start, Population):
        texts, labels = (start.texts, start.labels) if isinstance(start, CandidateBank) else (start, None)
        start = Population.start(texts, encode_texts(encoder, texts), labels)
    return Published.of(start, probes)
