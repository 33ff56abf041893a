"""Run tasks on a Ray cluster: on this machine, or on one that runs already.

Results are those of every other engine, byte for byte. A task is a pure function of what it is given, results come back
with their index, and whoever collects them does not depend on their order; so it does not matter which worker ran a
task, how often, or when. A worker or a node that dies costs the time of its tasks: Ray runs them again elsewhere.

The function is stored once and shared by the workers of a node, so bind to it what all tasks need. Tasks and results
travel by themselves and should be small. Only a few tasks more than there are workers are under way at a time, so
neither fills the memory. Every node needs the same software (this is checked) and the folders that tasks read from.
"""

import itertools
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from canarybank.engine.local import count_cores
from canarybank.engine.ray_cluster import connect, load_ray
from canarybank.errors import CanarybankError, ConfigError, IncompleteError, InputError

__all__ = ["Ray", "Surroundings"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_QUEUED = 2
"""Tasks under way for each worker: the next one waits where it will run."""
_LOOK_AROUND = 2.0
"""Seconds after which the size of the cluster is looked at again: nodes come and go."""
_VARIABLES = "CANARYBANK_"
_DECISIVE = ("canarybank", "numpy", "scipy")


@dataclass(frozen=True, slots=True)
class Ray:
    """Run tasks on Ray: function and tasks must be picklable, and results do not depend on where they run.

    Args:
        workers: The most tasks that run at once; left out, one for each core of the cluster.
        address: The address of a cluster to join, or ``auto`` for the one on this machine; left out, a cluster is
            started here when it is first used, and stopped when the process ends.
        retries: How often a task is run again whose worker or node died; a task that always ends its worker is given
            up after that.
    """

    workers: int | None = None
    address: str | None = None
    retries: int = 20

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(
                f"An engine needs at least one worker, not {self.workers}; leave workers out to use every core."
            )

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield results as they finish; an exception or an abandoned iteration cancels what has not begun."""
        if not tasks:
            return
        ray = self.connect()
        try:
            shared = ray.put(function)
        except TypeError as error:
            raise InputError(f"The function cannot be sent to workers: {_last_line(error)}") from error
        here, send = Surroundings.of_this_process(), _remote(ray, self.retries)
        waiting, room = iter(enumerate(tasks)), _Room(ray, self.workers)
        under_way: dict[Any, int] = {}
        try:
            while True:
                for index, task in itertools.islice(waiting, max(0, room.size() - len(under_way))):
                    under_way[send(here, [shared], pickle.dumps(task, pickle.HIGHEST_PROTOCOL))] = index
                if not under_way:
                    return
                for done in _finished(ray, list(under_way)):
                    index = under_way.pop(done)
                    yield index, _result(ray, done)
        finally:
            for each in under_way:
                ray.cancel(each)

    def connect(self) -> Any:
        """Connect to the cluster, starting it where it is ours to start, and return the module ray."""
        return connect(self.address, self.workers or count_cores())


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker must have in common with the process that asks."""

    software: tuple[tuple[str, str], ...]
    """The versions of what decides the bits of a result."""
    variables: tuple[tuple[str, str], ...]
    """Our environment variables."""
    folder: str
    """The current folder, against which relative paths are read."""
    modules: tuple[str, ...]
    """Where modules are imported from."""

    @classmethod
    def of_this_process(cls) -> "Surroundings":
        """Return what this process has."""
        variables = sorted((name, value) for name, value in os.environ.items() if name.startswith(_VARIABLES))
        return cls(_software(), tuple(variables), os.getcwd(), tuple(sys.path))  # noqa: PTH109, a text that travels

    def take_over(self) -> None:
        """Make this worker like the process that asks, or say what is different here."""
        if (own := _software()) != self.software:
            different = [(name, there, here) for (name, there), (_, here) in zip(self.software, own, strict=True)]
            name, there, here = next(each for each in different if each[1] != each[2])
            raise ConfigError(
                f"A worker of the Ray cluster has {name} {here}, and this process {there}; results could differ. "
                f"Install the same version on every node."
            )
        given = dict(self.variables)
        for name in [name for name in os.environ if name.startswith(_VARIABLES) and name not in given]:
            del os.environ[name]
        os.environ.update(given)
        if os.path.isdir(self.folder):  # noqa: PTH112, as above
            os.chdir(self.folder)
        sys.path.extend(place for place in self.modules if place not in sys.path)


class _Room:
    """How many tasks may be under way: some more than the cores of the cluster, but no more than the workers asked."""

    def __init__(self, ray: Any, workers: int | None) -> None:
        self._ray, self._workers = ray, workers
        self._size, self._seen = 0, -_LOOK_AROUND
        if self._cores() < 1:
            raise ConfigError(
                "The Ray cluster has no core to run a task on. Add a node with cores, or leave run.address out to "
                "start a cluster on this machine."
            )

    def size(self) -> int:
        if time.monotonic() - self._seen >= _LOOK_AROUND:
            cores = max(1, self._cores())
            asked = cores if self._workers is None else self._workers
            self._size, self._seen = asked if asked < cores else _QUEUED * cores, time.monotonic()
        return self._size

    def _cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))


def _remote(ray: Any, retries: int) -> Callable[..., Any]:
    remote: Callable[..., Any] = ray.remote(num_cpus=1, max_retries=retries)(_attempt).remote
    return remote


def _attempt(here: Surroundings, shared: list[Any], packed: bytes) -> bytes:
    """Run a task at a worker, and return what it gave, or the error that it raised, in a form that travels.

    What comes back are bytes, so that nothing of it stays in the cluster's memory once it is read.
    """
    try:
        here.take_over()
        function, task = _unpacked(shared[0], packed)
        return pickle.dumps((True, function(task)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001, whatever a task raises is raised again where the results are asked for
        return pickle.dumps((False, _portable(error)), pickle.HIGHEST_PROTOCOL)


def _unpacked(shared: Any, packed: bytes) -> tuple[Callable[[Any], Any], Any]:
    try:
        return _fetched(shared), pickle.loads(packed)  # noqa: S301, whoever may send tasks may run any code here
    except (ImportError, AttributeError, load_ray().exceptions.RaySystemError) as error:
        raise ConfigError(
            f"A worker of the Ray cluster could not load its task: {_last_line(error)}. Install the same packages on "
            "every node."
        ) from error


@lru_cache(maxsize=1)
def _fetched(shared: Any) -> Callable[[Any], Any]:
    """Return the function of a run; a worker unpacks it once, and its arrays are those in the node's memory."""
    function: Callable[[Any], Any] = load_ray().get(shared)
    return function


def _portable(error: Exception) -> Exception:
    """Return an error that survives the journey, with the worker's traceback as a note."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301, what was pickled a moment ago
    except Exception:  # noqa: BLE001, an error may refuse in any way to be copied
        copy = None
    portable = copy if type(copy) is type(error) else RuntimeError(f"{type(error).__name__}: {error}")
    portable.add_note(f"At a worker of the Ray cluster:\n{trace}")
    return portable


def _finished(ray: Any, under_way: list[Any]) -> list[Any]:
    """Return the tasks that have ended; wait for one, but not for longer than the cluster may go unwatched."""
    done, left = ray.wait(under_way, num_returns=1, timeout=_LOOK_AROUND)
    if done and left:
        done += ray.wait(left, num_returns=len(left), timeout=0)[0]
    ended: list[Any] = done
    return ended


def _result(ray: Any, done: Any) -> Any:
    """Return what a task gave, or raise what it raised; Ray's own errors become a sentence."""
    try:
        succeeded, found = pickle.loads(ray.get(done))  # noqa: S301, it comes from our own worker
    except ray.exceptions.RayError as error:
        raise _lost(ray, error) from None
    if not succeeded:
        raise found
    return found


def _lost(ray: Any, error: Exception) -> CanarybankError:
    """Return what to say of a task that never came to its end."""
    if isinstance(error, ray.exceptions.RayTaskError | ray.exceptions.RaySystemError):  # before it began
        return ConfigError(
            f"A worker of the Ray cluster could not begin its task: {_last_line(error)}. Install the same version of "
            "canarybank on every node."
        )
    return IncompleteError(
        f"A task was given up, for its worker or node ended each time ({type(error).__name__}). If memory "
        "ran out, use fewer workers or more shards. What was done is kept: the same command goes on from there."
    )


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300].rstrip(".")


@cache
def _software() -> tuple[tuple[str, str], ...]:
    """Return the versions that decide the bits of a result."""
    return (("Python", f"{sys.version_info[0]}.{sys.version_info[1]}"), *((name, _version(name)) for name in _DECISIVE))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
