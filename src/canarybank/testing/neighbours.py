"""Test that nothing leaves a real evolution but its releases, on two files of users that differ by one user.

Both files are run under the same settings, with releases that are fixed in advance. Then three things are compared:

- *The sum behind a release.* For every set of participants (users, and canaries where a run audits itself) and every
  round's bank, the histogram without noise must be the same in both worlds while the newcomer does not take part. When
  the newcomer does, it must be the same plus a vector of whole numbers whose norm is at most the clip. Sampling then
  amplifies as the ledger says.
- *The draw.* Each release is drawn once as a real run draws it, from coins that follow from round and id and from noise
  that follows from the round; then the fixed one is put in its place. The draw must ask for coins of the plan's q and
  for noise of the plan's scale, and return the sum over those whose coin fell, plus the noise. Secret sets follow from
  round and name; the draw must ask for a new one of the plan's share for everybody whose coin fell, and for no other.
- *Everything else that leaves.* Everything under the place of the run but the caches, with its name, mode and bytes,
  both standard streams down to descriptors 1 and 2, log messages, every request to the generator, and the exit code
  must be the same.

It is a test, not a proof: it shows a leak, and never that there is none. Private caches are outside it, and so is how
long things really take: the clock goes on by ten seconds whenever a run looks at it.
"""

import contextlib
import hashlib
import io
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from canarybank.config import resolve
from canarybank.errors import CanarybankError
from canarybank.evolution import Drawn, DrawnReleases, EvolutionPlan, Noise, ReleaserFactory, Voters, find_noise
from canarybank.flow import run_evolution
from canarybank.mechanism import Bank, Grid
from canarybank.progress import Lines

__all__ = [
    "Draw",
    "FixedReleases",
    "Performance",
    "World",
    "check_neighbours",
    "compare_worlds",
    "perform_evolution",
    "run_world",
    "scripted_draws",
    "uniform_of",
    "voter_names",
]

Settings = Mapping[str, object]
_SHOWN = 160


@dataclass(frozen=True)
class Performance:
    """What one run said, where it ended, and what it asked the generator."""

    code: int
    out: str = ""
    err: str = ""
    requests: tuple[str, ...] = ()


Perform = Callable[[Settings, Path, ReleaserFactory | None], Performance]
"""Run an evolution under settings, in a folder, with a releaser."""


@dataclass(frozen=True, eq=False)
class Draw:
    """What one release was drawn from: whose coin fell, and what was asked for."""

    chosen: frozenset[str]
    q: tuple[float, ...]
    noise: str
    scale: float
    clean: NDArray[np.int64]
    sets: tuple[tuple[float, str], ...]
    """The share and the voter of every secret set that was asked for."""
    is_exact: bool
    """Whether the release is the histogram of the chosen plus the noise, and the coins are those of the canaries."""


class FixedReleases:
    """Release what follows from the round and the bank alone, and remember who would have voted on which banks.

    Each release is also drawn from the voters as a real run draws it (``draws``), and what was drawn is dropped. An
    instance stands in for the releaser of one run. Releases with another ``seed`` lead to other banks. The canaries'
    coins follow from seed and round.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.voters: Voters | None = None
        self.plan: EvolutionPlan | None = None
        self.banks: list[Bank] = []
        self.draws: list[Draw] = []

    def __call__(self, voters: Voters, plan: EvolutionPlan) -> "FixedReleases":
        """Take the place of the releaser that would draw from these voters."""
        self.voters, self.plan = voters, plan
        return self

    def release(self, round_number: int, bank: Bank) -> Drawn:
        """Return a round's release and the canaries' coins: functions of seed, round, bank and canaries."""
        self.banks.append(bank)
        if self.voters is not None and self.plan is not None and self.plan.is_real:
            self.draws.append(_drawn(self.voters, self.plan, round_number, bank))
        digest = hashlib.sha256(f"{self.seed} {round_number} {bank.hash}".encode()).digest()
        release = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(bank.size)
        canaries = None if self.voters is None else self.voters.canaries
        if canaries is None or self.plan is None:
            return Drawn(release)
        coins = [
            uniform_of(round_number, f"{self.seed} canary {i}") < self.plan.mechanism.q for i in range(len(canaries))
        ]
        return Drawn(release, np.array(coins, dtype=np.bool_) & canaries.eligible)


def voter_names(voters: Voters) -> tuple[str, ...]:
    """Return a name for everybody who votes, in their order: users by their ids, canaries by their numbers."""
    canaries = () if voters.canaries is None else voters.canaries.voting
    return (*(f"user {name}" for name in voters.users.ids), *(f"canary {i}" for i in canaries))


@contextmanager
def scripted_draws(names: Sequence[str], round_number: int, asked: dict[str, Any] | None = None) -> Iterator[None]:
    """Let a real release be drawn from coins that follow from round and name, and noise that follows from the round.

    ``names`` are those of ``voter_names``. The draw's own code runs. ``asked`` takes what it asks for: the coins' q,
    the secret sets, the noise's name and scale, and the sum.
    """
    given: dict[str, Any] = {} if asked is None else asked
    given |= {"q": (), "noise": "", "scale": 0.0, "clean": None, "coins": None, "sets": ()}
    sets = scripted_shares(names, round_number)

    def shares(share: float, voters: NDArray[np.int64], entries: int) -> NDArray[np.bool_]:
        given["sets"] = (*given["sets"], *((share, names[i]) for i in voters))
        return sets(share, voters, entries)

    def coins(q: float, size: int) -> NDArray[np.bool_]:
        given["q"] = (*given["q"], q)
        given["coins"] = np.array([uniform_of(round_number, name) < q for name in names], dtype=np.bool_)
        return given["coins"] if size == len(names) else np.zeros(size, dtype=np.bool_)

    def add(clean: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        given["scale"], given["clean"] = scale, clean.copy()
        return clean + scripted_noise(round_number, scale, len(clean))

    def find(name: str) -> Noise:
        given["noise"] = name
        return replace(find_noise(name), add=add)

    with (
        patch("canarybank.evolution.draw.SystemEntropy", lambda: SimpleNamespace(coins=coins, shares=shares)),
        patch("canarybank.evolution.draw.find_noise", find),
    ):
        yield


def scripted_noise(round_number: int, scale: float, size: int) -> NDArray[np.int64]:
    """Return the noise that ``scripted_draws`` adds in a round."""
    return np.rint(scale * np.random.default_rng(round_number).standard_normal(size)).astype(np.int64)


def scripted_shares(
    names: Sequence[str], round_number: int
) -> Callable[[float, NDArray[np.int64], int], NDArray[np.bool_]]:
    """Return a draw of secret sets that follow from round and name alone."""

    def shares(share: float, voters: NDArray[np.int64], entries: int) -> NDArray[np.bool_]:
        rows = [
            np.random.default_rng(int(2**48 * uniform_of(round_number, f"set of {names[i]}"))).random(entries) < share
            for i in voters
        ]
        return np.array(rows, dtype=np.bool_).reshape(len(rows), entries)

    return shares


def uniform_of(round_number: int, name: str) -> float:
    """Return a value in [0, 1) that follows from a round and a name."""
    return int.from_bytes(hashlib.sha256(f"{round_number} {name}".encode()).digest()[:6], "big") / 2**48


def _drawn(voters: Voters, plan: EvolutionPlan, round_number: int, bank: Bank) -> Draw:
    """Draw a round's release as a run does, and compare it with what it must be."""
    names, asked = voter_names(voters), dict[str, Any]()
    with scripted_draws(names, round_number, asked):
        drawn = Drawn.of(DrawnReleases(voters, plan).release(round_number, bank))
    mechanism = plan.mechanism
    chosen = [i for i, name in enumerate(names) if uniform_of(round_number, name) < mechanism.q]
    took = [f"canary {i}" for i in np.flatnonzero(drawn.took)]
    grid, sets = Grid.of(mechanism), scripted_shares(names, round_number)
    clean = voters.histogram(chosen, bank, mechanism, sets)
    expected = grid.values(clean + scripted_noise(round_number, grid.scale, bank.size))
    return Draw(
        frozenset(names[i] for i in chosen),
        asked["q"],
        asked["noise"],
        asked["scale"],
        clean if asked["clean"] is None else asked["clean"],
        asked["sets"],
        np.array_equal(drawn.histogram, expected) and took == [names[i] for i in chosen if i >= len(voters.users)],
    )


@dataclass(frozen=True)
class World:
    """What left a run on one file of users, and what stayed inside it.

    ``files`` are named from the run folder. ``entries`` are all files, folders and links under the place but the
    caches, each with its kind and mode. ``printed`` is what reached descriptors 1 and 2, and the log.
    """

    performance: Performance
    files: Mapping[str, bytes]
    entries: Mapping[str, str]
    printed: tuple[str, str]
    releases: FixedReleases = field(repr=False)

    @property
    def has_run(self) -> bool:
        """Say whether the run came as far as its first release."""
        return bool(self.releases.banks)


def run_world(
    perform: Perform, settings: Settings, users: bytes, place: Path, *, name: str = "users.csv", seed: int = 0
) -> World:
    """Run an evolution on one file of users, and return all that left it.

    Args:
        perform: Runs the evolution; ``perform_evolution`` does so from Python.
        settings: Values by dotted key, without ``users.source`` and ``evolve.insecure_seed``.
        users: The bytes of the file of users.
        place: A folder for the file of users (under ``name``), the run and the caches. All of it is removed first,
            except the caches of users and vectors: the generator is asked anew. Worlds that are compared must have the
            same place, because messages name it.
        name: What the file of users is called; the ending tells its format.
        seed: The seed of the releases that are put in.

    Example:
        >>> def perform(settings, folder, releaser):
        ...     return Performance(0, "An evolution was run.")
        >>> world = run_world(perform, {}, b"the rows of Ann", Path("place"))
        >>> world.performance.out, world.has_run
        ('An evolution was run.', False)
    """
    public_caches = (place / "cache" / "responses", place / "cache" / "stages" / "bank")
    for path in (*place.glob("*"), *public_caches):
        if path.name != "cache" and path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(users)
    releases, printed = FixedReleases(seed), list[str]()
    with _ticking_clock(), _captured(printed), patch.dict(os.environ, CANARYBANK_CACHE=str(place / "cache")):
        performance = perform({"users.source": str(place / name), **settings}, place / "run", releases)
    found = sorted(path for path in place.rglob("*") if path.relative_to(place).parts[0] not in {"cache", name})
    files = {os.path.relpath(path, place / "run"): path.read_bytes() for path in found if path.is_file()}
    entries = {path.relative_to(place).as_posix(): _entry(path) for path in found}
    return World(performance, files, entries, (printed[0], printed[1]), releases)


def _entry(path: Path) -> str:
    """Return what stands at a path: its mode as ``ls`` shows it, and where it leads if it is a link."""
    mode = stat.filemode(path.lstat().st_mode)
    return f"{mode} to {path.readlink()}" if path.is_symlink() else mode


@contextmanager
def _captured(printed: list[str]) -> Iterator[None]:
    """Collect what is written to the standard streams, by Python or straight to descriptors 1 and 2, and to the log."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")) for _ in "12"]
        for descriptor, file in enumerate(files, 1):
            saved = os.dup(descriptor)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, descriptor)
            os.dup2(file.fileno(), descriptor)
        outputs = [
            stack.enter_context(open(fd, "w", closefd=False, encoding="utf-8", errors="replace")) for fd in (1, 2)
        ]
        stack.enter_context(contextlib.redirect_stdout(outputs[0]))
        stack.enter_context(contextlib.redirect_stderr(outputs[1]))
        handler = logging.StreamHandler(outputs[1])
        logging.root.addHandler(handler)
        try:
            yield
        finally:
            logging.root.removeHandler(handler)
            for file, output in zip(files, outputs, strict=True):
                output.flush()
                file.seek(0)
                printed.append(file.read())


def compare_worlds(without: World, joined: World, *, draws: int = 6) -> tuple[str, ...]:
    """Return a sentence for each difference between two worlds that are neighbours; none where nothing was found.

    Args:
        without: The world without the newcomer.
        joined: The world with the newcomer, whose rows may also be no user at all.
        draws: The random sets of participants, beside nobody and everybody.

    Example:
        >>> def perform(settings, folder, releaser):
        ...     return Performance(0, f"Read {Path(settings['users.source']).stat().st_size} bytes.")
        >>> files = b"the rows of Ann", b"the rows of Ann and those of Bob"
        >>> without, joined = (run_world(perform, {}, users, Path("place")) for users in files)
        >>> compare_worlds(without, joined)
        ("On standard output: 'Read 15 bytes.' without the newcomer, and 'Read 32 bytes.' with.",)
    """
    return (
        *_different_sums(without.releases, joined.releases, draws),
        *_different_draws(without.releases, joined.releases),
        *_different_bytes(without, joined),
    )


def check_neighbours(
    perform: Perform,
    settings: Settings,
    without: bytes,
    joined: bytes,
    place: Path,
    *,
    name: str = "users.csv",
    seed: int = 0,
) -> tuple[str, ...]:
    """Run both worlds, each with an empty cache and with the cache that the other one filled, and compare them.

    ``without`` and ``joined`` are the bytes of two files of users, of which the second has one user more. A newcomer
    under an id that exists is that user: then the first file is the one without that user.

    Args:
        perform: Runs the evolution; ``perform_evolution`` does so from Python.
        settings: Values by dotted key, without ``users.source`` and ``evolve.insecure_seed``.
        without: The bytes of the file of users without the newcomer.
        joined: The bytes of the file with the newcomer.
        place: A folder for the files of users, the runs and the caches. All of it is removed first.
        name: What the file of users is called; the ending tells its format.
        seed: The seed of the releases that are put in.

    Example:
        >>> def quiet(settings, folder, releaser):
        ...     return Performance(0, "Read the users.")
        >>> def talkative(settings, folder, releaser):
        ...     return Performance(0, f"Read {Path(settings['users.source']).stat().st_size} bytes.")
        >>> files = b"the rows of Ann", b"the rows of Ann and those of Bob"
        >>> check_neighbours(quiet, {}, *files, Path("place"))
        ()
        >>> check_neighbours(talkative, {}, *files, Path("place"))
        ("On standard output: 'Read 15 bytes.' without the newcomer, and 'Read 32 bytes.' with.",)
    """
    worlds: dict[tuple[bool, bool], World] = {}
    for first in (False, True):
        shutil.rmtree(place, ignore_errors=True)
        for is_joined in (first, not first):
            users, is_warm = joined if is_joined else without, is_joined != first
            worlds[is_joined, is_warm] = run_world(perform, settings, users, place, name=name, seed=seed)
    pairs = ((warm, other) for warm in (False, True) for other in (False, True))
    findings = [found for a, b in pairs for found in compare_worlds(worlds[False, a], worlds[True, b])]
    return tuple(dict.fromkeys(findings))


def perform_evolution(settings: Settings, folder: Path, releaser: ReleaserFactory | None) -> Performance:
    """Run an evolution from Python, with progress as plain lines; the generator's requests are in its run folder.

    Args:
        settings: Values by dotted key, as ``canarybank.resolve`` takes them.
        folder: The run folder.
        releaser: Stands in for where releases come from, such as ``FixedReleases()``; none draws them.

    Example:
        >>> refused = perform_evolution({"users.limit": 3}, Path("my-run"), None)
        >>> refused.code, refused.err.partition(":")[0]
        (2, 'ConfigError')
    """
    stream, told = io.StringIO(), io.StringIO()
    try:
        run_evolution(
            resolve(flags=settings),
            folder,
            progress=Lines(stream),
            told=lambda text: print(text, file=told),
            releaser=releaser,
        )
    except CanarybankError as error:
        return Performance(error.exit_code, told.getvalue(), f"{stream.getvalue()}{type(error).__name__}: {error}")
    return Performance(0, told.getvalue(), stream.getvalue())


def _different_sums(without: FixedReleases, joined: FixedReleases, draws: int) -> Iterator[str]:
    if without.voters is None or joined.voters is None or without.plan is None:
        return
    if without.plan != joined.plan:
        yield f"The plan depends on users: {without.plan} without the newcomer, and {joined.plan} with."
        return
    before, after = voter_names(without.voters), voter_names(joined.voters)
    if lost := sorted(set(before) - set(after)):
        yield f"The newcomer drives other users out: {lost}."
        return
    came = [i for i, name in enumerate(after) if name not in set(before)]
    if len(came) > 1:
        yield f"More than one user came: {[after[i] for i in came]}."
        return
    mechanism, place = without.plan.mechanism, {name: i for i, name in enumerate(after)}
    radius = Grid.of(mechanism).radius
    for number, bank in enumerate(without.banks):
        old, new = scripted_shares(before, number), scripted_shares(after, number)
        for chosen in _participants(len(before), draws, number):
            clean = without.voters.histogram(chosen, bank, mechanism, old)
            same = [place[before[i]] for i in chosen]
            if not np.array_equal(clean, joined.voters.histogram(same, bank, mechanism, new)):
                yield f"Round {number + 1}: the sum over {len(chosen)} participants depends on who does not take part."
                return
            added = joined.voters.histogram([*same, *came], bank, mechanism, new) - clean
            if sum(int(n) ** 2 for n in added) > (radius**2 if came else 0):
                yield f"Round {number + 1}: the newcomer adds a vector that is longer than the clip."
                return


def _different_draws(without: FixedReleases, joined: FixedReleases) -> Iterator[str]:
    if without.plan is None or without.plan != joined.plan or len(without.draws) != len(joined.draws):
        return
    mechanism, noise = without.plan.mechanism, without.plan.noise
    grid = Grid.of(mechanism)
    for number, pair in enumerate(zip(without.draws, joined.draws, strict=True), 1):
        for draw in pair:
            if draw.q != (mechanism.q,):
                yield f"Round {number}: the draw asks for coins of {draw.q}, and the plan says {mechanism.q}."
            if (draw.noise, draw.scale) != (noise, grid.scale):
                yield f"Round {number}: the draw asks for {draw.noise} noise of {draw.scale}, not {noise} {grid.scale}."
            due = sorted((mechanism.share, name) for name in draw.chosen) if mechanism.share < 1 else []
            if sorted(draw.sets) != due:
                yield (
                    f"Round {number}: the draw asks for {len(draw.sets)} secret sets, and not for one of share "
                    f"{mechanism.share} for each of the {len(due)} who take part."
                )
            if not draw.is_exact:
                yield (
                    f"Round {number}: the release is not the sum over the sampled voters plus the noise, or its coins "
                    "are not the canaries' own."
                )
        before, after = pair
        added = [int(n) for n in after.clean - before.clean]
        if sum(n**2 for n in added) > len(before.chosen ^ after.chosen) * grid.radius**2:
            yield f"Round {number}: the newcomer moves the drawn sum by more than the clip, or without being sampled."


def _participants(users: int, draws: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield nobody, everybody, and random sets between."""
    yield np.zeros(0, dtype=np.int64)
    yield np.arange(users)
    rng = np.random.default_rng(seed)
    for _ in range(draws if users else 0):
        yield np.flatnonzero(rng.random(users) < rng.random())


def _different_bytes(without: World, joined: World) -> Iterator[str]:
    one, other = without.performance, joined.performance
    if one.code != other.code:
        yield f"The exit code is {one.code} without the newcomer, and {other.code} with."
    streams = (
        ("standard output", one.out, other.out),
        ("standard error", one.err, other.err),
        ("descriptor 1", without.printed[0], joined.printed[0]),
        ("descriptor 2 or in the log", without.printed[1], joined.printed[1]),
    )
    for stream, before, after in streams:
        if before != after:
            yield f"On {stream}: {_first_difference(before, after)}"
    if one.requests != other.requests:
        yield f"In the requests: {_first_difference(' | '.join(one.requests), ' | '.join(other.requests))}"
    if names := sorted(set(without.entries) ^ set(joined.entries)):
        yield f"Files or folders that only one world has: {names}."
    for name in sorted(set(without.entries) & set(joined.entries)):
        if without.entries[name] != joined.entries[name]:
            yield f"{name} is {without.entries[name]} without the newcomer, and {joined.entries[name]} with."
    for name in sorted(set(without.files) & set(joined.files)):
        # The manifest holds the hash of every other file, so it differs wherever one of them does.
        if without.files[name] != joined.files[name]:
            texts = (files[name].decode("utf-8", "backslashreplace") for files in (without.files, joined.files))
            yield f"In {name}: {_first_difference(*texts)}"


def _first_difference(before: str, after: str) -> str:
    """Return both texts around the first place at which they differ."""
    pairs = enumerate(zip(before, after, strict=False))
    start = next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))
    shown = slice(max(0, start - _SHOWN // 2), start + _SHOWN // 2)
    return f"{before[shown]!r} without the newcomer, and {after[shown]!r} with."


@contextmanager
def _ticking_clock() -> Iterator[None]:
    """Stop the date, and let every look at the clock take long, so that progress shows all that it can show.

    The names of runs and accounts, which are drawn at random, are fixed with it, and so are the auditor's coins.
    """
    ticks, coins = count(0.0, 10.0), count()
    with (
        patch("canarybank.run.folder.now", lambda: "2000-01-01T00:00:00+00:00"),
        patch("canarybank.run.folder.now", lambda: "2000-01-01T00:00:00+00:00"),
        patch("canarybank.progress.time", SimpleNamespace(monotonic=lambda: next(ticks))),
        patch("canarybank.flow.one_run.secrets", SimpleNamespace(randbits=lambda _: next(coins) % 3 % 2)),
        patch("canarybank.evolution.loop.secrets", SimpleNamespace(token_hex=lambda size: "0" * 2 * size)),
        patch("canarybank.mechanism.account.secrets", SimpleNamespace(token_hex=lambda size: "0" * 2 * size)),
    ):
        yield
