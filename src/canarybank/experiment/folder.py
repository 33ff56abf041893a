"""Keep an audit in a folder: what stands where, who may work on it, and what must not change."""

from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from canarybank.experiment.commitment import Commitment
from canarybank.experiment.manifest import Manifest
from canarybank.experiment.origins import Resolved
from canarybank.experiment.results import Results
from canarybank.experiment.run_folder import (
    MANIFEST,
    RESULTS,
    RunFolder,
    read_document,
    refuse_foreign,
    refuse_other_settings,
)
from canarybank.store import hash_file, write_atomic

__all__ = [
    "COMMITMENT",
    "MANIFEST",
    "RESULTS",
    "SOURCES",
    "TRIALS",
    "Run",
    "is_evolution",
    "opened_run",
    "read_document",
    "refuse_foreign",
    "refuse_other_settings",
]

COMMITMENT = "commitment.json"
TRIALS = "trials.log"
SOURCES = (COMMITMENT, RESULTS, TRIALS)


class Run(RunFolder):
    """A run in its folder. Documents are read when they are asked for, and checked against their schema."""

    kind = "audit"
    noun = "run"
    elsewhere = "an evolution is shown by `canarybank report` and cannot be verified or gated yet"
    begun = COMMITMENT
    strays = (TRIALS,)
    remedy = (
        "Run the same `canarybank audit` command again: it makes a lost commitment.json or results.json again, the "
        "same to the byte. Any other file must be restored from a copy."
    )

    def is_source(self, name: str) -> bool:
        """Say whether a file is of the run itself, and not of its report."""
        return name in SOURCES

    @cached_property
    def commitment(self) -> Commitment:
        """Return the commitment, or say that the run has not come so far."""
        return self._due(COMMITMENT, Commitment)

    @cached_property
    def results(self) -> Results:
        """Return the results, or say that the run is not finished."""
        return self._due(RESULTS, Results)

    @property
    def commitment_hash(self) -> str:
        """Return the sha256 of the commitment's file as it is on disk."""
        _ = self.commitment
        return hash_file(self.folder / COMMITMENT)

    def write_commitment(self, commitment: Commitment) -> None:
        """Put the commitment on disk, durable before this returns."""
        write_atomic(self.folder / COMMITMENT, commitment.text())

    def write_results(self, results: Results) -> None:
        """Put the results on disk."""
        write_atomic(self.folder / RESULTS, results.text())

    def instead(self, changed: list[str]) -> str:
        """Say that another folder is free, and that more trials are another run."""
        more = any(line.startswith("audit.trials:") for line in changed)
        trials = "; another number of trials is another run, with an alpha of its own" if more else ""
        return f"; choose another folder, or go back to the old settings{trials}"


def is_evolution(folder: Path) -> bool:
    """Say whether the run in a folder is an evolution, and not an audit."""
    path = folder / MANIFEST
    return path.is_file() and read_document(path, Manifest).kind == "evolution"


def opened_run(resolved: Resolved, folder: Path, command: str) -> AbstractContextManager[Run]:
    """Hold a folder for one run: a new one, or an existing one under the same settings."""
    return Run.held(resolved, folder, command)
