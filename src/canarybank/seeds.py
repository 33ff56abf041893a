"""Derive every simulated random stream from one root seed and a path of names.

Two paths give independent streams, and a path gives the same stream on any number of workers and in any
order of work. Real releases never come here: they draw from the operating system (see ``evolve``).
"""

import hashlib
from typing import Any

import numpy as np

__all__ = ["GOLDEN", "mixed", "sequence", "stream"]

GOLDEN = -0x61C8864680B583EB
"""The step of SplitMix64 as an int64: word n of a stream is ``mixed(start + GOLDEN * n)``."""


def sequence(seed: int, *path: str | int) -> np.random.SeedSequence:
    """Return the seed sequence that stands at a path under a root seed."""
    return np.random.SeedSequence(entropy=seed, spawn_key=tuple(_word(part) for part in path))


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """Return a fresh generator for the stream at a path under a root seed."""
    return np.random.Generator(np.random.PCG64DXSM(sequence(seed, *path)))


def mixed(words: Any) -> Any:
    """Return the finaliser of SplitMix64 of a torch tensor of int64, whose arithmetic wraps: alike on every device."""
    bits = (words ^ ((words >> 30) & (2**34 - 1))) * -0x40A7B892E31B1A47
    bits = (bits ^ ((bits >> 27) & (2**37 - 1))) * -0x6B2FB644ECCEEE15
    return bits ^ ((bits >> 31) & (2**33 - 1))


def _word(part: str | int) -> int:
    # Names and numbers live in different halves, so that the path ("3",) is not the path (3,).
    if isinstance(part, int):
        return part
    return 2**32 + int.from_bytes(hashlib.sha256(part.encode()).digest()[:8], "big")
