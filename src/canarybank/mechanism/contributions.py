"""Turn routes into contributions: each user's normalised, clipped vote histogram."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism.grid import Grid

__all__ = ["NO_ENTRY", "contributions", "shrink_rows", "whole_contributions"]

Whole = NDArray[np.int64]

MOST_PADDING = 4
NO_ENTRY = int(np.iinfo(np.int64).min)
"""Stands in a route where a record has no further entry to vote for."""


def contributions(
    routes: ArrayLike,
    owners: ArrayLike,
    users: int,
    bank_size: int,
    clip: float,
    *,
    entry_cap: float | None = None,
) -> csr_array:
    """Return each user's contribution as a sparse table (users, bank_size).

    The histogram of a user's votes is divided by their number, n·k for n records whose routes are full. Where there is
    an ``entry_cap``, no entry keeps more than that. Then the histogram is scaled down, where need be, to L2 norm
    ``clip``, the norm taken over the full vector. Every row's norm is at most ``clip``, in exact arithmetic and in
    float64 under any order of summation: for that, a row with e entries is scaled to ``clip`` times
    1 - (e + 8)·2^-52. Where a route holds ``NO_ENTRY`` the record casts a vote less; a user without votes contributes
    nothing.

    Args:
        routes: The bank entries that each record votes for, a row each.
        owners: Whose record each row is: a whole number from 0.
        users: How many users there are.
        bank_size: How many entries the bank has.
        clip: The largest L2 norm of a user's contribution.
        entry_cap: The most that a user may give to one entry; left out, there is no cap.

    Example:
        >>> votes = contributions([[0, 1], [0, 2]], owners=[0, 0], users=1, bank_size=4, clip=1.0)
        >>> votes.toarray().round(2).tolist()
        [[0.5, 0.25, 0.25, 0.0]]
    """
    votes, owner = _checked(routes, owners, users, bank_size, clip)
    rows, columns, counts = _histograms(votes, owner, users, bank_size)
    entries = np.bincount(rows, minlength=users)
    cast = np.bincount(rows, weights=counts, minlength=users)
    kept = counts if entry_cap is None else np.minimum(counts, entry_cap * cast[rows])
    norm = np.sqrt(np.bincount(rows, weights=np.square(kept, dtype=np.float64), minlength=users))
    target = clip * (1 - (entries + 8) * np.finfo(np.float64).eps)
    with np.errstate(divide="ignore", invalid="ignore"):  # of users without a vote, who have no row
        scale = np.minimum(1 / cast, target / norm)
    values = kept * scale[rows]
    if entry_cap is not None:
        np.minimum(values, entry_cap, out=values)  # dividing may have rounded upwards
    return csr_array((values, columns, np.concatenate(([0], np.cumsum(entries)))), shape=(users, bank_size))


def whole_contributions(
    routes: ArrayLike,
    owners: ArrayLike,
    users: int,
    bank_size: int,
    grid: Grid,
    *,
    entry_cap: float | None = None,
) -> csr_array:
    """Return each user's contribution on a grid, as a sparse table (users, bank_size) of int64 steps.

    Each entry is that of ``contributions``, clipped to ``grid.radius`` steps and rounded towards zero. Every row's sum
    of squares is at most ``grid.radius``², checked in whole numbers. A row depends on its own user's records alone.

    Args:
        routes: The bank entries that each record votes for, a row each.
        owners: Whose record each row is: a whole number from 0.
        users: How many users there are.
        bank_size: How many entries the bank has.
        grid: The grid of whole steps on which releases are made.
        entry_cap: The most that a user may give to one entry; left out, there is no cap.

    Example:
        >>> from canarybank.mechanism import Grid, Mechanism
        >>> grid = Grid.of(Mechanism())
        >>> steps = whole_contributions([[0, 1]], owners=[0], users=1, bank_size=3, grid=grid)
        >>> int((steps.toarray() ** 2).sum()) <= grid.radius**2
        True
    """
    table = contributions(routes, owners, users, bank_size, grid.radius * grid.step, entry_cap=entry_cap)
    table.data = np.trunc(table.data / grid.step).astype(np.int64)
    shrink_rows(table, grid.radius)
    return table


def shrink_rows(table: csr_array, radius: int) -> None:
    """Move the entries of each row towards zero, step by step, until its sum of squares is at most ``radius``²."""
    sizes = np.diff(table.indptr)
    filled = sizes > 0
    while (over := np.add.reduceat(np.square(table.data), table.indptr[:-1][filled]) > radius * radius).any():
        entries = np.repeat(over, sizes[filled])
        table.data[entries] -= np.sign(table.data[entries])


def _histograms(votes: Whole, owner: Whole, users: int, bank_size: int) -> tuple[Whole, Whole, Whole]:
    # Users, bank entries and how many votes each gave the other, sorted by user and then by entry. Sorting each
    # user's votes in a row of its own is many times as fast as one long sort, unless rows would be mostly padding.
    records = np.bincount(owner, minlength=users)
    if records.max() * users > MOST_PADDING * len(owner):
        cast = votes.ravel() != bank_size
        keys, counts = np.unique((owner.repeat(votes.shape[1]) * bank_size + votes.ravel())[cast], return_counts=True)
        return *np.divmod(keys, bank_size), counts
    ballots = _ballots(votes, owner, records, bank_size)
    starts = np.ones(ballots.shape, dtype=bool)
    np.not_equal(ballots[:, 1:], ballots[:, :-1], out=starts[:, 1:])
    first = np.flatnonzero(starts)
    counts = np.diff(first, append=ballots.size)
    columns = ballots.ravel()[first]
    real = columns < bank_size
    return first[real] // ballots.shape[1], columns[real].astype(np.int64), counts[real]


def _ballots(votes: Whole, owner: Whole, records: Whole, bank_size: int) -> NDArray[np.int32]:
    # One row a user with all votes in ascending order, filled up behind with a vote for no entry.
    if (np.diff(owner) < 0).any():
        order = np.argsort(owner, kind="stable")
        votes, owner = votes[order], owner[order]
    ballots = np.full((len(records), int(records.max()), votes.shape[1]), bank_size, dtype=np.int32)
    ballots[owner, np.arange(len(owner)) - (np.cumsum(records) - records)[owner]] = votes
    flat = ballots.reshape(len(records), -1)
    flat.sort(axis=1)
    return flat


def _checked(
    routes: ArrayLike, owners: ArrayLike, users: int, bank_size: int, clip: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    votes, owner = np.asarray(routes), np.asarray(owners)
    if votes.ndim != 2 or 0 in votes.shape or votes.dtype.kind not in "iu":  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"Routes must be a non-empty table (records, k) of whole numbers, not {votes.dtype} of shape {votes.shape}."
        )
    if owner.shape != (len(votes),) or owner.dtype.kind not in "iu":
        raise InputError(
            f"Owners must be one whole number for each of the {len(votes)} records, "
            f"not {owner.dtype} of shape {owner.shape}."
        )
    least, most = votes.min(), votes.max()
    if least == NO_ENTRY:
        named = votes[votes != NO_ENTRY]
        least, most = (named.min(), named.max()) if len(named) else (0, 0)
        votes = np.where(votes == NO_ENTRY, bank_size, votes)  # sorted behind all entries
    if least < 0 or most >= bank_size:
        raise InputError(
            f"Routes run from {least} to {most}, outside a bank of {bank_size}; "
            "give the size of the bank they were made with."
        )
    if owner.min() < 0 or owner.max() >= users:
        raise InputError(f"Owners run from {owner.min()} to {owner.max()}, outside the {users} users.")
    missing = np.bincount(owner, minlength=users) == 0
    if missing.any():
        raise InputError(f"User {int(np.argmax(missing))} has no records; drop users without records first.")
    if bank_size > np.iinfo(np.int32).max:
        raise InputError(f"A bank of {bank_size} entries is too large; at most 2^31 - 1 can be counted.")
    if not 0 < clip < np.inf:
        raise InputError(f"clip must be positive and finite, not {clip!r}.")
    return votes.astype(np.int64, copy=False), owner.astype(np.int64, copy=False)
