"""Send work to Ray and bring its results or errors back: what tasks and held objects have in common."""

import itertools
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from canarybank.errors import CanarybankError, ConfigError, IncompleteError

__all__ = ["LOOK_AROUND", "Surroundings", "answer", "last_line", "portable", "spread"]

LOOK_AROUND = 2.0
"""Seconds after which the size of the cluster is looked at again: nodes come and go."""
_TIMES = 100
"""How often a task is sent to actors, where each of them is gone when its turn comes."""
_VARIABLES = "CANARYBANK_"
_DECISIVE = ("canarybank", "numpy", "scipy")


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


def answer(work: Callable[[], Any], where: str = "a worker of the Ray cluster") -> bytes:
    """Return what some work gave at a worker, or the error that it raised, in a form that travels.

    These are bytes, so that nothing of them stays in the cluster's memory once they are read.
    """
    try:
        return pickle.dumps((True, work()), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001, whatever a task raises is raised again where the results are asked for
        return pickle.dumps((False, portable(error, where)), pickle.HIGHEST_PROTOCOL)


def spread(
    ray: Any,
    send: Callable[[bytes], Any],
    tasks: Sequence[Any],
    room: Callable[[], int],
    cancel: Callable[[Any], None],
    lost: Callable[[Any], None] = lambda _: None,
    silent: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Any]]:
    """Yield the index of each task with what its ``answer`` holds, as they end; what is left is cancelled.

    Args:
        ray: The module.
        send: Sends a pickled task, and returns the reference of its answer.
        tasks: The tasks.
        room: Says how many tasks may be under way now.
        cancel: Called with the reference of each answer that nobody waits for any more.
        lost: Called with the reference of an answer that never comes, for the actor is gone; the task is sent again.
        silent: Called where no answer came for as long as the cluster may go unwatched.
    """
    waiting = iter(enumerate(tasks))
    under_way: dict[Any, _Sent] = {}
    try:
        while True:
            for index, task in itertools.islice(waiting, max(0, room() - len(under_way))):
                packed = pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
                under_way[send(packed)] = _Sent(index, packed)
            if not under_way:
                return
            ended = _finished(ray, list(under_way))
            if not ended:
                silent()
            for done in ended:
                sent = under_way.pop(done)
                try:
                    result = _result(ray, done)
                except ray.exceptions.RayActorError as error:
                    if sent.times == _TIMES:
                        raise _lost(ray, error) from None
                    lost(done)
                    under_way[send(sent.packed)] = replace(sent, times=sent.times + 1)
                else:
                    yield sent.index, result
    finally:
        for each in under_way:
            cancel(each)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A task that is under way, and how often it was sent."""

    index: int
    packed: bytes
    times: int = 1


def portable(error: BaseException, where: str) -> BaseException:
    """Return an error that survives the journey, with the worker's traceback as a note."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301, what was pickled a moment ago
    except Exception:  # noqa: BLE001, an error may refuse in any way to be copied
        copy = None
    travelling = copy if type(copy) is type(error) else RuntimeError(f"{type(error).__name__}: {error}")
    travelling.add_note(f"At {where}:\n{trace}")
    return travelling


def _finished(ray: Any, under_way: list[Any]) -> list[Any]:
    """Return the tasks that have ended; wait for one, but not for longer than the cluster may go unwatched."""
    done, left = ray.wait(under_way, num_returns=1, timeout=LOOK_AROUND)
    if done and left:
        done += ray.wait(left, num_returns=len(left), timeout=0)[0]
    ended: list[Any] = done
    return ended


def _result(ray: Any, done: Any) -> Any:
    """Return what a task gave, or raise what it raised; Ray's own errors become a sentence, but for lost actors."""
    try:
        succeeded, found = pickle.loads(ray.get(done))  # noqa: S301, it comes from our own worker
    except ray.exceptions.RayActorError:
        raise
    except ray.exceptions.RayError as error:
        raise _lost(ray, error) from None
    if not succeeded:
        raise found
    return found


def _lost(ray: Any, error: Exception) -> CanarybankError:
    """Return what to say of a task that never came to its end."""
    if isinstance(error, ray.exceptions.RayTaskError | ray.exceptions.RaySystemError):  # before it began
        return ConfigError(
            f"A worker of the Ray cluster could not begin its task: {last_line(error)}. Install the same version of "
            "canarybank on every node."
        )
    return IncompleteError(
        f"A task was given up, for its worker or node ended each time ({type(error).__name__}). If memory "
        "ran out, use fewer workers or more shards. What was done is kept: the same command goes on from there."
    )


def last_line(error: Exception) -> str:
    """Return the last line of what an error says: where Ray adds a traceback, that line says what went wrong."""
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
