"""Decode many prompts at once on a GPU: a static cache, attention without copies, and one CUDA graph a shape.

Llama's and Qwen2's layers, which most small models have, are computed here from the weights that transformers loaded.
In a batch of a thousand prompts, transformers' own loop spends its time on copies of keys and values and on launching
kernels; here a step reads the cache once and is launched as one graph. Tests hold the tokens against transformers'.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["Decoder", "Draw", "is_known"]

_KNOWN = frozenset({"LlamaForCausalLM", "Qwen2ForCausalLM"})
_ROWS = (64, 256, 1024)
"""Batches are filled up to the next of these sizes, so that few graphs serve all; the last is the largest batch."""
_WIDTH = 128
"""Prompts are filled up to a multiple of this many tokens."""
_SHAPES = 8
"""How many shapes keep their buffers and graphs."""
_PREFILL = 1 << 16
"""The most tokens of prompts that go through the layers at once."""
_LOOK = 8
"""Whether all rows have ended is asked every so many steps, for the question waits for the device."""

Draw = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], "tuple[torch.Tensor, torch.Tensor]"]
"""Logits (rows, vocabulary), what each row is drawn by (rows, settings) and the step, to one token a row, and whether
the row is settled: where it is not, the token may be another than the one that the whole vocabulary gives."""


def is_known(model: Any) -> bool:
    """Say whether a model has the layers that are computed here."""
    config = model.config
    known: bool = (
        type(model).__name__ in _KNOWN
        and getattr(config, "hidden_act", "") == "silu"
        and not getattr(config, "use_sliding_window", False)
        and not getattr(config, "mlp_bias", False)
        and _plain_rotary(config)
    )
    return known


def _plain_rotary(config: Any) -> bool:
    found = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    return str(found.get("rope_type", found.get("type", "default"))) == "default"


@dataclass(frozen=True, eq=False)
class _Layer:
    """One layer's weights: queries, keys and values in one matrix, and gate and up in one."""

    norm: "torch.Tensor"
    qkv: "torch.Tensor"
    qkv_bias: "torch.Tensor | None"
    out: "torch.Tensor"
    out_bias: "torch.Tensor | None"
    second_norm: "torch.Tensor"
    gate_up: "torch.Tensor"
    down: "torch.Tensor"

    @classmethod
    def of(cls, layer: Any) -> "_Layer":
        """Take the weights of a layer of transformers."""
        import torch

        attention, mlp = layer.self_attn, layer.mlp
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        biases = [part.bias for part in parts]
        return cls(
            norm=layer.input_layernorm.weight,
            qkv=torch.cat([part.weight for part in parts]),
            qkv_bias=None if biases[0] is None else torch.cat(biases),
            out=attention.o_proj.weight,
            out_bias=attention.o_proj.bias,
            second_norm=layer.post_attention_layernorm.weight,
            gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
            down=mlp.down_proj.weight,
        )


@dataclass(frozen=True, eq=False)
class _Batch:
    """The buffers of one shape: what a step reads and writes, and the graph of the step where the device has graphs."""

    keys: "torch.Tensor"
    values: "torch.Tensor"
    mask: "torch.Tensor"
    token: "torch.Tensor"
    position: "torch.Tensor"
    step: "torch.Tensor"
    settings: "torch.Tensor"
    drawn: "torch.Tensor"
    ended: "torch.Tensor"
    settled: "torch.Tensor"
    replay: Callable[[], None]


class Decoder:
    """Decode with a model of transformers: prompts in, drawn tokens out.

    ``draw`` turns logits into tokens; ``ends`` are the tokens that end an answer. One thread at a time may use it.
    """

    def __init__(self, model: Any, draw: Draw, ends: frozenset[int], pad: int) -> None:
        import torch

        config, inner = model.config, model.model
        self._draw, self._pad = draw, pad
        self._device, self._dtype = model.device, inner.embed_tokens.weight.dtype
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self._size = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._epsilon = config.rms_norm_eps
        with torch.inference_mode():
            self._layers = [_Layer.of(layer) for layer in inner.layers]
            self._embedding, self._norm, self._head = inner.embed_tokens.weight, inner.norm.weight, model.lm_head.weight
            self._ends = torch.tensor(sorted(ends), device=self._device)
            every = torch.arange(config.max_position_embeddings, device=self._device)[None]
            self._turns = tuple(table[0] for table in inner.rotary_emb(self._embedding[:1], every))
        self._batches: dict[tuple[int, int, int], _Batch] = {}

    @property
    def longest(self) -> int:
        """Return how many tokens a prompt and its answer may have together."""
        return len(self._turns[0])

    def rows(self, width: int) -> int:
        """Return how many prompts of this width in tokens may be decoded at once: as many as memory holds easily."""
        import torch

        if self._device.type != "cuda":
            return _ROWS[0]
        row = 4 * len(self._layers) * self._groups * self._size * (width + _WIDTH) + 16 * len(self._head)
        free, _ = torch.cuda.mem_get_info(self._device)
        return max((rows for rows in _ROWS if rows * row < free // 4), default=_ROWS[0])

    def decode(
        self, prompts: Sequence[Sequence[int]], settings: "torch.Tensor", tokens: int
    ) -> "list[list[int] | None]":
        """Return ``tokens`` drawn tokens for each prompt, or None where some draw was not settled.

        What follows an end means nothing.
        """
        import torch

        with torch.inference_mode():
            width = min(-(-max(map(len, prompts)) // _WIDTH) * _WIDTH, self.longest - tokens)
            batch = self._batch(_fitting(len(prompts)), width, tokens)
            self._begin(batch, prompts, settings, width)
            places = torch.arange(len(prompts), device=self._device)
            drawn = torch.zeros((len(prompts), tokens), dtype=torch.int64, device=self._device)
            settled = torch.ones(len(prompts), dtype=torch.bool, device=self._device)
            for number in range(1, tokens):
                if number % _LOOK == 0:
                    left = torch.nonzero(~batch.ended[: len(places)])[:, 0]
                    if len(left) == 0:
                        break
                    if _fitting(len(left)) < len(batch.token):
                        drawn[places], settled[places] = batch.drawn[: len(places)], batch.settled[: len(places)]
                        batch = self._moved(batch, left, self._batch(_fitting(len(left)), width, tokens))
                        places = places[left]
                batch.replay()
            drawn[places], settled[places] = batch.drawn[: len(places)], batch.settled[: len(places)]
            rows = zip(drawn.tolist(), settled.tolist(), strict=True)
        return [row if is_settled else None for row, is_settled in rows]

    def _moved(self, batch: _Batch, left: "torch.Tensor", smaller: _Batch) -> _Batch:
        """Return a smaller batch that goes on with these rows alone, for the others have ended."""
        count = len(left)
        smaller.keys[:, :count], smaller.values[:, :count] = batch.keys[:, left], batch.values[:, left]
        for name in ("mask", "token", "position", "settings", "drawn", "settled"):
            getattr(smaller, name)[:count] = getattr(batch, name)[left]
        smaller.position[count:] = 1
        smaller.ended[:] = True
        smaller.ended[:count] = False
        smaller.step.copy_(batch.step)
        return smaller

    def _batch(self, rows: int, width: int, tokens: int) -> _Batch:
        """Return the buffers of a shape; those of the last few shapes are kept."""
        import torch

        if (known := self._batches.pop((rows, width, tokens), None)) is not None:
            self._batches[rows, width, tokens] = known  # the last one used stands last
            return known
        while len(self._batches) >= _SHAPES:
            del self._batches[next(iter(self._batches))]
        length, device = width + tokens, self._device
        shape = (len(self._layers), rows, self._groups, length, self._size)
        keys, values = (torch.zeros(shape, dtype=self._dtype, device=device) for _ in range(2))
        whole = {"dtype": torch.int64, "device": device}
        batch = _Batch(
            keys=keys,
            values=values,
            mask=torch.full((rows, length), float("-inf"), dtype=self._dtype, device=device),
            token=torch.zeros(rows, **whole),
            position=torch.zeros(rows, **whole),
            step=torch.zeros(1, **whole),
            settings=torch.ones((rows, 3), dtype=torch.float64, device=device),
            drawn=torch.zeros((rows, tokens), **whole),
            ended=torch.zeros(rows, dtype=torch.bool, device=device),
            settled=torch.zeros(rows, dtype=torch.bool, device=device),
            replay=lambda: self._step(batch),
        )
        if device.type == "cuda":
            batch = self._captured(batch)
        self._batches[rows, width, tokens] = batch
        return batch

    def _captured(self, batch: _Batch) -> _Batch:
        """Return the same buffers with the step as a graph."""
        import torch

        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._step(batch)
                batch.step.zero_()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(batch)
        return replace(batch, replay=graph.replay)

    def _begin(self, batch: _Batch, prompts: Sequence[Sequence[int]], settings: "torch.Tensor", width: int) -> None:
        """Put the prompts through the layers, and draw the first token of each."""
        import torch

        rows, count = len(batch.token), len(prompts)
        lengths = torch.ones(rows, dtype=torch.int64, device=self._device)
        lengths[:count] = torch.tensor([len(prompt) for prompt in prompts], device=self._device)
        batch.settings[:count] = settings
        batch.ended[:], batch.settled[:] = True, True
        batch.ended[:count] = False
        last = torch.zeros((rows, self._embedding.shape[1]), dtype=self._dtype, device=self._device)
        chunk = max(1, _PREFILL // width)
        for start in range(0, count, chunk):
            some = prompts[start : start + chunk]
            ids = torch.tensor(
                [[*prompt, *[self._pad] * (width - len(prompt))] for prompt in some], device=self._device
            )
            where = slice(start, start + len(some))
            states = self._prefill(ids, batch, where)
            last[where] = states[torch.arange(len(some), device=self._device), lengths[where] - 1]
        beyond = torch.arange(batch.mask.shape[1], device=self._device) >= lengths[:, None]
        batch.mask.zero_().masked_fill_(beyond, float("-inf"))
        batch.position.copy_(lengths)
        batch.step.zero_()
        batch.drawn.zero_()
        self._take(batch, last)

    def _prefill(self, ids: "torch.Tensor", batch: _Batch, where: slice) -> "torch.Tensor":
        """Return the states of prompts, and write their keys and values.

        Prompts stand at the front of their rows. A token sees those before it alone, so what fills a row up is never
        seen.
        """
        import torch

        width = ids.shape[1]
        states = torch.nn.functional.embedding(ids, self._embedding)
        turn = self._turn(torch.arange(width, device=self._device)[None])
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._project(layer, states, turn)
            batch.keys[number, where, :, :width] = keys
            batch.values[number, where, :, :width] = values
            attended = torch.nn.functional.scaled_dot_product_attention(
                queries, keys, values, is_causal=True, enable_gqa=True
            )
            states = self._finish(layer, states, attended.transpose(1, 2).flatten(2))
        return states

    def _step(self, batch: _Batch) -> None:
        """Put the drawn tokens through the layers, and draw the next ones."""
        import torch

        states = torch.nn.functional.embedding(batch.token, self._embedding)[:, None]
        turn = self._turn(batch.position[:, None])
        batch.mask.scatter_(1, batch.position[:, None], 0.0)
        place = batch.position[:, None, None, None].expand(-1, self._groups, 1, self._size)
        per, scale = self._heads // self._groups, self._size**-0.5
        for number, layer in enumerate(self._layers):
            queries, keys, values = self._project(layer, states, turn)
            batch.keys[number].scatter_(2, place, keys)
            batch.values[number].scatter_(2, place, values)
            grouped = queries.reshape(-1, self._groups, per, self._size)
            likeness = grouped @ batch.keys[number].transpose(2, 3) * scale + batch.mask[:, None, None]
            weights = torch.softmax(likeness.float(), dim=-1).to(self._dtype)
            states = self._finish(layer, states, (weights @ batch.values[number]).reshape(len(states), 1, -1))
        batch.position.add_(1)
        self._take(batch, states[:, -1])

    def _turn(self, positions: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        """Return the cosines and sines by which keys and queries at these positions are turned."""
        return tuple(table[positions] for table in self._turns)

    def _project(self, layer: _Layer, states: "torch.Tensor", turn: Any) -> tuple[Any, Any, Any]:
        """Return queries, keys and values as (rows, heads, tokens, size), the first two turned by their positions."""
        import torch

        rows, width = states.shape[:2]
        joined = torch.nn.functional.linear(self._normed(states, layer.norm), layer.qkv, layer.qkv_bias)
        heads = joined.view(rows, width, -1, self._size).transpose(1, 2)
        queries, keys, values = torch.split(heads, [self._heads, self._groups, self._groups], dim=1)
        cos, sin = (each[:, None] for each in turn)
        return _turned(queries, cos, sin), _turned(keys, cos, sin), values

    def _finish(self, layer: _Layer, states: "torch.Tensor", attended: "torch.Tensor") -> "torch.Tensor":
        """Return the states after a layer, whose attention is given."""
        import torch

        states = states + torch.nn.functional.linear(attended, layer.out, layer.out_bias)
        gate, up = torch.nn.functional.linear(self._normed(states, layer.second_norm), layer.gate_up).chunk(2, dim=-1)
        return states + torch.nn.functional.linear(torch.nn.functional.silu(gate) * up, layer.down)

    def _normed(self, states: "torch.Tensor", weight: "torch.Tensor") -> "torch.Tensor":
        import torch

        wide = states.float()
        scaled = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self._epsilon)
        return weight * scaled.to(states.dtype)

    def _take(self, batch: _Batch, states: "torch.Tensor") -> None:
        """Draw a token from each row's last state, and note which rows have ended."""
        import torch

        logits = torch.nn.functional.linear(self._normed(states, self._norm), self._head)
        token, settled = self._draw(logits, batch.settings, batch.step)
        batch.token.copy_(token)
        batch.settled.logical_and_(settled | batch.ended)
        batch.drawn.index_copy_(1, batch.step, batch.token[:, None])
        batch.ended.logical_or_((batch.token[:, None] == self._ends).any(dim=-1))
        batch.step.add_(1)


def _fitting(count: int) -> int:
    """Return the smallest size of a batch that holds so many rows."""
    return next(size for size in _ROWS if count <= size)


def _turned(heads: "torch.Tensor", cos: "torch.Tensor", sin: "torch.Tensor") -> "torch.Tensor":
    import torch

    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin
