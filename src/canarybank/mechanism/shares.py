"""Route records over each user's own set of bank entries: the secret share.

At every release each user draws a new set, in which each entry is with probability f, independently, and their records
vote for the nearest entries in it. Nobody else knows the set, and it is kept nowhere: a set that stayed the same would
be learnt from the releases.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.contributions import NO_ENTRY
from canarybank.mechanism.routing import route

__all__ = ["first_chosen", "ranks_needed", "route_within"]

MARGIN = 6.0
MOST_RANKS = 1 << 22
"""Records are ranked as many at a time as have about this many ranks together: a thin share asks for deep rankings."""


def route_within(
    records: ArrayLike, owners: ArrayLike, bank: Bank, k: int, chosen: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the k nearest entries of each record among those that its owner may vote for, shape (n, k).

    They stand nearest first, ties to the lowest index, and ``NO_ENTRY`` behind them where an owner has fewer than k.
    Entries that the bank bars are in nobody's set.

    Args:
        records: The vectors of the records.
        owners: The row of ``chosen`` that each record goes by.
        bank: The bank.
        k: How many entries a record votes for.
        chosen: Which entries each user may vote for, shape (users, bank size).

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Bank
        >>> bank = Bank(np.array([[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]]))
        >>> may = np.array([[True, False, True]])
        >>> route_within([[1.0, 0.0]], [0], bank, 2, may).tolist()
        [[2, 0]]
    """
    vectors, owner = np.asarray(records), np.asarray(owners, dtype=np.int64)
    if chosen.ndim != 2 or chosen.shape[1] != bank.size or chosen.dtype != np.bool_:  # noqa: PLR2004, two axes
        raise InputError(
            f"The sets of entries must be a table (users, {bank.size}) of true and false, not {chosen.dtype} of shape "
            f"{chosen.shape}."
        )
    result = np.full((len(vectors), k), NO_ENTRY, dtype=np.int64)
    left, entries = np.arange(len(vectors)), len(bank.open)
    depth = min(entries, ranks_needed(k, float(chosen.mean()) if chosen.size else 1.0))
    while len(left):
        for rows in np.array_split(left, min(len(left), math.ceil(len(left) * depth / MOST_RANKS))):
            ranked = route(vectors[rows], bank, depth)
            result[rows] = first_chosen(ranked, chosen[owner[rows, None], ranked], k)
        left = left[result[left, -1] == NO_ENTRY] if depth < entries else left[:0]
        depth = min(entries, 4 * depth)
    return result


def ranks_needed(k: int, share: float) -> int:
    """Return how deep a ranking must go, so that fewer than k of its entries are in a set once in a million times.

    The number of them is binomial; six standard deviations and six entries to spare cover every share and k.
    """
    if share <= 0:
        return k
    mean = k + MARGIN + MARGIN * math.sqrt(k + MARGIN)
    return max(k, math.ceil(mean / share)) if share < 1 else k


def first_chosen(ranked: NDArray[np.int64], inside: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    """Return the first k entries of each row that are inside the set, ``NO_ENTRY`` where there are fewer."""
    order = np.argsort(~inside, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(ranked, order, axis=1)
    found[~np.take_along_axis(inside, order, axis=1)] = NO_ENTRY
    if found.shape[1] < k:
        found = np.pad(found, ((0, 0), (0, k - found.shape[1])), constant_values=NO_ENTRY)
    return found
