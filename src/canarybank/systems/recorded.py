"""Audit releases that somebody else's program wrote, in any language.

The schedule says which run plants what. The program runs once for each line of it and writes what it released. Write
releases as one file, or as a folder of files of one kind:

**Tables, one value a row** (``.csv``, ``.parquet``, ``.jsonl``). All runs in one file, or in as many as you like.

=========  ========  ==================================================================================================
column     required  meaning
=========  ========  ==================================================================================================
run        yes       the run's number in the schedule, from 1; may be left out where there is but one run
round      no        the number of the release within the run, from 1; without it everything is round 1
label      no        which histogram the value is from, where there is one a label; needed if the plant has labels
position   yes       the value's place in the histogram, from 0: what the plant's probes name
value      yes       the released value, after noise
version    no        the version of this format: 1
=========  ========  ==================================================================================================

For example ``run,position,value`` on the first line of a CSV file and ``1,30,0.2517`` on the second. Only the inspected
positions are read; all others may be there or not.

**Tables, one histogram a row** (``.parquet``, ``.jsonl``): instead of ``position`` and ``value`` a column ``release``
with the list of all values. For example ``{"run": 1, "release": [0.11, -0.02, 0.25]}``.

**Arrays** (``.npy``): a folder with one array a run, named after its run: ``12.npy``, of shape (values,) or (rounds,
values). With labels one array a run and label: ``12-LABEL.npy``.

CSV has commas, a header, UTF-8 and decimal points. Names of columns may be in any case and order. Numbers such as
``1e+05`` are read as what they are. Other columns are not read, but one that looks like values before noise (``clean``,
``raw_count``, ``noise``, ``seed``) is refused: such values must not leave the system. In a folder, hidden files, files
named ``README`` and names that end in ``.tmp`` or ``.part`` are passed over.

A run that is not in the files was lost: list the lost ones by ``lost``. A run that lacks inspected positions is no
error: its observation is shorter, and ``Releases.leaks`` says what the lengths show. So does the number of *all* values
that a run released, inspected or not: see ``sizes``.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.store import hash_array, hash_json
from canarybank.systems.release_files import SUFFIXES, read_parts
from canarybank.systems.release_rows import ARRAYS, LARGEST_NUMBER, LONG, Part, Wanted
from canarybank.systems.trials import Observation, Trial

__all__ = ["RecordedFile", "RecordedSystem", "checked_positions"]

_PASSED_OVER = re.compile(r"^(\.|readme|commitment\.json$)|(\.tmp|\.part|\.partial|~)$", re.IGNORECASE)
SHOWN = 5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file of releases, and when it was last written, in seconds since 1970."""

    path: Path
    mtime: float


@dataclass(frozen=True, eq=False)
class RecordedSystem:
    """Releases that are written already; it plays by looking them up. Make one by ``RecordedSystem.open``.

    Args:
        positions: The inspected (label, position) pairs in the order of the observations, with "" for no label.
        observations: What each run released on them, by run.
        sizes: How many values each run released in all, inspected or not, by run: one number a round.
        files: The files, and when each was written.
        ignored_columns: Columns that were not read.
    """

    positions: tuple[tuple[str, int], ...]
    observations: Mapping[int, Observation]
    sizes: Mapping[int, tuple[int, ...]]
    files: tuple[RecordedFile, ...]
    ignored_columns: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        positions: Iterable[int | tuple[str, int]],
        runs: Collection[int] | None = None,
        is_one_run: bool = False,
    ) -> "RecordedSystem":
        """Read a file or a folder of releases.

        Args:
            path: A file, or a folder of files of one kind.
            positions: The inspected positions in order, as numbers or as (label, position) pairs.
            runs: The runs of the schedule; any other run in the files is then refused.
            is_one_run: Whether the files hold one run, so that rows need not name it.

        Raises:
            InputError: If something in the files cannot be a release: the message names file and line, and the fix.
        """
        return read_releases(Path(path), checked_positions(positions), runs, is_one_run=is_one_run)

    def play(self, trials: Sequence[Trial], rng: np.random.Generator) -> list[Observation | None]:
        """Return the recorded observations of these trials; None for runs that were lost."""
        del rng
        return [self.observations.get(trial.run) for trial in trials]

    def lost(self, runs: Iterable[int]) -> tuple[int, ...]:
        """Return which of these runs are not recorded."""
        return tuple(run for run in runs if run not in self.observations)

    @property
    def written(self) -> tuple[float, float]:
        """Return when the first and the last of the files were written, in seconds since 1970."""
        times = [file.mtime for file in self.files]
        return min(times), max(times)

    def files_before(self, moment: float) -> tuple[RecordedFile, ...]:
        """Return the files that were last written before a moment, such as that of a commitment."""
        return tuple(file for file in self.files if file.mtime < moment)

    @property
    def fingerprint(self) -> str:
        """Return a hash of what was released on the inspected positions: the same in every format and file order."""
        runs = sorted(self.observations)
        lengths = [[run, *map(len, self.observations[run])] for run in runs]
        values = np.concatenate([np.empty(0), *(vector for run in runs for vector in self.observations[run])])
        return hash_json([[list(pair) for pair in self.positions], lengths, hash_array(values)])


def checked_positions(given: Iterable[int | tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return inspected positions as (label, position) pairs, with the label "" where there is none."""
    pairs = tuple(each if isinstance(each, tuple | list) else ("", each) for each in given)
    if not pairs:
        raise InputError("No positions are inspected; name at least one.")
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], str) or not _is_position(pair[1]):  # noqa: PLR2004, a pair
            raise InputError(
                f"{pair!r} is no inspected position; give whole numbers from 0, or (label, position) pairs."
            )
    if len({label == "" for label, _ in pairs}) > 1:
        raise InputError("Some inspected positions have labels and some have none; give all of them a label, or none.")
    if len(set(pairs)) < len(pairs):
        twice = next(pair for place, pair in enumerate(pairs) if pair in pairs[:place])
        raise InputError(f"{_named(twice)} is inspected twice; name each position once.")
    return tuple((label, int(position)) for label, position in pairs)


def _is_position(given: object) -> bool:
    is_whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    return is_whole and 0 <= int(given) <= LARGEST_NUMBER  # type: ignore[call-overload]


def _named(pair: tuple[str, int]) -> str:
    return f"Position {pair[1]} of label {pair[0]!r}" if pair[0] else f"Position {pair[1]}"


def read_releases(
    path: Path,
    positions: tuple[tuple[str, int], ...],
    runs: Collection[int] | None = None,
    *,
    unfinished: bool = False,
    rounds: int = 1,
    is_one_run: bool = False,
) -> RecordedSystem:
    """Read releases; of unfinished ones, leave out the run at each file's end and runs that lack a round or label.

    An unfinished file may end anywhere: a line that does not end and an array that cannot be read are left out too.
    ``rounds`` is how many a run has at least.
    """
    files = _files(path, may_be_empty=unfinished)
    wanted = Wanted(positions, unfinished=unfinished, is_one_run=is_one_run)
    read = list(read_parts(files, wanted))
    parts, owners = [part for _, part in read], [owner for owner, _ in read]
    if not unfinished:
        _check_found(path, parts, wanted)
    values = _Values.of(parts)
    values.check_unique(positions, [files[owner] for owner in owners], parts)
    observations, sizes = values.observations(), values.sizes()
    if unfinished:
        ends = {owner: int(part.sized_run[-1]) for owner, part in read if part.size.size}
        last = set(ends.values()) if wanted.form != ARRAYS else set()
        for run in values.unfinished_runs(positions, last, rounds):
            observations.pop(run, None)
            sizes.pop(run, None)
    if runs is not None and (extra := sorted(set(observations).difference(runs))):
        shown = ", ".join(map(str, extra[:SHOWN])) + (", …" if len(extra) > SHOWN else "")
        raise InputError(
            f"{path} holds {len(extra):,} runs that are not in the schedule ({shown}); it has {len(runs):,}, of "
            f"which the last is {max(runs, default=0)}. Remove them, or check that these releases belong to this plant."
        )
    stamps = tuple(RecordedFile(file, file.stat().st_mtime) for file in files)
    return RecordedSystem(positions, observations, sizes, stamps, tuple(sorted(wanted.ignored_columns)))


def _files(path: Path, *, may_be_empty: bool) -> list[Path]:
    """Return the files of releases in natural order, all of one kind."""
    if not path.exists():
        raise InputError(f"There is no file or folder {str(path)!r}; check the path.")
    files = sorted(path.iterdir(), key=lambda file: (len(file.name), file.name)) if path.is_dir() else [path]
    files = [file for file in files if not _PASSED_OVER.search(file.name)]
    kinds = ", ".join(SUFFIXES)
    for file in files:
        if file.is_dir():
            raise InputError(f"{path} holds a folder {file.name!r}; put all files of releases into one folder.")
        if file.suffix.lower() not in SUFFIXES:
            raise InputError(f"{file} is no file of releases; these end in {kinds}. Move it elsewhere, or convert it.")
    if not files and not may_be_empty:
        raise InputError(f"{path} holds no releases; write files that end in {kinds} into it.")
    suffixes = sorted({".jsonl" if file.suffix.lower() == ".ndjson" else file.suffix.lower() for file in files})
    if len(suffixes) > 1:
        raise InputError(
            f"{path} mixes {' and '.join(suffixes)} files, so a run may stand twice; write all releases in one format."
        )
    return files


def _check_found(path: Path, parts: Sequence[Part], wanted: Wanted) -> None:
    if not any(part.size.size for part in parts):
        raise InputError(f"{path} holds no runs; write at least one release.")
    if wanted.labelled and (missing := [label for label in wanted.codes if label not in wanted.labels_found]):
        found = ", ".join(map(repr, sorted(wanted.labels_found)))
        raise InputError(f"{path} has no release with the label {missing[0]!r}; its labels are {found}.")
    far = max(wanted.positions, key=lambda pair: pair[1])
    if wanted.form == LONG and not any(part.slot.size for part in parts):
        raise InputError(
            f"{path} has none of the inspected positions ({_named(wanted.positions[0]).lower()}, …); positions count "
            "from 0. Check that these releases belong to this plant."
        )
    if 0 < wanted.longest <= far[1]:
        raise InputError(
            f"{_named(far)} is inspected, and the longest histogram in {path} has {wanted.longest} values; check that "
            "these releases belong to this plant, and that positions count from 0."
        )


@dataclass(frozen=True, eq=False)
class _Values:
    """All inspected values sorted by run, round and slot, and the sizes of all runs and rounds."""

    key: NDArray[np.int64]
    slot: NDArray[np.int64]
    value: NDArray[np.float64]
    order: NDArray[np.int64]
    sized_key: NDArray[np.int64]
    size: NDArray[np.int64]
    rounds: int

    @classmethod
    def of(cls, parts: Sequence[Part]) -> "_Values":
        run, rounds, slot, value, sized_run, sized_round, size = (
            np.concatenate(
                [np.empty(0, dtype=np.float64 if name == "value" else np.int64)]
                + [getattr(part, name) for part in parts]
            )
            for name in ("run", "round", "slot", "value", "sized_run", "sized_round", "size")
        )
        most = int(sized_round.max(initial=1)) + 1
        key = run * most + rounds
        order = np.lexsort((slot, key))
        sized, place = np.unique(sized_run * most + sized_round, return_inverse=True)
        sizes = np.bincount(place, weights=size, minlength=len(sized)).astype(np.int64)
        return cls(key[order], slot[order], value[order], order, sized, sizes, most)

    def check_unique(self, positions: Sequence[tuple[str, int]], files: Sequence[Path], parts: Sequence[Part]) -> None:
        """Refuse a value that stands twice, and say in which files."""
        same = np.flatnonzero((np.diff(self.key) == 0) & (np.diff(self.slot) == 0))
        if not same.size:
            return
        first = int(same[0])
        ends = np.cumsum([len(part.run) for part in parts])
        one, other = (
            files[int(np.searchsorted(ends, row, side="right"))] for row in sorted(self.order[first : first + 2])
        )
        run, number = divmod(int(self.key[first]), self.rounds)
        raise InputError(
            f"Run {run} stands twice: {_named(positions[int(self.slot[first])]).lower()} of round {number} is "
            f"{f'twice in {one}' if one == other else f'in {one} and in {other}'}. Leave one release of each run."
        )

    def observations(self) -> dict[int, Observation]:
        """Return one vector a round for each run; a round without any inspected value is an empty vector."""
        starts = np.searchsorted(self.key, self.sized_key).tolist()
        ends = np.searchsorted(self.key, self.sized_key, side="right").tolist()
        return self._by_run([self.value[start:end] for start, end in zip(starts, ends, strict=True)], np.empty(0))

    def sizes(self) -> dict[int, tuple[int, ...]]:
        """Return how many values each run released in each round."""
        return self._by_run(self.size.tolist(), 0)

    def _by_run(self, entries: Sequence[T], nothing: T) -> dict[int, tuple[T, ...]]:
        """Return the entries of each run, one a round: those given for its sized rounds, and nothing for the others."""
        found: dict[int, tuple[T, ...]] = {}
        for key, entry in zip(self.sized_key.tolist(), entries, strict=True):
            run, number = divmod(key, self.rounds)
            before = found.get(run, ())
            found[run] = (*before, *[nothing] * (number - 1 - len(before)), entry)
        return found

    def unfinished_runs(self, positions: Sequence[tuple[str, int]], last: set[int], rounds: int) -> set[int]:
        """Return runs that a killed writer may have left in parts.

        These are the runs at the end of a file, unless they have everything, and runs that lack a round or a label that
        another run has.
        """
        labels = list(dict.fromkeys(label for label, _ in positions))
        codes = np.array([labels.index(label) for label, _ in positions], dtype=np.int64)
        groups = np.unique(np.stack((self.key, codes[self.slot])), axis=1)[0] // self.rounds
        runs, found = np.unique(groups, return_counts=True)
        most = max(int(found.max(initial=0)), rounds * len(labels))
        whole = set(runs[found == most].tolist())
        full = np.bincount(np.searchsorted(runs, self.key // self.rounds), minlength=len(runs))
        everything = len(positions) * max(self.rounds - 1, rounds)
        complete = set(runs[full == everything].tolist())
        return (set((self.sized_key // self.rounds).tolist()) - whole) | (last - complete)
