"""Keep a run in a folder: what stands where, who may work on it, and what must not change."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from canarybank.errors import ConfigError, IncompleteError, InputError, MissingError, StoreError
from canarybank.experiment.commitment import Commitment, Record
from canarybank.experiment.manifest import Manifest, new_manifest
from canarybank.experiment.origins import Resolved, differences
from canarybank.experiment.results import Results
from canarybank.store import (
    canonical_json,
    hash_bytes,
    hash_file,
    hash_folder,
    lock_folder,
    read_json,
    sweep_temporaries,
    write_atomic,
    write_json,
)

__all__ = [
    "COMMITMENT",
    "MANIFEST",
    "RESULTS",
    "TRIALS",
    "Run",
    "is_evolution",
    "opened_run",
    "read_document",
    "refuse_foreign",
    "refuse_other_settings",
]

MANIFEST = "manifest.json"
COMMITMENT = "commitment.json"
RESULTS = "results.json"
TRIALS = "trials.log"

Document = TypeVar("Document", bound=Record)


@dataclass(frozen=True)
class Run:
    """A run in its folder. Documents are read when they are asked for, and checked against their schema."""

    folder: Path

    @classmethod
    def open(cls, folder: Path | str) -> "Run":
        """Open the run in a folder, or say that there is none."""
        path = Path(folder)
        if not (path / MANIFEST).is_file():
            raise StoreError(f"There is no run in {str(path)!r}: it holds no {MANIFEST}; check the path.")
        run = cls(path)
        if run.manifest.kind != "audit":
            raise StoreError(
                f"The run in {str(path)!r} is an evolution, not an audit; `canarybank report` and `canarybank evolve` "
                "show it."
            )
        return run

    @cached_property
    def manifest(self) -> Manifest:
        """Return the manifest."""
        return read_document(self.folder / MANIFEST, Manifest)

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

    @property
    def is_finished(self) -> bool:
        """Say whether all results are in."""
        return self.manifest.state == "finished"

    def seal(self) -> str:
        """Write the hash of every file of the run into its manifest, last of all; return the manifest's own hash."""
        with lock_folder(self.folder, "sealing"):
            return self.seal_held()

    def seal_held(self) -> str:
        """Seal the run while its lock is held already."""
        files = hash_folder(self.folder, skip={MANIFEST})
        return self.write_manifest(self.manifest.model_copy(update={"files": files}))

    def write_manifest(self, manifest: Manifest) -> str:
        """Replace the manifest, and return the sha256 of its file."""
        value = manifest.model_dump(mode="json")
        write_json(self.folder / MANIFEST, value)
        self.__dict__["manifest"] = manifest
        return hash_bytes((canonical_json(value, indent=2) + "\n").encode())

    def write_commitment(self, commitment: Commitment) -> None:
        """Put the commitment on disk, durable before this returns."""
        write_atomic(self.folder / COMMITMENT, commitment.text())

    def write_results(self, results: Results) -> None:
        """Put the results on disk."""
        write_atomic(self.folder / RESULTS, results.text())

    def _due(self, name: str, kind: type[Document]) -> Document:
        if not (self.folder / name).is_file():
            raise IncompleteError(
                f"The run in {str(self.folder)!r} has no {name} yet; run the same command again, and it goes on "
                "where it stopped."
            )
        return read_document(self.folder / name, kind)


def is_evolution(folder: Path) -> bool:
    """Say whether the run in a folder is an evolution, and not an audit."""
    path = folder / MANIFEST
    return path.is_file() and read_document(path, Manifest).kind == "evolution"


@contextmanager
def opened_run(resolved: Resolved, folder: Path, command: str) -> Iterator[Run]:
    """Hold a folder for one run: a new one, or an existing one under the same settings."""
    refuse_foreign(folder)
    with lock_folder(folder, f"running {command}".strip()):
        sweep_temporaries(folder, older_than=0)
        run = Run(folder)
        is_new = not (folder / MANIFEST).exists()
        if is_new:
            run.write_manifest(new_manifest(resolved, command))
        else:
            refuse_other_settings(run, resolved)
        try:
            yield run
        except (ConfigError, InputError, MissingError):
            # A start that never could have come to anything must not hold the folder against the corrected command.
            if is_new and not (folder / COMMITMENT).exists():
                (folder / MANIFEST).unlink(missing_ok=True)
            raise


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds something else than a run."""
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return
    strange = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if strange:
        raise ConfigError(
            f"The folder {str(folder)!r} holds {strange[0]!r} but no run; choose an empty folder or a new name."
        )


def refuse_other_settings(run: Run, resolved: Resolved) -> None:
    """Refuse to go on with a run under settings that decide otherwise than its own, and say which differ."""
    changed = differences(run.manifest.config, resolved.values())
    if not changed:
        return
    more = any(line.startswith("audit.trials:") for line in changed)
    fix = "choose another folder, or go back to the old settings"
    if more:
        fix += "; another number of trials is another run, with an alpha of its own"
    listed = "\n  ".join(changed)
    raise ConfigError(
        f"The run in {str(run.folder)!r} was started with other settings, so it cannot go on; {fix}. What differs:\n "
        f" {listed}"
    )


def read_document(path: Path, kind: type[Document]) -> Document:
    """Read a typed file of a run, or say what is wrong with it."""
    value = read_json(path)
    version = value.get("schema_version") if isinstance(value, dict) else None
    known = kind.model_fields["schema_version"].default
    if isinstance(version, int) and version > known:
        raise StoreError(
            f"{str(path)!r} has layout {version}, and this canarybank reads up to {known}; install a newer canarybank."
        )
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"{str(path)!r} is not what canarybank writes: {where or 'it'}: {first['msg'].lower()}; it was altered, "
            "so restore it."
        ) from None
