"""Tasks that a test sends to the workers of a cluster; they stand here so that a worker can import them."""

import operator
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from canarybank.encode import HashingEncoder
from canarybank.engine import Processes, Serial
from canarybank.errors import DataError
from canarybank.generate import Response

UNPACKED = Counter()


@dataclass(frozen=True)
class Joining(Serial):
    """An engine that has to join something before it works."""

    address: str | None = None
    joined: list[str] = field(default_factory=list)

    def connect(self):
        self.joined.append(self.address)

    def run(self, function, tasks):
        assert self.joined, "nothing is joined"
        yield from super().run(function, tasks)


def draw(task):
    """Return numbers that follow from the task alone, after some time."""
    seed, seconds = task
    time.sleep(seconds)
    return np.random.default_rng(seed).normal(size=1_000).tobytes()


@dataclass(frozen=True)
class Signed:
    """Draw, and leave the worker's process number in a folder while at it."""

    folder: Path

    def __call__(self, task):
        (self.folder / str(os.getpid())).touch()
        return draw(task)


def refuse(task):
    """Raise one of our own errors."""
    raise DataError(f"Row {task} holds no text; remove it.")


class StubbornError(Exception):
    """An error that cannot be copied."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


def be_stubborn(task):
    raise StubbornError(task, "two")


def end(_task):
    """End the worker."""
    os._exit(1)


def die_at_first(folder, task):
    """End the worker at every third task, when that comes for the first time."""
    mark = folder / str(task)
    if task % 3 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * task


def process_number(_task):
    """Return the number of the worker's process."""
    time.sleep(0.02)
    return os.getpid()


def added(much, task):
    """Return the sum, after a moment."""
    time.sleep(0.001)
    return much + task


def nested(count):
    """Return what as many tasks give on processes of this process."""
    return [task for _, task in sorted(Processes(1).run(operator.index, range(count)))]


class Unreadable:
    """A result that cannot be unpacked where it was asked for."""

    def __reduce__(self):
        return refuse_to_open, ()


def refuse_to_open():
    raise OSError("This cannot be read here.")


def unreadable(_task):
    """Return a result that cannot be unpacked."""
    return Unreadable()


def interrupt(_task):
    """Be interrupted."""
    raise KeyboardInterrupt


def interval(task):
    """Return when the task began and ended."""
    began = time.monotonic()
    time.sleep(task)
    return began, time.monotonic()


def surroundings(_task):
    """Return where a worker is."""
    return os.environ.get("CANARYBANK_CACHE"), str(Path.cwd())


def ask(host, tasks):
    """Return what the numbers that a host holds give with each task."""
    return sorted(host.run(operator.add, tasks))


class Heavy:
    """Something large that is bound to a function, and counts how often a process unpacks it."""

    def __init__(self):
        self.array = np.arange(100_000)

    def __setstate__(self, state):
        self.__dict__ |= state
        UNPACKED["heavy"] += 1

    def __call__(self, task):
        return os.getpid(), UNPACKED["heavy"], int(self.array[task])


LOADS = "CANARYBANK_TEST_LOADS"


def sign():
    """Leave this process's number in the folder that the test named, once for each load."""
    (Path(os.environ[LOADS]) / f"{os.getpid()}.{time.monotonic_ns()}").touch()


class SlowToLoad(HashingEncoder):
    """An encoder that is worth a place of its own."""

    cheap = False

    def __post_init__(self):
        super().__post_init__()
        sign()


class Writer:
    """A generator that is worth a place of its own."""

    on_gpu = True
    in_process = True
    name, fingerprint, server = "writer", "f" * 64, None

    def __init__(self, _section):
        self._loaded = False

    def generate(self, requests):
        if not self._loaded:
            self._loaded = True
            sign()
        for index in reversed(range(len(requests))):
            yield index, Response(requests[index].prompt.upper())
