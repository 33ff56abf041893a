"""Which columns of a file are taken for users and texts."""

import gzip
import json

import polars as pl
import pytest

from canarybank.users import FORMATS, Columns, guess_columns, source

CSV, JSONL, PARQUET = FORMATS["csv"], FORMATS["jsonl"], FORMATS["parquet"]


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        ("user,text", ("user", "text")),
        ("id,Author,date,Body", ("Author", "Body")),
        ("customer-id,review text", ("customer-id", "review text")),
        ("author,user_id,text", ("author", "text")),  # a whole word before one with an ending
        ("author,user,comment,text", ("user", "text")),  # the more usual word
        ("text,message,user", ("user", "text")),
        ("id,date", ("user", "text")),  # nothing tells: the reader of rows says that these are missing
        ("", ("user", "text")),
    ],
)
def test_names_tell_the_columns_in_every_format(write, tmp_path, names, taken):
    columns = names.split(",") if names else []
    assert guess_columns(write("a.csv", f"{names}\n{','.join('x' for _ in columns)}\n"), CSV) == Columns(*taken)
    assert guess_columns(write("a.jsonl", json.dumps(dict.fromkeys(columns, "x"))), JSONL) == Columns(*taken)
    pl.DataFrame({name: ["x"] for name in columns}).write_parquet(tmp_path / "a.parquet")
    assert guess_columns(tmp_path / "a.parquet", PARQUET) == Columns(*taken)


def test_only_the_first_row_is_read_and_of_an_archive_too(write):
    header = b"author,body\n"
    assert guess_columns(write("a.csv.gz", gzip.compress(header + b'"never closed')), CSV) == Columns("author", "body")
    assert guess_columns(write("b.csv", b"\xef\xbb\xbf" + header + b"\xff,\xff\n"), CSV) == Columns("author", "body")
    assert guess_columns(write("c.jsonl", b"no json\n"), JSONL) == Columns()


def test_a_format_with_columns_of_its_own_keeps_them(tmp_path):
    given = source(tmp_path / "x_yelp_review.json")
    assert guess_columns(given.path, given.format) == given.format.columns
