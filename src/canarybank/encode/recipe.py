"""Say how to load an encoder, so that every worker process loads it once, and encode what a shard holds."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.cache import VectorCache
from canarybank.encode.cached import BLOCK_TEXTS, CachedEncoder, encode_blocks
from canarybank.encode.load import load_encoder
from canarybank.encode.low_precision import Question, answer_texts
from canarybank.encode.protocol import (
    Encoder,
    FastEncoder,
    Vectors,
    check_texts,
    fast_encoder_of,
    is_cheap,
    is_isolated,
)
from canarybank.engine import Engine, Host, host_on
from canarybank.errors import InputError
from canarybank.store import cache_root

__all__ = ["EncoderRecipe", "HostedEncoder"]

_LOADED: dict["EncoderRecipe", Encoder] = {}
_CACHED: dict[tuple["EncoderRecipe", Path], CachedEncoder] = {}
_LOCK = threading.RLock()


@dataclass(frozen=True, slots=True)
class EncoderRecipe:
    """What ``load_encoder`` is told, and the fingerprint of what it must give: small enough to be sent to a worker."""

    name: str
    fingerprint: str
    device: str | None = None
    batch_size: int | None = None
    precision: str = "float32"
    isolated: bool = False
    keep: bool | None = None
    """True: vectors go through the vector cache. False: never. None: they do unless a fast encoder is used. Those of a
    cheap encoder never do."""
    host: Host | None = None
    """Where the encoder is loaded, if not in each process that uses it."""

    @property
    def key(self) -> list[Any]:
        """Return what vectors depend on: the encoder, and whether they are kept, for that decides how they are made."""
        return [self.fingerprint, None if is_cheap(self.load()) else self.keep]

    def hosted_on(self, engine: Engine) -> "EncoderRecipe":
        """Return the recipe for the workers of an engine: where that has GPUs, they ask an encoder on each GPU.

        An encoder that is cheap, or that shall run on another device, is loaded by each worker. So is an isolated one,
        unless it is on a GPU in this process: its bits, and so its fingerprint, are those of its device.
        """
        own = self.load()
        device = getattr(own, "device", None) if self.isolated else self.device
        if is_cheap(own) or not (device or "cuda").startswith("cuda"):
            return self
        # A worker that holds an encoder on a GPU sees that one alone, whatever number it has here.
        there = self if self.device is None else replace(self, device="cuda")
        return replace(self, host=host_on(engine, _Load(there)))

    @property
    def dimension(self) -> int:
        """Return the length of a vector."""
        return self.load().dimension

    def provide(self, encoder: Encoder) -> None:
        """Use an encoder that is loaded already wherever this process follows the recipe."""
        with _LOCK:
            _LOADED[self] = encoder

    def load(self) -> Encoder:
        """Return the encoder; it is loaded once in each process."""
        with _LOCK:
            if self not in _LOADED and self.host is not None:
                _LOADED[self] = HostedEncoder(self.host)
            if self not in _LOADED:
                made = load_encoder(
                    self.name,
                    device=self.device,
                    batch_size=self.batch_size,
                    precision=self.precision,
                    isolated=self.isolated,
                )
                if made.fingerprint != self.fingerprint:
                    raise InputError(
                        f"The encoder {self.name!r} of this worker is not that of the run: its fingerprint is "
                        f"{made.fingerprint[:12]} and not {self.fingerprint[:12]}. Give all workers the same version "
                        "and the same model."
                    )
                _LOADED[self] = made
            return _LOADED[self]

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one float32 unit vector a text, in order, through the vector cache where vectors are kept.

        Threads take turns at an encoder that is not cheap.
        """
        encoder = self.load()
        if is_cheap(encoder):
            return _encode_anew(encoder, texts)
        if self.keep is False:
            return self._encode_in_turn(texts)
        with _LOCK:
            place = (self, cache_root())
            if place not in _CACHED:
                _CACHED[place] = CachedEncoder(encoder, VectorCache())
            return _CACHED[place].encode(texts)

    def answer(self, texts: Sequence[str], question: Question) -> Iterable[NDArray[Any]]:
        """Return the tables that a question gives for the texts' vectors.

        Where ``fast_for`` returns an encoder, texts are encoded in low precision first and no vector is kept.
        """
        fast = self.fast_for(len(texts))
        if fast is None:
            return (table for table, _ in question(self.encode(texts), 0.0))
        return answer_texts(texts, fast, self._encode_in_turn, question)

    def fast_for(self, texts: int) -> FastEncoder | None:
        """Return what encodes so many texts in low precision first; None where vectors are kept, or texts are too few.

        An isolated encoder has none: it serves real releases, and a text that breaks the bound on the drift would end
        the run for everybody to see.
        """
        if self.keep or self.isolated:
            return None
        with _LOCK:
            fast = fast_encoder_of(self.load())
        return None if fast is None or texts < max(1, fast.least_texts) else _OneAtATime(fast)

    def _encode_in_turn(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, of which none is kept."""
        with _LOCK:
            return _encode_anew(self.load(), texts)


@dataclass(frozen=True, slots=True)
class _Load:
    """Load what a recipe says. Equal recipes give equal ones, and so share a host; their bound methods are unequal."""

    recipe: EncoderRecipe

    def __call__(self) -> Encoder:
        return self.recipe.load()


class HostedEncoder:
    """An encoder that is loaded elsewhere, once on each device: texts are sent there, and vectors come back."""

    def __init__(self, host: Host) -> None:
        self._host = host
        ((_, facts),) = host.run(_facts, [None])
        self.name, self.dimension, self.fingerprint, self.isolated, self.block, least = facts
        self.fast_encoder = None if least is None else _HostedFast(self, least)

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order; blocks are those that the encoder asks for."""
        return self.encode_by(_encode, texts)

    def encode_by(self, function: Callable[[Any, list[str]], Vectors], texts: Sequence[str]) -> Vectors:
        """Return the vectors that a function gives there, for the encoder and a block of texts."""
        checked = check_texts(texts)
        blocks = [checked[start : start + self.block] for start in range(0, len(checked), self.block)]
        found = dict(self._host.run(function, blocks))
        rows = [found[index] for index in range(len(blocks))]
        return np.concatenate(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)

    @cached_property
    def drift(self) -> float:
        """Return the bound on the drift of the fast encoder there."""
        ((_, drift),) = self._host.run(_drift, [None])
        return float(drift)


@dataclass(frozen=True, slots=True)
class _HostedFast:
    """The fast encoder of an encoder that is loaded elsewhere."""

    hosted: HostedEncoder
    least_texts: int

    @property
    def drift(self) -> float:
        return self.hosted.drift

    def encode(self, texts: Sequence[str], /) -> Vectors:
        return self.hosted.encode_by(_encode_fast, texts)


@dataclass(frozen=True, slots=True)
class _OneAtATime:
    """A fast encoder that the threads of this process take turns at."""

    fast: FastEncoder

    @property
    def least_texts(self) -> int:
        return self.fast.least_texts

    @property
    def drift(self) -> float:
        with _LOCK:
            return self.fast.drift

    def encode(self, texts: Sequence[str], /) -> Vectors:
        with _LOCK:
            return self.fast.encode(texts)


def _encode_anew(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    found = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    for positions, vectors in encode_blocks(encoder, texts):
        found[positions] = vectors
    return found


def _facts(encoder: Encoder, _: None) -> tuple[str, int, str, bool, int, int | None]:
    block: int = getattr(encoder, "block", BLOCK_TEXTS)
    fast = fast_encoder_of(encoder)
    least = None if fast is None else fast.least_texts
    return encoder.name, encoder.dimension, encoder.fingerprint, is_isolated(encoder), block, least


def _encode(encoder: Encoder, texts: list[str]) -> Vectors:
    return encoder.encode(texts)


def _encode_fast(encoder: Any, texts: list[str]) -> Vectors:
    found: Vectors = encoder.fast_encoder.encode(texts)
    return found


def _drift(encoder: Any, _: None) -> float:
    return float(encoder.fast_encoder.drift)
