"""Load an encoder by name or path."""

from pathlib import Path

from canarybank.encode.protocol import Encoder, Precision
from canarybank.encode.sentence import SentenceEncoder
from canarybank.encode.vectors import GivenVectors
from canarybank.errors import ConfigError, InputError
from canarybank.registry import ENCODERS, call_with, takes

__all__ = ["ENCODERS", "is_vector_file", "load_encoder"]

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
    """Load an encoder that is registered, a npz or parquet file of vectors, or a model of sentence-transformers.

    Args:
        name: A name in ``ENCODERS``, a plug-in as ``module:name``, the path of a file of vectors, or the folder or hub
            name of a sentence-transformers model.
        device: The torch device; left out, the best one here. This and the rest concern encoders that take them.
        batch_size: How many texts share a forward pass.
        precision: The number format to compute in. An encoder that takes none computes in float32, and refuses others.
        isolated: Whether a vector is to depend on its own text alone, to the bit; see ``SentenceEncoder``.

    Example:
        >>> encoder = load_encoder("hashing")
        >>> cat, same, other = encoder.encode(["A cat sleeps.", "The cat sleeps!", "Stocks fell today."])
        >>> bool(cat @ same > cat @ other)
        True
    """
    name = str(name)
    if is_vector_file(name):
        _require_float32(name, precision)
        return GivenVectors(name)
    if not ENCODERS.has(name):
        _refuse_unusable(name)
        return SentenceEncoder(name, device=device, batch_size=batch_size, precision=precision, isolated=isolated)
    factory = ENCODERS.find(name)
    if not takes(factory, "precision"):
        _require_float32(name, precision)
    made = call_with(factory, device=device, batch_size=batch_size, precision=precision, isolated=isolated)
    if not isinstance(made, Encoder):
        raise ConfigError(
            f"The encoder {name!r} made a {type(made).__name__}, which is no encoder; it needs name, dimension, "
            "fingerprint and encode. See canarybank.testing.check_encoder."
        )
    return made


def is_vector_file(name: str) -> bool:
    """Say whether an encoder's name is that of a file of vectors, which knows only the texts that it holds."""
    return Path(name).suffix.lower() in _VECTOR_FILES


def _require_float32(name: str, precision: Precision | str) -> None:
    if Precision.of(precision) is not Precision.FLOAT32:
        raise InputError(f"The encoder {name!r} computes in float32 only, not {precision}; leave the precision out.")


def _refuse_unusable(name: str) -> None:
    if not name:
        raise InputError(f"An encoder needs a name or a path; the built-in names are {', '.join(ENCODERS.places)}.")
    if Path(name).expanduser().is_file():
        raise ConfigError(
            f"The encoder {name!r} is a file, and neither the folder of a model nor a file of vectors; give the folder "
            "of a sentence-transformers model, or save vectors as .npz or .parquet."
        )
    if name.lower() in _VECTOR_WORDS and not Path(name).is_dir():
        raise InputError(f"The encoder {name!r} names no file; give the path of the npz or parquet file of vectors.")
    ENCODERS.check(name)
