"""What travels between the process that asks and its workers: their surroundings, answers and errors."""

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from canarybank.errors import ConfigError

__all__ = ["Surroundings", "answer", "portable"]

_VARIABLES = "CANARYBANK_"
_ALWAYS = ("canarybank", "numpy", "scipy")
_MODELS = ("torch", "transformers", "tokenizers", "sentence-transformers", "wordllama")
"""What decides the bits of vectors and is not installed everywhere; compared where both sides have it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker must have in common with the process that asks."""

    software: tuple[tuple[str, str | None], ...]
    """The versions of what decides the bits of a result; None where a package is not installed."""
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
            for (name, there), (_, here) in zip(self.software, own, strict=True):
                if there != here and (name not in _MODELS or (there and here)):
                    raise ConfigError(
                        f"A worker has {name} {here or 'not installed'}, and the process that asks has "
                        f"{there or 'none'}; results could differ. Install the same version on every node."
                    )
        given = dict(self.variables)
        for name in [name for name in os.environ if name.startswith(_VARIABLES) and name not in given]:
            del os.environ[name]
        os.environ.update(given)
        if os.path.isdir(self.folder):  # noqa: PTH112, as above
            os.chdir(self.folder)
        sys.path.extend(place for place in self.modules if place not in sys.path)


def answer(work: Callable[[], Any], where: str) -> bytes:
    """Return what some work gave at a worker, or the error that it raised, in a form that travels.

    These are bytes, so that nothing of them stays in a cluster's memory once they are read.

    Args:
        work: What the worker does.
        where: The kind of worker, for the note at an error.
    """
    try:
        return pickle.dumps((True, work()), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001, whatever a task raises is raised again where the results are asked for
        return pickle.dumps((False, portable(error, where)), pickle.HIGHEST_PROTOCOL)


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


@cache
def _software() -> tuple[tuple[str, str | None], ...]:
    """Return the versions that decide the bits of a result."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (("Python", python), *((name, _version(name)) for name in (*_ALWAYS, *_MODELS)))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
