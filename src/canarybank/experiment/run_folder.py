"""Keep what audits and evolutions share as runs in a folder: the manifest, the seal, the lock, the refusals."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import ValidationError

from canarybank.errors import ConfigError, IncompleteError, InputError, MissingError, StoreError
from canarybank.experiment.commitment import Record
from canarybank.experiment.config import RECEIVED
from canarybank.experiment.manifest import Manifest, changed_plugins, new_manifest, now
from canarybank.experiment.origins import Resolved, differences
from canarybank.store import (
    altered_files,
    canonical_json,
    hash_bytes,
    hash_folder,
    lock_folder,
    read_json,
    sweep_temporaries,
    write_json,
)
from canarybank.store.locks import LOCK_NAME

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
    strays: ClassVar[tuple[str, ...]] = ()
    """The files that may be written in the moment in which the folder is removed."""
    remedy: ClassVar[str]
    """What to do about a file that a finished run has lost."""

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open the run in a folder, or say that there is none of this kind."""
        path = Path(folder)
        if not (path / MANIFEST).is_file():
            raise _no_manifest(path, RESULTS, cls.begun)
        run = cls(path)
        if run.manifest.kind != cls.kind:
            found = run.manifest.kind
            raise InputError(f"The run in {str(path)!r} is an {found}, not an {cls.kind}; {cls.elsewhere}.")
        return run

    @classmethod
    @contextlib.contextmanager
    def held(cls, resolved: Resolved, folder: Path, command: str, **facts: Any) -> Iterator[Self]:
        """Hold a folder for one run: a new one, with facts for its manifest, or one under the same settings."""
        refuse_foreign(folder, cls.begun)
        with lock_folder(folder, f"running {command}".strip()):
            sweep_temporaries(folder, older_than=0)
            lock = (folder / LOCK_NAME).stat()
            is_new = not (folder / MANIFEST).exists()
            if is_new:
                run = cls(folder)
                run.write_manifest(new_manifest(resolved, command, kind=cls.kind, **facts))
            else:
                run = cls.open(folder)
                refuse_other_settings(run, resolved)
            run.__dict__["_lock"] = lock
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

    def is_source(self, name: str) -> bool:
        """Say whether a file, by its path in the folder, is of the run itself, and not made from it by a report."""
        raise NotImplementedError

    def finish(self, **facts: Any) -> str:
        """Write into the manifest, at once, that the run is finished, and the hash of every file; its lock is held."""
        done = {"state": "finished", "finished": now(), "files": hash_folder(self.folder, skip={MANIFEST})}
        return self.write_manifest(self.manifest.model_copy(update={**facts, **done}))

    def seal(self) -> str:
        """Write the hash of every file that a report made into the manifest; return the manifest's own hash.

        The files of the run itself were sealed when it finished, and are never sealed again.
        """
        with lock_folder(self.folder, "sealing"):
            self.refuse_altered()
            sealed = {name: digest for name, digest in self.manifest.files.items() if self.is_source(name)}
            made = hash_folder(self.folder, skip={MANIFEST, *sealed})
            return self.write_manifest(self.manifest.model_copy(update={"files": {**made, **sealed}}))

    def refuse_altered(self) -> None:
        """Refuse a finished run whose own files are not those that it was sealed with."""
        if not self.is_finished:
            raise self._lacks(RESULTS)
        sealed = {name: digest for name, digest in self.manifest.files.items() if self.is_source(name)}
        found = [f"{name} is {what}" for name, what in altered_files(self.folder, sealed).items()]
        if RESULTS not in sealed:
            found.append(f"{RESULTS} is not listed in {MANIFEST}")
        names = hash_folder(self.folder, skip={MANIFEST, *sealed})
        found += [f"{name} was added" for name in names if self.is_source(name) and RESULTS in sealed]
        if found:
            raise StoreError(
                f"The {self.noun} in {str(self.folder)!r} is not as it was sealed: {'; '.join(found[:5])}. Restore it "
                "from a copy, or start another one in a new folder."
            )

    def require_folder(self) -> None:
        """Refuse to go on in a folder that was removed since the run was started; put a lost manifest back.

        Files of a run would otherwise be written into a folder of the same name that lacks those before them.
        """
        if not self.is_ours():
            self._remove_strays()
            raise StoreError(
                f"The folder {str(self.folder)!r} was removed while its {self.noun} went on, so the {self.noun} ends "
                "here and what it had done is lost. Run the same command again to start anew."
            )
        if not (self.folder / MANIFEST).is_file():
            self.write_manifest(self.manifest)

    def is_ours(self) -> bool:
        """Say whether the folder is still the one whose lock this process took."""
        try:
            return os.path.samestat((self.folder / LOCK_NAME).stat(), self.__dict__["_lock"])
        except OSError:
            return False

    def _remove_strays(self) -> None:
        """Remove what was written in the moment of the removal: it would keep the same command from starting anew."""
        if not any((self.folder / name).exists() for name in (LOCK_NAME, MANIFEST)):
            with contextlib.suppress(OSError):
                for name in self.strays:
                    (self.folder / name).unlink(missing_ok=True)
                self.folder.rmdir()

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
            raise self._lacks(name)
        return read_document(self.folder / name, kind)

    def _lacks(self, name: str) -> IncompleteError | StoreError:
        """Return the error of a file that is not there yet, or not there any more."""
        if self.is_finished:
            return StoreError(
                f"The {self.noun} in {str(self.folder)!r} is finished, but its {name} is missing. {self.remedy}"
            )
        if (self.folder / name).exists():
            return IncompleteError(
                f"The {self.noun} in {str(self.folder)!r} has its {name}, but its {MANIFEST} says that it is not "
                "finished; run the same command again to finish it."
            )
        return IncompleteError(
            f"The {self.noun} in {str(self.folder)!r} has no {name} yet; run the same command again, and it goes on "
            "where it stopped."
        )


def _no_manifest(path: Path, *others: str) -> InputError | StoreError:
    """Return the error of a mistaken path, or that of a run which has lost its manifest and kept another file."""
    if left := [name for name in others if (path / name).exists()]:
        return StoreError(
            f"The run in {str(path)!r} has its {left[0]} but no {MANIFEST}: it was altered, so restore it."
        )
    return InputError(f"There is no run in {str(path)!r}: it holds no {MANIFEST}; check the path.")


def refuse_foreign(folder: Path, *parts: str) -> None:
    """Refuse a folder that holds something else than a run, or parts of a run that has lost its manifest."""
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return
    strange = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if left := [name for name in strange if name in parts]:
        raise ConfigError(
            f"The folder {str(folder)!r} holds {left[0]!r} of a run that has lost its {MANIFEST}; put the {MANIFEST} "
            "back, or remove the folder, or choose another one."
        )
    if strange:
        raise ConfigError(
            f"The folder {str(folder)!r} holds {strange[0]!r} but no run; choose an empty folder or a new name."
        )


def refuse_other_settings(run: RunFolder, resolved: Resolved) -> None:
    """Refuse to go on with a run under settings that decide otherwise than its own, and say which differ."""
    changed = differences(run.manifest.config, resolved.values(), evolving=run.kind == "evolution")
    changed = changed or changed_plugins(run.manifest, resolved)
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
        return kind.model_validate(value, context=dict(RECEIVED))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"{str(path)!r} is not what canarybank writes: {where or 'it'}: {first['msg'].lower()}; it was altered, "
            "so restore it."
        ) from None
