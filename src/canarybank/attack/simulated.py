"""Stand in for an encoder and a generator where an audit has only vectors, and no text.

What these make is a simulation, and a result built on it must say so. The geometry is the one that real encoders
show. Nonces crowd together, away from natural text: a vector is a direction shared by all of them, plus a spread of
its own. Independent isotropic directions would not do, because in many dimensions they lie as far from each other as
from everything else, and no nonce would be another's neighbour. A paraphrase is its record, slightly turned.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.attack.canary import Canary
from canarybank.attack.nonce import Encode
from canarybank.attack.pool import Pool, PoolSource
from canarybank.errors import InputError
from canarybank.mechanism.vectors import check_vectors
from canarybank.seeds import stream

__all__ = ["NONCE_SPREAD", "PARAPHRASE_SPREAD", "simulated_nonces", "simulated_paraphrases"]

NONCE_SPREAD = 0.25
PARAPHRASE_SPREAD = 0.35


def simulated_nonces(bank: ArrayLike, seed: int, spread: float = NONCE_SPREAD) -> Encode:
    """Return an encoder of nonces for a bank of bare vectors.

    Every text becomes ``radius * unit(g + spread * z)``: g a unit direction drawn by seed at right angles to the bank's
    mean, z the text's own isotropic vector of unit expected square norm, radius the bank's median norm. Two nonces
    have a cosine of about 1 / (1 + spread^2). The same text always gets the same vector.

    Args:
        bank: The vectors of the bank's entries.
        seed: Draws the direction.
        spread: How far nonces lie from each other.

    Example:
        >>> import numpy as np
        >>> encode = simulated_nonces(np.eye(4), seed=0)
        >>> bool((encode(["x7"]) == encode(["x7"])).all())
        True
    """
    natural = check_vectors(bank, "bank entry").astype(np.float64)
    if natural.shape[1] < 2:  # noqa: PLR2004, a right angle needs a plane
        raise InputError("Simulated nonces need vectors of dimension 2 or more; these have 1.")
    _require_spread(spread)
    radius = float(np.median(np.linalg.norm(natural, axis=1))) or 1.0
    centre = _aside(natural.mean(axis=0), stream(seed, "simulated", "nonces"))

    def encode(texts: Sequence[str]) -> NDArray[np.floating]:
        own = np.array([_direction(text, seed, len(centre)) for text in texts])
        return radius * _unit(centre + spread * own)

    return encode


def simulated_paraphrases(spread: float = PARAPHRASE_SPREAD) -> PoolSource:
    """Return the source of pools that hold turned copies of the canary's records, spread evenly over them.

    Candidate j rewrites record j modulo their number m: ``x + spread * |x| * z``, scaled back to the norm of x, with z
    isotropic and of unit expected square norm.

    Args:
        spread: How far a copy is turned away from its record.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import Canary
        >>> len(simulated_paraphrases()(Canary(np.eye(3)), 6, 0))
        6
    """
    _require_spread(spread)

    def source(canary: Canary, size: int, seed: int) -> Pool:
        sources = np.arange(size) % len(canary)
        records = canary.vectors[sources].astype(np.float64)
        norms = np.linalg.norm(records, axis=1, keepdims=True)
        rng = stream(seed, "simulated", "paraphrases", canary.id)
        turn = rng.standard_normal(records.shape) / np.sqrt(records.shape[1])
        return Pool(vectors=norms * _unit(records + spread * norms * turn), sources=tuple(sources))

    return source


def _aside(mean: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a random unit vector at right angles to a mean."""
    drawn = rng.standard_normal(len(mean))
    square = float(mean @ mean)
    return _unit(drawn - mean * (drawn @ mean) / square if square else drawn)


def _direction(text: str, seed: int, dimension: int) -> NDArray[np.float64]:
    name = hashlib.sha256(text.encode()).hexdigest()
    drawn: NDArray[np.float64] = stream(seed, "simulated", "nonce", name).standard_normal(dimension)
    drawn /= np.sqrt(dimension)
    return drawn


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: NDArray[np.float64] = vectors / np.where(norms > 0, norms, 1.0)
    return result


def _require_spread(spread: float) -> None:
    if not (np.isfinite(spread) and spread > 0):
        raise InputError(f"The spread must be positive and finite, not {spread}.")
