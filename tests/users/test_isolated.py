"""Isolated reading: what one row holds changes no other row, and no row ends the reading."""

import datetime as dt
import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import polars as pl
import pytest

from canarybank.errors import ColumnError, DataError, InputError
from canarybank.users import Admission, Columns, Row, Skip, admit, source

LONGEST = 64 * 2**20
"""The bytes of the longest line that is read."""
ROWS = [(f"u{i % 5}", f"text {i}") for i in range(20)]
CSV = ["user,text", *(f"{user},{text}" for user, text in ROWS)]
JSON = [json.dumps({"user": user, "text": text}) for user, text in ROWS]


def usable(path, **choices):
    """Return user and text of every usable row."""
    return [(row.user, row.text) for row in source(path, isolated=True, **choices).rows() if isinstance(row, Row)]


def test_without_broken_rows_isolated_reading_is_reading(tmp_path):
    for name, lines in (
        ("users.csv", CSV),
        ("users.tsv", [line.replace(",", "\t") for line in CSV]),
        ("u.jsonl", JSON),
    ):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        plain = [(row.user, row.text) for row in source(path).rows()]
        assert usable(path) == plain == ROWS


@pytest.mark.parametrize(("name", "lines"), [("users.csv", CSV), ("users.tsv", CSV), ("users.jsonl", JSON)])
def test_any_bytes_on_a_line_of_their_own_change_no_other_row(name, lines, tmp_path, count):
    rng, path = np.random.default_rng(5), tmp_path / name
    marks = [
        b'"',
        b"\r",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x1f\x8b",
        b"PK\x03\x04",
        b"{",
        b"[" * 9,
        b",",
        b"\t",
        b"'",
    ]
    header = 1 if name != "users.jsonl" else 0
    if name == "users.tsv":
        lines = [line.replace(",", "\t") for line in lines]
    for _ in range(300):
        parts = [marks[i] for i in rng.integers(len(marks), size=rng.integers(4))]
        noise = bytes(rng.integers(0, 256, size=rng.integers(30), dtype=np.uint8))
        line = b"".join([*parts, noise]).replace(b"\n", b"")
        place = int(rng.integers(header, len(lines) + 1))
        encoded = [each.encode() for each in lines]
        path.write_bytes(b"\n".join([*encoded[:place], line, *encoded[place:]]) + b"\n")
        found = usable(path)
        assert found == ROWS or (len(found) == len(ROWS) + 1 and all(row in found for row in ROWS)), line
    count("isolated reading", lines=300, leaks=0)


def test_an_open_quote_spoils_its_own_line(tmp_path):
    path = tmp_path / "users.csv"
    path.write_text('user,text\na,"open\nb,fine\nc,"two\nlines"\nd,"closed"\n')
    assert usable(path) == [("b", "fine"), ("d", "closed")]


def test_a_line_that_is_too_long_is_skipped_to_its_end(tmp_path):
    path = tmp_path / "users.csv"
    path.write_bytes(b"user,text\na,b\nlong," + b"x" * (2 * LONGEST) + b"\nc,d\n")
    assert usable(path) == [("a", "b"), ("c", "d")]
    path.write_bytes(b"user,text\na,b\nlong," + b"x" * LONGEST)
    assert usable(path) == [("a", "b")]


def test_names_alone_tell_what_is_an_archive(tmp_path):
    content, packed = ("\n".join(CSV) + "\n").encode(), io.BytesIO()
    (tmp_path / "users.csv.gz").write_bytes(gzip.compress(content))
    with zipfile.ZipFile(tmp_path / "users.zip", "w") as archive:
        archive.writestr("users.csv", content)
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("in/users.csv")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    for name in ("users.tgz", "users.tar.gz"):
        (tmp_path / name).write_bytes(packed.getvalue())
    assert usable(tmp_path / "users.csv.gz") == usable(tmp_path / "users.zip") == ROWS
    for name in ("users.tgz", "users.tar.gz"):
        assert usable(tmp_path / name, format="csv", member="users.csv") == ROWS
    (tmp_path / "misnamed.csv").write_bytes(gzip.compress(content))
    with pytest.raises(DataError):
        usable(tmp_path / "misnamed.csv")
    (tmp_path / "plain.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match="named as an archive"):
        usable(tmp_path / "plain.csv.gz")


def test_a_file_without_users_has_none(tmp_path):
    for name, content in (("a.jsonl", b""), ("b.csv", b"user,text\n"), ("c.jsonl", b"{\n\n")):
        (tmp_path / name).write_bytes(content)
        admitted = admit(source(tmp_path / name, isolated=True), Admission(minimum=2))
        assert len(admitted.users) == 0
        with pytest.raises(DataError):
            admit(source(tmp_path / name, strict=False), Admission(minimum=2))


def test_a_missing_column_is_an_error_that_shows_no_row(tmp_path):
    path = tmp_path / "users.csv"
    path.write_text("alice,my secret\n")
    with pytest.raises(ColumnError, match="must name the column 'user', once") as error:
        usable(path)
    assert "alice" not in str(error.value)


def test_parquet_is_refused_by_its_schema_alone(tmp_path):
    path = tmp_path / "users.parquet"
    pl.DataFrame({"user": [[1]], "text": ["b"]}).write_parquet(path)
    with pytest.raises(ColumnError, match="single values"):
        usable(path)
    pl.DataFrame({"user": [1], "text": [None]}).write_parquet(path)
    assert usable(path) == []


COLUMNS = Columns("user", "text", "label")
DAY, NOON = dt.date(2020, 1, 2), dt.datetime.fromisoformat("2020-01-02 12:00")
# Pairs of columns that a writer makes of the same values, as it infers a type from all rows or keeps them as text.
INFERRED = {
    "zero-padded numbers": ([1, 2, 30], ["0001", "0002", "0030"]),
    "numbers beside a missing one": ([1, 2, 30], [1.0, 2.0, 30.0]),
    "fractions": ([1.5, 0.25, -2.0], ["1.50", ".25", "-2"]),
    "short fractions": (pl.Series([0.1, 0.3, 7], dtype=pl.Float32), ["0.1", "0.3", "7"]),
    "decimals": (pl.Series(["1.50", "2.00", "30"]).cast(pl.Decimal(10, 2)), [1.5, 2, 30]),
    "truth values": ([True, False, True], ["True", "false", "TRUE"]),
    "dates": ([DAY] * 3, ["2020-01-02", "2020-01-02 00:00:00", "2020-01-02T00:00:00Z"]),
    "dates with times": ([NOON] * 3, ["2020-01-02T12:00:00", "2020-01-02 12:00:00.000", "2020-01-02 13:00:00+01:00"]),
    "bytes": ([b"a", b"b", b"c"], ["a", "b", "c"]),
}


@pytest.mark.parametrize("column", ["user", "text", "label"])
@pytest.mark.parametrize("case", INFERRED)
def test_rows_do_not_depend_on_inferred_types(case, column, tmp_path):
    plain, found = {"user": ["a", "b", "c"], "text": ["x", "y", "z"], "label": ["p", "q", "r"]}, []
    for number, values in enumerate(INFERRED[case]):
        path = tmp_path / f"{number}.parquet"
        pl.DataFrame({**plain, column: values}, strict=False).write_parquet(path)
        found.append([(r.user, r.text, r.label) for r in source(path, isolated=True, columns=COLUMNS).rows()])
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_a_date_that_no_calendar_has_is_skipped_and_stops_nothing(tmp_path):
    for kind in (pl.Date, pl.Datetime("ms"), pl.Datetime("us", "Europe/Berlin"), pl.Datetime("ns")):
        far = 2**31 - 1 if kind == pl.Date else 2**63 - 1
        label = pl.Series([0, far], dtype=pl.Int32 if kind == pl.Date else pl.Int64).cast(kind)
        path = tmp_path / "users.parquet"
        pl.DataFrame({"user": ["a", "b"], "text": ["x", "y"], "label": label}).write_parquet(path)
        rows = list(source(path, isolated=True, columns=COLUMNS).rows())
        assert (rows[0].user, rows[0].label) == ("a", "1970-01-01")
        assert isinstance(rows[1], Skip) or kind == pl.Datetime("ns")


def test_numbers_and_truth_values_of_json_lines_are_text(tmp_path):
    path = tmp_path / "users.jsonl"
    path.write_text('{"user": 7.0, "text": 5}\n{"user": "007", "text": true}\n{"user": 7, "text": null}\n')
    assert usable(path) == [("7", "5"), ("7", "true")]


def test_records_under_the_cap_do_not_depend_on_how_ids_and_labels_are_spelled(tmp_path):
    kept = []
    for number, (user, label) in enumerate([("0001", "5"), ("1.0", "5.0"), ("1", "five")]):
        path = tmp_path / f"{number}.csv"
        path.write_text("user,text,label\n" + "".join(f"{user},text {i},{label}\n" for i in range(30)))
        admitted = admit(source(path, isolated=True, columns=COLUMNS), Admission(cap=4))
        kept.append(admitted.users.texts)
        assert admitted.users.ids == ("1",)
    assert kept[0] == kept[1] == kept[2]


def test_labels_are_asked_for_in_any_spelling(tmp_path):
    path = tmp_path / "users.csv"
    path.write_text("user,text,label\na,x,5.0\nb,y,True\nc,z,6\n")
    admitted = admit(source(path, isolated=True, columns=COLUMNS), Admission(labels=frozenset({"5", "TRUE"})))
    assert admitted.users.ids == ("a", "b")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-7", "hz", "cp037"])
def test_encodings_without_lines_are_refused(tmp_path, encoding):
    (tmp_path / "users.csv").write_bytes("user,text\na,b\n".encode(encoding))
    with pytest.raises(InputError, match="Lines cannot be found"):
        usable(tmp_path / "users.csv", encoding=encoding)


def test_content_never_tells_a_format(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("users.csv", "user,text\n")
    (tmp_path / "users.data").write_bytes(packed.getvalue())
    with pytest.raises(DataError, match="does not tell its format"):
        source(tmp_path / "users.data")
