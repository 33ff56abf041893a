"""Make nonces: high-entropy strings that resemble no natural text, for canaries and for pools.

A nonce is ``NONCE_LENGTH`` characters drawn uniformly from ``NONCE_ALPHABET``: 32 of 62 characters, 190 bits. The
nonces of a canary and those of its pool come from different streams of the seed, so they are independent of each
other and of every user. Texts become vectors by the encoder that is passed in.
"""

import string
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from canarybank.attack.canary import Canary, CanaryKind
from canarybank.attack.pool import Pool, PoolSource
from canarybank.errors import InputError
from canarybank.seeds import stream

__all__ = ["NONCE_ALPHABET", "NONCE_LENGTH", "Encode", "nonce_canary", "nonce_pool", "nonces"]

NONCE_ALPHABET = string.ascii_letters + string.digits
NONCE_LENGTH = 32

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Turn texts into vectors, one row a text."""


def nonces(count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Return strings whose characters are independent and uniform over the alphabet.

    Args:
        count: How many strings.
        rng: Draws the characters.

    Example:
        >>> import numpy as np
        >>> first, second = nonces(2, np.random.default_rng(0))
        >>> len(first) == len(second), first == second
        (True, False)
    """
    if count < 1:
        raise InputError(f"{count} nonces were asked for; ask for at least one.")
    drawn = rng.integers(len(NONCE_ALPHABET), size=(count, NONCE_LENGTH))
    return tuple("".join(NONCE_ALPHABET[i] for i in row) for row in drawn)


def nonce_canary(records: int, encode: Encode, seed: int, index: int = 0, name: str = "nonce") -> Canary:
    """Return the synthetic user at an index under a seed and a name, whose records are fresh nonces.

    The name is that of the attack: attacks of different names get different nonces, and so do their pools.

    Args:
        records: How many records it has.
        encode: The encoder.
        seed: The root of its texts.
        index: The number of the canary.
        name: The attack's name.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> canary = nonce_canary(4, HashingEncoder().encode, seed=0)
        >>> len(canary), len(set(canary.texts))
        (4, 4)
    """
    texts = nonces(records, stream(seed, name, "canary", index))
    return Canary(vectors=_encoded(encode, texts), texts=texts, id=f"{name}-{index}", kind=CanaryKind.NONCE)


def nonce_pool(encode: Encode) -> PoolSource:
    """Return the source of pools of fresh nonces, independent of the canary's own and different for each canary.

    Args:
        encode: The encoder.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> encode = HashingEncoder().encode
        >>> pool = nonce_pool(encode)(nonce_canary(4, encode, seed=0), 10, 0)
        >>> len(pool)
        10
    """

    def source(canary: Canary, size: int, seed: int) -> Pool:
        texts = nonces(size, stream(seed, "nonce", "pool", canary.id))
        return Pool(vectors=_encoded(encode, texts), texts=texts)

    return source


def _encoded(encode: Encode, texts: Sequence[str]) -> NDArray[np.float32]:
    vectors = np.asarray(encode(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"The encoder returned an array of shape {vectors.shape} for {len(texts)} nonces; one row each is due."
        )
    return vectors
