"""Run tasks on a Ray cluster: on this machine, or on one that runs already.

Results are those of every other engine, byte for byte. A task is a pure function of what it is given, results come back
with their index, and whoever collects them does not depend on their order; so it does not matter which worker ran a
task, how often, or when. A worker or a node that dies costs the time of its tasks: Ray runs them again elsewhere.

The function is stored once and shared by the workers of a node, so bind to it what all tasks need. Tasks and results
travel by themselves and should be small. Only a few tasks more than there are workers are under way at a time, so
neither fills the memory. Every node needs the same software (this is checked) and the folders that tasks read from.
"""

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import Any, TypeVar

from canarybank.engine.local import check_workers, count_cores
from canarybank.engine.ray_cluster import connect, load_ray, require_ray
from canarybank.engine.ray_tasks import LOOK_AROUND, WHERE, last_line, spread
from canarybank.engine.tasks import Surroundings, answer
from canarybank.errors import ConfigError, IncompleteError, InputError

__all__ = ["Ray", "RayHost"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_QUEUED = 2
"""Tasks under way for each worker: the next one waits where it will run."""
_TURNS = count(os.getpid())
"""Whose turn it is to be asked, of the objects that a host holds."""
_GONE: dict[Any, float] = {}
"""When an actor was found to be gone."""
_GATHERING = 60.0
"""Seconds that actors have to find a place once the first of them has one."""
_EMPTY = 300.0
"""Seconds that a cluster which lost its last core has to get one: time enough to start a machine in its place."""
_ABSENCE, _PAUSE = 30.0, 0.5
"""Seconds for which an actor that is gone is not asked, and seconds between requests where all of them are gone."""


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
        check_workers(self.workers)
        require_ray()

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield results as they finish; an exception or an abandoned iteration cancels what has not begun."""
        if not tasks:
            return
        ray = self.connect()
        try:
            shared = ray.put(function)
        except TypeError as error:
            raise InputError(f"The function cannot be sent to workers: {error.__cause__ or error}.") from error
        send = partial(_remote(ray, self.retries).remote, Surroundings.of_this_process(), [shared])
        # By force: a worker in the midst of a library may miss a polite request, and the next run would wait for it.
        yield from spread(ray, send, tasks, _Room(ray, self.workers).size, partial(ray.cancel, force=True))

    def host(self, make: Callable[[], Any]) -> "RayHost | None":
        """Return what holds the object that a factory makes on each GPU of the cluster; None where it has no GPU.

        The object is made once on each GPU, at its first use, and stays there while this process is connected. Asked
        again for the same factory, the same host is returned.

        Args:
            make: A picklable and hashable function without arguments.
        """
        ray = self.connect()
        number = _count_gpus(ray)
        if not number:
            return None
        context = ray.get_runtime_context()
        key = (context.get_node_id(), context.get_job_id(), make)
        if key not in _HOSTS:
            # A bit more than half of what earlier ones left of each GPU: so every GPU gets one, and has room for more.
            share = round(0.501 * 0.499 ** sum(held[:2] == key[:2] for held in _HOSTS), 4)
            holder = ray.remote(num_cpus=0, num_gpus=share, max_restarts=self.retries)(_Holder)
            packed = pickle.dumps(make, pickle.HIGHEST_PROTOCOL)
            actors = _present(ray, [holder.remote(packed) for _ in range(number)])
            if not actors:
                return None
            _HOSTS[key] = RayHost(actors)
        return _HOSTS[key]

    def connect(self) -> Any:
        """Connect to the cluster, starting it where it is ours to start, and return the module ray."""
        return connect(self.address, self.workers or count_cores())


@dataclass(frozen=True, slots=True)
class RayHost:
    """Objects that were made alike, one on each GPU of a cluster; whoever has the host can ask them, workers too.

    Where the process or node of one is gone, another one is asked.
    """

    actors: tuple[Any, ...]

    def run(self, function: Callable[[Any, Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each task with what the function gives for a held object and the task."""
        asked = _Asked(self.actors, Surroundings.of_this_process(), pickle.dumps(function, pickle.HIGHEST_PROTOCOL))
        ray = load_ray()
        room = _QUEUED * len(self.actors)
        yield from spread(ray, asked.send, tasks, lambda: room, ray.cancel, asked.lose, asked.look_after)


def _present(ray: Any, actors: list[Any]) -> tuple[Any, ...]:
    """Return the actors that have found a place, and end the others: whoever asked one of those might wait for ever.

    Where other work has taken every GPU, this waits until one is free, as any work for a cluster does; but not where
    no GPU is left.
    """
    signs = {actor.is_there.remote(): actor for actor in actors}
    while not ray.wait(list(signs), num_returns=1, timeout=LOOK_AROUND)[0] and _count_gpus(ray):
        pass
    came, late = ray.wait(list(signs), num_returns=len(signs), timeout=_GATHERING if _count_gpus(ray) else 0)
    for sign in list(came):
        try:
            ray.get(sign)
        except ray.exceptions.RayActorError:  # its node died meanwhile
            came.remove(sign)
            late.append(sign)
    for sign in late:
        ray.kill(signs[sign])
    return tuple(signs[sign] for sign in came)


def _count_gpus(ray: Any) -> int:
    return int(ray.cluster_resources().get("GPU", 0))


class _Asked:
    """Ask actors in turn, but for those that were gone a moment ago."""

    def __init__(self, actors: tuple[Any, ...], here: Surroundings, function: bytes) -> None:
        self._actors, self._here, self._function = actors, here, function
        self._sent: dict[bytes, Any] = {}
        self._silences = 0

    def send(self, packed: bytes) -> Any:
        """Send a task to the actor whose turn it is, and return the reference of its answer."""
        present = [actor for actor in self._actors if not self._is_gone(actor)] or self._actors
        actor = present[next(_TURNS) % len(present)]
        reference = actor.answer.remote(self._here, self._function, packed)
        self._sent[reference.binary()] = actor  # by name: a reference would keep the answer
        self._silences = 0
        return reference

    def lose(self, reference: Any) -> None:
        """Remember that the actor which should have answered is gone, and wait a little where all of them are."""
        _GONE[self._sent.pop(reference.binary())] = time.monotonic()
        if all(map(self._is_gone, self._actors)):
            time.sleep(_PAUSE)

    def look_after(self) -> None:
        """Ask the actors whether they are there, ever more rarely: an actor may be busy for hours.

        What was asked of an actor before this process heard that it is gone, Ray keeps until the actor has a place
        again, and there may never be one. It gives all of that up when the actor is asked for something more.
        """
        self._silences += 1
        if self._silences.bit_count() == 1:  # the first, second, fourth, eighth ...
            for actor in self._actors:
                actor.is_there.remote()

    @staticmethod
    def _is_gone(actor: Any) -> bool:
        return time.monotonic() - _GONE.get(actor, -_ABSENCE) < _ABSENCE


_HOSTS: dict[tuple[str, str, Callable[[], Any]], RayHost] = {}
"""What this process has hosted, by its connection to a cluster."""


class _Holder:
    """Hold an object in a process of its own, made at its first use: so an error of its making reaches who asks."""

    def __init__(self, make: bytes) -> None:
        self._made = lru_cache(lambda: pickle.loads(make)())  # noqa: PLW0108, S301, what is packed may not be found here yet

    def is_there(self) -> bool:
        """Answer that this process runs."""
        return True

    def answer(self, here: Surroundings, function: bytes, task: bytes) -> bytes:
        """Return what a function gives for the object and a task."""

        def work() -> Any:
            here.take_over()
            return pickle.loads(function)(self._made(), pickle.loads(task))  # noqa: S301, as for a task

        return answer(work, WHERE)


class _Room:
    """How many tasks may be under way: some more than the cores of the cluster, but no more than the workers asked."""

    def __init__(self, ray: Any, workers: int | None) -> None:
        self._ray, self._workers = ray, workers
        self._size, self._seen = 0, -LOOK_AROUND
        self._empty_since: float | None = None
        if self._cores() < 1:
            raise ConfigError(
                "The Ray cluster has no core to run a task on. Add a node with cores, or leave run.address out to "
                "start a cluster on this machine."
            )

    def size(self) -> int:
        if time.monotonic() - self._seen >= LOOK_AROUND:
            cores = self._cores()
            self._require_cores(cores)
            cores = max(1, cores)
            asked = cores if self._workers is None else self._workers
            self._size, self._seen = asked if asked < cores else _QUEUED * cores, time.monotonic()
        return self._size

    def _require_cores(self, cores: int) -> None:
        """Give up once the cluster has had no core for too long; how long a task takes does not matter."""
        if cores:
            self._empty_since = None
            return
        now = time.monotonic()
        if self._empty_since is None:
            self._empty_since = now
        if now - self._empty_since >= _EMPTY:
            raise IncompleteError(
                f"The Ray cluster has had no core to run a task on for {_EMPTY:.0f} seconds: its nodes ended. Add a "
                "node with cores, or leave run.address out to start a cluster on this machine. What was done is kept: "
                "the same command goes on from there."
            )

    def _cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))


def _remote(ray: Any, retries: int) -> Any:
    return ray.remote(num_cpus=1, max_retries=retries)(_attempt)


def _attempt(here: Surroundings, shared: list[Any], packed: bytes) -> bytes:
    """Run a task at a worker."""

    def work() -> Any:
        here.take_over()
        function, task = _unpacked(shared[0], packed)
        return function(task)

    return answer(work, WHERE)


def _unpacked(shared: Any, packed: bytes) -> tuple[Callable[[Any], Any], Any]:
    try:
        return _fetched(shared), pickle.loads(packed)  # noqa: S301, whoever may send tasks may run any code here
    except (ImportError, AttributeError, load_ray().exceptions.RaySystemError) as error:
        raise ConfigError(
            f"A worker of the Ray cluster could not load its task: {last_line(error)}. Install the same packages on "
            "every node."
        ) from error


@lru_cache(maxsize=1)
def _fetched(shared: Any) -> Callable[[Any], Any]:
    """Return the function of a run; a worker unpacks it once, and its arrays are those in the node's memory."""
    function: Callable[[Any], Any] = load_ray().get(shared)
    return function
