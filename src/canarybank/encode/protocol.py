"""Say what an encoder is, and hold what every back end does alike."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError

__all__ = [
    "Encoder",
    "FastEncoder",
    "Precision",
    "Vectors",
    "check_texts",
    "fast_encoder_of",
    "is_cheap",
    "is_isolated",
    "plain_tokens",
    "readable",
    "unit_vectors",
    "vocabulary_of",
]

Vectors = NDArray[np.float32]


@runtime_checkable
class Encoder(Protocol):
    """Anything that turns texts into unit vectors.

    The fingerprint is the sha256 of all that decides the vectors: encoders with one fingerprint give the same vectors
    to within the tolerance that their module states, so they share a cache. An encoder may also have these attributes:

    - ``block``, the number of texts in one call that suits it (1,024 where there is none);
    - ``isolated``, True where a vector depends on its own text alone: no bit of it changes with the other texts of a
      call, their order or number, or with what was encoded before. Read it with ``is_isolated``. A release from real
      users needs it: otherwise one user's texts can move the votes of all others, and the sensitivity is not what the
      accountant assumes. The fingerprint of such an encoder covers all that decides the bits;
    - ``cheap``, True where encoding a text takes less than keeping its vector: a pass over shards then encodes anew and
      keeps no vector. Read it with ``is_cheap``;
    - ``fast_encoder``, a ``FastEncoder`` whose vectors are nearly these; None, or left out, where there is none. Offer
      one only where a vector depends on its own text alone: ``encode`` is then asked for some of the texts.

    And it may have a method ``vocabulary()`` that returns the tokens it knows, as texts: see ``vocabulary_of``.
    """

    @property
    def name(self) -> str:
        """Return the name that people know the encoder by."""

    @property
    def dimension(self) -> int:
        """Return the length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Return the sha256 of all that decides the vectors."""

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 unit vector a text, in order."""


class FastEncoder(Protocol):
    """A faster encoder whose vectors are nearly those of a slower one."""

    @property
    def drift(self) -> float:
        """Return a positive bound on the distance between a text's vector here and the slower encoder's."""

    @property
    def least_texts(self) -> int:
        """Return from how many texts on this encoder saves time; fewer are better encoded in full precision."""

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return one float32 vector a text, in order; NaN or infinity where there is none to be had."""


def is_isolated(encoder: Encoder) -> bool:
    """Return whether an encoder promises that a vector depends on its own text alone, to the bit.

    Args:
        encoder: The encoder; one that says nothing promises nothing.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> is_isolated(HashingEncoder())
        True
    """
    return bool(getattr(encoder, "isolated", False))


def is_cheap(encoder: Encoder) -> bool:
    """Return whether an encoder says that encoding a text takes less than keeping its vector.

    Args:
        encoder: The encoder; one that says nothing is not cheap.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> is_cheap(HashingEncoder())
        True
    """
    return bool(getattr(encoder, "cheap", False))


def fast_encoder_of(encoder: Encoder) -> FastEncoder | None:
    """Return the fast encoder that an encoder offers, or None."""
    fast: FastEncoder | None = getattr(encoder, "fast_encoder", None)
    return fast


def vocabulary_of(encoder: Encoder) -> tuple[str, ...]:
    """Return the tokens that an encoder knows, as texts in a fixed order; none where it does not say.

    Args:
        encoder: The encoder; its method ``vocabulary`` is asked where it has one.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> class Spelling(HashingEncoder):
        ...     def vocabulary(self):
        ...         return ["alfa", "bravo"]
        >>> vocabulary_of(Spelling()), vocabulary_of(HashingEncoder())
        (('alfa', 'bravo'), ())
    """
    listed = getattr(encoder, "vocabulary", None)
    return tuple(listed()) if callable(listed) else ()


def plain_tokens(tokens: Iterable[str], marks: Sequence[str]) -> tuple[str, ...]:
    """Return a tokenizer's tokens as texts: without the marks of where words begin, and without control tokens."""
    texts = set()
    for token in tokens:
        text = token
        for mark in marks:
            text = text.replace(mark, " ")
        text = text.strip()
        if text and not (text[0] + text[-1] in {"<>", "[]"} and text[1:-1].strip("/").replace("_", "").isalnum()):
            texts.add(text)
    return tuple(sorted(texts))


class Precision(StrEnum):
    """The number format that a model computes in; vectors come out as float32 all the same."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"

    @classmethod
    def of(cls, value: "str | Precision") -> "Precision":
        """Return the precision of that name."""
        try:
            return cls(value)
        except ValueError as error:
            raise InputError(f"There is no precision {value!r}; choose one of {', '.join(cls)}.") from error


def check_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts as a list, or say which of them is no text."""
    if isinstance(texts, str):
        raise InputError("Encode takes a sequence of texts, not one text; put it in a list.")
    checked = list(texts)
    if not all(isinstance(text, str) for text in checked):
        position, kind = next((i, type(text).__name__) for i, text in enumerate(checked) if not isinstance(text, str))
        raise InputError(f"Text {position} is of type {kind}, not a string; convert it or drop it first.")
    return checked


def readable(texts: list[str]) -> list[str]:
    """Return the texts with halves of broken surrogate pairs replaced by U+FFFD, which no tokenizer refuses."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    return texts


def unit_vectors(values: ArrayLike) -> Vectors:
    """Scale each row to length one, as float32.

    A zero row has no direction; an empty text or one without a known token gives it. It becomes the vector whose
    entries are all 1/sqrt(dimension), so that such texts are alike and repeat. NaN and infinity are an error.

    Args:
        values: One row a text, of any lengths.

    Example:
        >>> print(unit_vectors([[3.0, 4.0], [0.0, 0.0]]).round(3))
        [[0.6   0.8  ]
         [0.707 0.707]]
    """
    rows = np.asarray(values, dtype=np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not np.isfinite(lengths).all():
        bad = int(np.argmin(np.isfinite(lengths)))
        raise InputError(f"The encoder gave text {bad} a vector with NaN or infinity; try float32 precision.")
    empty = lengths == 0
    if empty.any():
        rows = np.where(empty[:, None], np.float32(1), rows)
        lengths = np.where(empty, np.sqrt(rows.shape[1]), lengths)
    scaled: Vectors = (rows / lengths[:, None]).astype(np.float32)
    return scaled
