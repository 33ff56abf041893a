"""Run any program as a system: it is given a schedule and writes releases.

The program is called as ``PROGRAM ... SCHEDULE RELEASES``, or with these two paths wherever its arguments say
``{schedule}`` and ``{releases}``. No shell is involved unless you name one.

**SCHEDULE** is a CSV file in UTF-8 with a header and one line a run, to be run in this order:

======  ==============================================================================================================
column  meaning
======  ==============================================================================================================
run     the run's number; write it beside each value that the run releases
canary  the canary that the run tests
plant   what to plant in this run: the name of a canary, or nothing
split   what the run is for, ``fit`` or ``judge``; a system must not treat them differently
======  ==============================================================================================================

**RELEASES** is a folder that exists and is empty. Write any file into it that ``recorded`` describes, for example
``RELEASES/releases.csv`` with the columns run, position and value. Write a run's values one after another, and end
lines by a newline: then a program that is stopped midway loses the run at hand and no other.

Each call has a folder of its own, ``call-0001`` and so on, with its schedule, its releases, what the program printed
(``stdout.txt``, ``stderr.txt``) and how it ended (``exit.json``). Playing again asks for the missing runs of calls that
failed, and for nothing else. A run that a *successful* call did not write is lost for good: running it again until it
succeeds would hide losses that depend on the canary. No call is given the audit's seed; a program draws its own noise,
and it must not draw the same again in each call. (Some versions of awk take every seed above 2^31 for the same one.)
"""

import csv
import io
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from canarybank.errors import IncompleteError, InputError, MissingError, StoreError
from canarybank.store import file_errors, lock_folder, make_folder, read_json, set_aside, write_atomic, write_json
from canarybank.systems.recorded import RecordedSystem, checked_positions, read_releases
from canarybank.systems.trials import Hypothesis, Observation, Split, Trial

__all__ = ["CommandSystem", "read_schedule", "schedule_text"]

COLUMNS = ("run", "canary", "plant", "split")
SCHEDULE, RELEASES = "{schedule}", "{releases}"
VERSION = 1
LAST_LINES = 5
GRACE_S = 5.0


@dataclass(frozen=True)
class CommandSystem:
    """A program that is called with a schedule and writes releases.

    Args:
        argv: The program and its arguments, as a list.
        folder: Where calls and their releases are kept. The same folder resumes what was played before.
        positions: The inspected positions in order, as numbers or as (label, position) pairs.
        rounds: How many rounds a run releases, at least; only needed to recognise runs that a failed call cut short.
        batch: The most runs in one call: runs 1 to ``batch``, then the next ones. None puts all runs into one call.
        timeout: The most seconds that one call may take; None sets no limit.
        replacements: In a ``replace`` audit, what an absent run plants instead of each canary.
        keep_going: Whether missing runs of a failed call count as lost, and the next batch is played. Else the failure
            is an IncompleteError. Playing again asks for them again, either way.
    """

    argv: Sequence[str]
    folder: Path
    positions: Iterable[int | tuple[str, int]]
    rounds: int = 1
    batch: int | None = None
    timeout: float | None = None
    replacements: Mapping[str, str] = field(default_factory=dict)
    keep_going: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.argv, str | bytes) or not self.argv or not all(isinstance(each, str) for each in self.argv):
            raise InputError(
                f"The program must be a list of its name and arguments, not {self.argv!r}; for a line of shell write "
                "['sh', '-c', LINE, 'sh']: its $1 is the schedule and its $2 the folder of releases."
            )
        if self.batch is not None and self.batch < 1:
            raise InputError(f"A batch must have at least one run, not {self.batch}.")
        object.__setattr__(self, "argv", tuple(self.argv))
        object.__setattr__(self, "folder", Path(self.folder))
        object.__setattr__(self, "positions", checked_positions(self.positions))

    def play(self, trials: Sequence[Trial], rng: np.random.Generator) -> list[Observation | None]:
        """Call the program for the runs that it has not played, batch by batch; None stands for a lost run.

        Raises:
            IncompleteError: If a call fails. What it wrote is kept, and playing again asks for the rest.
            InputError: If a call writes what cannot be a release. Its folder is set aside, and nothing of it counts.
        """
        del rng  # a seed that reached the program would let its noise be predicted
        with lock_folder(self.folder, "playing a command"):
            recorded, asked = self._earlier(trials)
            found = dict(recorded.observations)
            for batch in self._batches(trials):
                missing = [trial for trial in batch if trial.run not in found and trial.run not in asked]
                if missing:
                    found |= self._call(missing)
        return [found.get(trial.run) for trial in trials]

    def recorded(self) -> RecordedSystem:
        """Return all that was released up to now, over all calls, with sizes and times of writing."""
        calls = self._calls()
        read = [self._read(call, [trial.run for trial in read_schedule(call / "schedule.csv")]) for call in calls]
        return RecordedSystem(
            tuple(self.positions),  # type: ignore[arg-type]  # checked_positions made pairs of them
            {run: values for each in reversed(read) for run, values in each.observations.items()},
            {run: sizes for each in reversed(read) for run, sizes in each.sizes.items()},
            tuple(file for each in read for file in each.files),
            tuple(sorted({name for each in read for name in each.ignored_columns})),
        )

    def asked(self) -> tuple[Trial, ...]:
        """Return the runs that the program was asked for, each once."""
        found = {trial.run: trial for call in self._calls() for trial in read_schedule(call / "schedule.csv")}
        return tuple(found.values())

    def failures(self) -> tuple[Trial, ...]:
        """Return, for each call that the program ended with a failure, the run at hand: the first it did not write."""
        found: list[Trial] = []
        for call in self._calls():
            trials = read_schedule(call / "schedule.csv")
            written = self._read(call, [trial.run for trial in trials]).observations
            if (call / "exit.json").exists() and not _ended_well(call):
                found += [trial for trial in trials if trial.run not in written][:1]
        return tuple(found)

    @property
    def sizes(self) -> Mapping[int, tuple[int, ...]]:
        """Return how many values each run released in all up to now, by run."""
        return self.recorded().sizes

    def _calls(self) -> list[Path]:
        return sorted(call for call in self.folder.glob("call-*") if call.name.removeprefix("call-").isdecimal())

    def _batches(self, trials: Sequence[Trial]) -> list[list[Trial]]:
        batches: dict[int, list[Trial]] = {}
        for trial in sorted(trials, key=lambda trial: trial.run):
            batches.setdefault((trial.run - 1) // self.batch if self.batch else 0, []).append(trial)
        return list(batches.values())

    def _earlier(self, trials: Sequence[Trial]) -> tuple[RecordedSystem, set[int]]:
        """Return what earlier calls released, and the runs that successful ones were asked for."""
        now = {trial.run: _plant(trial, self.replacements) for trial in trials}
        asked: set[int] = set()
        for call in self._calls():
            before = _rows(call / "schedule.csv")
            for run, row in before.items():
                if run in now and row["plant"] != now[run]:
                    raise InputError(
                        f"{str(self.folder)!r} holds runs of another schedule: run {run} planted {row['plant']!r} "
                        f"there and {now[run]!r} here; use another folder."
                    )
            if _ended_well(call):
                asked |= before.keys()
        return self.recorded(), asked

    def _call(self, trials: Sequence[Trial]) -> Mapping[int, Observation]:
        numbers = [int(call.name.split("-")[1].split(".")[0]) for call in self.folder.glob("call-*")]
        call = make_folder(self.folder / f"call-{max(numbers, default=0) + 1:04d}")
        make_folder(call / "releases")
        write_atomic(call / "schedule.csv", schedule_text(trials, self.replacements))
        failure = self._run(call)
        runs = [trial.run for trial in trials]
        try:
            found = self._read(call, runs).observations
        except InputError as error:
            aside = set_aside(call, "refused")
            said = f" The program failed too: {failure}" if failure else ""
            raise InputError(f"{error} The call is set aside in {str(aside)!r}; nothing of it counts.{said}") from error
        if failure and not self.keep_going and len(found) < len(runs):
            raise IncompleteError(
                f"{failure} {len(found):,} of {len(runs):,} runs are written and kept in {str(call)!r}. Fix the "
                "program and play again: only the missing runs are asked for."
            )
        return found

    def _run(self, call: Path) -> str | None:
        """Run the program once; return how it failed in a sentence or two, or None."""
        paths = {SCHEDULE: str((call / "schedule.csv").resolve()), RELEASES: str((call / "releases").resolve())}
        argv = [*self.argv, *(each for each in (SCHEDULE, RELEASES) if not any(each in given for given in self.argv))]
        for placeholder, path in paths.items():
            argv = [given.replace(placeholder, path) for given in argv]
        started, timed_out = time.monotonic(), False
        with file_errors(call), (call / "stdout.txt").open("wb") as out, (call / "stderr.txt").open("wb") as err:
            process = _started(argv, out, err)
            try:
                process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
            finally:
                _stop(process)
        code = process.returncode
        write_json(
            call / "exit.json",
            {"version": VERSION, "exit": code, "timed_out": timed_out, "seconds": round(time.monotonic() - started, 3)},
        )
        if code == 0 and not timed_out:
            return None
        how = f"ended with exit status {code}" if code >= 0 else f"was ended by signal {signal.Signals(-code).name}"
        if timed_out:
            how = f"was stopped after {self.timeout:g} s"
        return f"{argv[0]!r} {how}.{_last_lines(call / 'stderr.txt')}"

    def _read(self, call: Path, runs: Sequence[int]) -> RecordedSystem:
        return read_releases(
            call / "releases",
            tuple(self.positions),  # type: ignore[arg-type]  # checked_positions made pairs of them
            runs,
            unfinished=not _ended_well(call),
            rounds=self.rounds,
        )


def schedule_text(trials: Iterable[Trial], replacements: Mapping[str, str] | None = None) -> str:
    """Return a schedule in order of runs; in a replace audit ``replacements`` names what absent runs plant instead.

    Args:
        trials: The runs.
        replacements: What absent runs plant instead of each canary, in a replace audit.

    Example:
        >>> from canarybank.systems import Hypothesis, Split
        >>> print(schedule_text([Trial(1, Hypothesis.ELIGIBLE, "canary", Split.JUDGE)]).splitlines()[0])
        run,canary,plant,split
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for trial in sorted(trials, key=lambda trial: trial.run):
        writer.writerow((trial.run, trial.canary, _plant(trial, replacements or {}), str(trial.split)))
    return text.getvalue()


def read_schedule(path: Path) -> tuple[Trial, ...]:
    """Read a schedule; a run is eligible where it plants the canary that it tests.

    Args:
        path: The schedule's file, as ``schedule_text`` writes it.

    Example:
        >>> import tempfile
        >>> from canarybank.systems import Hypothesis, Split
        >>> runs = [Trial(run, each, "canary", Split.JUDGE) for run, each in enumerate(Hypothesis, 1)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "schedule.csv"
        ...     _ = file.write_text(schedule_text(runs))
        ...     read_schedule(file) == tuple(runs)
        True
    """
    return tuple(
        Trial(
            run,
            Hypothesis.ELIGIBLE if row["plant"] == row["canary"] else Hypothesis.ABSENT,
            row["canary"],
            Split(row["split"]),
        )
        for run, row in _rows(path).items()
    )


def _plant(trial: Trial, replacements: Mapping[str, str]) -> str:
    if not trial.canary or replacements.get(trial.canary) == trial.canary:
        raise InputError(
            f"Run {trial.run} tests the canary {trial.canary!r}, which has no name or is its own replacement; a "
            "schedule tells by its name what to plant."
        )
    return trial.canary if trial.hypothesis is Hypothesis.ELIGIBLE else replacements.get(trial.canary, "")


def _rows(path: Path) -> dict[int, dict[str, Any]]:
    with file_errors(path, "read"), path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        found = {int(row["run"]): row | {"split": Split(row["split"])} for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{str(path)!r} is no schedule of the columns {', '.join(COLUMNS)} ({error}); restore it or delete it."
        ) from error
    if len(found) < len(rows) or not all(set(COLUMNS) <= row.keys() for row in rows):
        raise StoreError(f"{str(path)!r} was altered: a run stands twice or a column is missing; restore it.")
    return found


def _ended_well(call: Path) -> bool:
    """Return whether a call is known to have ended well; one of which nothing is written was cut short."""
    path = call / "exit.json"
    if not path.exists():
        return False
    ended = read_json(path)
    return ended.get("exit") == 0 and not ended.get("timed_out")


def _started(argv: Sequence[str], out: Any, err: Any) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603, the program that the user asked for
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=os.name == "posix"
        )
    except FileNotFoundError as error:
        raise MissingError(f"There is no program {argv[0]!r}; install it, or give its whole path.") from error
    except PermissionError as error:
        raise InputError(
            f"{argv[0]!r} may not be run; make it executable (chmod +x), or name its interpreter."
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"{argv[0]!r} cannot be run ({error}); name its interpreter as the first argument.") from error


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the program and what it started, where they still run: first by asking, then by force."""
    for how in (signal.SIGTERM, signal.SIGKILL) if os.name == "posix" else (signal.SIGTERM,):
        if process.poll() is not None:
            break
        try:
            os.killpg(process.pid, how) if os.name == "posix" else process.terminate()
            process.wait(GRACE_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    process.wait()


def _last_lines(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    said = " / ".join(lines[-LAST_LINES:])
    return f" Its last lines on stderr: {said}" + ("" if said.endswith(".") else ".") if said else ""
