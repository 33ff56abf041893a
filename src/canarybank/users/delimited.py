"""Read rows from CSV, TSV and their kin."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal

from canarybank.errors import ColumnError, DataError, InputError
from canarybank.progress import SILENT, Progress
from canarybank.users.files import lines, opened
from canarybank.users.members import Member
from canarybank.users.rows import PLAIN, Columns, Fault, Row, Skip, as_row, malformed, missing_columns

__all__ = ["Delimited", "csv_column"]

_AS_ANY_OTHER = 'or take quotes as any other character by --users.quote "" (in Python, quote="").'
_DOUBLED = "or, where it is part of the text, quote the whole field and write the quote twice."
_RIGHT_DELIMITER = (
    "quote fields that hold the delimiter; a file with tabs between fields is read by --users.format tsv."
)
_UNQUOTED = "it is read without quoting: where its fields are quoted, say by which character: --users.quote '\"'."
_QUOTE_COMMAS = "quote fields that hold a comma."


@dataclass(frozen=True, slots=True)
class Delimited:
    """Lines of fields between delimiters, quoted where a field holds a delimiter, a quote or a line feed.

    Without ``header`` the first line names the columns. Without ``quote`` a quote is a character as
    any other. ``member`` asks for a file of an archive, and ``usual`` is what it is called as the format is
    distributed.
    """

    name: str = "csv"
    delimiter: str = ","
    quote: str | None = '"'
    header: tuple[str, ...] | None = None
    columns: Columns = PLAIN
    encoding: str = "utf-8"
    member: str | None = None
    usual: str | None = None

    def __post_init__(self) -> None:
        if not self.quote:
            object.__setattr__(self, "quote", None)
        if len(self.delimiter) != 1 or (self.quote is not None and len(self.quote) != 1):
            raise InputError(f"Delimiter and quote are one character each, not {self.delimiter!r} and {self.quote!r}.")

    def rows(
        self,
        path: Path,
        *,
        strict: bool = True,
        isolated: bool = False,
        progress: Progress = SILENT,
        work: str = "read",
    ) -> Iterator[Row | Skip]:
        """Yield every row of the file after its header, each with the line on which it begins.

        When ``isolated``, a row is one line, so no field holds a line break and an open quote spoils its own line only.
        """
        with opened(path, Member(self.member, self.usual), progress, work, isolated=isolated) as file:
            content = lines(file, self.encoding, strict=strict, isolated=isolated)
            records = (
                _isolated_records(content, self.delimiter, self.quote)
                if isolated
                else _records(content, file.name, self.delimiter, self.quote, _AS_ANY_OTHER, strict=strict)
            )
            header = list(self.header) if self.header is not None else _first(records, file.name)
            if error := missing_columns(file.name, self.columns, header, listed=not isolated):
                raise error
            labelled = self.columns.label is not None
            pick = itemgetter(*(header.index(name) for name in self.columns.names))
            width = len(header)
            for line, fields in records:
                if type(fields) is list and len(fields) == width:
                    yield as_row(line, *pick(fields), labelled=labelled, isolated=isolated)
                elif isinstance(fields, Skip):
                    yield fields
                elif not fields:
                    yield Skip(line, Fault.BLANK)
                else:
                    yield malformed(line, _miscounted(line, file.name, len(fields), width, self._fix), strict=strict)

    @property
    def _fix(self) -> str:
        return _UNQUOTED if self.quote is None else _RIGHT_DELIMITER


def csv_column(content: Iterable[str], name: str, column: str) -> list[str]:
    """Return one column of a CSV file's lines, of blank lines nothing; a wrong number of fields is an error."""
    records = _records(content, name, ",", '"', _DOUBLED, strict=True)
    header = _first(records, name)
    if column not in header:
        existing = ", ".join(repr(each) for each in header)
        raise ColumnError(f"{name} has no column {column!r}; it has {existing}.", "Name one of these.")
    if (times := header.count(column)) > 1:
        raise DataError(f"{name} has {times} columns named {column!r}; rename all but one.")
    place, width, values = header.index(column), len(header), []
    for line, fields in records:
        if isinstance(fields, Skip) or not fields:
            values.append("")
        elif len(fields) != width:
            raise DataError(_miscounted(line, name, len(fields), width, _QUOTE_COMMAS))
        else:
            values.append(fields[place])
    return values


def _records(
    content: Iterable[str], name: str, delimiter: str, quote: str | None, otherwise: str, *, strict: bool
) -> Iterator[tuple[int, list[str] | Skip]]:
    """Yield the fields of each record with its first line; nothing may end inside a quoted field."""
    ended = False

    def feed() -> Iterator[str]:
        nonlocal ended
        yield from content
        ended = True

    reader = csv.reader(feed(), delimiter=delimiter, quotechar=quote, quoting=_quoting(quote))
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if _ran_on(error, line, reader.line_num):
                raise DataError(_open_quote(line, name, reader.line_num, otherwise)) from error
            yield line, malformed(line, _unreadable(line, name, error), strict=strict)
            continue
        if ended:
            raise DataError(f"The quote opened on line {line} of {name} is never closed; close it, {otherwise}")
        yield line, fields


def _isolated_records(
    content: Iterable[str], delimiter: str, quote: str | None
) -> Iterator[tuple[int, list[str] | Skip]]:
    """Yield the fields of each line, which follow from that line alone."""
    for line, text in enumerate(content, 1):
        reader = csv.reader((text, ""), delimiter=delimiter, quotechar=quote, quoting=_quoting(quote))
        try:
            fields = next(reader)
        except csv.Error:
            yield line, Skip(line, Fault.MALFORMED)
            continue
        # A reader that has taken the second line, which is empty, looked there for the end of an open quote.
        yield line, fields if reader.line_num == 1 else Skip(line, Fault.MALFORMED)


def _quoting(quote: str | None) -> Literal[0, 3]:
    return csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL


def _first(records: Iterator[tuple[int, list[str] | Skip]], name: str) -> list[str]:
    for _, fields in records:
        if isinstance(fields, Skip):
            break
        if fields:
            return fields
    raise DataError(f"{name} has no line that names its columns; the first line must.")


def _miscounted(line: int, name: str, found: int, wanted: int, fix: str) -> str:
    return f"The row on line {line} of {name} has {found} fields instead of {wanted}; {fix}"


def _ran_on(error: csv.Error, first: int, last: int) -> bool:
    """Say whether a quoted field grew over lines until it was too long: what it swallowed, nobody has counted."""
    return "field limit" in str(error) and last > first


def _open_quote(first: int, name: str, last: int, otherwise: str) -> str:
    return (
        f"The quote opened on line {first} of {name} is not closed by line {last}, after more than "
        f"{csv.field_size_limit():,} characters; close it, {otherwise}"
    )


def _unreadable(line: int, name: str, error: csv.Error) -> str:
    start = f"The row on line {line} of {name} cannot be read: {str(error).partition(' - ')[0]}."
    if "field limit" in str(error):
        return f"{start} Look for a quote that is not closed; texts so long can be read from JSON lines or Parquet."
    return f"{start} Look for a quote that is not closed or a carriage return inside an unquoted field."
