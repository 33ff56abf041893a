"""Read files of releases: CSV, Parquet, JSON lines and npy. See ``recorded`` for the formats."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import CanarybankError, DataError, InputError
from canarybank.store import check_parquet, file_errors, parquet_errors
from canarybank.systems.release_rows import (
    ARRAYS,
    LARGEST_NUMBER,
    LONG,
    WHOLE,
    Part,
    Wanted,
    columns_of,
    long_part,
    whole_part,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SUFFIXES", "read_parts"]

SUFFIXES: Final = (".csv", ".parquet", ".jsonl", ".ndjson", ".npy")
BLOCK_BYTES: Final = 1 << 25
ROWS_AT_ONCE: Final = 1 << 18
WHOLE_ROWS_AT_ONCE: Final = 1 << 12
MOST_CHECKED_PARQUET: Final = 32

Whole = NDArray[np.int64]
Where = Callable[[int], str]


def read_parts(files: Sequence[Path], wanted: Wanted) -> Iterator[tuple[int, Part]]:
    """Yield the parts of each file, with the file's place in the list; all files have the same suffix."""
    if files and files[0].suffix.lower() == ".npy":
        yield from _read_arrays(files, wanted)
        return
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    for index, path in enumerate(files):
        try:
            if path.suffix.lower() == ".parquet" and len(files) <= MOST_CHECKED_PARQUET:
                check_parquet(path)
            for part in readers.get(path.suffix.lower(), _read_json_lines)(path, wanted):
                yield index, part
        except DataError:  # Parquet without its end
            if not wanted.unfinished:
                raise


# CSV: blocks of whole lines, every field read as text first, so that each fault has its line.


def _blocks(path: Path, wanted: Wanted) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each with the number of its first line; an unfinished last line is left out."""
    with file_errors(path, "read"), path.open("rb") as file:
        line, rest, start = 1, b"", True
        while piece := file.read(BLOCK_BYTES):
            if start:
                if piece.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise InputError(f"{path} is written in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8.")
                piece, start = piece.removeprefix(b"\xef\xbb\xbf"), False
            whole, newline, rest = (rest + piece).rpartition(b"\n")
            if newline:
                yield line, whole + newline
                line += whole.count(b"\n") + 1
        if rest.strip() and not wanted.unfinished:
            yield line, rest


def _read_csv(path: Path, wanted: Wanted) -> Iterator[Part]:
    header: list[str] | None = None
    columns: dict[str, str] = {}
    for first, block in _blocks(path, wanted):
        line, lines = first, block
        if header is None:
            top, _, lines = block.lstrip(b"\r\n").partition(b"\n")
            line += block[: len(block) - len(lines)].count(b"\n")
            header = next(csv.reader([top.decode("utf-8", "replace")]))
            form, columns = columns_of(header, path, wanted)
            if form == WHOLE:
                raise InputError(
                    f"{path} has a column 'release', and a list does not fit into CSV; write one value a row with the "
                    "columns run, position, value, or write JSON lines."
                )
        if lines.strip():
            yield _csv_part(lines, line, header, columns, path, wanted)
    if header is None and not wanted.unfinished:
        raise InputError(f"{path} is empty; its first line names the columns: run,position,value.")


def _csv_part(
    lines: bytes, first: int, header: Sequence[str], columns: dict[str, str], path: Path, wanted: Wanted
) -> Part:
    import polars as pl

    names = [f"{place}" for place in range(len(header))]
    try:
        frame = pl.read_csv(io.BytesIO(lines), has_header=False, schema=dict.fromkeys(names, pl.String))
    except pl.exceptions.PolarsError as error:
        raise _csv_fault(lines, first, len(header), path, error) from None
    text = frame.select(
        pl.int_range(pl.len()).alias("row"),
        *(
            pl.col(names[header.index(column)]).str.strip_chars().replace("", None).alias(known)
            for known, column in columns.items()
        ),
    ).filter(~pl.all_horizontal(pl.exclude("row").is_null()))
    row = text["row"].to_numpy()

    def where(place: int) -> str:
        return f"Line {first + int(row[place])} of {path}"

    def shown(name: str, place: int) -> str:
        return repr(text[name][int(place)] or "")

    numbers = text.select(pl.exclude("row", "label").cast(pl.Float64, strict=False))
    arrays = {name: numbers[name].fill_null(float("nan")).to_numpy() for name in numbers.columns}
    return long_part(arrays, _codes(text, wanted, where), wanted, where, shown)


def _codes(text: "pl.DataFrame", wanted: Wanted, where: Where) -> Whole | None:
    """Return the code of each row's label, in a frame of text; None where neither rows nor positions have labels."""
    import polars as pl

    if "label" not in text.columns:
        if text.height:
            wanted.code(None, where(0))
        return None
    seen = text["label"].fill_null("")
    first = {
        label: int(place) for label, place in zip(seen.unique(maintain_order=True), seen.arg_unique(), strict=True)
    }
    codes = {label: wanted.code(label, where(place)) for label, place in first.items()}
    return np.asarray(seen.replace_strict(codes, return_dtype=pl.Int64).to_numpy())


def _csv_fault(lines: bytes, first: int, width: int, path: Path, error: Exception) -> InputError:
    """Return what is wrong with lines that could not be read as CSV."""
    for place, raw in enumerate(lines.split(b"\n")):
        where = f"Line {first + place} of {path}"
        try:
            fields = next(csv.reader([raw.decode("utf-8").rstrip("\r")], strict=True), [])
        except UnicodeDecodeError:
            return InputError(f"{where} is not UTF-8; write the file in UTF-8.")
        except csv.Error as fault:
            return InputError(f"{where} cannot be read: {fault}. Close the quote, or quote the whole field.")
        if len(fields) > width:
            return InputError(
                f"{where} has {len(fields)} fields instead of {width}; write numbers with a point, not a comma, and "
                "quote labels that hold a comma."
            )
    last = first + lines.count(b"\n")
    return InputError(f"Lines {first} to {last} of {path} cannot be read as CSV ({error}); look for an open quote.")


# JSON lines: many lines decoded in one call, and one by one only where that fails.


def _read_json_lines(path: Path, wanted: Wanted) -> Iterator[Part]:
    for first, block in _blocks(path, wanted):
        lines = [(first + place, line) for place, line in enumerate(block.split(b"\n")) if line.strip()]
        rows = _decoded(lines, path)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield _json_part(rows[start : start + ROWS_AT_ONCE], lines[start : start + ROWS_AT_ONCE], path, wanted)


def _decoded(lines: Sequence[tuple[int, bytes]], path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(b"[" + b",".join(line for _, line in lines) + b"]")
    except (ValueError, RecursionError):
        rows = []
    if len(rows) == len(lines) and set(map(type, rows)) <= {dict}:
        return rows  # type: ignore[no-any-return]  # checked in the line above
    for number, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"Line {number} of {path} is not JSON ({error}); write one object a line.") from None
        if not isinstance(row, dict):
            raise InputError(
                f"Line {number} of {path} is a JSON {type(row).__name__}; write one object a line, such as "
                '{"run": 1, "position": 30, "value": 0.25}.'
            )
    raise InputError(f"{path} cannot be read as JSON lines; write one object a line.")


def _json_part(rows: list[dict[str, Any]], lines: Sequence[tuple[int, bytes]], path: Path, wanted: Wanted) -> Part:
    def where(place: int) -> str:
        return f"Line {lines[place][0]} of {path}"

    def shown(name: str, place: int) -> str:
        return repr(rows[int(place)].get(names[name], "(nothing)"))

    keys = dict.fromkeys(key for each in dict.fromkeys(map(tuple, rows)) for key in each)
    form, names = columns_of(list(keys), path, wanted)
    if form == LONG:
        codes = None
        if "label" not in names:
            wanted.code(None, where(0))
        else:
            labels = [_json_label(row.get(names["label"])) for row in rows]
            first = {label: place for place, label in reversed(list(enumerate(labels)))}
            known = {label: wanted.code(label, where(place)) for label, place in first.items()}
            codes = np.array([known[label] for label in labels], dtype=np.int64)
        columns = {
            known: _json_numbers([row.get(name) for row in rows]) for known, name in names.items() if known != "label"
        }
        if "round" in columns:  # a line without a round is of round 1
            columns["round"][[names["round"] not in row for row in rows]] = 1
        return long_part(columns, codes, wanted, where, shown)
    single: dict[str, NDArray[np.float64]] = {
        name: _json_numbers([row.get(names[name], 1 if name != "run" else None) for row in rows])
        for name in ("round", "version", "run")
        if name in names
    }
    label, release = names.get("label", "label"), names["release"]
    return whole_part(
        single,
        [_json_label(row.get(label)) for row in rows],
        [_json_vector(row.get(release), where(place)) for place, row in enumerate(rows)],
        wanted,
        where,
        shown,
    )


def _json_label(given: Any) -> str | None:
    return given if given is None or isinstance(given, str) else json.dumps(given)


def _json_numbers(given: list[Any]) -> NDArray[np.float64]:
    """Return numbers as an array, with NaN for everything that is none; true and "1" are none."""
    if not set(map(type, given)) <= {int, float}:
        given = [each if type(each) in {int, float} else np.nan for each in given]
    try:
        return np.array(given, dtype=np.float64)
    except OverflowError:
        return np.array([each if isinstance(each, float) or abs(each) < 1 << 1000 else np.inf for each in given])


def _json_vector(given: Any, where: str) -> NDArray[np.float64]:
    if not isinstance(given, list):
        raise InputError(f"{where} has a release that is no list; write all values of the histogram in a list.")
    if not set(map(type, given)) <= {int, float}:
        bad = next(place for place, each in enumerate(given) if type(each) not in {int, float})
        raise InputError(f"{where} has {given[bad]!r} at position {bad}, which is not a number; write numbers.")
    return _json_numbers(given)


# Parquet: some rows at a time.


def _read_parquet(path: Path, wanted: Wanted) -> Iterator[Part]:
    import polars as pl

    with parquet_errors(path):
        table = pl.scan_parquet(path, glob=False)
        schema = table.collect_schema()
        form, names = columns_of(list(schema), path, wanted)
        _check_types(schema, names, path)
        read = [
            pl.col(column)
            .cast(pl.String if known == "label" else pl.List(pl.Float64) if known == "release" else pl.Float64)
            .alias(known)
            for known, column in names.items()
        ]
        total = int(table.select(pl.len()).collect().item())
        step = WHOLE_ROWS_AT_ONCE if form == WHOLE else ROWS_AT_ONCE
        for start in range(0, total, step):
            yield _parquet_part(table.slice(start, step).select(read).collect(), start + 1, path, wanted)


def _parquet_part(frame: "pl.DataFrame", first: int, path: Path, wanted: Wanted) -> Part:
    def where(place: int) -> str:
        return f"Row {first + int(place)} of {path}"

    def shown(name: str, place: int) -> str:
        return repr(frame[name][int(place)])

    numbers = {
        name: frame[name].fill_null(float("nan")).to_numpy(writable=True)
        for name in frame.columns
        if name not in {"label", "release"}
    }
    if "release" not in frame.columns:
        return long_part(numbers, _codes(frame, wanted, where), wanted, where, shown)
    labels = frame["label"].to_list() if "label" in frame.columns else [None] * frame.height
    if (missing := frame["release"].is_null()).any():
        raise InputError(f"{where(missing.arg_max() or 0)} has no release; write its values, or leave the row out.")
    lengths = frame["release"].list.len().to_numpy()
    flat = frame["release"].filter(frame["release"].list.len() > 0).explode().fill_null(float("nan")).to_numpy()
    return whole_part(numbers, labels, np.split(flat, np.cumsum(lengths)[:-1].astype(np.int64)), wanted, where, shown)


def _check_types(schema: "pl.Schema", names: dict[str, str], path: Path) -> None:
    import polars as pl

    for known, column in names.items():
        kind = schema[column]
        inner = kind.inner if isinstance(kind, pl.List | pl.Array) else None
        if known == "release":
            good, wants = inner is not None and inner.is_numeric(), "lists of numbers"
        elif known == "label":
            good, wants = not kind.is_nested(), "text"
        else:
            good, wants = kind.is_numeric(), "numbers"
        if not good:
            raise InputError(f"The column {column!r} of {path} holds {kind}; write it as {wants}.")


# npy: one array a run, or one a run and label.


def _read_arrays(files: Sequence[Path], wanted: Wanted) -> Iterator[tuple[int, Part]]:
    for index, path in enumerate(files):
        named = re.fullmatch(r"(\d+)(?:-(.+))?", path.stem)
        if not named or not 1 <= int(named[1]) <= LARGEST_NUMBER:
            raise InputError(
                f"{path} is not named after its run; name it by the run's number in the schedule, such as 12.npy, or "
                "12-LABEL.npy with labels."
            )
        wanted.note_form(ARRAYS, str(path))
        array = _array(path, wanted)
        if array is None:
            continue
        rounds = list(array if array.ndim == 2 else array[None])  # noqa: PLR2004, rounds and values
        columns = {"run": np.full(len(rounds), float(named[1])), "round": np.arange(1.0, len(rounds) + 1)}
        yield index, whole_part(columns, [named[2]] * len(rounds), rounds, wanted, partial(_round_of, path))


def _round_of(path: Path, place: int) -> str:
    return f"Round {place + 1} of {path}"


def _array(path: Path, wanted: Wanted) -> NDArray[np.float64] | None:
    try:
        with file_errors(path, "read"), path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
            rest = file.read(1)
    except CanarybankError:
        raise
    except Exception as error:  # noqa: BLE001, a damaged header is parsed as Python and fails in many ways
        if wanted.unfinished:
            return None
        raise InputError(f"{path} cannot be read as an npy array ({error}); write it again by numpy.save.") from None
    if not isinstance(array, np.ndarray) or rest:
        raise InputError(f"{path} holds more than one array; write one array by numpy.save for each run.")
    if array.dtype.kind not in "iuf":
        raise InputError(f"{path} holds {array.dtype}, not numbers; write a float64 array.")
    if array.ndim not in {1, 2}:
        raise InputError(
            f"{path} has the shape {array.shape}; one run is an array of shape (values,) or (rounds, values)."
        )
    return array.astype(np.float64)
