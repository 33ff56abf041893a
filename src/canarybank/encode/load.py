"""Load an encoder by name or path."""

import difflib
from pathlib import Path

from canarybank.encode.hashing import HashingEncoder
from canarybank.encode.models import HUB_NAMES
from canarybank.encode.protocol import Encoder, Precision
from canarybank.encode.sentence import SentenceEncoder
from canarybank.encode.vectors import GivenVectors
from canarybank.encode.wordllama import WordLlamaEncoder
from canarybank.errors import ConfigError, InputError

__all__ = ["ENCODERS", "is_vector_file", "load_encoder"]

ENCODERS = ("hashing", "minilm", *HUB_NAMES, "wordllama")
_VECTOR_FILES = {".npz", ".parquet"}
_VECTOR_WORDS = {"vector", "vectors", "npz", "parquet"}


def load_encoder(
    name: str | Path = "wordllama",
    *,
    device: str | None = None,
    batch_size: int | None = None,
    precision: Precision | str = Precision.FLOAT32,
    isolated: bool = False,
) -> Encoder:
    """Load one of ``ENCODERS``, a npz or parquet file of vectors, or a sentence-transformers model by folder or name.

    Device, batch size, precision and isolation concern models that run on torch. Left out, the device is the best one
    here. ``isolated=True`` gives vectors that depend on their own text alone, to the bit; see ``SentenceEncoder``.
    """
    name = str(name)
    if name in {"wordllama", "hashing"} or is_vector_file(name):
        if Precision.of(precision) is not Precision.FLOAT32:
            raise InputError(
                f"The encoder {name!r} computes in float32 only, not {precision}; leave the precision out."
            )
        return _light(name)
    _refuse_typo(name)
    return SentenceEncoder(name, device=device, batch_size=batch_size, precision=precision, isolated=isolated)


def is_vector_file(name: str) -> bool:
    """Say whether an encoder's name is that of a file of vectors, which knows only the texts that it holds."""
    return Path(name).suffix.lower() in _VECTOR_FILES


def _light(name: str) -> Encoder:
    if name == "wordllama":
        return WordLlamaEncoder()
    return HashingEncoder() if name == "hashing" else GivenVectors(name)


def _refuse_typo(name: str) -> None:
    if not name:
        raise InputError(f"An encoder needs a name or a path; the built-in names are {', '.join(ENCODERS)}.")
    if name in ENCODERS:
        return
    if Path(name).expanduser().is_file():
        raise ConfigError(
            f"The encoder {name!r} is a file, and neither the folder of a model nor a file of vectors; give the folder "
            "of a sentence-transformers model, or save vectors as .npz or .parquet."
        )
    if "/" in name or Path(name).expanduser().is_dir():
        return
    if name.lower() in _VECTOR_WORDS:
        raise InputError(f"The encoder {name!r} names no file; give the path of the npz or parquet file of vectors.")
    if close := difflib.get_close_matches(name, ENCODERS, n=1, cutoff=0.75):
        raise InputError(f"There is no encoder {name!r}; did you mean {close[0]!r}?")
