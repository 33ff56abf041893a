import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from canarybank.errors import ColumnError, DataError, InputError
from canarybank.users import Columns, Fault, Row, Skip, source


@pytest.fixture
def as_row(write: Callable[..., Path]) -> Callable[..., Row | Skip]:
    """Return a function that reads one row of values: from JSON where it can hold them, and else from Parquet."""

    def read(user: Any, text: Any, label: Any = None, *, labelled: bool = False) -> Row | Skip:
        values, columns = {"user": user, "text": text, "label": label}, Columns(label="label" if labelled else None)
        try:
            path = write("a.jsonl", json.dumps(values) + "\n")
        except TypeError:
            path = write("a.parquet", b"")
            pl.DataFrame([values]).write_parquet(path)
        (row,) = source(path, columns=columns).rows()
        return row

    return read


@pytest.mark.parametrize(
    ("user", "name"),
    [("alice", "alice"), (7, "7"), (7.0, "7"), (-3, "-3"), (0, "0"), ("1.0", "1.0"), (" a ", " a "), ("é", "é")],
)
def test_user_ids_become_text(as_row: Callable[..., Row | Skip], user: Any, name: str) -> None:
    assert as_row(user, "hi") == Row(1, name, "hi")


@pytest.mark.parametrize(
    ("user", "fault"),
    [
        (None, Fault.NO_USER),
        ("", Fault.NO_USER),
        ("  ", Fault.NO_USER),
        (math.nan, Fault.NO_USER),
        (math.inf, Fault.BAD_USER),
        (1.5, Fault.BAD_USER),
        (Decimal("1.5"), Fault.BAD_USER),
        (2.0**53, Fault.BAD_USER),
        (True, Fault.BAD_USER),
        (["a"], Fault.BAD_USER),
        ("a\0b", Fault.NUL),
        ("\ud800", Fault.ENCODING),
    ],
)
def test_unusable_user_ids_are_counted(as_row: Callable[..., Row | Skip], user: Any, fault: Fault) -> None:
    assert as_row(user, "hi") == Skip(1, fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, Fault.EMPTY),
        ("", Fault.EMPTY),
        (" \t\r\n\u00a0", Fault.EMPTY),
        ("a\0b", Fault.NUL),
        ("half \ud83d", Fault.ENCODING),
        (12, Fault.NOT_TEXT),
        (["hi"], Fault.NOT_TEXT),
    ],
)
def test_unusable_texts_are_counted_with_their_user(as_row: Callable[..., Row | Skip], text: Any, fault: Fault) -> None:
    assert as_row("alice", text) == Skip(1, fault, "alice")


@pytest.mark.parametrize(
    ("label", "known"),
    [
        *(("a", "a"), (5, "5"), (5.0, "5"), (4.5, "4.5"), (True, "true"), (False, "false"), (0, "0")),
        *((Decimal("4.00"), "4"), (Decimal("4.50"), "4.5"), (date(2026, 1, 2), "2026-01-02")),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02 03:00:00+00:00"),
    ],
)
def test_labels_become_text(as_row: Callable[..., Row | Skip], label: Any, known: str) -> None:
    assert as_row("u", "hi", label, labelled=True) == Row(1, "u", "hi", known)


def test_decimals_become_user_ids(as_row: Callable[..., Row | Skip]) -> None:
    assert as_row(Decimal("7.00"), "hi") == Row(1, "7", "hi")
    assert as_row(Decimal(10**30 + 1), "hi") == Row(1, str(10**30 + 1), "hi")


@pytest.mark.parametrize("label", [None, "", " ", math.nan, math.inf, [], "a\0"])
def test_unusable_labels_are_counted(as_row: Callable[..., Row | Skip], label: Any) -> None:
    assert as_row("u", "hi", label, labelled=True) == Skip(1, Fault.NO_LABEL, "u")


def test_labels_are_ignored_where_there_is_no_label_column(as_row: Callable[..., Row | Skip]) -> None:
    assert as_row("u", "hi", None) == Row(1, "u", "hi", None)


def test_malformed_is_an_error_or_a_count(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", '{"user": "u", "text": "hi"}\n{broken\n')
    assert list(source(path, strict=False).rows()) == [Row(1, "u", "hi"), Skip(2, Fault.MALFORMED)]
    with pytest.raises(DataError, match=r"[Ll]ine 2"):
        list(source(path).rows())


def test_missing_columns_says_which_exist(write: Callable[..., Path]) -> None:
    def refused(header: str, columns: Columns) -> DataError:
        with pytest.raises(DataError) as caught:
            list(source(write("f.csv", f"{header}\n"), columns=columns).rows())
        return caught.value

    error = refused("user,text", Columns("who", "text"))
    assert "has no column 'who'" in str(error)
    assert "'user', 'text'" in str(error)
    assert isinstance(error, ColumnError)
    assert str(error).endswith("Say which of them hold what by columns=Columns(user=..., text=...).")
    assert "text=..., label=...)" in str(refused("user,text", Columns(label="stars")))
    assert "3 columns named 'text'" in str(refused("user,text,text,text", Columns()))
    assert list(source(write("f.csv", "text,user,x,x\nhi,u,1,2\n")).rows()) == [Row(2, "u", "hi")]


def test_one_column_plays_one_role() -> None:
    with pytest.raises(InputError, match="two roles"):
        Columns(user="a", text="a")
    assert Columns(label="l").names == ("user", "text", "l")
