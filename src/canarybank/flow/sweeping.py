"""Run an audit at every point of a grid over any keys: each point is a run of its own; what they share is made once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from canarybank.config import Resolved, filled, read_value, refuse_unknown, varied
from canarybank.engine import Engine
from canarybank.errors import ConfigError, IncompleteError
from canarybank.flow.audit import run_audit
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import Run
from canarybank.run.results import Results
from canarybank.store import hash_text

__all__ = ["Axis", "Point", "grid", "read_axis", "run_sweep"]

_LONGEST = 80


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of the configuration and the values that it takes, in their order."""

    key: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        refuse_unknown(self.key, "what to sweep over")
        if not self.values or any(value in self.values[:place] for place, value in enumerate(self.values)):
            raise ConfigError(f"The values of {self.key} must be different and at least one, not {self.values!r}.")


@dataclass(frozen=True, slots=True)
class Point:
    """One setting to audit: the name of its folder, its configuration, the values that it has on a grid, its run."""

    place: str
    resolved: Resolved
    at: Mapping[str, Any] = field(default_factory=dict)
    run: Run | None = None

    def require_run(self) -> Run:
        """Return the point's run, or say that it has none yet."""
        if self.run is None:
            raise IncompleteError(f"The point {self.place} has not run yet; run the sweep first.")
        return self.run

    @property
    def results(self) -> Results:
        """Return what its run found."""
        return self.require_run().results


def read_axis(text: str) -> Axis:
    """Read an axis as it is typed: KEY=VALUE,VALUE.

    Args:
        text: The axis; its values stay texts until ``grid`` reads them as the key's own type.

    Example:
        >>> read_axis("mechanism.sigma=0.5, 1, 2")
        Axis(key='mechanism.sigma', values=('0.5', '1', '2'))
    """
    key, equals, values = text.partition("=")
    listed = tuple(part.strip() for part in values.split(",") if part.strip())
    if not equals or not listed:
        raise ConfigError(f"{text!r} is no axis; write KEY=VALUE,VALUE, such as mechanism.sigma=0.5,1,2.")
    return Axis(key.strip(), listed)


def grid(resolved: Resolved, axes: Sequence[Axis]) -> tuple[Point, ...]:
    """Return every point of a grid, the last axis running fastest; each configuration is checked before any runs.

    Args:
        resolved: The configuration that all points share.
        axes: The keys to vary, each with its values.

    Example:
        >>> from canarybank.config import resolve
        >>> axes = [Axis("mechanism.sigma", (1, 2)), Axis("mechanism.q", (0.1, 0.5))]
        >>> [tuple(point.at.values()) for point in grid(resolve(), axes)]
        [(1.0, 0.1), (1.0, 0.5), (2.0, 0.1), (2.0, 0.5)]
    """
    if not axes:
        raise ConfigError(
            "A sweep needs something to sweep over; list values by key in the file's section [sweep], or give --over "
            "KEY=VALUE,VALUE."
        )
    if len({axis.key for axis in axes}) != len(axes):
        raise ConfigError("Each key can be swept over once; put all of its values into one --over.")
    points: list[Point] = []
    for values in product(*(axis.values for axis in axes)):
        changes = {axis.key: read_value(axis.key, value) for axis, value in zip(axes, values, strict=True)}
        made = varied(resolved, changes, "sweep")
        at = {key: _shown(made, key) for key in changes}
        if any(point.at == at for point in points):  # as 1 and 1.0 are, which are typed differently
            stated = ", ".join(f"{key} {value}" for key, value in at.items())
            raise ConfigError(f"Two values of the sweep mean the same ({stated}); give each value once.")
        points.append(Point(_place(at), made, at))
    return tuple(points)


def run_sweep(
    points: Sequence[Point],
    folder: Path,
    *,
    engine: Engine | None = None,
    progress: Progress = SILENT,
    command: str = "",
) -> tuple[Point, ...]:
    """Run every point in a folder of its own, or go on with them.

    Users, vectors, banks, paraphrases, route tables and designs are kept under all that they depend on, and sigma, q,
    clip and trials are no part of what vectors and route tables depend on: these are made at the first point only.

    Args:
        points: What to audit, as ``grid`` returns it.
        folder: The folder that holds a folder for each point.
        engine: Where trials run; by default on a thread for each core, or for each of ``run.workers``.
        progress: Where progress is shown.
        command: The command to name in the manifests.

    Example:
        >>> from canarybank.config import resolve_users
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "attack.names": "ordinary"}
        >>> small = {"attack.probes": 12, "cohorts.canaries": 1, "audit.trials": 500}
        >>> points = grid(resolve_users("my-users.csv", flags | small), [Axis("mechanism.sigma", (1, 2))])
        >>> first, second = run_sweep(points, Path("runs/sweep"))
        >>> first.results.epsilon > second.results.epsilon  # more noise, less epsilon
        True
    """
    done = []
    with progress.stage("points", total=len(points), unit="runs") as stage:
        for point in points:
            resolved = filled(point.resolved, {"encoder.keep_vectors": True}, "sweep")  # for the points to come
            run = run_audit(resolved, folder / point.place, engine=engine, progress=progress, command=command)
            done.append(replace(point, run=run))
            stage.advance(1, note=point.place)
    return tuple(done)


def _shown(resolved: Resolved, key: str) -> Any:
    value = resolved.values()[key]
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _place(at: Mapping[str, Any]) -> str:
    """Return the name of a point's folder: its values, short and fit for a file system."""
    written = "_".join(f"{key.partition('.')[2]}-{_written(value)}" for key, value in at.items())
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "-", written)
    return plain if plain == written and len(plain) <= _LONGEST else f"{plain[:_LONGEST]}-{hash_text(written)[:8]}"


def _written(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
