"""Read rows from Parquet."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.errors import ColumnError
from canarybank.progress import SILENT, Progress
from canarybank.store import cache_root, check_parquet, parquet_errors, private_temporary
from canarybank.users.files import copy, opened
from canarybank.users.members import Member
from canarybank.users.rows import PLAIN, Columns, Row, Skip, as_row, missing_columns

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Parquet"]

_ROWS_AT_ONCE = 2**16
_SECONDS_A_DAY = 86_400
_UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
_SHORT_FLOATS = {"Float32": 2.0**24, "Float16": 2.0**11}


@dataclass(frozen=True, slots=True)
class Parquet:
    """A Parquet file, read some rows at a time; line numbers are row numbers.

    Memory holds these rows and, as polars reads them, the packed columns of one row group: of a file that is one row
    group, all of them.
    """

    name: str = "parquet"
    columns: Columns = PLAIN
    encoding: str | None = None
    member: str | None = None

    def rows(
        self,
        path: Path,
        *,
        strict: bool = True,
        isolated: bool = False,
        progress: Progress = SILENT,
        work: str = "read",
    ) -> Iterator[Row | Skip]:
        """Yield every row of the file, each with its number.

        When ``isolated``, columns of every type but nested ones are read as text, and only the schema can be refused.
        """
        del strict  # every fault of a Parquet file concerns the whole file
        import polars as pl

        labelled = self.columns.label is not None
        with _plain_file(path, Member(self.member), progress, isolated=isolated) as plain:
            check_parquet(plain, self.columns.names)
            with parquet_errors(path):
                frame = pl.scan_parquet(plain, glob=False)
                schema = frame.collect_schema()
                _check_schema(str(path), schema, self.columns, isolated=isolated)
                wanted = _exact(schema, self.columns, isolated=isolated)
                total = int(frame.select(pl.len()).collect().item())
                with progress.stage(f"{work} {path.name}", total, "rows") as stage:
                    for start in range(0, total, _ROWS_AT_ONCE):
                        part = frame.select(wanted).slice(start, _ROWS_AT_ONCE).collect()
                        stage.advance(part.height)
                        for line, values in enumerate(part.iter_rows(), start + 1):
                            yield as_row(line, *values, labelled=labelled, isolated=isolated)


def _check_schema(name: str, schema: "pl.Schema", columns: Columns, *, isolated: bool) -> None:
    import polars as pl

    if error := missing_columns(name, columns, list(schema)):
        raise error
    if isolated:
        for column in columns.names:
            if schema[column].is_nested() or schema[column] == pl.Object:
                raise _unlike(name, column, schema[column], "ids, texts and labels are single values")
        return
    text: tuple[Any, ...] = (pl.String, pl.Categorical, pl.Enum)
    if schema[columns.text] not in text:
        raise ColumnError(
            f"The column {columns.text!r} of {name} holds {schema[columns.text]}, not text.",
            "Name the column that does by columns=Columns(text=...).",
        )
    known = (*text, pl.Null)
    if not (schema[columns.user].is_numeric() or schema[columns.user] in known):
        raise _unlike(name, columns.user, schema[columns.user], "user ids are text or whole numbers")
    known = (*known, pl.Boolean, pl.Date, pl.Datetime)
    if columns.label and not (schema[columns.label].is_numeric() or schema[columns.label] in known):
        raise _unlike(name, columns.label, schema[columns.label], "labels are text, numbers or dates")


def _unlike(name: str, column: str, kind: object, wanted: str) -> ColumnError:
    return ColumnError(
        f"The column {column!r} of {name} holds {kind}, and {wanted}; write it as strings, or name another column.",
        "Name it by columns=Columns(user=..., label=...).",
    )


def _exact(schema: "pl.Schema", columns: Columns, *, isolated: bool) -> list["pl.Expr"]:
    """Return what is read: the columns, ids of short floats only as far as neighbouring whole numbers differ in them.

    Above that an id becomes infinite, which is no id, for two users would have become one.
    """
    import polars as pl

    user, *others = ((_readable(name, schema[name]) if isolated else pl.col(name)) for name in columns.names)
    limit = _SHORT_FLOATS.get(str(schema[columns.user]))
    if limit is not None:
        given = pl.col(columns.user)
        merged = given.is_not_nan() & (given.abs() >= limit)
        user = pl.when(merged).then(float("inf")).otherwise(user.cast(pl.Float64)).alias(columns.user)
    return [user, *others]


def _readable(name: str, kind: "pl.DataType") -> "pl.Expr":
    """Return a column so that no value of it can fail: dates as text, or null where the calendar has no such date."""
    import polars as pl

    column = pl.col(name)
    if isinstance(kind, pl.Date | pl.Datetime):
        unit = 1 if isinstance(kind, pl.Date) else _SECONDS_A_DAY * _UNITS[kind.time_unit]
        number = column.to_physical()
        when = number.cast(pl.Date if isinstance(kind, pl.Date) else pl.Datetime(kind.time_unit))
        known = number.is_between(_FIRST_DAY * unit, _LAST_DAY * unit)
        # Values outside must not reach the cast to text at all.
        return pl.when(known).then(when).cast(pl.String).alias(name)
    if isinstance(kind, pl.Time | pl.Duration):
        return column.to_physical()
    if str(kind) in _SHORT_FLOATS:  # polars has Float16 since 1.36
        return column.cast(pl.String).cast(pl.Float64)  # 0.1, and not the digits of its rounding
    return column


@contextmanager
def _plain_file(path: Path, member: Member, progress: Progress, *, isolated: bool) -> Iterator[Path]:
    """Give the file itself, or an unpacked copy for as long as it is read: Parquet is read from its end.

    The copy holds users' texts. It stands in the cache of stages, so that ``cache prune`` removes what a kill leaves.
    """
    with opened(path, member, isolated=isolated) as file:
        packed = file.packed
    if not packed:
        yield path
        return
    with private_temporary(cache_root() / "stages", path.name) as unpacked:
        with opened(path, member, progress, "unpack", isolated=isolated) as file, unpacked.open("wb") as target:
            copy(file, target)
        yield unpacked
