"""Keep a run in a folder: what stands where, who may work on it, and what must not change.

The folder of a run::

    manifest.json    settings and where each came from, versions, plug-ins, the hash of every file
    commitment.json  what was frozen before the first evaluation trial, where the run is audited
    sealed.json      the thresholds of a system that is not ours, fitted after the commitment and before that trial
    trials.log       the counts of finished shards of trials
    results.json     what was found
    report.html      the page, and the same as summary.md, results.csv, ...

An evolution has more: ``evolution/``, the rounds themselves (see ``canarybank.evolution.population``); ``plain/``, the
same without probes, for what they cost; and ``population.*``, the final population with its lineage.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError

from canarybank import __version__
from canarybank.config.loading import Resolved, differences, is_default, plugins_of, varied
from canarybank.config.model import FORMER_DEFAULTS, RECEIVED
from canarybank.errors import BudgetError, ConfigError, IncompleteError, InputError, MissingError, StoreError
from canarybank.registry import Plugin, nearest
from canarybank.run.commitment import Commitment, Record
from canarybank.run.one_run import ONE_RUN_FILES, OneRunPlant, OneRunResults
from canarybank.run.plant import PLANTED, RELEASES, Plant, SealedRules, SystemResults, runs_so_far
from canarybank.run.results import NOT_PRIVATE, Results
from canarybank.run.surroundings import Surroundings, surroundings
from canarybank.store import (
    altered_files,
    canonical_json,
    file_errors,
    hash_bytes,
    hash_file,
    hash_folder,
    lock_folder,
    path_hint,
    private_folder,
    read_json,
    sweep_temporaries,
    write_atomic,
    write_json,
)
from canarybank.store.locks import LOCK_NAME

__all__ = [
    "COMMITMENT",
    "EVOLUTION",
    "MANIFEST",
    "PLAIN",
    "RESULTS",
    "SEALED",
    "TRIALS",
    "GeneratorRecord",
    "Manifest",
    "Run",
    "keep_defaults",
    "new_manifest",
    "open_run",
    "read_document",
    "refuse_foreign",
    "refuse_other_settings",
]

MANIFEST, COMMITMENT, SEALED, TRIALS, RESULTS = (
    "manifest.json",
    "commitment.json",
    "sealed.json",
    "trials.log",
    "results.json",
)
EVOLUTION, PLAIN = "evolution", "plain"
SCHEMA: Final = 2
SOURCES: Final = (COMMITMENT, SEALED, TRIALS, RESULTS)

Document = TypeVar("Document", bound=Record)
Kind = Literal["audit", "evolution", "system", "one-run"]


class GeneratorRecord(Record):
    """A generator that a run asked, where its requests went, and how much was sent there."""

    kind: str
    """The back end."""
    model: str
    """The model's name."""
    server: str | None
    """The URL that requests were sent to; null for a model in the run's process."""
    proxy: str | None = None
    """The proxy of the environment between, where there was one."""
    send_records: bool = False
    """Whether users' records were allowed to be sent."""
    requests: int | None = None
    """The requests sent to the server, repeated ones included; null where there is no server, and in a real evolution,
    where none is made from users' records."""
    requests_with_records: int = 0
    """Those of them that asked to paraphrase a user's record."""
    records: int = 0
    """The different records in them; one that a resumed run sent again counts again."""

    @property
    def place(self) -> tuple[str, str, str | None, str | None]:
        """Return what tells one generator of a run from another: back end, model, server and proxy."""
        return self.kind, self.model, self.server, self.proxy

    def with_more(self, other: "GeneratorRecord") -> "GeneratorRecord":
        """Return this record with what another of the same generator sent added."""
        return self.model_copy(
            update={
                "send_records": self.send_records or other.send_records,
                "requests": None if self.requests is None else self.requests + (other.requests or 0),
                "requests_with_records": self.requests_with_records + other.requests_with_records,
                "records": self.records + other.records,
            }
        )


class Manifest(Record):
    """Everything about a run that is not its result."""

    schema_version: int = SCHEMA
    """The version of this file's layout."""
    canarybank: str = __version__
    """The version of canarybank."""
    kind: Kind = "audit"
    """What the run did."""
    statement: str = NOT_PRIVATE
    """What this folder may not be taken for."""
    state: Literal["started", "finished"] = "started"
    """Whether all results are in."""
    command: str = ""
    """The command that did the run."""
    config: dict[str, Any]
    """Every value of the configuration by its dotted key."""
    origins: dict[str, str]
    """Where each of them came from."""
    commitment: str | None = None
    """The sha256 of commitment.json."""
    stages: dict[str, dict[str, int]] = Field(
        default_factory=dict, description="How many pieces each stage made, and how many it found in the cache."
    )
    generators: tuple[GeneratorRecord, ...] = ()
    """The generators that the run asked, one entry for each server."""
    started: str
    """When the run was first started, in UTC."""
    finished: str | None = None
    """When its results were complete, in UTC."""
    surroundings: Surroundings
    """What the run was done with."""
    plugins: tuple[Plugin, ...] = ()
    """The plug-ins that the run used: package, version and the sha256 of their source. A rule of an evolution that was
    corrected in between stands here once for each version, the last one last."""
    files: dict[str, str] = Field(default_factory=dict, description="The sha256 of every other file of the run.")

    @classmethod
    def migrated(cls, value: Any) -> Any:
        """Return a manifest of layout 1 in this one: an evolution had one attack, or none."""
        if not isinstance(value, Mapping) or not isinstance(value.get("config"), Mapping):
            return value
        audit = value["config"].get("evolve.audit", ())
        listed = audit if isinstance(audit, Sequence) and not isinstance(audit, str) else [audit] if audit else []
        return {**value, "config": {**value["config"], "evolve.audit": listed}}


_WORDS: Final[dict[str, dict[str, str]]] = {
    "audit": {
        "noun": "run",
        "begun": COMMITMENT,
        "remedy": "Run the same `canarybank audit` command again: it makes a lost commitment.json or results.json "
        "again, the same to the byte. Any other file must be restored from a copy.",
        "otherwise": "; choose another folder, or go back to the old settings",
    },
    "system": {
        "noun": "audit of a system",
        "begun": COMMITMENT,
        "remedy": "Restore it from a copy: runs that were judged are not judged again.",
        "otherwise": "; choose another folder, or go back to the old settings",
    },
    "one-run": {
        "noun": "audit of one run",
        "begun": COMMITMENT,
        "remedy": "Restore it from a copy: a run that was judged is not judged again.",
        "otherwise": "; choose another folder, or go back to the old settings",
    },
    "evolution": {
        "noun": "evolution",
        "begun": EVOLUTION,
        "remedy": "Restore it from a copy: what was released stays released, so it is not made again.",
        "otherwise": ": what was released stays released under its own parameters. Go back to the old settings, or "
        "choose another folder",
    },
}
"""What messages say of each kind of run, and the file or folder without which a start came to nothing."""
_NO_FOLDER: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS}
)
"""Why a path cannot be a folder of ours, whatever happens on the disk."""
_RULES: Final = frozenset({"keeper", "parent rule", "feedback"})
"""The kinds of plug-ins that turn a release into the next bank."""


@dataclass(frozen=True)
class Run:
    """A run in its folder. Documents are read when they are asked for, and checked against their schema."""

    folder: Path
    kind: Kind = "audit"

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open the run in a folder, or say that there is none."""
        path = Path(folder)
        if not (path / MANIFEST).is_file():
            if left := [name for name in (RESULTS, COMMITMENT, EVOLUTION) if (path / name).exists()]:
                raise StoreError(
                    f"The run in {str(path)!r} has its {left[0]} but no {MANIFEST}: it was altered, so restore it."
                )
            raise InputError(f"There is no run in {str(path)!r}: it holds no {MANIFEST}; {_run_hint(path)}")
        return cls(path, read_document(path / MANIFEST, Manifest).kind)

    @classmethod
    @contextlib.contextmanager
    def held(cls, resolved: Resolved, folder: Path, command: str, kind: Kind, **facts: Any) -> Iterator[Self]:
        """Hold a folder for one run: a new one, with facts for its manifest, or one under the same settings."""
        begun = _WORDS[kind]["begun"]
        refuse_foreign(folder, begun)
        is_made = _make_or_refuse(folder)
        with lock_folder(folder, f"running {command}".strip()):
            lock = _lock_of(folder)
            sweep_temporaries(folder, older_than=0)
            is_new = not (folder / MANIFEST).exists()
            try:
                if is_new:
                    run = cls(folder, kind)
                    run.write_manifest(new_manifest(resolved, command, kind=kind, **facts))
                else:
                    run = cls._of_kind(folder, kind)
                    refuse_other_settings(run, resolved)
                with run.watched(lock):
                    yield run
            except (ConfigError, InputError, MissingError):
                # A start that never could have come to anything must not hold the folder against the corrected command.
                if is_new and not (folder / begun).exists():
                    (folder / COMMITMENT).unlink(missing_ok=True)  # of canaries, which an evolution commits to first
                    (folder / MANIFEST).unlink(missing_ok=True)
                    if is_made:
                        _remove_empty(folder)
                raise

    @classmethod
    @contextlib.contextmanager
    def again(cls, folder: Path, kind: Kind) -> Iterator[Self]:
        """Hold the folder of a run that was begun, to go on with it under its own settings."""
        run = cls._of_kind(folder, kind)
        with lock_folder(folder, "going on"), run.watched(_lock_of(folder)):
            yield run

    @classmethod
    def _of_kind(cls, folder: Path, kind: Kind) -> Self:
        """Open the run in a folder, or say that it is of another kind."""
        if (run := cls.open(folder)).kind != kind:
            raise InputError(f"The run in {str(folder)!r} is of the kind {run.kind}, not {kind}; check the path.")
        return run

    @property
    def noun(self) -> str:
        """Return what messages call a run of this kind."""
        return _WORDS[self.kind]["noun"]

    @cached_property
    def manifest(self) -> Manifest:
        """Return the manifest."""
        return read_document(self.folder / MANIFEST, Manifest)

    @cached_property
    def commitment(self) -> Commitment:
        """Return the commitment, or say that the run has not come so far."""
        return self._due(COMMITMENT, Commitment)

    @cached_property
    def plant(self) -> Plant:
        """Return what the audit of a system committed to, or say that the run has not come so far."""
        return self._due(COMMITMENT, Plant)

    @cached_property
    def sealed_rules(self) -> SealedRules:
        """Return the rules that were fitted on a system's runs, or say that the run has not come so far."""
        return self._due(SEALED, SealedRules)

    @cached_property
    def system_results(self) -> SystemResults:
        """Return what a system's runs showed, or say that the run is not finished."""
        return self._due(RESULTS, SystemResults)

    @cached_property
    def one_run(self) -> OneRunPlant:
        """Return what the audit of one run committed to, or say that it has not come so far."""
        return self._due(COMMITMENT, OneRunPlant)

    @cached_property
    def one_run_results(self) -> OneRunResults:
        """Return what one run showed, or say that it is not judged yet."""
        return self._due(RESULTS, OneRunResults)

    @cached_property
    def results(self) -> Results:
        """Return the results, or say that the run is not finished."""
        return self._due(RESULTS, Results)

    @property
    def committed(self) -> Commitment | Plant | OneRunPlant:
        """Return what a run of this kind committed to, or say that it has not come so far."""
        if self.kind == "system":
            return self.plant
        return self.one_run if self.kind == "one-run" or self.carries_canaries else self.commitment

    @property
    def carries_canaries(self) -> bool:
        """Say whether this is an evolution that audits itself by its own canaries."""
        return self.kind == "evolution" and bool(self.manifest.config.get("evolve.audit_one_run"))

    @property
    def commitment_hash(self) -> str:
        """Return the sha256 of the commitment's file as it is on disk."""
        _ = self.committed
        return hash_file(self.folder / COMMITMENT)

    @property
    def is_finished(self) -> bool:
        """Say whether all results are in."""
        return self.manifest.state == "finished"

    def is_source(self, name: str) -> bool:
        """Say whether a file, by its path in the folder, is of the run itself, and not made from it by a report."""
        if name in SOURCES:
            return True
        if self.kind in {"system", "one-run"}:
            planted = PLANTED if self.kind == "system" else ONE_RUN_FILES
            return name in planted or name.partition("/")[0] == RELEASES
        return self.kind == "evolution" and (
            name.partition("/")[0] in {EVOLUTION, PLAIN} or name.startswith("population.")
        )

    def write(self, name: str, document: Record) -> None:
        """Put a document on disk, durable before this returns."""
        self.require_folder()
        write_atomic(self.folder / name, document.text())

    def finish(self, **facts: Any) -> str:
        """Write into the manifest, at once, that the run is finished, and the hash of every file; its lock is held."""
        done = {"state": "finished", "finished": now(), "files": hash_folder(self.folder, skip={MANIFEST})}
        return self.write_manifest(self.manifest.model_copy(update={**facts, **done}))

    def seal(self) -> str:
        """Write the hash of every file that a report made into the manifest; return the manifest's own hash.

        The files of the run itself were sealed when it finished, and are never sealed again.
        """
        with lock_folder(self.folder, "sealing"):
            sealed = self.refuse_altered()
            made = hash_folder(self.folder, skip={MANIFEST, *sealed})
            return self.write_manifest(self.manifest.model_copy(update={"files": {**made, **sealed}}))

    def refuse_altered(self) -> dict[str, str]:
        """Return the hashes that a finished run's own files were sealed with; refuse where the files are others."""
        if not self.is_finished:
            raise self._lacks(RESULTS)
        sealed = {name: digest for name, digest in self.manifest.files.items() if self.is_source(name)}
        found = [f"{name} is {what}" for name, what in altered_files(self.folder, sealed).items()]
        if RESULTS in sealed:
            names = hash_folder(self.folder, skip={MANIFEST, *sealed})
            found += [f"{name} was added" for name in names if self.is_source(name)]
        else:
            found.append(f"{RESULTS} is not listed in {MANIFEST}")
        if found:
            raise StoreError(
                f"The {self.noun} in {str(self.folder)!r} is not as it was sealed: {'; '.join(found[:5])}. Restore it "
                "from a copy, or start another one in a new folder."
            )
        return sealed

    def require_folder(self) -> None:
        """Refuse to go on in a folder that was removed since the run was started; put a lost manifest back.

        Files of a run would otherwise be written into a folder of the same name that lacks those before them.
        """
        if not self.is_ours():
            # What was written in the moment of the removal would keep the same command from starting anew.
            if not any((self.folder / name).exists() for name in (LOCK_NAME, MANIFEST)):
                with contextlib.suppress(OSError):
                    (self.folder / TRIALS).unlink(missing_ok=True)
                    self.folder.rmdir()
            raise StoreError(
                f"The folder {str(self.folder)!r} was removed while its {self.noun} went on, so the {self.noun} ends "
                "here and what it had done is lost. Run the same command again to start anew."
            )
        if not (self.folder / MANIFEST).is_file():
            self.write_manifest(self.manifest)

    @contextlib.contextmanager
    def watched(self, lock: os.stat_result) -> Iterator[None]:
        """Remember the lock of the folder; a file that is lost because the folder was removed is reported as that."""
        self.__dict__["_lock"] = lock
        try:
            yield
        except StoreError:
            if not self.is_ours():
                self.require_folder()
            raise

    def is_ours(self) -> bool:
        """Say whether the folder is still the one whose lock this process took."""
        try:
            return os.path.samestat((self.folder / LOCK_NAME).stat(), self.__dict__["_lock"])
        except OSError:
            return False

    def write_manifest(self, manifest: Manifest) -> str:
        """Replace the manifest, and return the sha256 of its file."""
        value = manifest.model_dump(mode="json") | {"schema_version": SCHEMA}
        write_json(self.folder / MANIFEST, value)
        self.__dict__["manifest"] = manifest
        return hash_bytes((canonical_json(value, indent=2) + "\n").encode())

    def _due(self, name: str, kind: type[Document]) -> Document:
        if not (self.folder / name).is_file():
            raise self._lacks(name)
        return read_document(self.folder / name, kind)

    def _lacks(self, name: str) -> IncompleteError | StoreError:
        """Return the error of a file that is not there yet, or not there any more."""
        if self.is_finished:
            return StoreError(
                f"The {self.noun} in {str(self.folder)!r} is finished, but its {name} is missing. "
                f"{_WORDS[self.kind]['remedy']}"
            )
        if (self.folder / name).exists():
            return IncompleteError(
                f"The {self.noun} in {str(self.folder)!r} has its {name}, but its {MANIFEST} says that it is not "
                "finished; run the same command again to finish it."
            )
        if self.kind in {"system", "one-run"} and (self.folder / COMMITMENT).is_file():
            return IncompleteError(f"The {self.noun} in {str(self.folder)!r} is not judged yet: {self.so_far}.")
        return IncompleteError(
            f"The {self.noun} in {str(self.folder)!r} has no {name} yet; run the same command again, and it goes on "
            "where it stopped."
        )

    @property
    def so_far(self) -> str:
        """Say how far the audit of a system is that was not judged yet, and what to do next."""
        if self.kind == "one-run":
            coins = " --coins TOOK" * self.one_run.needs_coins
            return f"it is designed; run the system once, then: canarybank score {self.folder} RELEASES{coins}"
        return runs_so_far(self.folder, self.plant)


def open_run(folder: Path | str) -> Run:
    """Open the run in a folder: its ``manifest``, and once they are there, its ``commitment`` and ``results``.

    Args:
        folder: The run's folder.

    Example:
        >>> run = open_run("runs/demo")
        >>> run.kind, run.is_finished
        ('audit', True)
    """
    return Run.open(folder)


def _lock_of(folder: Path) -> os.stat_result:
    """Return which file the lock of a held folder is."""
    with file_errors(folder / LOCK_NAME, "lock"):
        return (folder / LOCK_NAME).stat()


def _make_or_refuse(folder: Path) -> bool:
    """Make a run's folder, refuse one that cannot be, and return whether it was missing."""
    is_missing = not folder.exists()
    try:
        private_folder(folder)
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _NO_FOLDER:
            said = f"Cannot make the folder {str(folder)!r}: none can be made there."
            said = said if cause.errno == errno.ENOENT else str(error)
            raise ConfigError(f"{said} Name another folder for the run by --folder.") from error
        raise
    return is_missing


def _remove_empty(folder: Path) -> None:
    """Remove a folder that holds nothing but its lock."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK_NAME]:
            (folder / LOCK_NAME).unlink()
            folder.rmdir()


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


def keep_defaults(resolved: Resolved, folder: Path | str) -> Resolved:
    """Return the configuration with the former defaults that the run in a folder was begun with.

    A run goes on with the default of the version that began it, unless somebody sets another value now.
    """
    if not (Path(folder) / MANIFEST).is_file():
        return resolved
    manifest = Run.open(folder).manifest
    kept = {
        key: former
        for key, former in FORMER_DEFAULTS.items()
        if is_default(resolved, key) and manifest.origins.get(key) == "default" and manifest.config.get(key) == former
    }
    return varied(resolved, kept, "default") if kept else resolved


def refuse_other_settings(run: Run, resolved: Resolved) -> None:
    """Refuse to go on with a run under settings that decide otherwise than its own, and say which differ."""
    if run.manifest.schema_version < SCHEMA and not run.is_finished:
        raise IncompleteError(
            f"The {run.noun} in {str(run.folder)!r} was begun by canarybank {run.manifest.canarybank}, and this "
            "version commits to more. Finish it with the version that began it, or choose another folder."
        )
    changed = differences(run.manifest.config, resolved.values(), kind=run.kind)
    if not changed and (others := changed_plugins(run.manifest, resolved)):
        if all(new.kind in _RULES for _, new in others) and _awaits_rules(run):
            pins = (*run.manifest.plugins, *(new for _, new in others))
            run.write_manifest(run.manifest.model_copy(update={"plugins": pins}))
            return
        changed = [f"the {new.kind} {new.name}: {_pinned(old)} -> {_pinned(new)}" for old, new in others]
    if not changed:
        return
    otherwise, listed = _WORDS[run.kind]["otherwise"], "\n  ".join(changed)
    if run.kind == "audit" and any(line.startswith("audit.trials:") for line in changed):
        otherwise += "; another number of trials is another run, with an alpha of its own"
    raise ConfigError(
        f"The {run.noun} in {str(run.folder)!r} was started with other settings, so it cannot go on"
        f"{otherwise}. What differs:\n  {listed}"
    )


def read_document(path: Path, kind: type[Document]) -> Document:
    """Read a typed file of a run, of this layout or an earlier one, or say what is wrong with it."""
    value = read_json(path)
    version = value.get("schema_version") if isinstance(value, dict) else None
    known = kind.model_fields["schema_version"].default
    if isinstance(version, int) and version > known:
        raise StoreError(
            f"{str(path)!r} has layout {version}, and this canarybank reads up to {known}; install a newer canarybank."
        )
    try:
        return kind.model_validate(kind.migrated(value), context=dict(RECEIVED))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"{where or 'it'}: {first['msg'].lower()}"
    except (InputError, BudgetError) as error:  # of a value that checks itself
        what = str(error).rstrip(".")
    raise StoreError(f"{str(path)!r} is not what canarybank writes: {what}; it was altered, so restore it.")


def _run_hint(path: Path) -> str:
    """Say which run may have been meant: that of the most similar name beside a path, or in a folder runs there."""
    if path.exists():
        return "check the path."
    beside = [each for place in (path.parent, path.parent / "runs") for each in sorted(place.glob(f"*/{MANIFEST}"))]
    folders = {each.parent.name: each.parent for each in beside}
    close = nearest(path.name, folders)
    return path_hint(path) if close is None else f"did you mean {str(folders[close])!r}?"


def new_manifest(resolved: Resolved, command: str, **facts: Any) -> Manifest:
    """Return the manifest of a run that starts now, with further facts of it by their names."""
    return Manifest(
        **facts,
        command=command,
        config=resolved.values(),
        plugins=plugins_of(resolved.config, evolving=facts.get("kind") == "evolution"),
        origins=dict(resolved.origins),
        started=now(),
        surroundings=surroundings(),
    )


def changed_plugins(manifest: Manifest, resolved: Resolved) -> list[tuple[Plugin, Plugin]]:
    """Return each plug-in that changed, as the run had it last and as it is; an engine changes nothing that is found.

    Of a plug-in that changed before, the manifest has several pins, the last one last.
    """
    before = {(each.kind, each.name): each for each in manifest.plugins}
    after = plugins_of(resolved.config, evolving=manifest.kind == "evolution")
    pairs = [(before.get((each.kind, each.name)), each) for each in after if each.kind != "engine"]
    return [(old, new) for old, new in pairs if old is not None and old != new]


def _awaits_rules(run: Run) -> bool:
    """Say whether an evolution was left after a release, before its rules had made the next bank of it.

    There a rule may be corrected: what it does is post-processing of releases, and the banks so far stand as they are.
    """
    for name in (EVOLUTION, PLAIN):
        banks = sorted((run.folder / name / "rounds").glob("*/bank.json"))
        if banks and any(banks[-1].parent.glob("release*.npy")):
            return True
    return False


def _pinned(plugin: Plugin) -> str:
    return f"{plugin.package} with sha256 {plugin.sha256[:16] or 'unknown'}"


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
