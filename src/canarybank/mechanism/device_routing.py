"""Route on a torch device, to the same integers as on the CPU.

A chunk of records is scored against all entries by one matrix product. The entries of each row fall into groups of 32;
the groups with the smallest minima hold the best candidates, and only those are sorted. Then a row is settled at the
first of these steps that can:

1. The scores of its first k + 1 candidates all differ by more than twice the error margin of a score.
2. Everything beyond the list of candidates is farther than the k-th by more than that. The candidates' distances in
   float64 differ by more than the rounding of float64.
3. Ties, and what float64 does not tell apart, are ranked on the CPU by the definition that all routing answers to.

A row whose list is too short, because too many entries are nearly as near, is scored again in float64 with a longer
list, and on the CPU if that is too short as well. So neither the device nor the precision of the product can change a
route, only how long it takes.

The product is in float32, or of vectors split into two bfloat16 parts, which tensor cores multiply many times as fast:
x = h + l + r with |r| <= 2^-16 |x| for each coordinate, and of (h + l)·(H + L) the term l·L is left out. What is left
out of a product is at most 3·2^-16 |x||b|. Tensor cores multiply exactly; that they lose at most 2^-23 of the largest
sum at each addition is what is known of them, not what their maker promises. `tools/device_study.py` compares the
margin with the errors that are seen.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.fixed_shapes import has_mixed_products, mixed_product, plain_products
from canarybank.encode.protocol import Precision
from canarybank.encode.sentence import pick_double_device
from canarybank.errors import InputError, MissingError
from canarybank.mechanism.routing import equal_rows, first_copies, nearest_by_numpy, rank
from canarybank.mechanism.scan import precision, score_margin
from canarybank.mechanism.vectors import Vectors, norms, squared_distances
from canarybank.progress import SILENT, Progress

__all__ = ["DeviceRouter", "Product", "nearest_on"]

GROUP = 32
SPARE = 5
MOST_MINIMA = 24
MINIMA_ON = {"cuda"}
LONGER = 12
CHUNK_VALUES = {"cpu": 1 << 22, "cuda": 1 << 28}
BYTES_A_VALUE = 24
"""What a chunk may take of the device's free memory for each of its scores, candidates and copies included."""
OUT_OF_REACH = 3e38
_ALIGNMENT = 8
_SINGLE_TINY = float(np.finfo(np.float32).tiny)
_DOUBLE = np.finfo(np.float64)


class Product(StrEnum):
    """How scores are multiplied out."""

    SPLIT = "bfloat16"
    """Vectors as two bfloat16 parts each, for tensor cores."""
    SINGLE = "float32"
    DOUBLE = "float64"


@dataclass(frozen=True, eq=False)
class _Operand:
    """Entries made ready for one kind of product. Its rows are the columns of a table of scores."""

    product: Product
    matrix: Any
    squares: Any

    @classmethod
    def of(cls, entries: Any, squares: Any, product: Product) -> "_Operand":
        """Prepare entries (columns, dimension) and their squared norms, both in float64."""
        import torch

        if product is not Product.SPLIT:
            kind = getattr(torch, product.value)
            return cls(product, (-2 * entries).to(kind).T, squares.to(kind))
        high, low = _bfloat16_parts((-2 * entries).float(), 2)
        added = torch.stack(_bfloat16_parts(squares.float(), 3), dim=1)
        blank = added.new_zeros(len(added), -(3 * entries.shape[1] + 3) % _ALIGNMENT)
        return cls(product, torch.cat((high, low, high, added, blank), dim=1).T, squares)

    def scores(self, records: Any) -> Any:
        """Return |b|² - 2 x·b for all pairs, shape (records, columns)."""
        import torch

        if self.product is not Product.SPLIT:
            return torch.addmm(self.squares, records.to(self.matrix.dtype), self.matrix)
        high, low = _bfloat16_parts(records, 2)
        last = high.new_zeros(len(high), self.matrix.shape[0] - 3 * high.shape[1])
        last[:, :3] = 1
        left = torch.cat((low, high, high, last), dim=1)
        return mixed_product(left, self.matrix)

    def margin(self, lengths: Any, largest: float, dimension: int) -> Any:
        """Bound how far any score is from the defined squared distance less |x|²; see the top of this module."""
        if self.product is Product.SPLIT:
            terms, dropped = 3 * dimension + 3, 3 * 2.0**-16
            return score_margin(lengths, largest, dimension, 2.0**-23, _SINGLE_TINY, terms=terms, dropped=dropped)
        kind = np.finfo(self.product.value)
        return score_margin(lengths, largest, dimension, float(kind.eps) / 2, float(kind.tiny))


class DeviceRouter:
    """Entries on a torch device, over which records are routed.

    Args:
        entries: The float32 vectors of the entries, of norms below 1e18.
        k: How many of the nearest to find.
        device: The torch device; left out, the best one here. "cpu" computes the same way on the processor.
        product: How scores are multiplied out first; left out, on tensor cores where the device has them.
    """

    def __init__(self, entries: Vectors, k: int, device: str | None = None, product: Product | None = None) -> None:
        torch = _torch()
        device = pick_double_device(device)
        if entries.dtype != np.float32 or not 1 <= k <= len(entries):
            raise InputError(f"A device routes to 1 to {len(entries)} float32 entries, not to {k} of {entries.dtype}.")
        self.k, self.device = k, torch.device(device)
        groups = equal_rows(entries)
        kept = first_copies(entries, k, groups)
        self._kept = torch.from_numpy(kept).to(self.device)
        self._rows = entries[kept]
        self._largest, self._dimension = float(norms(self._rows).max()), entries.shape[1]
        columns = -(-(len(kept) + 1) // GROUP) * GROUP  # at least one column is out of reach
        self._entries = torch.zeros((columns, self._dimension), dtype=torch.float64, device=self.device)
        self._entries[: len(kept)] = torch.from_numpy(self._rows).to(self.device)
        self._squares = self._entries.square().sum(dim=1)
        self._squares[len(kept) :] = OUT_OF_REACH
        beyond = len(groups) + np.arange(columns - len(kept))
        self._alike = torch.from_numpy(np.append(groups[kept], beyond)).to(self.device)
        has_tensor_cores = self.device.type == "cuda" and has_mixed_products(device, Precision.BFLOAT16)
        first = product or (Product.SPLIT if has_tensor_cores else Product.SINGLE)
        self._first, self._second = (
            _Operand.of(self._entries, self._squares, each) for each in (first, Product.DOUBLE)
        )
        most = CHUNK_VALUES.get(self.device.type, CHUNK_VALUES["cuda"])
        if self.device.type == "cuda":
            most = min(most, torch.cuda.mem_get_info(self.device)[0] // BYTES_A_VALUE)
        self._chunk = max(1, most // columns)
        self.seen = {"records": 0, "by scores": 0, "in float64": 0, "by the definition": 0, "crowded": 0}
        """How many records were settled at each step so far."""

    def route(self, records: Any) -> Any:
        """Return the k nearest entries of float32 records on the device, nearest first, shape (n, k), on the device."""
        torch = _torch()
        found = torch.empty((len(records), self.k), dtype=torch.int64, device=self.device)
        with torch.inference_mode(), plain_products():
            for start in range(0, len(records), self._chunk):
                found[start : start + self._chunk] = self._settle(records[start : start + self._chunk])
            return self._kept[found]

    def largest_error(self, records: Any) -> float:
        """Return the largest error of a record's scores over its margin: at most 1, or the margin is wrong."""
        torch = _torch()
        with torch.inference_mode(), plain_products():
            lengths = torch.linalg.vector_norm(records.double(), dim=1)
            margin = self._first.margin(lengths, self._largest, self._dimension)
            error = self._first.scores(records).double() - self._second.scores(records)
            return float((error[:, : len(self._rows)].abs().amax(dim=1) / margin).max())

    def route_host(self, records: Vectors, progress: Progress = SILENT) -> NDArray[np.int64]:
        """Return the routes of records in the computer's memory; the next chunk is copied while one is searched."""
        found = np.empty((len(records), self.k), dtype=np.int64)
        with progress.stage("route", len(records), "records") as stage:
            start = 0
            for chunk in self._copied(records):
                found[start : start + len(chunk)] = self.route(chunk).cpu().numpy()
                start += len(chunk)
                stage.advance(len(chunk))
        return found

    def _copied(self, records: Vectors) -> Iterator[Any]:
        torch = _torch()
        starts = range(0, len(records), self._chunk)
        if self.device.type != "cuda":
            yield from (torch.tensor(records[start : start + self._chunk], device=self.device) for start in starts)
            return
        aside, shape = torch.cuda.Stream(self.device), (min(self._chunk, len(records)), records.shape[1])
        pinned = [torch.empty(shape, dtype=torch.float32, pin_memory=True) for _ in range(2)]

        def send(number: int, start: int) -> tuple[Any, Any]:
            part = records[start : start + self._chunk]
            buffer = pinned[number % 2][: len(part)]
            buffer.numpy()[:] = part  # which may be read-only: torch warns of that
            with torch.cuda.stream(aside):
                return buffer.to(self.device, non_blocking=True), aside.record_event()

        with ThreadPoolExecutor(1, thread_name_prefix="copy") as pool:
            jobs = deque([pool.submit(send, 0, 0)])
            for number, start in enumerate(starts[1:], 1):
                chunk = jobs.popleft().result()
                jobs.append(pool.submit(send, number, start))  # its buffer is free: the chunk before was searched
                yield _arrived(*chunk)
            yield _arrived(*jobs.popleft().result())

    def _settle(self, records: Any) -> Any:
        """Return the routes of one chunk among the kept entries."""
        torch = _torch()
        self.seen["records"] += len(records)
        found, crowded = self._ranked(records, self._first, self.k + SPARE)
        if len(crowded):
            found[crowded], hopeless = self._ranked(records[crowded], self._second, LONGER * (self.k + SPARE))
            rows = crowded[hopeless]
            if len(rows):
                exact = nearest_by_numpy(records[rows].cpu().numpy(), self._rows, self.k)
                found[rows] = torch.from_numpy(exact).to(self.device)
                self.seen["crowded"] += len(rows)
        return found

    def _ranked(self, records: Any, operand: _Operand, width: int) -> tuple[Any, Any]:
        """Return routes, and the rows whose list of so many candidates is too short."""
        torch = _torch()
        columns, values = _candidates(operand.scores(records), min(width, len(self._squares)))
        # In float64, for squares of small values underflow float32.
        lengths = torch.linalg.vector_norm(records, dim=1, dtype=torch.float64) * (1 + 1e-9)
        margin = operand.margin(lengths, self._largest, self._dimension)
        values = values[:, [*range(self.k + 1), -1]].double()
        apart = values.diff(dim=1) > 2 * margin[:, None]
        close = ~apart[:, : self.k].all(dim=1)
        ended = values[:, -1] - values[:, self.k - 1] > 2 * margin
        ended |= columns.shape[1] == len(self._squares)
        crowded, listed = (torch.nonzero(rows)[:, 0] for rows in (close & ~ended, close & ended))
        self.seen["by scores"] += len(records) - len(crowded) - len(listed)
        found = columns[:, : self.k].clone()
        step = max(1, 4 * self._chunk // columns.shape[1])
        for start in range(0, len(listed), step):
            rows = listed[start : start + step]
            found[rows] = self._reranked(records[rows], columns[rows], lengths[rows])
        return found, crowded

    def _reranked(self, records: Any, columns: Any, lengths: Any) -> Any:
        """Return the routes of records all of whose k nearest are among these columns."""
        torch = _torch()
        columns = columns.sort(dim=1).values
        products = torch.bmm(self._entries[columns], records.double()[:, :, None])[:, :, 0]
        values, order = (self._squares[columns] - 2 * products).sort(dim=1, stable=True)
        columns = columns.gather(1, order)
        margin = self._second.margin(lengths, self._largest, self._dimension)
        apart = values.diff(dim=1) > 2 * margin[:, None]
        # Equal entries are at one distance, and stand in the order of their numbers.
        copies = (self._alike[columns].diff(dim=1) == 0) & (columns.diff(dim=1) > 0)
        beyond = apart & (torch.arange(apart.shape[1], device=self.device) >= self.k - 1)
        still = torch.nonzero((~(apart | copies) & (beyond.cumsum(dim=1) == 0)).any(dim=1))[:, 0]
        found = columns[:, : self.k].clone()
        self.seen["in float64"] += len(records) - len(still)
        if not len(still):
            return found
        exact = self._defined(records[still].cpu().numpy(), columns[still].cpu().numpy())
        found[still] = torch.from_numpy(exact).to(self.device)
        self.seen["by the definition"] += len(still)
        return found

    def _defined(self, records: NDArray[np.float32], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rank candidates by the definition, on the CPU."""
        rows = np.repeat(np.arange(len(records)), columns.shape[1])
        real = columns.ravel() < len(self._rows)
        rows, ids = rows[real], columns.ravel()[real]
        return rank(rows, ids, squared_distances(records, self._rows, rows, ids), self.k)


def nearest_on(
    device: str, records: Vectors, entries: Vectors, k: int, progress: Progress = SILENT
) -> NDArray[np.int64]:
    """Return what ``nearest`` returns, computed on a torch device; float64 vectors are searched on the CPU."""
    device = pick_double_device(device)
    single = records.dtype == np.float32 and entries.dtype == np.float32
    if not single or precision(norms(records), entries) is not np.float32:
        return nearest_by_numpy(records, entries, k, progress)
    return DeviceRouter(entries, k, device).route_host(records, progress)


def _candidates(scores: Any, width: int) -> tuple[Any, Any]:
    """Return the columns of the smallest scores of each row with the scores, ascending, shapes (rows, width)."""
    groups = scores.shape[1] // GROUP
    if groups <= 2 * width:
        values, columns = _smallest(scores, width)
        return columns, values
    # The smallest so many scores lie in as many groups at most, and these have the smallest minima.
    table = scores.view(len(scores), groups, GROUP)
    best = _smallest(table.amin(dim=2), width)[1]
    few = table.gather(1, best[:, :, None].expand(-1, -1, GROUP)).flatten(1)
    values, places = _smallest(few, width)
    return best.gather(1, places // GROUP) * GROUP + places % GROUP, values


def _smallest(values: Any, count: int) -> tuple[Any, Any]:
    """Return the smallest so many values of each row and where they stand, ascending; the table is used up.

    On CUDA one minimum after another is several times as fast as ``topk``, which selects by digits.
    """
    import torch

    if values.device.type not in MINIMA_ON or count > MOST_MINIMA:
        found = values.topk(count, dim=1, largest=False, sorted=True)
        return found.values, found.indices
    least, places = zip(*(_taken(values) for _ in range(count)), strict=True)
    return torch.stack(least, dim=1), torch.stack(places, dim=1)


def _taken(values: Any) -> tuple[Any, Any]:
    """Return the minimum of each row and its place, and put it out of the way."""
    least, places = values.min(dim=1)
    values.scatter_(1, places[:, None], float("inf"))
    return least, places


def _bfloat16_parts(values: Any, count: int) -> list[Any]:
    """Return bfloat16 tensors that add up to float32 values, but for 2^-8 of what each part leaves over."""
    parts = []
    for _ in range(count):
        parts.append(values.bfloat16())
        values = values - parts[-1].float()
    return parts


def _arrived(chunk: Any, copied: Any) -> Any:
    stream = _torch().cuda.current_stream(chunk.device)
    stream.wait_event(copied)
    chunk.record_stream(stream)
    return chunk


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingError("Routing on a device needs torch; run: pip install 'canarybank[minilm]'") from error
    return torch
