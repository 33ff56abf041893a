"""Encode with any sentence-transformers model.

A text's vector depends a little on its batch-mates, for padding and the shapes of matrix products change the order
of floating-point sums. No coordinate moves by more than ``TOLERANCE`` says for the precision, which tests hold; in
float32 about 3e-7 is seen, in float16 3e-4, in bfloat16 2e-3.

What routing does with the difference: nothing, for it is exact on the float32 vectors that it is given. If every
coordinate of unit vectors of dimension d moves by at most t, the squared distances from one record to two bank
entries move by at most 8·t·sqrt(d) against each other. So only entries that are closer to a tie than that (3.1e-4
for t = 2e-6, d = 384) could trade places between two encodings of the same texts. Within a run, and between runs
that share a cache, none do: a cached vector is fixed once it is written, and a run's bank and vectors are hashed. A
pass that keeps no vectors (``low_precision``) is on CUDA, where a vector depends on its own text alone.

The fingerprint covers the sha256 of weights, tokenizer and configurations, the precision, and the major version of
sentence-transformers. The device is left out: its effect is of the same size as that of batch-mates.

That is good enough for an audit, which is a simulation. A release from real users needs more: one user's texts must
not move a bit of another's vectors. So an *isolated* encoder gives every text a forward pass of its own, at its own
length and without padding, on one thread: a product of matrices is split by their shapes and by the number of threads,
and with both fixed by the text alone, so is the order of every sum. Its fingerprint says so, and covers what else
decides the bits (exact versions, the kind of device, the processor): in the cache its vectors lie apart, and none that
was encoded in a batch, by other software or on another processor is ever taken for one of its own.

On CUDA a BERT model is encoded in batches of fixed shapes instead (``fixed_shapes``), isolated or not: a text's vector
depends on its own text alone there too, at many times the speed.
"""

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from canarybank.encode.fixed_shapes import TOLERANCE, FixedShapes, has_mixed_products
from canarybank.encode.half_precision import check_half_precision
from canarybank.encode.low_precision import SplitEncoder
from canarybank.encode.models import find_model, model_hashes
from canarybank.encode.protocol import Precision, Vectors, check_texts, plain_tokens, readable, unit_vectors
from canarybank.errors import DataError, InputError, MissingError
from canarybank.store import hash_json

__all__ = [
    "MINILM",
    "MINILM_L12",
    "MPNET",
    "TOLERANCE",
    "DeferredMiniLM",
    "SentenceEncoder",
    "device_in_use",
    "pick_device",
    "pick_double_device",
]

_BATCH = {"cpu": 32}
_ACCELERATOR_BATCH = 256
_CALL_BATCHES = 8
_BLOCK_ISOLATED = 256
_BLOCK_SHAPES = 1 << 16
_in_use: list[str] = []
_DRIVERS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
_DECISIVE_PACKAGES = ("sentence-transformers", "tokenizers", "torch", "transformers")
_DECISIVE_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
)


class SentenceEncoder:
    """A sentence-transformers model as an encoder.

    Args:
        model: A short name, a folder, or a name on the hub.
        device: Where to compute; left out, the best device here.
        batch_size: How many texts share a forward pass. An isolated encoder takes one, whatever is given.
        precision: The number format to compute in.
        isolated: Whether a vector is to depend on its own text alone, to the bit. It takes longer: `make bench`
            prints how much.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        batch_size: int | None = None,
        precision: Precision | str = Precision.FLOAT32,
        isolated: bool = False,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise InputError(f"A batch needs at least one text, not {batch_size}.")
        self.precision = Precision.of(precision)
        folder = find_model(model)
        self.name = model
        self.device = pick_device(device)
        if self.device == "cpu":
            check_half_precision(self.precision)
        self.isolated = isolated
        self.batch_size = 1 if isolated else batch_size or _BATCH.get(self.device, _ACCELERATOR_BATCH)
        self.block = _BLOCK_ISOLATED if isolated else _CALL_BATCHES * self.batch_size
        self._model = _load(model, folder, self.device, self.precision)
        on_cuda = self.device.startswith("cuda")
        self.shapes = FixedShapes.of(self._model, self.precision, self.device, rows=batch_size) if on_cuda else None
        if self.shapes is not None:
            self.block = _BLOCK_SHAPES
        if on_cuda:
            _in_use.append(self.device)
        self.dimension = self.encode(["dimension"]).shape[1]
        self.fingerprint = _fingerprint(folder, self.precision, self._bits() if isolated else {})

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order; batches are of texts of like length."""
        checked = readable(check_texts(texts))
        if not checked:
            return np.empty((0, self.dimension), dtype=np.float32)
        if self.shapes is not None:
            return _finite(self.shapes.encode(checked))
        if self.isolated:
            return unit_vectors(self._one_by_one(checked))
        order = np.argsort(self._lengths(checked), kind="stable")[::-1]
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        tensors = [self._forward([checked[at] for at in batch], len(batch)) for batch in batches]
        vectors = np.empty((len(checked), tensors[0].shape[1]), dtype=np.float32)
        for batch, tensor in zip(batches, tensors, strict=True):
            vectors[batch] = tensor.float().cpu().numpy()
        return unit_vectors(vectors)

    @cached_property
    def fast_encoder(self) -> SplitEncoder | None:
        """Return what encodes nearly to the same vectors by tensor cores; None but for float32 in fixed shapes."""
        if self.shapes is None or self.precision is not Precision.FLOAT32:
            return None
        if not has_mixed_products(self.device, Precision.FLOAT16):
            return None
        return SplitEncoder(self.shapes)

    def _one_by_one(self, texts: list[str]) -> Vectors:
        """Return the vectors of texts, each from a forward pass of its own on one thread."""
        torch = _torch()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            vectors: Vectors = self._forward(texts, 1).float().cpu().numpy()
        finally:
            torch.set_num_threads(threads)
        return vectors

    def vocabulary(self) -> tuple[str, ...]:
        """Return the tokens that the model's tokenizer knows, as texts; none where it does not list them."""
        listed = getattr(self._model.tokenizer, "get_vocab", None)
        return plain_tokens(listed(), ("##", "\u2581", "\u0120")) if callable(listed) else ()

    def _forward(self, texts: list[str], batch_size: int) -> Any:
        return self._model.encode(texts, batch_size=batch_size, show_progress_bar=False, convert_to_tensor=True)

    def _bits(self) -> dict[str, Any]:
        """Return what decides the last bits of a text's vector beside the text and the model."""
        return {
            "isolated": True,
            **({} if self.shapes is None else {"shapes": self.shapes.scheme}),
            "device": self.device.partition(":")[0],
            "packages": {name: version(name) for name in _DECISIVE_PACKAGES},
            "processor": _processor(),
            "variables": {name: os.environ.get(name) for name in _DECISIVE_VARIABLES},
        }

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


class DeferredMiniLM:
    """The packaged all-MiniLM-L6-v2 in float32 on the CPU, loaded when the first text has to be encoded.

    Name, dimension and fingerprint follow from its files. So a run whose vectors are all cached never loads torch.
    """

    name, dimension, isolated = "minilm", 384, False

    def __init__(self, batch_size: int | None = None) -> None:
        self._batch_size = batch_size
        self.fingerprint = _fingerprint(find_model(self.name), Precision.FLOAT32, {})

    @cached_property
    def loaded(self) -> SentenceEncoder:
        """Return the encoder itself."""
        return SentenceEncoder(self.name, device="cpu", batch_size=self._batch_size)

    @property
    def block(self) -> int:
        """Return how many texts one call should get."""
        return self.loaded.block

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order."""
        return self.loaded.encode(texts)

    def vocabulary(self) -> tuple[str, ...]:
        """Return the tokens that the model's tokenizer knows, as texts."""
        return self.loaded.vocabulary()


def MINILM(  # noqa: N802, a factory like those below
    *,
    device: str | None = None,
    batch_size: int | None = None,
    precision: Precision | str = Precision.FLOAT32,
    isolated: bool = False,
) -> SentenceEncoder | DeferredMiniLM:
    """Return the packaged all-MiniLM-L6-v2. On a CPU in float32 it is loaded only when it has to encode."""
    is_plain = Precision.of(precision) is Precision.FLOAT32 and not isolated and (batch_size is None or batch_size > 0)
    is_here = all(find_spec(name) is not None for name in ("torch", "sentence_transformers"))
    if is_plain and is_here and (device == "cpu" or (device is None and not _may_have_accelerator())):
        return DeferredMiniLM(batch_size)
    return SentenceEncoder("minilm", device=device, batch_size=batch_size, precision=precision, isolated=isolated)


def _may_have_accelerator() -> bool:
    """Return False only where torch would choose the CPU, without asking torch: Linux without a driver of a GPU."""
    return platform.system() != "Linux" or any(Path(each).exists() for each in _DRIVERS)


MINILM_L12 = partial(SentenceEncoder, "minilm-l12")
MPNET = partial(SentenceEncoder, "mpnet")


def device_in_use() -> str | None:
    """Return the CUDA device of the encoder that was loaded last in this process, or None where all are elsewhere."""
    return _in_use[-1] if _in_use else None


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


def pick_double_device(device: str | None = None) -> str:
    """Return ``pick_device``, but for devices without float64: the CPU is taken in place of MPS."""
    picked = pick_device(device)
    return "cpu" if picked.startswith("mps") else picked


def _finite(vectors: Vectors) -> Vectors:
    """Return unit vectors as they are, or say that the model gave no numbers."""
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        raise InputError(
            f"The encoder gave text {int(np.argmax(bad))} a vector with NaN or infinity; try float32 precision."
        )
    return vectors


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


def _processor() -> list[str]:
    """Return the name of the processor and what it can do: libraries choose their kernels by both."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        return [line for line in lines if line.startswith(("vendor_id", "cpu family", "model", "flags", "Features"))]
    return [platform.machine(), platform.processor()]


def _fingerprint(folder: Path, precision: Precision, bits: Mapping[str, Any]) -> str:
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
            **bits,
        }
    )
