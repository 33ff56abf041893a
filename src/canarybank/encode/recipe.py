"""Say how to load an encoder, so that every worker process loads it once, and encode what a shard holds."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from canarybank.encode.cache import VectorCache
from canarybank.encode.cached import CachedEncoder, encode_blocks
from canarybank.encode.load import load_encoder
from canarybank.encode.protocol import Encoder, Vectors, is_cheap
from canarybank.errors import InputError
from canarybank.store import cache_root

__all__ = ["EncoderRecipe"]

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
