"""Test that nothing leaves a real evolution but its releases, on two files of users that differ by one user.

Both files are run under the same settings, with releases that are fixed in advance. Then two things are compared:

- *The sum behind a release.* For every set of participants and every round's bank, the histogram without noise must be
  the same in both worlds while the newcomer does not take part. When the newcomer does, it must be the same plus a
  vector of whole numbers whose norm is at most the clip. Sampling then amplifies as the ledger says.
- *Everything else that leaves.* Every file of the run folder with its name and bytes, both standard streams, every
  request to the generator, and the exit code must be the same.

It is a test, not a proof: it shows a leak, and never that there is none. Private caches are outside it, and so is how
long things really take: the clock goes on by ten seconds whenever a run looks at it.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import CanarybankError
from canarybank.evolve import Plan, ReleaserFactory, Voters
from canarybank.experiment import resolve, run_evolution
from canarybank.mechanism import Bank, Grid
from canarybank.progress import Lines

__all__ = [
    "FixedReleases",
    "Performance",
    "World",
    "check_neighbours",
    "compare_worlds",
    "perform_evolution",
    "run_world",
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


Perform = Callable[[Settings, Path, ReleaserFactory], Performance]
"""Run an evolution under settings, in a folder, with a releaser."""


class FixedReleases:
    """Release what follows from the round and the bank alone, and remember who would have voted on which banks.

    An instance stands in for the releaser of one run. Releases with another ``seed`` lead to other banks.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.voters: Voters | None = None
        self.plan: Plan | None = None
        self.banks: list[Bank] = []

    def __call__(self, voters: Voters, plan: Plan) -> "FixedReleases":
        """Take the place of the releaser that would draw from these voters."""
        self.voters, self.plan = voters, plan
        return self

    def release(self, round_number: int, bank: Bank) -> NDArray[np.float64]:
        """Return a round's release: a function of seed, round and bank."""
        self.banks.append(bank)
        digest = hashlib.sha256(f"{self.seed} {round_number} {bank.hash}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(bank.size)


@dataclass(frozen=True)
class World:
    """What left a run on one file of users, and what stayed inside it."""

    performance: Performance
    files: Mapping[str, bytes]
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
    """
    public_caches = (place / "cache" / "responses", place / "cache" / "stages" / "bank")
    for path in (*place.glob("*"), *public_caches):
        if path.name != "cache" and path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(users)
    releases = FixedReleases(seed)
    with _ticking_clock(), patch.dict(os.environ, CANARYBANK_CACHE=str(place / "cache")):
        performance = perform({"users.source": str(place / name), **settings}, place / "run", releases)
    found = sorted(path for path in (place / "run").rglob("*") if path.is_file())
    files = {path.relative_to(place / "run").as_posix(): path.read_bytes() for path in found}
    return World(performance, files, releases)


def compare_worlds(without: World, joined: World, *, draws: int = 6) -> tuple[str, ...]:
    """Return a sentence for each difference between two worlds that are neighbours; none where nothing was found.

    Args:
        without: The world without the newcomer.
        joined: The world with the newcomer, whose rows may also be no user at all.
        draws: The random sets of participants, beside nobody and everybody.
    """
    return (*_different_sums(without.releases, joined.releases, draws), *_different_bytes(without, joined))


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


def perform_evolution(settings: Settings, folder: Path, releaser: ReleaserFactory) -> Performance:
    """Run an evolution from Python, with progress as plain lines; the generator's requests are in its run folder."""
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
    before, after = without.voters.users.ids, joined.voters.users.ids
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
        for chosen in _participants(len(before), draws, number):
            clean = without.voters.histogram(chosen, bank, mechanism)
            same = [place[before[i]] for i in chosen]
            if not np.array_equal(clean, joined.voters.histogram(same, bank, mechanism)):
                yield f"Round {number + 1}: the sum over {len(chosen)} participants depends on who does not take part."
                return
            added = joined.voters.histogram([*same, *came], bank, mechanism) - clean
            if sum(int(n) ** 2 for n in added) > (radius**2 if came else 0):
                yield f"Round {number + 1}: the newcomer adds a vector that is longer than the clip."
                return


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
    for stream, before, after in (("standard output", one.out, other.out), ("standard error", one.err, other.err)):
        if before != after:
            yield f"On {stream}: {_first_difference(before, after)}"
    if one.requests != other.requests:
        yield f"In the requests: {_first_difference(' | '.join(one.requests), ' | '.join(other.requests))}"
    if names := sorted(set(without.files) ^ set(joined.files)):
        yield f"Files that only one world has: {names}."
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

    The names of runs and accounts, which are drawn at random, are fixed with it.
    """
    ticks = count(0.0, 10.0)
    with (
        patch("canarybank.experiment.manifest.now", lambda: "2000-01-01T00:00:00+00:00"),
        patch("canarybank.experiment.run_folder.now", lambda: "2000-01-01T00:00:00+00:00"),
        patch("canarybank.progress.time", SimpleNamespace(monotonic=lambda: next(ticks))),
        patch("canarybank.evolve.loop.secrets", SimpleNamespace(token_hex=lambda size: "0" * 2 * size)),
        patch("canarybank.mechanism.account.secrets", SimpleNamespace(token_hex=lambda size: "0" * 2 * size)),
    ):
        yield
