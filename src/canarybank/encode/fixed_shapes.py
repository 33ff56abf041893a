"""Encode in batches of fixed shapes, so that a text's vector does not depend on its neighbours.

What decides the last bits of a vector is the order of sums, and that follows from the shapes of the matrices. Here a
text's number of tokens decides its bucket, and a bucket has one length and one number of rows: short texts are filled
up with padding, batches with dummy rows. So a vector is computed in the same shapes whatever is encoded beside it.
Attention gives padding a weight of exactly zero, and no sum runs over two rows.

That a row's place in its batch does not matter either is a property of the matrix kernels: tests hold it on the
processor, and `tools/device_study.py` on a GPU.

Texts are tokenised in a thread ahead of the device, and copied from pinned memory. On CUDA the layers of a bucket are
recorded once as a graph and replayed for each batch.
"""

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.protocol import Precision, Vectors

__all__ = [
    "TOLERANCE",
    "BertLayers",
    "FixedShapes",
    "SplitLayers",
    "TokenBatch",
    "Tokens",
    "has_mixed_products",
    "mixed_product",
    "plain_products",
]

_AGREEMENT = {Precision.FLOAT32: 1e-4, Precision.FLOAT16: 5e-3, Precision.BFLOAT16: 3e-2}
"""How far a coordinate may be from the library's, whose fused kernels round otherwise; other layers are far beyond."""
LENGTHS = (*range(8, 65, 8), *range(80, 129, 16), *range(160, 513, 32))
TOKENS = {"cpu": 1 << 11, "cuda": 1 << 14}
BLOCK_TEXTS = 1 << 11
AHEAD = 2
_ROWS = 8
_ALIGNMENT = 8
_TRIAL = ("A cat sat on the mat.", "Two engineers argued about noise, privacy & the price of tea; nobody won.", "ok")

TOLERANCE: Mapping[Precision, float] = MappingProxyType(
    {Precision.FLOAT32: 2e-6, Precision.FLOAT16: 2e-3, Precision.BFLOAT16: 1.5e-2}
)
"""How far a coordinate may move between two orders of summation, for each precision."""


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """The tokens of some texts in the shape of their bucket, on the device; rows beyond the positions are dummies."""

    positions: NDArray[np.int64]
    ids: Any
    lengths: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Return the rows and tokens of the bucket."""
        return int(self.ids.shape[0]), int(self.ids.shape[1])


class Tokens:
    """Turn texts into batches of tokens.

    Args:
        tokenizer: A fast tokenizer of the library tokenizers.
        most: The most tokens of a text; the rest is cut off.
        device: The torch device that batches are copied to.
        tokens: How many tokens a batch holds at most, padding included.
        rows: How many texts a batch holds in all buckets; left out, as many as its tokens allow.
    """

    def __init__(
        self, tokenizer: Any, most: int, device: str, *, tokens: int | None = None, rows: int | None = None
    ) -> None:
        self._tokenizer = type(tokenizer).from_str(tokenizer.to_str())  # a copy, for its settings are changed
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(most)
        self._device = device
        self.buckets = np.array([length for length in LENGTHS if length < most] + [most])
        held = tokens or TOKENS.get(device.partition(":")[0], TOKENS["cuda"])
        self.rows = np.full(len(self.buckets), rows) if rows else np.maximum(1, held // self.buckets // _ROWS) * _ROWS

    def batches(self, texts: Sequence[str]) -> Iterator[TokenBatch]:
        """Yield batches until every text has had its turn; only the last of a bucket has dummies."""
        waiting: dict[int, list[tuple[Any, Any, Any]]] = {}
        for pieces in self._ahead(texts):
            for bucket, piece in pieces:
                waiting.setdefault(bucket, []).append(piece)
                rows = int(self.rows[bucket])
                while sum(len(positions) for positions, _, _ in waiting[bucket]) >= rows:
                    joined = [np.concatenate(parts) for parts in zip(*waiting[bucket], strict=True)]
                    yield self._batch(bucket, *(part[:rows] for part in joined))
                    rest = [part[rows:] for part in joined]
                    waiting[bucket] = [(rest[0], rest[1], rest[2])]
        for bucket, held in sorted(waiting.items()):
            joined = [np.concatenate(parts) for parts in zip(*held, strict=True)]
            if len(joined[0]):
                yield self._batch(bucket, *joined)

    def tokenise(self, texts: Sequence[str], first: int = 0) -> list[tuple[int, tuple[Any, Any, Any]]]:
        """Return, for each bucket that occurs, positions from ``first`` on, padded tokens and numbers of tokens."""
        encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        lists = [each.ids for each in encode(list(texts))]
        lengths = np.fromiter(map(len, lists), dtype=np.int32, count=len(lists))
        flat = np.fromiter(itertools.chain.from_iterable(lists), dtype=np.int32, count=int(lengths.sum()))
        starts = np.cumsum(lengths) - lengths
        bucket = np.searchsorted(self.buckets, lengths)
        pieces = []
        for number in np.unique(bucket).tolist():
            rows = np.flatnonzero(bucket == number)
            columns = np.arange(self.buckets[number])
            inside = columns < lengths[rows, None]
            ids = np.where(inside, flat[np.where(inside, starts[rows, None] + columns, 0)], 0)
            pieces.append((number, (rows + first, ids, lengths[rows])))
        return pieces

    def _ahead(self, texts: Sequence[str]) -> Iterator[list[tuple[int, tuple[Any, Any, Any]]]]:
        blocks = ((texts[start : start + BLOCK_TEXTS], start) for start in range(0, len(texts), BLOCK_TEXTS))
        with ThreadPoolExecutor(1, thread_name_prefix="tokenise") as pool:
            jobs = deque(pool.submit(self.tokenise, *block) for block in itertools.islice(blocks, AHEAD))
            while jobs:
                done = jobs.popleft().result()
                jobs.extend(pool.submit(self.tokenise, *block) for block in itertools.islice(blocks, 1))
                yield done

    def _batch(self, bucket: int, positions: Any, ids: Any, lengths: Any) -> TokenBatch:
        filled = int(self.rows[bucket]) - len(positions)
        return TokenBatch(
            positions,
            _sent(np.pad(ids, ((0, filled), (0, 0))), self._device),
            _sent(np.pad(lengths, (0, filled), constant_values=1), self._device),
        )


@dataclass(frozen=True, eq=False)
class _Layer:
    """One layer's weights: queries, keys and values in one matrix."""

    qkv: tuple[Any, Any]
    out: tuple[Any, Any]
    norm: tuple[Any, Any]
    up: tuple[Any, Any]
    down: tuple[Any, Any]
    second_norm: tuple[Any, Any]


class BertLayers:
    """The layers of a BERT model with mean pooling, in one precision, as one function of fixed shapes.

    Args:
        model: A BertModel of transformers.
        precision: The number format to compute in.
        device: The torch device.
    """

    def __init__(self, model: Any, precision: Precision, device: str) -> None:
        import torch

        self.model, self.precision, self._dtype = model, precision, getattr(torch, precision.value)
        config = model.config
        self._heads, self._epsilon = config.num_attention_heads, config.layer_norm_eps
        self.width = config.hidden_size

        def ready(*tensors: Any) -> Any:
            return torch.cat([each.detach() for each in tensors]).to(device, self._dtype)

        def pair(*modules: Any) -> tuple[Any, Any]:
            return ready(*(each.weight for each in modules)), ready(*(each.bias for each in modules))

        def matrix(*modules: Any) -> tuple[Any, Any]:
            return self._prepared(*pair(*modules))

        with torch.inference_mode():
            embeddings = model.embeddings
            self._words = ready(embeddings.word_embeddings.weight)
            placed = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[:1]
            self._places = ready(placed)
            self._norm = pair(embeddings.LayerNorm)
            self._layers = [
                _Layer(
                    qkv=matrix(each.attention.self.query, each.attention.self.key, each.attention.self.value),
                    out=matrix(each.attention.output.dense),
                    norm=pair(each.attention.output.LayerNorm),
                    up=matrix(each.intermediate.dense),
                    down=matrix(each.output.dense),
                    second_norm=pair(each.output.LayerNorm),
                )
                for each in model.encoder.layer
            ]

    def __call__(self, ids: Any, lengths: Any) -> Any:
        """Return the float32 unit vectors of the token rows (rows, tokens) whose first so many tokens count."""
        import torch
        from torch.nn import functional

        rows, tokens = ids.shape
        inside = torch.arange(tokens, device=ids.device) < lengths[:, None]
        mask = torch.zeros((rows, 1, 1, tokens), dtype=self._dtype, device=ids.device)
        mask = mask.masked_fill(~inside[:, None, None, :], float("-inf")).expand(rows, self._heads, tokens, tokens)
        states = self._normed(functional.embedding(ids, self._words) + self._places[:tokens], self._norm)
        for layer in self._layers:
            parts = self._linear(states, layer.qkv).view(rows, tokens, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            mixed = self._attention(parts[0], parts[1], parts[2], mask)
            joined = self._linear(mixed.transpose(1, 2).reshape(rows, tokens, -1), layer.out)
            states = self._normed(states + joined, layer.norm)
            hidden = functional.gelu(self._linear(states, layer.up))
            states = self._normed(states + self._linear(hidden, layer.down), layer.second_norm)
        summed = (states.float() * inside[:, :, None]).sum(dim=1).double()
        return (summed / torch.linalg.vector_norm(summed, dim=1, keepdim=True)).float()

    def _prepared(self, weight: Any, bias: Any) -> tuple[Any, Any]:
        return weight, bias

    def _linear(self, states: Any, weights: tuple[Any, Any]) -> Any:
        from torch.nn import functional

        return functional.linear(states, *weights)

    def _normed(self, states: Any, weights: tuple[Any, Any]) -> Any:
        from torch.nn import functional

        return functional.layer_norm(states, (self.width,), *weights, eps=self._epsilon)

    def _attention(self, queries: Any, keys: Any, values: Any, mask: Any) -> Any:
        import torch
        from torch.nn import functional

        if self.precision is not Precision.FLOAT32:
            return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        # The fused kernels of some devices compute float32 in coarser formats.
        scores = torch.matmul(queries * queries.shape[-1] ** -0.5, keys.transpose(2, 3)) + mask
        return torch.matmul(scores.softmax(dim=-1), values)


class SplitLayers(BertLayers):
    """The same layers in float32, but for the matrix products, which tensor cores compute of float16 parts.

    A number is the sum of two float16 numbers to 2^-22 of itself, or 2^-25 where it is small. Of the product of two
    such sums the smallest of four terms is left out. So vectors differ from those of float32 about as much as two
    orders of summation do, and tensor cores compute them several times as fast.
    """

    def __init__(self, model: Any, device: str) -> None:
        super().__init__(model, Precision.FLOAT32, device)

    def _prepared(self, weight: Any, bias: Any) -> tuple[Any, Any]:
        import torch

        high, low = _float16_parts(weight)
        added = torch.stack(_float16_parts(bias), dim=1)
        blank = added.new_zeros(len(added), _ALIGNMENT - 2)
        return torch.cat((high, low, high, added, blank), dim=1).T, None  # what is small is summed first

    def _linear(self, states: Any, weights: tuple[Any, Any]) -> Any:
        import torch

        weight = weights[0]
        rows, width = states.shape[0] * states.shape[1], states.shape[2]
        flat = states.reshape(rows, width)
        left = torch.empty((rows, 3 * width + _ALIGNMENT), dtype=torch.float16, device=states.device)
        high = left[:, 2 * width : 3 * width]
        high.copy_(flat)
        left[:, width : 2 * width].copy_(high)
        torch.sub(flat, high, out=left[:, :width])
        left[:, 3 * width : 3 * width + 2] = 1
        left[:, 3 * width + 2 :] = 0
        return mixed_product(left, weight).view(states.shape[0], states.shape[1], -1)


def mixed_product(left: Any, right: Any) -> Any:
    """Return the product of two matrices in half precision, summed and kept in float32."""
    import torch

    if left.device.type == "cuda":
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


@cache
def has_mixed_products(device: str, precision: Precision) -> bool:
    """Say whether a device multiplies as ``mixed_product`` does: torch before 2.8 does not, nor do some cards."""
    import torch

    try:
        ones = torch.ones((_ALIGNMENT, _ALIGNMENT), dtype=getattr(torch, precision.value), device=device)
        return bool((mixed_product(ones, ones) == _ALIGNMENT).all())
    except (TypeError, RuntimeError):
        return False


class FixedShapes:
    """An encoder in fixed shapes: tokens and layers joined.

    Args:
        layers: The network; see ``BertLayers``.
        tokens: The tokeniser with its buckets.
        device: The torch device of both.
    """

    def __init__(self, layers: BertLayers, tokens: Tokens, device: str) -> None:
        self.layers, self.tokens, self.device = layers, tokens, device
        self._graphs: dict[tuple[int, int], tuple[Any, Any, Any, Any]] = {}
        self._pool: Any = None
        self._side: Any = None

    @classmethod
    def of(cls, model: Any, precision: Precision, device: str, *, rows: int | None = None) -> "FixedShapes | None":
        """Return the encoder of a sentence-transformers model, or None where its layers are not known here.

        They are known when the vectors of a few texts are the model's own, within what rounding explains.

        Args:
            model: A SentenceTransformer.
            precision: The number format to compute in.
            device: The torch device.
            rows: How many texts share a batch; left out, what suits the device.
        """
        network, tokenizer = getattr(model[0], "auto_model", None), getattr(model.tokenizer, "backend_tokenizer", None)
        config = getattr(network, "config", None)
        plain = type(network).__name__ == "BertModel" and getattr(config, "hidden_act", "") == "gelu"
        if not plain or tokenizer is None or model.max_seq_length is None:
            return None
        tokens = Tokens(tokenizer, model.max_seq_length, device, rows=rows)
        made = cls(BertLayers(network, precision, device), tokens, device)
        expected = model.encode(list(_TRIAL), convert_to_tensor=True, show_progress_bar=False).float().cpu().numpy()
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        if expected.shape[1] != made.layers.width:
            return None
        return made if np.abs(made.encode(_TRIAL) - expected).max() <= _AGREEMENT[precision] else None

    def forward(self, batch: TokenBatch) -> Any:
        """Return the float32 unit vectors of a batch's texts, on the device."""
        import torch

        rows = len(batch.positions)
        batch = _filled(batch, self.rows_of(batch.shape[1]))
        with torch.inference_mode(), plain_products():
            if not self.device.startswith("cuda"):
                return self.layers(batch.ids, batch.lengths)[:rows]
            graph, ids, lengths, vectors = self._graphs.get(batch.shape) or self._record(batch)
            ids.copy_(batch.ids)
            lengths.copy_(batch.lengths)
            graph.replay()
            return vectors[:rows].clone()

    @property
    def scheme(self) -> dict[str, list[int]]:
        """Return the shapes, which decide a vector's bits beside its text and the model."""
        return {"lengths": self.tokens.buckets.tolist(), "rows": self.tokens.rows.tolist()}

    def rows_of(self, length: int) -> int:
        """Return the rows of a batch of the bucket of that length."""
        return int(self.tokens.rows[np.searchsorted(self.tokens.buckets, length)])

    def vectors(self, texts: Sequence[str]) -> Iterator[tuple[TokenBatch, Any]]:
        """Yield each batch of tokens with its vectors on the device."""
        for batch in self.tokens.batches(texts):
            yield batch, self.forward(batch)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, in order; one batch is copied back while the next is computed."""
        found: Vectors = np.empty((len(texts), self.layers.width), dtype=np.float32)
        for positions, values in _fetched((batch.positions, vectors) for batch, vectors in self.vectors(texts)):
            found[positions] = values
        return found

    def _record(self, batch: TokenBatch) -> tuple[Any, Any, Any, Any]:
        import torch

        ids, lengths = batch.ids.clone(), batch.lengths.clone()
        cuda: Any = torch.cuda
        # Of this device, and of a priority that nothing else here asks for: torch hands out the same few streams again.
        side = self._side = self._side or cuda.Stream(self.device, priority=-1)
        with cuda.device(self.device):
            side.wait_stream(cuda.current_stream(self.device))
            with cuda.stream(side):  # libraries make their workspaces at a first call, outside of the graph
                for _ in range(2):
                    self.layers(ids, lengths)
            cuda.current_stream(self.device).wait_stream(side)
            graph = cuda.CUDAGraph()
            # Other threads may route on the device meanwhile, which is no part of the graph.
            with cuda.graph(graph, pool=self._pool, stream=side, capture_error_mode="thread_local"):
                vectors = self.layers(ids, lengths)
        self._pool = self._pool or graph.pool()
        self._graphs[batch.shape] = graph, ids, lengths, vectors
        return self._graphs[batch.shape]


def _float16_parts(values: Any) -> tuple[Any, Any]:
    high = values.half()
    return high, (values - high.float()).half()


def _filled(batch: TokenBatch, rows: int) -> TokenBatch:
    from torch.nn import functional

    missing = rows - batch.shape[0]
    if not missing:
        return batch
    ids, lengths = functional.pad(batch.ids, (0, 0, 0, missing)), functional.pad(batch.lengths, (0, missing), value=1)
    return TokenBatch(batch.positions, ids, lengths)


def _sent(array: NDArray[np.int32], device: str) -> Any:
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.startswith("cuda") else tensor.to(device)


def _fetched(batches: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, NDArray[np.float32]]]:
    """Yield batches' vectors in the computer's memory, each copied aside while the device goes on."""
    import torch

    cuda: Any = torch.cuda
    held: deque[tuple[Any, Any, Any]] = deque()
    aside: Any = None
    for positions, vectors in batches:
        if vectors.device.type != "cuda":
            yield positions, vectors.cpu().numpy()
            continue
        aside = aside or cuda.Stream(vectors.device)
        aside.wait_stream(cuda.current_stream(vectors.device))
        with cuda.stream(aside):
            pinned = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
            pinned.copy_(vectors, non_blocking=True)
            vectors.record_stream(aside)
            held.append((positions, pinned, aside.record_event()))
        if len(held) > AHEAD:
            yield _landed(*held.popleft())
    while held:
        yield _landed(*held.popleft())


def _landed(positions: Any, pinned: Any, copied: Any) -> tuple[Any, NDArray[np.float32]]:
    copied.synchronize()
    return positions, pinned.numpy()


_REDUCED = ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction")

Switch = tuple[Any, str, Any]
"""An object, one of its attributes, and a value of that."""


class _Plain:
    """How many threads keep products plain, and the settings from before the first of them."""

    def __init__(self) -> None:
        self.lock, self.threads = threading.Lock(), 0
        self.before: list[Switch] = []


_PLAIN = _Plain()


@contextmanager
def plain_products() -> Iterator[None]:
    """Keep float32 products in float32, and sums of half-precision products too, whatever a program has allowed.

    The settings are those of the whole process: the first thread that needs them makes them, and the last one puts back
    what was there before.
    """
    with _PLAIN.lock:
        if not _PLAIN.threads:
            switches = _plain_switches()
            _PLAIN.before = [(place, name, getattr(place, name)) for place, name, _ in switches]
            _set(switches)
        _PLAIN.threads += 1
    try:
        yield
    finally:
        with _PLAIN.lock:
            _PLAIN.threads -= 1
            if not _PLAIN.threads:
                _set(_PLAIN.before)


def _set(switches: Iterable[Switch]) -> None:
    for place, name, value in switches:
        setattr(place, name, value)


def _plain_switches() -> list[Switch]:
    """Return what decides how products are computed, with the values that keep them plain."""
    from torch import backends

    reduced = [(backends.cuda.matmul, name, False) for name in _REDUCED]
    if hasattr(backends.cuda.matmul, "fp32_precision"):
        return [*reduced, *((each.matmul, "fp32_precision", "ieee") for each in (backends.cuda, backends.mkldnn))]
    return [*reduced, (_OlderTorch(), "precision", "highest")]


class _OlderTorch:
    """The one setting of torch before 2.9; where a program has used the later ones, it can be neither read nor set."""

    @property
    def precision(self) -> str:
        import torch

        return torch.get_float32_matmul_precision()

    @precision.setter
    def precision(self, value: str) -> None:
        import torch

        torch.set_float32_matmul_precision(value)
