"""Use vectors that somebody else computed, from a npz or parquet file keyed by text.

A npz file holds the array ``vectors`` (rows, dimension) and either ``texts`` or ``sha256``, one a row; a parquet file
has a column ``vector`` and either ``text`` or ``sha256``. The sha256 is that of the text's UTF-8 bytes, in hexadecimal
or as its 32 bytes, for those who would rather not write their texts down twice. Vectors are scaled to length one.
Keying by row number is not offered: rows move when a file is filtered or capped, and a vector would silently belong to
another text. Vectors that stand in the order of records go to ``Users.with_vectors``.

The fingerprint is the sha256 of the file. A vector comes from the file as it is, so batch-mates cannot change it.
"""

import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.protocol import Vectors, check_texts, unit_vectors
from canarybank.errors import DataError
from canarybank.store import check_parquet, hash_file, hash_json, hash_text, parquet_errors, require_file

__all__ = ["GivenVectors"]

_TABLE_AXES = 2
_DIGEST_BYTES = 32
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SINGLE = np.finfo(np.float32)
_ODD = (KeyError, NotImplementedError, RuntimeError, SyntaxError, MemoryError, OverflowError)
"""What numpy and zipfile raise as well at headers that were damaged."""


class GivenVectors:
    """An encoder that looks texts up in a file of vectors."""

    isolated = True
    cheap = True

    def __init__(self, path: Path | str) -> None:
        path = Path(path).expanduser()
        require_file(path, "file of vectors")
        keys, rows = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_npz(path)
        rows = _checked(path, keys, rows)
        self.name = f"vectors:{path.name}"
        self.fingerprint = hash_json({"encoder": "vectors", "scheme": 1, "file": hash_file(path)})
        self._path = path
        self._vectors = unit_vectors(rows)
        self.dimension = self._vectors.shape[1]
        self._rows = {key: row for row, key in reversed(list(enumerate(keys)))}
        self._check_repeats(keys)

    def __len__(self) -> int:
        return len(self._rows)

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Return the vector of each text, in order, or say how many texts the file lacks."""
        checked = check_texts(texts)
        rows = [self._rows.get(hash_text(text), -1) for text in checked]
        if absent := [text for text, row in zip(checked, rows, strict=True) if row < 0]:
            raise DataError(
                f"{str(self._path)!r} has no vector for {len(absent)} of {len(checked)} texts, the first being "
                f"{absent[0][:60]!r}; add them to the file, or choose an encoder that reads texts, as nonces, "
                "paraphrases and generated candidates need."
            )
        return self._vectors[np.array(rows, dtype=np.int64)]

    def _check_repeats(self, keys: list[str]) -> None:
        for row, key in enumerate(keys):
            first = self._rows[key]
            if first != row and not np.array_equal(self._vectors[first], self._vectors[row]):
                raise DataError(
                    f"Rows {first} and {row} of {str(self._path)!r} give one text two vectors; keep one of them."
                )


def _read_npz(path: Path) -> tuple[list[str], NDArray[Any]]:
    try:
        # Opened here, because numpy leaves a file open that proves to be no archive.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            held = {name: file[name] for name in ("vectors", "texts", "sha256") if name in file.files}
            names = file.files
    except (OSError, TypeError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, *_ODD) as error:
        raise DataError(
            f"{str(path)!r} cannot be read as npz ({error}); save plain arrays by numpy.savez, texts as strings."
        ) from error
    if "vectors" not in held or not {"texts", "sha256"} & held.keys():
        raise DataError(f"{str(path)!r} needs the arrays 'vectors' and 'texts' or 'sha256'; it has {sorted(names)}.")
    name, kinds = ("texts", "U") if "texts" in held else ("sha256", "US")
    values = held[name]
    if values.ndim != 1 or values.dtype.kind not in kinds:
        raise DataError(
            f"The array {name!r} of {str(path)!r} must be one row of strings, not {values.dtype} of shape "
            f"{values.shape}; save it as numpy.array of a list of str."
        )
    if name == "texts":
        return [hash_text(text) for text in values.tolist()], held["vectors"]
    return _hexadecimal(path, _whole_bytes(values)), held["vectors"]


def _whole_bytes(values: NDArray[Any]) -> list[Any]:
    """Return an array's strings, digests with the zero bytes at their end that numpy takes for padding."""
    is_digest = values.dtype.kind == "S" and values.dtype.itemsize == _DIGEST_BYTES
    return [value.ljust(_DIGEST_BYTES, b"\0") if is_digest else value for value in values.tolist()]


def _read_parquet(path: Path) -> tuple[list[str], NDArray[Any]]:
    import polars as pl

    check_parquet(path)
    with parquet_errors(path):
        frame = pl.read_parquet(path, glob=False)
    if "vector" not in frame.columns or not {"text", "sha256"} & set(frame.columns):
        raise DataError(f"{str(path)!r} needs the columns 'vector' and 'text' or 'sha256'; it has {frame.columns}.")
    column = "text" if "text" in frame.columns else "sha256"
    if frame["vector"].null_count() or frame[column].null_count():
        raise DataError(f"{str(path)!r} has rows without a vector or a {column}; drop them.")
    kind = frame["vector"].dtype
    if not isinstance(kind, pl.List | pl.Array):
        raise DataError(f"The column 'vector' of {str(path)!r} must hold lists of numbers, but it is of type {kind}.")
    width = len(frame["vector"][0]) if len(frame) else 0
    number = pl.Float32 if kind.inner == pl.Float32 else pl.Float64
    try:
        rows = frame["vector"].cast(pl.Array(number, width)).to_numpy()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"The vectors of {str(path)!r} are not lists of {width} numbers each ({error}).") from error
    if column == "sha256" and frame[column].dtype == pl.Binary:
        return _hexadecimal(path, frame[column].to_list()), rows
    try:
        values = frame[column].cast(pl.String).to_list()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(
            f"The column {column!r} of {str(path)!r} must hold strings, but it is of type {frame[column].dtype} "
            f"({error}); write it as strings."
        ) from error
    return [hash_text(text) for text in values] if column == "text" else _hexadecimal(path, values), rows


def _hexadecimal(path: Path, values: list[Any]) -> list[str]:
    keys = [_digits(value) for value in values]
    for row, key in enumerate(keys):
        if not _DIGEST.fullmatch(key):
            raise DataError(
                f"Row {row} of {str(path)!r} has the sha256 {key[:80]!r}, which is not one; give the 64 hexadecimal "
                "digits or the 32 bytes of the digest of the text's UTF-8 bytes."
            )
    return keys


def _digits(value: str | bytes) -> str:
    if isinstance(value, bytes):
        return value.hex() if len(value) == _DIGEST_BYTES else value.decode("ascii", "replace").lower()
    return value.lower()


def _checked(path: Path, keys: list[str], rows: NDArray[Any]) -> Vectors:
    """Return the vectors as float32, or say what is wrong with them."""
    if rows.ndim != _TABLE_AXES or not rows.size or rows.dtype.kind not in "fiu":
        raise DataError(
            f"The vectors of {str(path)!r} must be a table of numbers with a row a text, not {rows.dtype} {rows.shape}."
        )
    if len(keys) != len(rows):
        raise DataError(f"{str(path)!r} has {len(rows)} vectors for {len(keys)} texts; there must be one for each.")
    bad = ~np.isfinite(rows).all(axis=1) | ~rows.any(axis=1)
    if bad.any():
        raise DataError(f"Row {int(np.argmax(bad))} of {str(path)!r} is zero, NaN or infinite; drop or fix it.")
    with np.errstate(over="ignore", under="ignore"):
        single: Vectors = rows.astype(np.float32)
    largest = np.abs(single).max(axis=1)
    outside = ~((largest >= _SINGLE.tiny) & (largest <= _SINGLE.max))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"Row {row} of {str(path)!r} has numbers up to {float(np.abs(rows[row]).max()):g}, beyond what float32 "
            "holds (about 1e-38 to 3e38); scale the row, for only its direction counts."
        )
    return single
