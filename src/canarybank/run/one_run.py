"""Commit to the audit of one run: who is in, what is planted, how the releases will be read, and how they are judged.

The folder of such an audit is a run's folder, and may be given to the operator of the system::

    manifest.json    settings and where each came from, versions, the hash of every file
    commitment.json  claim, coins, evidence, level, probes, weights and who is in: on disk before the system runs
    README.md        what the operator does with the rest
    eligible.csv     canary, in: who is in
    canaries.jsonl   the records of the canaries that are in; canaries.npy has their vectors
    probes.csv       the bank positions to plant, and what; probes.npy has their vectors
    releases/        what the run released on the probes, and who took part
    results.json     the certificate
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array

from canarybank import __version__
from canarybank.attack import CanaryStyle, CanaryWeights, exact_scores
from canarybank.auditing import AlphaLedger
from canarybank.auditing.one_run import (
    Background,
    Certificate,
    Coins,
    RunDeclaration,
    RunEvidence,
    RunScores,
    judge_run,
)
from canarybank.errors import StoreError
from canarybank.mechanism import Claim
from canarybank.run.commitment import Record
from canarybank.run.plant import CANARIES, PROBES, README, RELEASES, npy_bytes
from canarybank.run.results import NOT_PRIVATE
from canarybank.store import hash_bytes, write_atomic

__all__ = [
    "ELIGIBLE",
    "ONE_RUN_FILES",
    "OneRunPlant",
    "OneRunResults",
    "read_released",
    "recorded_hash",
    "write_released",
]

ELIGIBLE: Final = "eligible.csv"
ONE_RUN_FILES: Final = (README, ELIGIBLE, CANARIES, PROBES, "canaries.npy", "probes.npy")
"""What is planted, and for whom."""
RELEASED, TOOK = f"{RELEASES}/values.npy", f"{RELEASES}/took.npy"
LAYOUT: Final = 1

Table = tuple[tuple[float, ...], ...]
Whole = tuple[tuple[int, ...], ...]


class OneRunPlant(Record):
    """Everything that decides the certificate of one run, fixed before its first release: its commitment."""

    schema_version: int = LAYOUT
    """The version of this file's layout."""
    canarybank: str = __version__
    """The version of canarybank."""
    kind: Literal["one-run"] = "one-run"
    """What is committed to: the audit of one run."""
    system: str
    """What the system is called."""
    settings_hash: str
    """The sha256 of all settings that decide results."""
    claim: Claim
    """What is tested."""
    coins: Coins
    """Who decides which canaries take part, and what is told of it."""
    eligible: tuple[bool, ...]
    """Which canaries are in, in the order of their numbers."""
    seed: int | None
    """The seed that these coins were drawn with; null where they come from the operating system."""
    style: CanaryStyle
    """What canaries look like."""
    shift: float
    """What taking part adds to a score on average, by design, in deviations of the claimed noise."""
    evidence: tuple[RunEvidence, ...]
    """How scores become statements."""
    background: Background = Background.CONTROLS
    """How the votes of others for the probes enter the scores."""
    guesses: dict[RunEvidence, int] = Field(default_factory=dict)
    """The guesses that each kind of evidence counts, the most confident ones."""
    alpha: float
    """A true claim is refuted at most this often, where the assumptions hold."""
    ledger: AlphaLedger
    """The share of each test."""
    bank_size: int
    """The entries of the bank."""
    bank_hash: str
    """The sha256 of the bank with the probes in it."""
    votes_taken: float
    """The share of the auxiliary users' votes that the probes take from other entries; in an evolution that carries its
    own canaries, of the votes of the candidates whose places the probes take."""
    positions: Whole
    """The positions of each canary's probes in the bank, from 0."""
    weights: Table
    """The weights of what is released there in the canary's score."""
    offsets: tuple[float, ...]
    """What is subtracted from each score."""
    shifts: tuple[float, ...]
    """What taking part adds to each score, by design."""
    contributions: Table
    """What each canary contributes on its probes, by design."""
    files: dict[str, str]
    """The sha256 of what is planted."""

    @classmethod
    def of(
        cls,
        declared: RunDeclaration,
        read: CanaryWeights,
        eligible: NDArray[np.bool_],
        files: Mapping[str, bytes],
        **facts: Any,
    ) -> "OneRunPlant":
        """Return the commitment to a declaration, to how releases are read, who is in, and the files."""
        return cls.model_validate(
            {
                "claim": declared.claim,
                "coins": declared.coins,
                "eligible": eligible.tolist(),
                "shift": declared.shift,
                "evidence": declared.evidence,
                "background": declared.background,
                "guesses": declared.guesses,
                "alpha": declared.alpha,
                "ledger": declared.ledger,
                "positions": read.positions.tolist(),
                "weights": read.weights.tolist(),
                "offsets": read.offsets.tolist(),
                "shifts": read.shifts.tolist(),
                "contributions": read.contributions.tolist(),
                "files": {name: hash_bytes(data) for name, data in sorted(files.items())},
                **facts,
            }
        )

    @property
    def declaration(self) -> RunDeclaration:
        """Return what was declared."""
        return RunDeclaration(
            claim=self.claim,
            canaries=len(self.eligible),
            coins=self.coins,
            shift=self.shift,
            evidence=self.evidence,
            alpha=self.alpha,
            background=self.background,
        )

    @property
    def reading(self) -> CanaryWeights:
        """Return how each canary's probes are read."""
        return CanaryWeights(
            np.array(self.positions, np.int64),
            *(np.array(each, np.float64) for each in (self.weights, self.offsets, self.shifts, self.contributions)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the canaries' names."""
        return tuple(f"canary-{number + 1}" for number in range(len(self.eligible)))

    @property
    def needs_coins(self) -> bool:
        """Say whether the operator records which canary took part in which release."""
        return self.coins is Coins.KNOWN and self.claim.q < 1

    @property
    def share(self) -> float:
        """Return the share of the bank's entries that are probes."""
        return sum(map(len, self.positions)) / self.bank_size

    def judged(
        self,
        values: NDArray[np.float64],
        took: NDArray[np.bool_] | None,
        votes: Sequence[csr_array] | None = None,
    ) -> Certificate:
        """Return what was shown by the values (rounds, canaries, probes) of all releases, and by who took part."""
        return judge_run(self.declaration, self.scored(values, took, votes))

    def scored(
        self,
        values: NDArray[np.float64],
        took: NDArray[np.bool_] | None,
        votes: Sequence[csr_array] | None = None,
    ) -> RunScores:
        """Return every canary's score in every release, and who took part.

        ``votes`` is what everybody would contribute to each release, where the background enters by exact tails.
        """
        reading, eligible = self.reading, np.array(self.eligible)
        scores = reading.scores_at_probes(values)
        if self.background is Background.EXACT:
            mechanism = self.claim.mechanism
            if votes is None or mechanism is None:
                raise StoreError(
                    "The commitment says that the background enters by exact tails, and nobody says what users "
                    "contribute; restore each round's background.npz from a copy."
                )
            # Where everybody in takes part, the auditor's coins say who did.
            coins = np.repeat(eligible[None], len(scores), axis=0) if took is None else took.T
            known = coins if self.declaration.uses_coins else [None] * len(scores)
            scores = np.array(
                [exact_scores(reading, x, each, mechanism, c) for x, each, c in zip(scores, votes, known, strict=True)]
            )
        return RunScores(scores.T, eligible, took)


class OneRunResults(Record):
    """What one run showed of its claim."""

    schema_version: int = LAYOUT
    """The version of this file's layout."""
    canarybank: str = __version__
    """The version of canarybank."""
    statement: str = NOT_PRIVATE
    """What this file may not be taken for."""
    commitment: str
    """The sha256 of the commitment under which the run was made."""
    releases: str
    """The sha256 of what was released on the probes, and of who took part where that was recorded."""
    system: str
    """What the system is called."""
    found: Certificate
    """What it showed."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the whole audit."""


def write_released(folder: Path, values: NDArray[np.float64], took: NDArray[np.bool_] | None) -> None:
    """Keep what the run released on the probes, and who took part, durable before this returns."""
    write_atomic(folder / RELEASED, npy_bytes(values))
    if took is None:
        (folder / TOOK).unlink(missing_ok=True)
    else:
        write_atomic(folder / TOOK, npy_bytes(took))


def read_released(folder: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    """Return what the run released on the probes, (rounds, canaries, probes), and who took part, (canaries, rounds)."""
    values = _array(folder / RELEASED, np.dtype(np.float64))
    return values, _array(folder / TOOK, np.dtype(np.bool_)) if (folder / TOOK).exists() else None


def recorded_hash(values: NDArray[np.float64], took: NDArray[np.bool_] | None) -> str:
    """Return the sha256 of what was recorded of a run."""
    parts = [npy_bytes(each) for each in (values, took) if each is not None]
    return hash_bytes("".join(map(hash_bytes, parts)).encode())


def _array(path: Path, kind: np.dtype[Any]) -> NDArray[Any]:
    try:
        table = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(f"{path.name} cannot be read as releases ({error}); it was altered, so restore it.") from error
    if not isinstance(table, np.ndarray) or table.dtype != kind:
        raise StoreError(f"{path.name} does not hold what canarybank writes; it was altered, so restore it.")
    return table
