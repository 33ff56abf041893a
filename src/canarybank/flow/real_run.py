"""Hold a real evolution to its promise: nothing leaves but the release.

A real run is an evolution without ``evolve.insecure_seed``. All that it writes, sends or prints is a function of public
inputs and of noisy releases. What is chosen from users is therefore declared public by the configuration, or refused
here before anything is read; and work on users' records shows no count, no duration and no words of theirs.
"""

import contextlib
import logging
import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.config.model import Config
from canarybank.encode import CachedEncoder, Encoder, EncoderRecipe, is_isolated
from canarybank.encode.load import is_vector_file
from canarybank.engine import Engine, Host, host_on
from canarybank.errors import ColumnError, ConfigError, DataError, MissingError
from canarybank.evolution import Ballot, VotingUsers
from canarybank.mechanism import Bank, Mechanism
from canarybank.progress import SILENT, Progress
from canarybank.users import Users

__all__ = [
    "HiddenEngine",
    "HiddenVoters",
    "encode_users",
    "hidden",
    "is_real",
    "require_isolated",
    "require_private",
]

Task = TypeVar("Task")
Result = TypeVar("Result")

_STOPS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends the process, or a generator, and says nothing about users; signals raise a ``KeyboardInterrupt``."""
_NO_GPU_MEMORY = "OutOfMemoryError"
"""What torch calls its error, which is no ``MemoryError``."""
_VOTE = "counting votes"
_PROCESS = secrets.token_hex(8)
"""Tells this process from others: those on other machines may have its number."""
_INSTEAD = "Or add --insecure-seed 0 for a simulation, which stamps every output and is not private."


def is_real(config: Config) -> bool:
    """Say whether an evolution under this configuration is a real one: its noise comes from no seed."""
    return config.evolve.insecure_seed is None


def require_private(config: Config) -> None:
    """Refuse a real run in which something that leaves would be chosen from users without noise.

    Raises:
        ConfigError: With what to set instead. A simulation is never refused.
    """
    if is_real(config) and (refusals := _refusals(config)):
        raise ConfigError(" ".join((*refusals, _INSTEAD)))


def _refusals(config: Config) -> list[str]:
    """Say why a real run cannot have this configuration, and what to set, for each key that it cannot have."""
    users, evolve, encoder = config.users, config.evolve, config.encoder.name
    rules = (
        (
            bool(evolve.audit),
            (
                f"The audit by {', '.join(evolve.audit)} is a simulation: it plants probes, and its exact figures "
                "would reveal what noise hides about the voters. Leave evolve.audit out."
            ),
        ),
        (
            users.limit is not None,
            (
                "users.limit cannot be used in a real run: when one user comes, another one falls out, so the ledger's "
                "epsilon would not hold. Leave it out; to use fewer users in each round, lower mechanism.q."
            ),
        ),
        (
            users.strict is True,
            (
                "users.strict cannot be true in a real run: one user's broken line would stop it, and that tells "
                "something about the user. Leave it out; broken lines are then skipped."
            ),
        ),
        (
            evolve.reference > 0,
            (
                "evolve.reference cannot be used in a real run: the held-out users displace each other, and their "
                "figures carry no noise. Set evolve.reference to 0."
            ),
        ),
        (
            evolve.users is not None and evolve.population is None,
            (
                "evolve.users needs evolve.population in a real run: how many users the file holds must not leave. Set "
                "evolve.population to a number that you declare public, or set mechanism.q in place of evolve.users."
            ),
        ),
        (
            is_vector_file(encoder),
            (
                f"The file of vectors {encoder!r} cannot be the encoder of a real run: a text without a vector would "
                "stop it. Set encoder.name to a model, such as wordllama."
            ),
        ),
    )
    return [sentence for is_refused, sentence in rules if is_refused]


def require_isolated(encoder: Encoder) -> None:
    """Refuse an encoder whose vector of one text depends on the texts beside it: one user could move another's."""
    if not is_isolated(encoder):
        raise ConfigError(
            f"The encoder {encoder.name} cannot be used in a real run: its vector of a text depends on the texts that "
            f"are encoded with it. Set encoder.name to another, such as wordllama. {_INSTEAD}"
        )


def encode_users(users: Users, encoder: CachedEncoder | EncoderRecipe) -> Users:
    """Return users with vectors. A record that cannot be encoded casts no vote, and neither does who has no other.

    The encoder must be isolated: then a record's vector, or that it has none, follows from its own text alone.
    """
    texts = users.require_texts()
    with _FailingSilently():  # one text is at fault; encoded one by one, each speaks for itself
        return users.with_vectors(encoder.encode(texts) if texts else np.zeros((0, encoder.dimension)))
    vectors = {}
    for place, text in enumerate(texts):
        with _FailingSilently():
            (vector,) = encoder.encode([text])
            if np.isfinite(vector).all():
                vectors[place] = vector
    kept = np.array(list(vectors.values()), dtype=np.float32).reshape(len(vectors), encoder.dimension)
    return users.keep_records(list(vectors)).with_vectors(kept)


class _FailingSilently:
    """Drop every error in the context, panics of libraries in Rust included, which are no ``Exception``."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        # A GPU without memory says nothing about a text: what it would cost is the vote of whoever came last.
        return kind is not None and not issubclass(kind, _STOPS) and kind.__name__ != _NO_GPU_MEMORY


@contextmanager
def hidden(name: str, progress: Progress) -> Iterator[None]:
    """Show work on users' records as a step without counts or times, and its errors without anything of theirs.

    Warnings, log messages and all that is printed meanwhile are dropped, because one record can cause them. A panic
    of a library in Rust is an error like any other, although it is no ``Exception`` and prints its own text.
    Errors about columns come from a file's header or schema, and errors about missing packages from neither: both
    pass.
    """
    with progress.step(name), _without_warnings(), _without_output():
        try:
            yield
        except (ColumnError, MissingError, *_STOPS):
            raise
        except BaseException:  # noqa: BLE001, whatever it says may be about a record
            raise DataError(
                f"The step '{name}' failed. A real run does not say why, because the reason may tell what a record "
                "holds. Run the same command again: it goes on, and makes again what the cache has lost. If it fails "
                "again, run it with --insecure-seed 0 and another --folder to see why; keep what that prints to "
                "yourself."
            ) from None


@dataclass(frozen=True, eq=False)
class HiddenVoters:
    """The users of a real run: their votes are counted in private, wherever they lie.

    Users in memory and users in shards look the same from outside, because how large the file is decides which it is.
    """

    users: VotingUsers
    progress: Progress = SILENT

    @property
    def ids(self) -> Sequence[str]:
        """Return the users' ids."""
        return self.users.ids

    @property
    def dimension(self) -> int:
        """Return the length of a record's vector."""
        return self.users.dimension

    def __len__(self) -> int:
        return len(self.users)

    def cut(self, cap: int | None) -> "HiddenVoters":
        """Return these users with their first ``cap`` records each, or with all of them."""
        return HiddenVoters(self.users.cut(cap), self.progress)

    def count_votes(self, ballot: Ballot, participants: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the count of the votes of these users."""
        with hidden(_VOTE, self.progress):
            return self.users.count_votes(ballot, participants)

    def probe_contributions(self, bank: Bank, mechanism: Mechanism) -> csr_array:
        """Refuse: what users would contribute without noise is for a simulation alone."""
        del bank, mechanism
        raise ConfigError(f"A real run does not show what its users would contribute. {_INSTEAD}")


@dataclass(frozen=True)
class HiddenEngine:
    """Run private work on another engine: what its workers print is dropped, and their errors say nothing of it.

    Work in this process is hidden by whoever asks for it.
    """

    engine: Engine

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each task with its result, in the order in which they finish."""
        return self.engine.run(_HiddenWork(function, (_PROCESS, os.getpid())), tasks)

    def host(self, make: Callable[[], Any]) -> Host | None:
        """Return what holds an object elsewhere, where the engine has such a place; its work is hidden too."""
        found = host_on(self.engine, make)
        return None if found is None else HiddenHost(found)


@dataclass(frozen=True)
class HiddenHost:
    """Run private work on objects that are held elsewhere."""

    host: Host

    def run(self, function: Callable[[Any, Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[int, Result]]:
        """Yield the index of each task with what the function gives for a held object and the task, as they finish."""
        return self.host.run(_HiddenWork(function, (_PROCESS, os.getpid())), tasks)


@dataclass(frozen=True)
class _HiddenWork(Generic[Result]):
    function: Callable[..., Result]
    process: tuple[str, int]

    def __call__(self, *given: Any) -> Result:
        if (_PROCESS, os.getpid()) == self.process:
            return self.function(*given)
        with hidden(_VOTE, SILENT):
            return self.function(*given)


@contextmanager
def _without_warnings() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _without_output() -> Iterator[None]:
    """Drop what is written to the standard streams: by Python, and by others straight to descriptors 1 and 2."""
    saved: dict[int, int] = {}
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.ExitStack() as stack:
        _flush()
        stack.enter_context(contextlib.redirect_stdout(nowhere))
        stack.enter_context(contextlib.redirect_stderr(nowhere))
        try:
            for descriptor in (1, 2):
                with contextlib.suppress(OSError):  # one that is closed
                    saved[descriptor] = os.dup(descriptor)
                    os.dup2(nowhere.fileno(), descriptor)
            yield
        finally:
            _flush()  # what stands in a buffer goes the same way
            for descriptor, copy in saved.items():
                os.dup2(copy, descriptor)
                os.close(copy)


def _flush() -> None:
    for stream in (sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
