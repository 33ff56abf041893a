"""Send work to Ray and bring its results or errors back: what tasks and held objects have in common."""

import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from canarybank.errors import CanarybankError, ConfigError, IncompleteError

__all__ = ["LOOK_AROUND", "WHERE", "last_line", "spread"]

LOOK_AROUND = 2.0
"""Seconds after which the size of the cluster is looked at again: nodes come and go."""
_TIMES = 100
"""How often a task is sent to actors, where each of them is gone when its turn comes."""
WHERE = "a worker of the Ray cluster"


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
            f"A worker of the Ray cluster could not run its task: {last_line(error)}. Install the same version of "
            "canarybank on every node, unless the task itself asked to be ended."
        )
    return IncompleteError(
        f"A task was given up, for its worker or node ended each time ({type(error).__name__}). If memory "
        "ran out, use fewer workers or more shards. What was done is kept: the same command goes on from there."
    )


def last_line(error: Exception) -> str:
    """Return the last line of what an error says: where Ray adds a traceback, that line says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300].rstrip(".")
