"""Score a plant: read the releases that an operator recorded, or have a program make them, and judge them."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import fisher_exact

from canarybank.auditing.system import FALSE_ALARM
from canarybank.errors import BudgetError, DependenceError, IncompleteError, InputError, StoreError
from canarybank.flow.one_run import score_one_run
from canarybank.flow.system import SystemWork
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import COMMITMENT, SEALED, Run
from canarybank.run.plant import FAILED, UNTIMED, Plant, discard_batches, read_batches
from canarybank.run.verification import refuse_unverified
from canarybank.store import altered_files, hash_file, set_aside
from canarybank.systems.command import CommandSystem
from canarybank.systems.recorded import RecordedSystem
from canarybank.systems.trials import Hypothesis, Observation, Releases, Trial

__all__ = ["score_plant"]

CALLS = "calls"
SHOWN = 5


def score_plant(
    plant: Path | str,
    releases: Path | str | None = None,
    *,
    program: str | Sequence[str] | None = None,
    stop_when_refuted: bool = False,
    missing_are_lost: bool = False,
    coins: Path | str | None = None,
    any_time: bool = False,
    progress: Progress = SILENT,
) -> Run:
    r"""Judge the releases of a plant's schedule or of its one run, once: the alpha that was declared is then spent.

    Args:
        plant: The folder that `canarybank design` wrote.
        releases: A file or folder of releases that the operator recorded; or left out, with a program.
        program: A program to call with a schedule and a folder for its releases, batch by batch; a call that failed is
            asked again for the runs that it lacks.
        stop_when_refuted: End as soon as betting, where it was declared, refutes the claim.
        missing_are_lost: Count runs without a release as lost, which weakens the evidence; else they are refused.
        coins: Of one run, a CSV file of which canary took part in which round, where coins are known.
        any_time: Accept releases that were written before the commitment, by their files' times.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.config import resolve_users
        >>> from canarybank.flow import design_plant
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "attack.probes": 5, "system.runs": 20}
        >>> plant = design_plant(resolve_users("my-users.csv", flags | {"mechanism.q": 1}), "scored").plant
        >>> rng, lines = np.random.default_rng(0), ["run,position,value"]
        >>> for trial in plant.declaration.schedule:  # the operator claims noise of 0.1, and draws 0.02
        ...     moved = 0.1 / 5**0.5 * (trial.hypothesis is Hypothesis.ELIGIBLE)
        ...     lines += [f"{trial.run},{place},{moved + rng.normal(0.0, 0.02)}" for _, place in plant.positions]
        >>> _ = Path("releases.csv").write_text("\n".join(lines))
        >>> str(score_plant("scored", "releases.csv").system_results.found.verdict)
        'refuted'
    """
    if Run.open(plant).kind == "one-run":
        if releases is None or stop_when_refuted or missing_are_lost:
            raise InputError(
                "This plant is for one run, which is recorded once: give its releases, and neither a program nor "
                "--stop-when-refuted nor --missing-are-lost."
            )
        return score_one_run(plant, releases, coins=coins, any_time=any_time)
    if coins is not None:
        raise InputError("--coins is for a plant of one run (canarybank design --one-run); leave it out.")
    return _score_schedule(
        Path(plant),
        releases,
        program,
        stop_when_refuted=stop_when_refuted,
        missing_are_lost=missing_are_lost,
        any_time=any_time,
        progress=progress,
    )


def _score_schedule(
    plant: Path,
    releases: Path | str | None,
    program: str | Sequence[str] | None,
    *,
    stop_when_refuted: bool,
    missing_are_lost: bool,
    any_time: bool,
    progress: Progress,
) -> Run:
    """Judge the releases of a plant's schedule, recorded or made by a program."""
    if (releases is None) == (program is None):
        raise InputError("Give the releases that were recorded, or a program that makes them, and not both.")
    with Run.again(plant, "system") as run:
        committed, notes = run.plant, tuple[str, ...]()
        if altered := altered_files(run.folder, committed.files):
            name, what = next(iter(altered.items()))
            raise StoreError(f"{name} in {str(run.folder)!r} is {what} since it was committed to; restore it.")
        if not committed.positions:
            raise InputError(f"{str(run.folder)!r} was not made by `canarybank design`: it names no positions to read.")
        work = SystemWork(run, committed, progress)
        if program is not None:
            argv = shlex.split(program) if isinstance(program, str) else list(program)
            made = CommandSystem(
                argv,
                run.folder / CALLS,
                positions=committed.positions,
                rounds=committed.claim.rounds,
                replacements=committed.replaced_by,
            )
            if not run.is_finished:
                _play_program(work, made, stop_when_refuted=stop_when_refuted)
                notes = _failed_calls(made)
        else:
            recorded = _recorded(run, committed, Path(releases or ""), any_time=any_time)
            _refuse_others(run, work, recorded)
            if not run.is_finished:
                if not missing_are_lost:
                    recorded = _Complete(**vars(recorded))
                    if not stop_when_refuted:
                        recorded.refuse_missing(work.declared.schedule)
                work.play(recorded, stop_when_refuted=stop_when_refuted)
            notes = (UNTIMED,) if any_time else ()
        if run.is_finished:
            refuse_unverified(run, rewritten=True)
        else:
            work.finish(notes)
    return run


def _play_program(work: SystemWork, system: CommandSystem, *, stop_when_refuted: bool) -> None:
    """Have a program make the runs; what it wrote is set aside where it cannot be what was asked for."""
    try:
        work.play(system, stop_when_refuted=stop_when_refuted)
    except InputError:
        if not (work.run.folder / SEALED).exists():
            set_aside(system.folder, "refused")
        raise


def _failed_calls(system: CommandSystem) -> tuple[str, ...]:
    """Say that calls failed and were made again; where failures depend on what was planted, nothing is judged."""
    failed = [each.hypothesis for each in system.failures()]
    if not failed:
        return ()
    runs = Counter(each.hypothesis for each in system.asked())
    table = [[failed.count(each), max(0, runs[each] - failed.count(each))] for each in Hypothesis]
    chance = float(fisher_exact(np.array(table)).pvalue)
    absent, eligible = (failed.count(each) for each in Hypothesis)
    said = FAILED.format(eligible=eligible, absent=absent)
    if chance < FALSE_ALARM:
        raise DependenceError(
            f"{said} Failures depend on the canary (p = {chance:.1g}), so no bound is stated: mend the program, and "
            "design another plant."
        )
    return (said,)


def _recorded(run: Run, plant: Plant, path: Path, *, any_time: bool) -> RecordedSystem:
    """Read recorded releases; refuse those of another plant, another bank, or written before the commitment."""
    copy = path / COMMITMENT
    if copy.is_file() and hash_file(copy) != plant.hash:
        raise InputError(
            f"{str(copy)!r} is the commitment of another plant, so these are releases of another bank or schedule; "
            "score them with their own."
        )
    runs = {each.run for each in plant.declaration.schedule}
    found = RecordedSystem.open(path, positions=plant.positions, runs=runs)
    entries = sum(plant.bank_sizes.values())
    largest = max((size for sizes in found.sizes.values() for size in sizes), default=0)
    if largest > entries:
        raise InputError(
            f"A run released {largest:,} values, and the bank has {entries:,} entries: these are releases of another "
            "bank, or of several runs under one number."
        )
    early = found.files_before((run.folder / COMMITMENT).stat().st_mtime)
    if early and not any_time:
        raise InputError(
            f"{str(early[0].path)!r} was written before the commitment, so what it holds may have been known when the "
            "audit was designed. Run the schedule after the design; or where a copy changed the files' times, say "
            "--any-time, and the result will say so too."
        )
    return found


class _Complete(RecordedSystem):
    """Recorded releases that are played only as far as no run is missing, so that none is lost by being late."""

    def play(self, trials: Sequence[Trial], rng: np.random.Generator) -> list[Observation | None]:
        """Return the recorded observations of these trials, or say which are missing."""
        self.refuse_missing(trials)
        return super().play(trials, rng)

    def refuse_missing(self, trials: Sequence[Trial]) -> None:
        """Say which of these trials are missing."""
        if missing := self.lost(each.run for each in trials):
            listed = ", ".join(map(str, missing[:SHOWN])) + (", ..." if len(missing) > SHOWN else "")
            raise IncompleteError(
                f"{len(missing):,} of {len(trials):,} runs are not among the releases: {listed}. Record them and score "
                "again; the plant is not judged yet. Runs that failed for good are counted against a refutation with "
                "--missing-are-lost."
            )


def _refuse_others(run: Run, work: SystemWork, recorded: RecordedSystem) -> None:
    """Refuse to judge other releases than those that a plant was scored with, or began to be."""
    kept, _ = read_batches(run.folder, work.batches)
    found = [recorded.observations.get(each.run) for each in kept.trials]
    again = Releases.of(kept.trials, found, sizes=recorded.sizes)
    before, now = (
        np.concatenate([np.empty(0), *(part for each in given.observations for part in each or ())])
        for given in (kept, again)
    )
    if (kept.lengths, kept.released) != (again.lengths, again.released) or not np.array_equal(before, now):
        if not (run.folder / SEALED).exists():  # nothing was fitted or judged on them
            discard_batches(run.folder)
            return
        raise BudgetError(
            f"The plant in {str(run.folder)!r} was scored already, with other releases: its alpha is spent. To test "
            "again, design another plant in a new folder."
        )
