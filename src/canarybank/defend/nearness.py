"""Compare the vectors of each entry with those of the other entries of its bank, and with public records."""

import numpy as np
from numpy.typing import NDArray

from canarybank.mechanism.routing import nearest
from canarybank.mechanism.vectors import Vectors

__all__ = ["closest", "similarity_of_share", "vote_margins"]

REFERENCE = 1024
"""How many entries stand for the whole bank where a share of it is looked for."""
RECORDS = 4096
"""How many public records are asked for their votes."""
_CHUNK = 1 << 23

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def closest(vectors: Vectors, others: Vectors, count: int, own: Ints | None = None) -> tuple[Ints, Floats]:
    """Return the ``count`` most similar of the other vectors for each vector, most similar first, with their cosines.

    Args:
        vectors: Unit vectors.
        others: Unit vectors among which to look.
        count: How many to return; at most all others.
        own: Where each vector stands among the others itself, a place that does not count; left out, nowhere.
    """
    found = nearest(vectors, others, count + (own is not None))
    if own is not None:
        # A vector with many copies may not find itself: then the last one makes room.
        is_own = found == own[:, None]
        is_own[~is_own.any(axis=1), -1] = True
        found = found[~is_own].reshape(len(found), count)
    cosines = np.einsum("id,ijd->ij", vectors, others[found], dtype=np.float64) if found.size else np.empty(found.shape)
    return found, cosines


def similarity_of_share(vectors: Vectors, others: Vectors, share: float) -> Floats:
    """Return the similarity that a share of the others exceed: how near the nearest such share of them is.

    At most REFERENCE of the others are looked at, evenly spaced. A group that is smaller than the share cannot make its
    own members look near.
    """
    few = others[:: max(1, -(-len(others) // REFERENCE))]
    rank = min(len(few) - 1, max(1, round(share * len(few))))
    result = np.empty(len(vectors))
    step = max(1, _CHUNK // len(few))
    for start in range(0, len(vectors), step):
        cosines = vectors[start : start + step] @ few.T
        result[start : start + step] = np.partition(cosines, len(few) - 1 - rank, axis=1)[:, len(few) - 1 - rank]
    return result


def vote_margins(vectors: Vectors, rivals: Vectors, records: Vectors, k: int) -> Floats:
    """Return how near each entry comes to the vote of any record: above zero it gets one.

    A record votes for its k nearest entries. The margin of an entry with a record is its similarity less that of the
    k-th nearest other entry; the largest over all records counts. At most RECORDS records are asked, evenly spaced.

    Args:
        vectors: Unit vectors of the entries.
        rivals: Unit vectors of the whole bank, the entries among them or not.
        records: Unit vectors of public records.
        k: How many entries a record votes for.
    """
    few = records[:: max(1, -(-len(records) // RECORDS))]
    best = np.full(len(vectors), -np.inf)
    step = max(1, _CHUNK // max(len(vectors), len(rivals)))
    for start in range(0, len(few), step):
        asked = few[start : start + step]
        top = -np.partition(-(asked @ rivals.T), (k - 1, k), axis=1)[:, k - 1 : k + 1]
        cosines = asked @ vectors.T
        # An entry that is among the k nearest itself stands against the next one.
        rival = np.where(cosines >= top[:, :1], top[:, 1:], top[:, :1])
        best = np.maximum(best, (cosines - rival).max(axis=0))
    return best
