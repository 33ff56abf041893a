"""Read the columns of a bank's parquet file, or say which column or row of it is none of a bank's."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.errors import DataError
from canarybank.store import check_parquet, parquet_errors
from canarybank.users.rows import plain

if TYPE_CHECKING:
    import polars as pl

__all__ = ["label_column", "read_table", "text_column"]

_FIX = "make it by `canarybank bank`"


def read_table(path: Path | str) -> tuple["pl.DataFrame", Mapping[str, str]]:
    """Return the table and the metadata of a parquet file; its name is no pattern, whatever characters it holds."""
    import polars as pl

    check_parquet(path, fix=_FIX)
    with parquet_errors(path, _FIX):
        return pl.read_parquet(path, glob=False), pl.read_parquet_metadata(path)


def text_column(frame: "pl.DataFrame", column: str, path: Path | str, *, gaps: bool = False) -> list[str]:
    """Return the texts of a column, in their order; rows without one are left out where gaps are allowed."""
    import polars as pl

    if column not in frame.columns:
        existing = ", ".join(repr(name) for name in frame.columns) or "none"
        raise DataError(
            f"{str(path)!r} has no column {column!r}; it has {existing}. Rename the one that holds the texts, or name "
            "it by --bank.text."
        )
    values, kinds = frame[column], (pl.String, pl.Categorical, pl.Enum)
    if not any(values.dtype == kind for kind in kinds):
        raise DataError(
            f"The column {column!r} of {str(path)!r} holds {values.dtype}, not text; write the texts as strings, or "
            "name another column by --bank.text."
        )
    if not gaps and values.null_count():
        row = int(values.is_null().arg_max() or 0) + 1
        raise DataError(
            f"Row {row} of {str(path)!r} has no text in the column {column!r}, as {values.null_count():,} of "
            f"{len(values):,} rows; drop the rows without one."
        )
    return values.drop_nulls().cast(pl.String).to_list()


def label_column(frame: "pl.DataFrame", path: Path | str) -> list[str]:
    """Return the labels of a table's rows, numbers as their text; one that is null or not there is empty."""
    if "label" not in frame.columns:
        return [""] * len(frame)
    values = frame["label"]
    if values.dtype.is_nested() or not _has_text(values.dtype):
        raise DataError(
            f"The column 'label' of {str(path)!r} holds {values.dtype}, and labels are texts or numbers; write them as "
            "strings, or leave the column out."
        )
    return [value if isinstance(value, str) else plain(value) or "" for value in values.to_list()]


def _has_text(kind: Any) -> bool:
    import polars as pl

    known = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null, pl.Date, pl.Datetime)
    return bool(kind.is_numeric()) or any(kind == each for each in known)
