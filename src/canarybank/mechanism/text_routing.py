"""Route texts by an encoder that is fast and slightly off, to the routes of an exact one.

The fast encoder's vectors lie within some distance of the exact one's: the drift. A route that no move of that length
can change is the exact one. All other texts are encoded again, exactly; on short texts that is about one in a hundred.

The bound on the drift is measured, not proved: four times the largest drift over a sample of the texts at hand, and no
less than float32 moves between two orders of summation. Every text that is encoded twice is checked against it, and if
one is farther, all texts are encoded exactly. A fast vector with NaN or infinity, as float16 gives where it overflows,
settles nothing: its text is encoded again.

Because the bound comes from all texts at hand, this is not for a real release, in which no user's vote may depend on
another user's text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.fixed_shapes import TOLERANCE, FixedShapes, TokenBatch
from canarybank.encode.protocol import Encoder, Precision, check_texts, readable
from canarybank.errors import InputError
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.device_routing import DeviceRouter
from canarybank.mechanism.routing import route
from canarybank.mechanism.scan import precision

__all__ = ["TextRoutes", "encode_and_route", "measure_drift", "route_texts"]

SAMPLE = 2048
SAFETY = 4.0
LEAST_DRIFT = TOLERANCE[Precision.FLOAT32]
BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class TextRoutes:
    """The routes of texts, with what it took to be sure of them."""

    routes: NDArray[np.int64]
    """The k nearest entries of each text's exact vector, nearest first."""
    encoded_again: int
    """How many texts the exact encoder had to encode."""
    drift: float
    """The bound on the distance between a text's two vectors."""
    largest: float
    """The largest distance that was seen among the texts with two vectors."""


def measure_drift(texts: Sequence[str], fast: FixedShapes, exact: FixedShapes, sample: int = SAMPLE) -> float:
    """Return the largest distance between the two vectors of any text of a sample, evenly spaced over the texts.

    Fast vectors that are no numbers do not count: their texts are always encoded again.
    """
    if not texts:
        return 0.0
    few = [texts[place] for place in np.unique(np.linspace(0, len(texts) - 1, sample).astype(np.int64)).tolist()]
    moved = np.linalg.norm(fast.encode(few).astype(np.float64) - exact.encode(few), axis=1)
    return float(moved.max(initial=0.0, where=np.isfinite(moved)))


def route_texts(
    texts: Sequence[str], fast: FixedShapes, exact: FixedShapes, router: DeviceRouter, *, drift: float | None = None
) -> TextRoutes:
    """Return the routes of the exact encoder's vectors, most of them by the fast encoder's.

    Args:
        texts: The texts to encode and route.
        fast: The encoder that encodes all of them.
        exact: The encoder whose routes are wanted; of the same buckets.
        router: The entries.
        drift: A bound on the distance between a text's two vectors; left out, it is measured on a sample.
    """
    if fast.tokens is not exact.tokens:
        raise InputError("The two encoders must share their tokens, so that a text is in the same bucket of both.")
    bound = max(SAFETY * measure_drift(texts, fast, exact), LEAST_DRIFT) if drift is None else drift
    routes = np.empty((len(texts), router.k), dtype=np.int64)
    again = _Again(exact, router, routes)
    held: list[tuple[TokenBatch, Any]] = []
    for each in fast.vectors(texts):
        held.append(each)
        if sum(len(batch.positions) for batch, _ in held) >= BLOCK:
            _route_block(held, router, bound, routes, again)
            held = []
    _route_block(held, router, bound, routes, again)
    again.finish()
    if again.largest <= bound:
        return TextRoutes(routes, again.count, bound, again.largest)
    for batch, vectors in exact.vectors(texts):
        routes[batch.positions] = router.route(_require_finite(vectors, batch)).cpu().numpy()
    return TextRoutes(routes, len(texts), bound, again.largest)


def encode_and_route(encoder: Encoder, texts: Sequence[str], bank: Bank, k: int) -> NDArray[np.int64]:
    """Return ``route(encoder.encode(texts), bank, k)``, on a GPU without encoding every text in float32.

    That is so for a float32 ``SentenceEncoder`` on CUDA whose layers are known; all others encode, then route.
    """
    exact: FixedShapes | None = getattr(encoder, "shapes", None)
    entries = bank.vectors[bank.open]
    can_route = bool(texts) and 1 <= k <= len(entries) and precision(np.ones(1), entries) is np.float32
    if exact is None or exact.layers.precision is not Precision.FLOAT32 or not can_route:
        return route(encoder.encode(texts), bank, k)
    router = DeviceRouter(entries, k, exact.device)
    found = route_texts(readable(check_texts(texts)), exact.split(), exact, router).routes
    return bank.open[found]


def _route_block(
    held: list[tuple[TokenBatch, Any]],
    router: DeviceRouter,
    bound: float,
    routes: NDArray[np.int64],
    again: "_Again",
) -> None:
    """Route some batches at once, and hand on the texts whose routes are not sure."""
    import torch

    if not held:
        return
    found, sure = router.route_within(torch.cat([vectors for _, vectors in held]), bound)
    routes[np.concatenate([batch.positions for batch, _ in held])] = found.cpu().numpy()
    unsure = ~sure.cpu().numpy()
    start = 0
    for batch, vectors in held:
        rows = np.flatnonzero(unsure[start : start + len(batch.positions)])
        start += len(batch.positions)
        if len(rows):
            again.add(batch.rows(rows), vectors[torch.from_numpy(rows).to(vectors.device)])


def _require_finite(vectors: Any, batch: TokenBatch) -> Any:
    """Return exact vectors, or say that the model gave a text no numbers, as its encoder does."""
    import torch

    bad = ~torch.isfinite(vectors).all(dim=1).cpu().numpy()
    if bad.any():
        raise InputError(
            f"The encoder gave text {int(batch.positions[bad].min())} a vector with NaN or infinity; try float32 "
            "precision."
        )
    return vectors


class _Again:
    """Collect texts until they fill a batch of their bucket, then encode them exactly and route them."""

    def __init__(self, exact: FixedShapes, router: DeviceRouter, routes: NDArray[np.int64]) -> None:
        self._exact, self._router, self._routes = exact, router, routes
        self._waiting: dict[int, list[tuple[TokenBatch, Any]]] = {}
        self.count, self.largest = 0, 0.0

    def add(self, batch: TokenBatch, vectors: Any) -> None:
        """Take in texts with their fast vectors."""
        rows, length = batch.shape
        bucket = self._waiting.setdefault(length, [])
        full = self._exact.rows_of(length)
        if sum(each.shape[0] for each, _ in bucket) + rows > full:
            self._encode(self._waiting.pop(length, []))
        self._waiting.setdefault(length, []).append((batch, vectors))

    def finish(self) -> None:
        """Encode what is left."""
        for held in self._waiting.values():
            self._encode(held)
        self._waiting = {}

    def _encode(self, held: list[tuple[TokenBatch, Any]]) -> None:
        import torch

        if not held:
            return
        batches = [batch for batch, _ in held]
        joined = TokenBatch(
            np.concatenate([each.positions for each in batches]),
            torch.cat([each.ids for each in batches]),
            torch.cat([each.lengths for each in batches]),
        )
        vectors = _require_finite(self._exact.forward(joined), joined)
        moved = torch.linalg.vector_norm(vectors.double() - torch.cat([fast for _, fast in held]), dim=1)
        self.largest = max(self.largest, float(moved.nan_to_num(0.0, 0.0).max()))
        self.count += len(joined.positions)
        self._routes[joined.positions] = self._router.route(vectors).cpu().numpy()
