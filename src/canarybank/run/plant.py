"""Commit to the audit of a system: what is planted, the schedule of its runs, and how they will be judged.

The folder of such an audit is a run's folder, and may be given to the operator of the system::

    manifest.json    settings and where each came from, versions, the hash of every file
    commitment.json  claim, schedule, splits, scores, evidence, method and level: on disk before the system runs
    README.md        what the operator does with the rest
    schedule.csv     run, canary, plant, split: the runs in their order
    canaries.jsonl   the records of each canary; canaries.npy has their vectors
    probes.csv       the bank positions to plant, and what; probes.npy has their vectors
    releases/        what the runs released on the inspected positions, batch by batch
    sealed.json      score, thresholds and bets, fitted on the runs set apart
    results.json     what the other runs showed

Whoever audits a system from Python has no canaries.jsonl and probes.csv here: there they are the system's own.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from canarybank import __version__
from canarybank.auditing import AlphaLedger, Settings
from canarybank.auditing.declaration import Declaration, Evidence, Scoring
from canarybank.auditing.rules import Rules
from canarybank.auditing.system import SystemResult
from canarybank.config.loading import decisive, flatten
from canarybank.config.model import Config
from canarybank.errors import StoreError
from canarybank.mechanism import Claim
from canarybank.run.commitment import Record
from canarybank.run.results import NOT_PRIVATE
from canarybank.score import LinearScore, Moments
from canarybank.store import hash_bytes, hash_json, write_atomic
from canarybank.systems.trials import Observation, Releases, Trial

__all__ = [
    "CANARIES",
    "FAILED",
    "NOTES",
    "PLANTED",
    "PROBES",
    "README",
    "RELEASES",
    "SCHEDULE",
    "UNTIMED",
    "DesignedScore",
    "Plant",
    "SealedRules",
    "SystemResults",
    "discard_batches",
    "npy_bytes",
    "read_batches",
    "runs_so_far",
    "write_batch",
]

README, SCHEDULE, CANARIES, PROBES, RELEASES = (
    "README.md",
    "schedule.csv",
    "canaries.jsonl",
    "probes.csv",
    "releases",
)
PLANTED: Final = (README, SCHEDULE, CANARIES, PROBES, "canaries.npy", "probes.npy")
UNTIMED: Final = "It was not checked that the releases were written after the commitment: the auditor asked for that."
FAILED: Final = (
    "Calls of the program that failed, their missing runs being asked for again: {eligible} at a run with the canary, "
    "{absent} without."
)
_FORMS = [re.sub(r"\\{\w+\\}", r"\\d+", re.escape(each)) for each in (UNTIMED, FAILED)]
NOTES: Final = re.compile("|".join(_FORMS))
"""The notes that the results of a system's audit may have."""
LAYOUT: Final = 1
RECIPE: Final = (
    "Only the runs with split fit are used. A designed score stands here; a fitted one is LinearScore.fit of the "
    "absent and the eligible runs, rounds joined. The threshold of a bound is the score at which the smoothed rates of "
    "these runs, (count + 1/2) / (runs + 1), promise the best bound; that of the curve test is aim_curve of their "
    "scores, that of the bets aim_bet, which also gives the rates that they are planned for. Where these runs have "
    "different lengths, the length is a score too, and alpha is split over it as well."
)


class DesignedScore(Record):
    """The score of one round that was designed beforehand: vᵀ S⁻¹ (y - m - v/2) of a release y."""

    canary: tuple[float, ...]
    """v, the canary's contribution on the inspected positions."""
    mean: tuple[float, ...]
    """m, the mean release without it."""
    covariance: tuple[tuple[float, ...], ...]
    """S, the covariance of a release."""

    @classmethod
    def of(cls, score: LinearScore) -> "DesignedScore":
        """Return the record of a score."""
        return cls.model_validate(
            {
                "canary": score.canary.tolist(),
                "mean": score.moments.mean.tolist(),
                "covariance": score.moments.covariance.tolist(),
            }
        )

    @property
    def score(self) -> LinearScore:
        """Return the score itself."""
        return LinearScore(np.array(self.canary), Moments(np.array(self.mean), np.array(self.covariance)))


class Plant(Record):
    """Everything that decides the verdict on a system, fixed before its first run: the commitment of its audit."""

    schema_version: int = LAYOUT
    """The version of this file's layout."""
    canarybank: str = __version__
    """The version of canarybank."""
    kind: Literal["system"] = "system"
    """What is committed to: the audit of a system."""
    system: str
    """What the system is called."""
    settings_hash: str
    """The sha256 of all settings that decide results."""
    claim: Claim
    """What is tested."""
    canaries: tuple[str, ...]
    """The canaries' names."""
    replaced_by: dict[str, str] = Field(default_factory=dict)
    """Of each canary, the one that stands in its place in the absent runs; empty where neighbours add or remove one."""
    positions: tuple[tuple[str, int], ...] = ()
    """The inspected positions, label and place in its bank, in the order in which releases are read; empty where the
    system releases nothing else."""
    bank_sizes: dict[str, int] = Field(default_factory=dict)
    """The entries of each label's bank; the label is empty where there are none."""
    bank_hash: str = ""
    """The sha256 of the bank before any probe, all labels together."""
    apart: int
    """The runs of each hypothesis of each canary that are set apart, to fit on."""
    trials: int
    """The runs of each hypothesis of each canary that are judged."""
    batch: int
    """The runs that the system is asked for at once."""
    scores: tuple[Scoring, ...]
    """What runs are scored by."""
    designed: dict[str, tuple[DesignedScore, ...]] = Field(default_factory=dict)
    """The scores of each canary that were designed beforehand, one a round."""
    evidence: tuple[Evidence, ...]
    """How counts become statements."""
    method: str
    """How counts become a bound."""
    alpha: float
    """A true claim is refuted at most this often, where the assumptions hold."""
    ledger: AlphaLedger
    """The share of each kind of evidence on each score."""
    seed: int
    """The seed of the schedule's order, and of what a system in Python draws from."""
    recipe: str
    """How score, thresholds and bets will be fitted on the runs set apart."""
    files: dict[str, str]
    """The sha256 of schedule.csv, and of what is planted."""

    @classmethod
    def of(
        cls,
        declared: Declaration,
        config: Config,
        designed: Mapping[str, Sequence[LinearScore]],
        files: Mapping[str, bytes],
        **planted: Any,
    ) -> "Plant":
        """Return the commitment to a declaration under a configuration, with the files and what is planted."""
        return cls(
            system=config.system.name,
            settings_hash=hash_json(decisive(flatten(config), "system")),
            claim=declared.claim,
            canaries=declared.canaries,
            apart=declared.apart,
            trials=declared.settings.trials,
            batch=declared.batch,
            scores=declared.scores,
            designed={name: tuple(map(DesignedScore.of, rounds)) for name, rounds in designed.items()},
            evidence=declared.evidence,
            method=declared.settings.method.name,
            alpha=declared.settings.alpha,
            ledger=declared.ledger,
            seed=declared.settings.seed,
            recipe=RECIPE,
            files={name: hash_bytes(data) for name, data in sorted(files.items())},
            **planted,
        )

    @property
    def declaration(self) -> Declaration:
        """Return what was declared."""
        return Declaration(
            claim=self.claim,
            settings=Settings(trials=self.trials, alpha=self.alpha, method=self.method, seed=self.seed),  # type: ignore[arg-type]
            canaries=self.canaries,
            apart=self.apart,
            scores=self.scores,
            evidence=self.evidence,
            batch=self.batch,
        )

    @property
    def can_refute(self) -> bool:
        """Say whether so many runs could refute the claim, if the system hid nothing at all."""
        declared = self.declaration
        if any(each is not Evidence.BOUND for each in declared.evidence):
            return True
        alpha = min(share for _, share in declared.ledger.entries)
        target = replace(declared.settings, alpha=alpha).target(declared.claim, len(declared.canaries))
        return max(map(float, target.branches(1.0, 0.0))) > declared.claim.epsilon

    @property
    def scores_designed(self) -> dict[str, tuple[LinearScore, ...]]:
        """Return the designed scores of each canary, one a round."""
        return {name: tuple(each.score for each in rounds) for name, rounds in self.designed.items()}


class SealedRules(Record):
    """The rules that were fitted on the runs set apart, before any other run was looked at."""

    schema_version: int = LAYOUT
    """The version of this file's layout."""
    commitment: str
    """The sha256 of the commitment, which holds the recipe of the fit."""
    fitted_on: str
    """The sha256 of the releases that they were fitted on."""
    fitted: Rules
    """The rule of each score and canary, and the bets."""


class SystemResults(Record):
    """What the runs of a system showed of its claim."""

    schema_version: int = LAYOUT
    """The version of this file's layout."""
    canarybank: str = __version__
    """The version of canarybank."""
    statement: str = NOT_PRIVATE
    """What this file may not be taken for."""
    commitment: str
    """The sha256 of the commitment under which the runs were made."""
    sealed: str
    """The sha256 of the sealed rules."""
    releases: str
    """The sha256 of all releases that were scored."""
    system: str
    """What the system is called."""
    found: SystemResult
    """What they showed."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the whole audit."""


def write_batch(folder: Path, number: int, releases: Releases) -> None:
    """Keep what a batch of runs released, durable before this returns; the same releases are the same bytes."""
    pieces = [values for each in releases.observations if each is not None for values in each]
    arrays = {"lengths": _table(releases.lengths), "values": np.concatenate([np.empty(0), *pieces])}
    if releases.sizes is not None:
        arrays["sizes"] = _table(releases.sizes)
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]  # whose last argument is a flag
    write_atomic(_batch(folder, number), data.getvalue())


def npy_bytes(table: NDArray[Any]) -> bytes:
    """Return an array as the bytes of an npy file."""
    to = io.BytesIO()
    np.save(to, np.ascontiguousarray(table), allow_pickle=False)
    return to.getvalue()


def _table(lengths: Sequence[tuple[int, ...] | None]) -> NDArray[np.int64]:
    """Return numbers of values as a table: a run a row, first its number of rounds, or -1 where nothing is known."""
    table = np.full((len(lengths), 1 + max((len(each) for each in lengths if each is not None), default=0)), -1)
    for row, each in zip(table, lengths, strict=True):
        row[0] = -1 if each is None else len(each)
        row[1 : 1 + len(each or ())] = each or ()
    return table.astype(np.int64)


def _rows(table: NDArray[np.int64]) -> list[tuple[int, ...] | None]:
    return [None if row[0] < 0 else tuple(row[1 : 1 + row[0]]) for row in table.tolist()]


def read_batches(folder: Path, batches: Sequence[Sequence[Trial]]) -> tuple[Releases, str]:
    """Return what the batches that are there released, and their sha256; none may be missing between two."""
    trials: list[Trial] = []
    observations: list[Observation | None] = []
    sizes: dict[int, tuple[int, ...]] = {}
    there = [number for number in range(len(batches)) if _batch(folder, number).is_file()]
    if there != list(range(len(there))):
        raise StoreError(f"A batch is missing among the releases in {str(folder)!r}; restore it from a copy.")
    digest = hash_bytes("".join(hash_bytes(_batch(folder, number).read_bytes()) for number in there).encode())
    for number in there:
        found, released = _read(_batch(folder, number))
        if len(found) != len(batches[number]):
            raise StoreError(
                f"{_batch(folder, number).name} in {str(folder)!r} holds {len(found)} runs, and its batch has "
                f"{len(batches[number])}; it was altered, so restore it."
            )
        trials += batches[number]
        observations += found
        pairs = zip(batches[number], released, strict=False)
        sizes |= {trial.run: each for trial, each in pairs if each is not None}
    return Releases.of(trials, observations, sizes=sizes or None), digest


def runs_so_far(folder: Path, plant: Plant) -> str:
    """Say how far the audit of a system is that was not judged yet, and what to do next."""
    batches = plant.declaration.batches
    made = sum(len(batch) for number, batch in enumerate(batches) if _batch(folder, number).is_file())
    total = sum(map(len, batches))
    if not plant.positions:
        return f"{made:,} of {total:,} runs are made; call audit_system with this folder again, and it goes on"
    if not made:
        return (
            f"it is designed, and none of its {total:,} runs is scored; run the schedule, then: canarybank score "
            f"{folder} RELEASES"
        )
    return f"{made:,} of {total:,} runs are read; run the same `canarybank score` command again, and it goes on"


def _read(path: Path) -> tuple[list[Observation | None], list[tuple[int, ...] | None]]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            lengths, values = _rows(np.asarray(kept["lengths"], np.int64)), np.asarray(kept["values"], np.float64)
            sizes = _rows(np.asarray(kept["sizes"], np.int64)) if "sizes" in kept else []
        ends = np.cumsum([0, *(length for each in lengths for length in each or ())])
        pieces = iter([values[start:end] for start, end in pairwise(ends.tolist())])
        found = [None if each is None else tuple(islice(pieces, len(each))) for each in lengths]
    except (OSError, ValueError, KeyError, IndexError, EOFError, BadZipFile) as error:
        raise StoreError(f"{path.name} cannot be read as releases ({error}); it was altered, so restore it.") from error
    if ends[-1] != len(values):
        raise StoreError(f"{path.name} does not hold as many values as it says; it was altered, so restore it.")
    return found, sizes


def discard_batches(folder: Path) -> None:
    """Remove releases that nothing was fitted to and that were not judged."""
    for path in sorted((folder / RELEASES).glob("batch-*.npz")):
        path.unlink()


def _batch(folder: Path, number: int) -> Path:
    return folder / RELEASES / f"batch-{number + 1:06d}.npz"
