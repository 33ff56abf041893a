"""Say what a run was done with: Python, packages, the commit, and the machine."""

import contextlib
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from canarybank.run.commitment import Record

__all__ = ["Surroundings", "surroundings"]

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


def surroundings() -> Surroundings:
    """Return what this process runs with."""
    return Surroundings(
        python=platform.python_version(),
        platform=platform.platform(),
        packages=_versions(),
        commit=_commit(),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=_memory(),
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
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
