"""Route records: find the k nearest bank entries of each, exactly."""

import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.encode.sentence import device_in_use
from canarybank.errors import InputError
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.cores import free_cores, over_cores
from canarybank.mechanism.mechanism import whole
from canarybank.mechanism.scan import Floats, Scan, parts, precision
from canarybank.mechanism.vectors import Vectors, check_dimensions, check_vectors, norms, squared_distances
from canarybank.progress import SILENT, Progress, Stage

__all__ = [
    "equal_rows",
    "first_copies",
    "first_of_each",
    "nearest",
    "nearest_by_numpy",
    "rank",
    "rank_places",
    "route",
    "settled",
]

LEAST_PAIRS = 1 << 24
"""Fewer pairs of a record and an entry than these are not worth a copy to a GPU."""
FOLD = 32
CROWD = 4


def route(records: ArrayLike, bank: ArrayLike | Bank, k: int, *, device: str | None = None) -> NDArray[np.int64]:
    """Return the k nearest bank entries of each record, nearest first, ties to the lowest index, shape (n, k).

    Nearest is by Euclidean distance as float64 has it: the sum of squared differences of the values as they were
    given (float64 values stay so, all others are taken as float32). The result is a function of these values alone:
    the fast float32 search settles only what its error margin settles, and the rest is ranked by that definition,
    so neither chunks nor threads nor the BLAS nor the device can change it. Entries that a bank bars are left out.

    Args:
        records: The records' vectors, one a row.
        bank: A bank, or its entries' vectors.
        k: How many entries to find for each record.
        device: A torch device to search on, such as "cuda"; left out, much work is done where this process has loaded
            an encoder on a GPU, and all else by numpy on the CPU.

    Example:
        >>> route([[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]], k=2).tolist()
        [[1, 2]]
    """
    vectors = check_vectors(records, "record")
    if isinstance(bank, Bank) and bank.barred:
        return bank.open[nearest(vectors, bank.vectors[bank.open], k, device=device)]
    entries = bank.vectors if isinstance(bank, Bank) else check_vectors(bank, "bank entry")
    return nearest(vectors, entries, k, device=device)


def nearest(
    records: Vectors, entries: Vectors, k: int, progress: Progress = SILENT, *, device: str | None = None
) -> NDArray[np.int64]:
    """Return the k nearest entries of each record, nearest first, ties to the lowest index, shape (n, k)."""
    check_dimensions(records, entries)
    if whole("k", k) > len(entries):
        raise InputError(
            f"k is {k}, but the bank has only {len(entries)} entries to choose from; lower k or enlarge the bank."
        )
    if device is None and len(records) * len(entries) >= LEAST_PAIRS:
        device = device_in_use()
    if device is not None:
        from canarybank.mechanism.device_routing import nearest_on

        return nearest_on(device, records, entries, k, progress)
    return nearest_by_numpy(records, entries, k, progress)


def nearest_by_numpy(records: Vectors, entries: Vectors, k: int, progress: Progress = SILENT) -> NDArray[np.int64]:
    """Return the k nearest entries of each record as ``nearest`` does, on the CPU, without a check of what is given."""
    kept = first_copies(entries, k)
    few = entries if len(kept) == len(entries) else entries[kept]
    lengths = norms(records)
    with progress.stage("route", len(records), "records") as stage:
        return kept[_search(records, lengths, few, k, precision(lengths, few), stage)]


def rank(rows: NDArray[np.int64], ids: NDArray[np.int64], distances: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the k nearest ids of each row that occurs, ties to the lowest id; rows in ascending order."""
    return ids[rank_places(rows, ids, distances, k)]


def rank_places(
    rows: NDArray[np.int64], ids: NDArray[np.int64], distances: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """Return where the ids that ``rank`` returns stand among all."""
    order = np.lexsort((ids, distances, rows))
    return order[first_of_each(rows[order], k)]


def settled(distances: NDArray[np.float64], drift: float) -> NDArray[np.bool_]:
    """Return which records keep their k nearest entries, in whatever order, wherever they move within the drift.

    Args:
        distances: The squared distances of each record's k-th and k+1-th nearest entry, shape (n, 2).
        drift: How far a record may move. All its distances then change by that at most, so no entry beyond the k-th
            comes before one of the first k if two drifts fit between the two distances.

    Example:
        >>> settled(np.square([[1.0, 1.1], [1.0, 1.001]]), drift=0.01).tolist()
        [True, False]
    """
    kth, beyond = np.sqrt(distances).T
    rounding = 1e-10 * beyond  # of float64 sums over 100,000 coordinates at most
    return np.asarray(beyond - kth > 2.001 * drift + rounding)


def first_of_each(rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return where the first k items of each row stand in ascending ``rows``, all of which have at least k."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    return starts[:, None] + np.arange(k)


def first_copies(entries: Vectors, k: int, groups: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return the positions of the entries of which fewer than k copies stand before.

    The others are never among the k nearest. Without them, hosts of ties are few. ``groups`` may hold ``equal_rows``.
    """
    group = equal_rows(entries) if groups is None else groups
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    copy = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[copy < k])


def equal_rows(entries: Vectors) -> NDArray[np.int64]:
    """Return a number for each row, the same for equal rows and no others."""
    plain = np.ascontiguousarray(entries + 0.0)  # -0.0 and 0.0 are equal but differ in bytes
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in plain], dtype=np.int64)


def _search(
    records: Vectors,
    lengths: NDArray[np.float64],
    entries: Vectors,
    k: int,
    dtype: type[np.floating[Any]],
    stage: Stage,
) -> NDArray[np.int64]:
    fold = max(1, min(FOLD, len(entries) // (8 * k)))
    scan = Scan.of(entries, dtype, multiple=fold)
    result = np.empty((len(records), k), dtype=np.int64)
    crowded = np.zeros(len(records), dtype=bool)
    slices = list(parts(len(records), len(scan), at_once=free_cores()))
    rooms = threading.local()

    def search(part: slice) -> int:
        if not hasattr(rooms, "scores"):
            rooms.scores = np.empty((slices[0].stop, len(scan)), dtype=dtype)
        margin = scan.margin(lengths[part])
        rows, columns, values = _shortlist(scan.scores(records[part], rooms.scores), margin, k, fold)
        result[part] = columns[first_of_each(rows, k)]
        unsettled = _unsettled(rows, values, margin)
        if dtype is np.float32:
            crowded[part] = unsettled & (np.bincount(rows) > CROWD * k)
            unsettled &= ~crowded[part]
        among = unsettled[rows]
        rows, columns = rows[among], columns[among]
        distances = squared_distances(records[part], entries, rows, columns)
        result[part][unsettled] = rank(rows, columns, distances, k)
        return int(np.count_nonzero(~crowded[part]))

    over_cores(search, slices, stage.advance)
    if crowded.any():
        result[crowded] = _search(records[crowded], lengths[crowded], entries, k, np.float64, stage)
    return result


def _shortlist(
    scores: Floats, margin: NDArray[np.float64], k: int, fold: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    # All pairs (row, column) that can be among a row's k nearest, by row and then by score. At least k entries score no
    # more than the k-th smallest of the minima over disjoint groups; an entry more than two margins above is farther,
    # and so is all of a group whose minimum is.
    count, width = scores.shape
    groups = width // fold
    grouped = scores.reshape(count, fold, groups)
    minima = grouped.min(axis=1)
    bound = np.partition(minima, k - 1, axis=1)[:, k - 1]
    limit = (bound + 2 * margin).astype(scores.dtype)
    rows, near = np.nonzero(minima <= limit[:, None])
    within = grouped[rows, :, near]
    pairs, places = np.nonzero(within <= limit[rows, None])
    rows, columns = rows[pairs], places * groups + near[pairs]
    values = within[pairs, places].astype(np.float64)
    order = np.lexsort((values, rows))
    columns, values = columns[order], values[order]
    kth = values[first_of_each(rows, k)[:, -1]]
    kept = values <= (kth + 2 * margin)[rows]
    return rows[kept], columns[kept], values[kept]


def _unsettled(rows: NDArray[np.int64], values: NDArray[np.float64], margin: NDArray[np.float64]) -> NDArray[np.bool_]:
    # Listed scores that all differ by more than two margins stand in the order of distance.
    close = (np.diff(rows) == 0) & (np.diff(values) <= 2 * margin[rows[1:]])
    unsettled = np.zeros(len(margin), dtype=bool)
    unsettled[rows[1:][close]] = True
    return unsettled
