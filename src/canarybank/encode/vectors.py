"""Use vectors that somebody else computed, from a npz or parquet file keyed by text.

A npz file holds the array ``vectors`` (rows, dimension) and either ``texts`` or ``sha256``, one a row; a parquet file
has a column ``vector`` and either ``text`` or ``sha256``. The sha256 is that of the text's UTF-8 bytes in hexadecimal,
for those who would rather not write their texts down twice. Vectors are scaled to length one. Keying by row number is
not offered: rows move when a file is filtered or capped, and a vector would silently belong to another text. Vectors
that stand in the order of records go to ``Users.with_vectors``.

The fingerprint is the sha256 of the file. A vector comes from the file as it is, so batch-mates cannot change it.
"""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.encode.protocol import Vectors, check_texts, unit_vectors
from canarybank.errors import DataError
from canarybank.store import hash_file, hash_json, hash_text

__all__ = ["GivenVectors"]

_TABLE_AXES = 2


class GivenVectors:
    """An encoder that looks texts up in a file of vectors."""

    def __init__(self, path: Path | str) -> None:
        path = Path(path).expanduser()
        if not path.is_file():
            raise DataError(f"There is no file of vectors at {str(path)!r}; check the path.")
        keys, rows = _read_parquet(path) if path.suffix == ".parquet" else _read_npz(path)
        _check(path, keys, rows)
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
                f"{absent[0][:60]!r}; add them to the file or choose an encoder that computes them."
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
    except (OSError, TypeError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{str(path)!r} cannot be read as npz ({error}); save plain arrays by numpy.savez, texts as strings."
        ) from error
    if "vectors" not in held or not {"texts", "sha256"} & held.keys():
        raise DataError(f"{str(path)!r} needs the arrays 'vectors' and 'texts' or 'sha256'; it has {sorted(names)}.")
    if "texts" in held:
        return [hash_text(str(text)) for text in held["texts"].tolist()], held["vectors"]
    return _hexadecimal(held["sha256"].tolist()), held["vectors"]


def _read_parquet(path: Path) -> tuple[list[str], NDArray[Any]]:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{str(path)!r} cannot be read as parquet ({error}).") from error
    if "vector" not in frame.columns or not {"text", "sha256"} & set(frame.columns):
        raise DataError(f"{str(path)!r} needs the columns 'vector' and 'text' or 'sha256'; it has {frame.columns}.")
    column = "text" if "text" in frame.columns else "sha256"
    if frame["vector"].null_count() or frame[column].null_count():
        raise DataError(f"{str(path)!r} has rows without a vector or a {column}; drop them.")
    width = len(frame["vector"][0]) if len(frame) else 0
    try:
        rows = frame["vector"].cast(pl.Array(pl.Float32, width)).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"The vectors of {str(path)!r} are not lists of {width} numbers each ({error}).") from error
    values = frame[column].cast(pl.String).to_list()
    return [hash_text(text) for text in values] if column == "text" else _hexadecimal(values), rows


def _hexadecimal(values: list[Any]) -> list[str]:
    return [(value.decode() if isinstance(value, bytes) else str(value)).lower() for value in values]


def _check(path: Path, keys: list[str], rows: NDArray[Any]) -> None:
    if rows.ndim != _TABLE_AXES or not rows.size or rows.dtype.kind not in "fiu":
        raise DataError(
            f"The vectors of {str(path)!r} must be a table of numbers with a row a text, not {rows.dtype} {rows.shape}."
        )
    if len(keys) != len(rows):
        raise DataError(f"{str(path)!r} has {len(rows)} vectors for {len(keys)} texts; there must be one for each.")
    bad = ~np.isfinite(rows).all(axis=1) | ~rows.any(axis=1)
    if bad.any():
        raise DataError(f"Row {int(np.argmax(bad))} of {str(path)!r} is zero, NaN or infinite; drop or fix it.")
