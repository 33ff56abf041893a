"""Say how to load an encoder, so that every worker process loads it once, and encode what a shard holds."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from canarybank.encode.cache import VectorCache
from canarybank.encode.cached import BLOCK_TEXTS, CachedEncoder, encode_blocks
from canarybank.encode.load import load_encoder
from canarybank.encode.protocol import Encoder, Vectors, check_texts, is_cheap, is_isolated
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
    host: Host | None = None
    """Where the encoder is loaded, if not in each process that uses it."""

    def hosted_on(self, engine: Engine) -> "EncoderRecipe":
        """Return the recipe for the workers of an engine: where that has GPUs, they ask an encoder on each GPU.

        An encoder that is cheap, or that shall run on another device, is loaded by each worker. So is an isolated one,
        unless it is on a GPU in this process: its bits, and so its fingerprint, are those of its device.
        """
        own = self.load()
        device = getattr(own, "device", None) if self.isolated else self.device
        if is_cheap(own) or not (device or "cuda").startswith("cuda"):
            return self
        return replace(self, host=host_on(engine, self.load))

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
        """Return one float32 unit vector a text, in order.

        A cheap encoder is asked for every text. What others made goes through the vector cache, one thread at a time.
        """
        encoder = self.load()
        if not is_cheap(encoder):
            with _LOCK:
                place = (self, cache_root())
                if place not in _CACHED:
                    _CACHED[place] = CachedEncoder(encoder, VectorCache())
                return _CACHED[place].encode(texts)
        found = np.empty((len(texts), encoder.dimension), dtype=np.float32)
        for positions, vectors in encode_blocks(encoder, texts):
            found[positions] = vectors
        return found


class HostedEncoder:
    """An encoder that is loaded elsewhere, once on each device: texts are sent there, and vectors come back."""

    def __init__(self, host: Host) -> None:
        self._host = host
        ((_, facts),) = host.run(_facts, [None])
        self.name, self.dimension, self.fingerprint, self.isolated, self.block = facts

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order; blocks are those that the encoder asks for."""
        checked = check_texts(texts)
        blocks = [checked[start : start + self.block] for start in range(0, len(checked), self.block)]
        found = dict(self._host.run(_encode, blocks))
        rows = [found[index] for index in range(len(blocks))]
        return np.concatenate(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)


def _facts(encoder: Encoder, _: None) -> tuple[str, int, str, bool, int]:
    block: int = getattr(encoder, "block", BLOCK_TEXTS)
    return encoder.name, encoder.dimension, encoder.fingerprint, is_isolated(encoder), block


def _encode(encoder: Encoder, texts: list[str]) -> Vectors:
    return encoder.encode(texts)
