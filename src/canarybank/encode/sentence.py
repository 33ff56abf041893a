"""Encode with any sentence-transformers model.

A text's vector depends a little on its batch-mates, for padding and the shapes of matrix products change the order
of floating-point sums. No coordinate moves by more than ``TOLERANCE`` says for the precision, which tests hold; in
float32 about 3e-7 is seen, in float16 3e-4, in bfloat16 2e-3.

What routing does with the difference: nothing, for it is exact on the float32 vectors that it is given. If every
coordinate of unit vectors of dimension d moves by at most t, the squared distances from one record to two bank
entries move by at most 8·t·sqrt(d) against each other. So only entries that are closer to a tie than that (3.1e-4
for t = 2e-6, d = 384) could trade places between two encodings of the same texts. Within a run, and between runs
that share a cache, none do: a cached vector is fixed once it is written, and a run's bank and vectors are hashed.

The fingerprint covers the sha256 of weights, tokenizer and configurations, the precision, and the major version of
sentence-transformers. The device is left out: its effect is of the same size as that of batch-mates.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from canarybank.encode.half_precision import check_half_precision
from canarybank.encode.models import find_model, model_hashes
from canarybank.encode.protocol import Precision, Vectors, check_texts, readable, unit_vectors
from canarybank.errors import DataError, InputError, MissingError
from canarybank.store import hash_json

__all__ = ["TOLERANCE", "SentenceEncoder", "pick_device"]

TOLERANCE: Mapping[Precision, float] = MappingProxyType(
    {Precision.FLOAT32: 2e-6, Precision.FLOAT16: 2e-3, Precision.BFLOAT16: 1.5e-2}
)
_BATCH = {"cpu": 32}
_ACCELERATOR_BATCH = 256
_CALL_BATCHES = 8


class SentenceEncoder:
    """A sentence-transformers model as an encoder."""

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        batch_size: int | None = None,
        precision: Precision | str = Precision.FLOAT32,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise InputError(f"A batch needs at least one text, not {batch_size}.")
        self.precision = Precision.of(precision)
        folder = find_model(model)
        self.name = model
        self.device = pick_device(device)
        if self.device == "cpu":
            check_half_precision(self.precision)
        self.batch_size = batch_size or _BATCH.get(self.device, _ACCELERATOR_BATCH)
        self.block = _CALL_BATCHES * self.batch_size
        self._model = _load(model, folder, self.device, self.precision)
        self.dimension = self.encode(["dimension"]).shape[1]
        self.fingerprint = _fingerprint(folder, self.precision)

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order; batches are of texts of like length."""
        checked = readable(check_texts(texts))
        if not checked:
            return np.empty((0, self.dimension), dtype=np.float32)
        order = np.argsort(self._lengths(checked), kind="stable")[::-1]
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        tensors = [self._batch([checked[position] for position in batch]) for batch in batches]
        vectors = np.empty((len(checked), tensors[0].shape[1]), dtype=np.float32)
        for batch, tensor in zip(batches, tensors, strict=True):
            vectors[batch] = tensor.float().cpu().numpy()
        return unit_vectors(vectors)

    def _batch(self, texts: list[str]) -> Any:
        return self._model.encode(texts, batch_size=len(texts), show_progress_bar=False, convert_to_tensor=True)

    def _lengths(self, texts: list[str]) -> list[int]:
        """Return how long each text is: on a CPU in tokens, for there padding costs more than counting them does."""
        tokenizer = self._model.tokenizer
        if self.device != "cpu" or not callable(tokenizer):
            return [len(text) for text in texts]
        lengths: list[int] = []
        for start in range(0, len(texts), self.block):  # all tokens of all texts at once would fill the memory
            part = tokenizer(texts[start : start + self.block], truncation=True, max_length=self._model.max_seq_length)
            lengths += [len(ids) for ids in part["input_ids"]]
        return lengths


def pick_device(device: str | None = None) -> str:
    """Return the device asked for, else the best one here: CUDA, then MPS, then the CPU."""
    torch = _torch()
    if device is not None:
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                f"The device {device!r} cannot be used here ({error}); leave the device out to use the best one."
            ) from error
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingError(
            "Sentence encoders need torch and sentence-transformers; run: pip install 'canarybank[minilm]'"
        ) from error
    return torch


def _load(name: str, folder: Path, device: str, precision: Precision) -> Any:
    torch = _torch()
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingError(
            f"The encoder {name!r} needs sentence-transformers; run: pip install 'canarybank[minilm]'"
        ) from error
    try:
        with _no_loading_bar():
            model = SentenceTransformer(
                str(folder),
                device=device,
                local_files_only=True,
                model_kwargs={"torch_dtype": getattr(torch, precision.value)},
            )
    except Exception as error:  # each reader of weights and settings raises its own, and they have no common root
        raise DataError(
            f"The folder {str(folder)!r} could not be loaded as a sentence-transformers model on {device!r} "
            f"({type(error).__name__}: {error}); if a file of it is cut short, missing or a git-LFS pointer, download "
            "the model anew."
        ) from error
    _check_vocabulary(folder, model.tokenizer)
    return model.eval()


def _check_vocabulary(folder: Path, tokenizer: Any) -> None:
    """Refuse a tokenizer without its vocabulary, which transformers makes up: all words would be unknown to it."""
    names = set(getattr(tokenizer, "vocab_files_names", {}).values())
    if names and not any(path.name in names for path in folder.rglob("*")):
        raise DataError(
            f"The model in {str(folder)!r} has no vocabulary for its tokenizer: none of {', '.join(sorted(names))} is "
            "there; download the model anew, with all its files."
        )


@contextlib.contextmanager
def _no_loading_bar() -> Iterator[None]:
    from transformers.utils import logging as module

    logging: Any = module

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _fingerprint(folder: Path, precision: Precision) -> str:
    try:
        library = version("sentence-transformers").split(".")[0]
    except PackageNotFoundError:
        library = "unknown"
    return hash_json(
        {
            "encoder": "sentence-transformers",
            "scheme": 1,
            "files": model_hashes(folder),
            "precision": precision.value,
            "library": library,
        }
    )
