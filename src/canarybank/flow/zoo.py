"""Measure how many runs it takes to catch each system of the zoo, by whole audits of it.

An audit here is the audit that anybody's system gets: a schedule in random order, scores and thresholds fitted on the
runs set apart, independence checked, bound, curve and betting on the designed and the fitted score, alpha split over
all of them. Only the folder is left out. Each audit has a seed of its own, which depends on nothing but the root seed,
the system, the number of runs and the place among the repeats: so any figure can be measured again by itself.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.stats import binom

from canarybank import seeds
from canarybank.auditing import Settings
from canarybank.auditing.declaration import LEAST, Declaration, Evidence, Scoring
from canarybank.auditing.rules import fit_rules
from canarybank.auditing.system import FALSE_ALARM, SystemResult, Verdict, judge_runs
from canarybank.engine import Engine, Serial
from canarybank.errors import InputError
from canarybank.progress import SILENT, Progress
from canarybank.run.commitment import Record
from canarybank.run.folder import read_document
from canarybank.store import write_atomic
from canarybank.systems.trials import Releases, Split
from canarybank.systems.zoo import ZOO, ZooSystem

__all__ = [
    "FalseAlarms",
    "ZooCell",
    "ZooTable",
    "audit_zoo_system",
    "described",
    "measure_zoo",
    "read_runs",
    "recorded_zoo",
]

ALPHA = 0.05
SCORES = (Scoring.DESIGNED, Scoring.FITTED)
EVIDENCE = tuple(Evidence)
KINDS = tuple(f"{score}/{evidence}" for score in SCORES for evidence in EVIDENCE)
LENGTHS = tuple(f"{Scoring.LENGTH}/{evidence}" for evidence in EVIDENCE)
LEAK, INDEPENDENCE, ANY = "leak", "independence", "any"
OFTEN = 0.9
"""A system is caught with so many runs where at least this share of the audits caught it."""
SURPRISE = 1e-3
"""More false alarms than the bound come this often at most, where each audit has the rate that it may have."""


class ZooCell(Record):
    """So many whole audits of one system, each with this number of judged runs."""

    system: str
    """The system's name in the zoo."""
    runs: int
    """The judged runs of each hypothesis; half as many more are set apart."""
    repeats: int
    """The audits."""
    caught: dict[str, int]
    """In how many audits each kind of evidence on each score refuted the claim, as ``score/evidence``; ``leak``: in how
    many the number of released values depended on the canary, where that number varies; ``independence``: in how many
    runs were found to be dependent, so that nothing was stated; ``any``: in how many the claim did not stand."""

    def share(self, kind: str) -> float:
        """Return the share of the audits that one kind of evidence caught the system in."""
        return self.caught.get(kind, 0) / self.repeats

    @property
    def is_settled(self) -> bool:
        """Say whether more runs would add nothing: everything catches it, or its runs are found to be dependent."""
        return self.share(INDEPENDENCE) >= OFTEN or all(self.share(kind) >= OFTEN for kind in KINDS)


class FalseAlarms(Record):
    """How often an honest system was caught."""

    found: int
    """The audits that caught it."""
    audits: int
    """All audits of it."""
    rate: float
    """The rate of false alarms that is allowed."""
    allowed: int
    """More than this come with probability at most 1 in 1,000 at that rate: a binomial quantile."""


class ZooTable(Record):
    """A measurement of the zoo."""

    schema_version: Literal[1] = 1
    """The layout of this document."""
    seed: int
    """The root seed of all audits."""
    alpha: float = ALPHA
    """The level of each audit, over all of its evidence."""
    cells: tuple[ZooCell, ...] = Field(default=())
    """What was measured: by system, and by the number of runs."""

    def of(self, system: str) -> tuple[ZooCell, ...]:
        """Return what was measured on one system, the fewest runs first."""
        return tuple(sorted((cell for cell in self.cells if cell.system == system), key=lambda cell: cell.runs))

    def most_runs(self, system: str) -> int:
        """Return the largest number of runs that one system was audited with; 0 where it was not."""
        return max((cell.runs for cell in self.of(system)), default=0)

    def needed(self, system: str, kind: str) -> int | None:
        """Return the fewest runs with which one kind caught it in at least 90% of the audits; None where none did."""
        return next((cell.runs for cell in self.of(system) if cell.share(kind) >= OFTEN), None)

    def kinds(self, system: str) -> tuple[str, ...]:
        """Return what was looked at on one system: the length of releases only where lengths differ."""
        measured = {kind for cell in self.of(system) for kind in cell.caught}
        return tuple(kind for kind in (*KINDS, *LENGTHS, LEAK, INDEPENDENCE) if kind in measured)

    def caught_by(self, system: str) -> dict[str, int]:
        """Return what caught a system in at least 90% of the audits, with the fewest runs, the fewest first."""
        found = {kind: self.needed(system, kind) for kind in self.kinds(system)}
        return dict(sorted(((kind, runs) for kind, runs in found.items() if runs), key=lambda pair: pair[1]))

    def missed_by(self, system: str) -> dict[str, tuple[int, int]]:
        """Return what did not: with the most runs that were tried, and in how many audits it caught it there.

        Where runs are dependent no bound is stated, so there is nothing that could have caught it.
        """
        cells = self.of(system)
        if not cells or cells[-1].share(INDEPENDENCE) >= OFTEN:
            return {}
        last, caught = cells[-1], self.caught_by(system)
        kinds = [kind for kind in self.kinds(system) if kind not in caught and kind != INDEPENDENCE]
        return {kind: (last.runs, last.caught.get(kind, 0)) for kind in kinds}

    def false_alarms(self, system: str, kind: str = ANY) -> "FalseAlarms":
        """Return how often an honest system was caught, over all numbers of runs, and how often it may be.

        The rate that is allowed is alpha for a refutation by any evidence, an even share of it for one kind on one
        score, and that of the check for dependence.
        """
        cells = self.of(system)
        audits = sum(cell.repeats for cell in cells)
        rate = {ANY: self.alpha + FALSE_ALARM, INDEPENDENCE: FALSE_ALARM}.get(kind, self.alpha / len(KINDS))
        return FalseAlarms(
            found=sum(cell.caught.get(kind, 0) for cell in cells),
            audits=audits,
            rate=rate,
            allowed=int(binom.isf(SURPRISE, audits, rate)) if audits else 0,
        )


def audit_zoo_system(system: ZooSystem, runs: int, seed: int) -> SystemResult:
    """Audit a system of the zoo once, in memory; ``audit_system`` with these settings finds the same.

    Args:
        system: The system; its designed scores are used beside the fitted one.
        runs: The judged runs of each hypothesis; half as many more are set apart.
        seed: The seed of the schedule and of the system's own draws.

    Example:
        >>> [str(audit_zoo_system(ZOO[name], runs=20, seed=0).verdict) for name in ("honest", "generator-restarted")]
        ['stands', 'dependent']
    """
    declared = Declaration(
        system.claim, Settings(trials=runs, alpha=ALPHA, seed=seed), scores=SCORES, evidence=EVIDENCE
    )
    observations = [
        found
        for number, batch in enumerate(declared.batches)
        for found in system.play(batch, seeds.stream(seed, "system", number))
    ]
    apart = sum(trial.split is Split.FIT for trial in declared.schedule)
    fitted = Releases.of(declared.schedule[:apart], observations[:apart])
    rules = fit_rules(declared, fitted, dict.fromkeys(declared.canaries, system.designed_scores()))
    return judge_runs(declared, rules, Releases.of(declared.schedule, observations))


def measure_zoo(
    systems: Sequence[str],
    runs: Sequence[int],
    repeats: int,
    *,
    seed: int = 0,
    record: Path | None = None,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> ZooTable:
    """Audit systems of the zoo so many times with each number of runs, and count what catches them.

    A system that everything catches, or whose runs are found to be dependent, in at least 90% of the audits is not
    audited with more runs. Small numbers of runs come first for all systems.

    Args:
        systems: Their names in the zoo.
        runs: The numbers of judged runs of each hypothesis.
        repeats: The audits of each system with each number of runs.
        seed: The root seed.
        record: A file that the measurement is written to after each cell; what it holds already is not measured again.
        engine: Where the audits run.
        progress: Where progress is shown.

    Example:
        >>> table = measure_zoo(["honest"], runs=[20], repeats=2)
        >>> table.of("honest")[0].repeats, table.false_alarms("honest").found
        (2, 0)
    """
    if not systems or not runs or min(runs) < LEAST:
        raise InputError(f"Name at least one system, and numbers of runs of at least {LEAST}.")
    if unknown := [name for name in systems if name not in ZOO]:
        raise InputError(f"The zoo has no {unknown[0]!r}; `canarybank zoo` lists its systems.")
    if repeats < 1:
        raise InputError(f"Measure at least one audit, not {repeats}.")
    table = ZooTable(seed=seed)
    if record is not None and record.exists():
        table = read_document(record, ZooTable)
        if (table.seed, table.alpha) != (seed, ALPHA) or any(cell.repeats != repeats for cell in table.cells):
            raise InputError(
                f"{str(record)!r} holds a measurement with another seed or number of repeats; give the same ones to "
                "add to it, or another file."
            )
    names, numbers = tuple(dict.fromkeys(systems)), sorted(set(runs))
    with progress.stage("audits", total=len(names) * len(numbers) * repeats, unit="audits") as stage:
        for number in numbers:
            open_ = [name for name in names if not _is_known(table, name, number)]
            stage.advance((len(names) - len(open_)) * repeats)
            tasks = [(name, number, _audit_seed(seed, name, number, each)) for name in open_ for each in range(repeats)]
            caught: dict[str, list[dict[str, int]]] = {name: [] for name in open_}
            for place, kinds in (engine or Serial()).run(_kinds_that_catch, tasks):
                name = tasks[place][0]
                caught[name].append(kinds)
                stage.advance(1, f"{name}, {number:,} runs")
                if len(caught[name]) == repeats:
                    table = _with_cell(table, name, number, caught[name])
                    if record is not None:
                        write_atomic(record, table.text())
    chosen = set(systems)
    return table.model_copy(update={"cells": tuple(cell for cell in table.cells if cell.system in chosen)})


def _is_known(table: ZooTable, name: str, runs: int) -> bool:
    """Say whether a cell is there, or one with fewer runs after which more would add nothing."""
    return any(cell.runs == runs or (cell.runs < runs and cell.is_settled) for cell in table.of(name))


def _with_cell(table: ZooTable, name: str, runs: int, caught: Sequence[Mapping[str, int]]) -> ZooTable:
    """Return the table with one more cell, in the order of the zoo."""
    total = {kind: sum(each.get(kind, 0) for each in caught) for kind in sorted({k for each in caught for k in each})}
    cell = ZooCell(system=name, runs=runs, repeats=len(caught), caught=total)
    places = list(ZOO)
    cells = sorted((*table.cells, cell), key=lambda each: (places.index(each.system), each.runs))
    return table.model_copy(update={"cells": tuple(cells)})


def _audit_seed(seed: int, name: str, runs: int, repeat: int) -> int:
    return int(seeds.sequence(seed, "zoo", name, runs, repeat).generate_state(1, np.uint64)[0])


def _kinds_that_catch(task: tuple[str, int, int]) -> dict[str, int]:
    """Audit once, and return a 1 for each kind of evidence that caught the system, and a 0 for the others."""
    name, runs, seed = task
    found = audit_zoo_system(ZOO[name], runs, seed)
    shown = {f"{each.score}/{each.evidence}": int(each.refuted) for each in found.shown}
    leaks = {LEAK: int(any(leak.depends_on_canary for leak in found.leaks))} if found.leaks else {}
    others = {INDEPENDENCE: int(not found.independence.ok), ANY: int(found.verdict is not Verdict.STANDS)}
    return {**dict.fromkeys(KINDS, 0), **shown, **leaks, **others}


@lru_cache(maxsize=1)
def recorded_zoo() -> ZooTable:
    """Return the measurement that comes with the package; ``measure_zoo`` wrote it, as ``--record`` does.

    Example:
        >>> {cell.system for cell in recorded_zoo().cells} == set(ZOO)  # every system of the zoo was measured
        True
    """
    file = resources.files("canarybank.flow") / "data" / "zoo.json"
    return ZooTable.model_validate_json(file.read_text(encoding="utf-8"))


def read_runs(text: str) -> tuple[int, ...]:
    """Return the numbers of runs in a text such as ``100,300,1000``."""
    try:
        numbers = tuple(int(part) for part in text.replace("_", "").split(","))
    except ValueError as error:
        raise InputError(f"Give numbers of runs such as 100,300,1000, not {text!r}.") from error
    return numbers


def described(table: ZooTable, name: str) -> dict[str, Any]:
    """Return what there is to say about one system: what it does and claims, and what a measurement shows of it."""
    system, cells = ZOO[name], table.of(name)
    return {
        "name": name,
        "description": system.description,
        "breaks": system.breaks,
        "claim": str(system.claim),
        "blind": system.blind,
        "repeats": cells[0].repeats if cells else 0,
        "cells": [{"runs": cell.runs, "caught": cell.caught} for cell in cells],
        "caught_by": table.caught_by(name),
        "missed_by": table.missed_by(name),
        "false_alarms": table.false_alarms(name).model_dump() if system.breaks == "nothing" else None,
    }
