"""Keep what audits and evolutions share as runs in a folder: the manifest, the seal, the lock, the refusals."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import ValidationError

from canarybank.errors import ConfigError, IncompleteError, InputError, MissingError, StoreError
from canarybank.experiment.commitment import Record
from canarybank.experiment.manifest import Manifest, new_manifest
from canarybank.experiment.origins import Resolved, differences
from canarybank.store import (
    canonical_json,
    hash_bytes,
    hash_folder,
    lock_folder,
    read_json,
    sweep_temporaries,
    write_json,
)

__all__ = ["MANIFEST", "RESULTS", "RunFolder", "read_document", "refuse_foreign", "refuse_other_settings"]

MANIFEST = "manifest.json"
RESULTS = "results.json"

Document = TypeVar("Document", bound=Record)


@dataclass(frozen=True)
class RunFolder:
    """A run of either kind in its folder; a kind says below what sets it apart."""

    folder: Path
    kind: ClassVar[Literal["audit", "evolution"]]
    noun: ClassVar[str]
    """What messages call a run of this kind."""
    elsewhere: ClassVar[str]
    """What to do with a run of the other kind."""
    begun: ClassVar[str]
    """The file or folder whose absence shows that a start came to nothing."""

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open the run in a folder, or say that there is none of this kind."""
        path = Path(folder)
        if not (path / MANIFEST).is_file():
            raise _no_manifest(path, RESULTS, cls.begun)
        run = cls(path)
        if run.manifest.kind != cls.kind:
            found = run.manifest.kind
            raise StoreError(f"The run in {str(path)!r} is an {found}, not an {cls.kind}; {cls.elsewhere}.")
        return run

    @classmethod
    @contextmanager
    def held(cls, resolved: Resolved, folder: Path, command: str, **facts: Any) -> Iterator[Self]:
        """Hold a folder for one run: a new one, with facts for its manifest, or one under the same settings."""
        refuse_foreign(folder)
        with lock_folder(folder, f"running {command}".strip()):
            sweep_temporaries(folder, older_than=0)
            is_new = not (folder / MANIFEST).exists()
            if is_new:
                run = cls(folder)
                run.write_manifest(new_manifest(resolved, command, kind=cls.kind, **facts))
            else:
                run = cls.open(folder)
                refuse_other_settings(run, resolved)
            try:
                yield run
            except (ConfigError, InputError, MissingError):
                # A start that never could have come to anything must not hold the folder against the corrected command.
                if is_new and not (folder / cls.begun).exists():
                    (folder / MANIFEST).unlink(missing_ok=True)
                raise

    @cached_property
    def manifest(self) -> Manifest:
        """Return the manifest."""
        return read_document(self.folder / MANIFEST, Manifest)

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

    def instead(self, changed: list[str]) -> str:
        """Say what to do about settings that differ from those that the run was started with."""
        raise NotImplementedError

    def _due(self, name: str, kind: type[Document]) -> Document:
        if not (self.folder / name).is_file():
            raise IncompleteError(
                f"The {self.noun} in {str(self.folder)!r} has no {name} yet; run the same command again, and it goes "
                "on where it stopped."
            )
        return read_document(self.folder / name, kind)


def _no_manifest(path: Path, *others: str) -> InputError | StoreError:
    """Return the error of a mistaken path, or that of a run which has lost its manifest and kept another file."""
    if left := [name for name in others if (path / name).exists()]:
        return StoreError(
            f"The run in {str(path)!r} has its {left[0]} but no {MANIFEST}: it was altered, so restore it."
        )
    return InputError(f"There is no run in {str(path)!r}: it holds no {MANIFEST}; check the path.")


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds something else than a run."""
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return
    strange = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if strange:
        raise ConfigError(
            f"The folder {str(folder)!r} holds {strange[0]!r} but no run; choose an empty folder or a new name."
        )


def refuse_other_settings(run: RunFolder, resolved: Resolved) -> None:
    """Refuse to go on with a run under settings that decide otherwise than its own, and say which differ."""
    changed = differences(run.manifest.config, resolved.values(), evolving=run.kind == "evolution")
    if changed:
        listed = "\n  ".join(changed)
        raise ConfigError(
            f"The {run.noun} in {str(run.folder)!r} was started with other settings, so it cannot go on"
            f"{run.instead(changed)}. What differs:\n  {listed}"
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
