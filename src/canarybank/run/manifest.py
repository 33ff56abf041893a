"""Hold what surrounds a run: its settings and their origins, versions, hardware, and the hash of every file."""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from canarybank import __version__
from canarybank.config.loading import Resolved
from canarybank.config.plugins import plugins_of
from canarybank.registry import Plugin
from canarybank.run.commitment import Record
from canarybank.run.results import NOT_PRIVATE

__all__ = ["GeneratorRecord", "Manifest", "Surroundings", "changed_plugins", "new_manifest", "now"]

SCHEMA = 2
_PACKAGES = (
    "chitchat-dataset",
    "dp-accounting",
    "numpy",
    "openai",
    "polars",
    "pydantic",
    "scipy",
    "sentence-transformers",
    "torch",
    "transformers",
    "wordllama",
    "xllamacpp",
)


class Surroundings(Record):
    """The software and hardware that a run was done with."""

    python: str
    """The version of Python."""
    platform: str
    """The operating system."""
    packages: dict[str, str]
    """The versions of the packages that results may depend on."""
    commit: str | None
    """The commit of canarybank's own source, where it runs from a checkout."""
    processor: str
    """The processor's name."""
    cores: int
    """The cores that this process may use."""
    memory_gib: float | None
    """The machine's memory."""


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
    kind: Literal["audit", "evolution"] = "audit"
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
    """The plug-ins that the run used: package, version and the sha256 of their source."""
    files: dict[str, str] = Field(default_factory=dict, description="The sha256 of every other file of the run.")

    @classmethod
    def migrated(cls, value: Any) -> Any:
        """Return a manifest of layout 1 in this one: an evolution had one attack, or none."""
        if not isinstance(value, Mapping) or not isinstance(value.get("config"), Mapping):
            return value
        audit = value["config"].get("evolve.audit", ())
        listed = audit if isinstance(audit, Sequence) and not isinstance(audit, str) else [audit] if audit else []
        return {**value, "config": {**value["config"], "evolve.audit": listed}}


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


def changed_plugins(manifest: Manifest, resolved: Resolved) -> list[str]:
    """Return a line for each plug-in that is not the one a run began with; an engine changes nothing that is found."""
    before = {(each.kind, each.name): each for each in manifest.plugins}
    after = plugins_of(resolved.config, evolving=manifest.kind == "evolution")
    pairs = [(before.get((each.kind, each.name)), each) for each in after if each.kind != "engine"]
    return [
        f"the {new.kind} {new.name}: {_pinned(old)} -> {_pinned(new)}"
        for old, new in pairs
        if old is not None and old != new
    ]


def _pinned(plugin: Plugin) -> str:
    return f"{plugin.package} with sha256 {plugin.sha256[:16] or 'unknown'}"


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def surroundings() -> Surroundings:
    """Return what this process runs with."""
    return Surroundings(
        python=platform.python_version(),
        platform=platform.platform(),
        packages=dict(_versions()),
        commit=_commit(),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=_memory(),
    )


def _versions() -> Mapping[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(  # noqa: S603, a fixed command on our own checkout
            ["git", "-C", str(root), "rev-parse", "HEAD"],  # noqa: S607, wherever git is
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None
