from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from canarybank.errors import ColumnError, DataError, InputError
from canarybank.users import Columns, Fault, Row, Skip
from canarybank.users.rows import as_row, malformed, missing_columns, plain


@pytest.mark.parametrize(
    ("user", "name"),
    [("alice", "alice"), (7, "7"), (7.0, "7"), (-3, "-3"), (0, "0"), ("1.0", "1.0"), (" a ", " a "), ("é", "é")],
)
def test_user_ids_become_text(user: Any, name: str) -> None:
    assert as_row(1, user, "hi") == Row(1, name, "hi")


@pytest.mark.parametrize(
    ("user", "fault"),
    [
        (None, Fault.NO_USER),
        ("", Fault.NO_USER),
        ("  ", Fault.NO_USER),
        (float("nan"), Fault.NO_USER),
        (float("inf"), Fault.BAD_USER),
        (1.5, Fault.BAD_USER),
        (Decimal("1.5"), Fault.BAD_USER),
        (date(2026, 1, 2), Fault.BAD_USER),
        (2.0**53, Fault.BAD_USER),
        (True, Fault.BAD_USER),
        (["a"], Fault.BAD_USER),
        ("a\0b", Fault.NUL),
        ("\ud800", Fault.ENCODING),
    ],
)
def test_unusable_user_ids_are_counted(user: Any, fault: Fault) -> None:
    assert as_row(3, user, "hi") == Skip(3, fault)


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
        (b"hi", Fault.NOT_TEXT),
    ],
)
def test_unusable_texts_are_counted_with_their_user(text: Any, fault: Fault) -> None:
    assert as_row(3, "alice", text) == Skip(3, fault, "alice")


@pytest.mark.parametrize(
    ("label", "known"), [("a", "a"), (5, "5"), (5.0, "5"), (4.5, "4.5"), (True, "true"), (False, "false"), (0, "0")]
)
def test_labels_become_text(label: Any, known: str) -> None:
    assert as_row(1, "u", "hi", label, labelled=True) == Row(1, "u", "hi", known)


def test_decimals_and_dates_become_text() -> None:
    assert [as_row(1, Decimal(number), "hi") for number in ("7.00", 10**37 + 1)] == [
        Row(1, "7", "hi"),
        Row(1, str(10**37 + 1), "hi"),
    ]
    values = (Decimal("4.00"), Decimal("4.50"), date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC))
    labels = ("4", "4.5", "2026-01-02", "2026-01-02 03:00:00+00:00")
    assert tuple(plain(value) for value in values) == labels


@pytest.mark.parametrize("label", [None, "", " ", float("nan"), float("inf"), [], "a\0"])
def test_unusable_labels_are_counted(label: Any) -> None:
    assert as_row(1, "u", "hi", label, labelled=True) == Skip(1, Fault.NO_LABEL, "u")


def test_labels_are_ignored_where_there_is_no_label_column() -> None:
    assert as_row(1, "u", "hi", None) == Row(1, "u", "hi", None)


def test_malformed_is_an_error_or_a_count() -> None:
    assert malformed(4, "Broken.", strict=False) == Skip(4, Fault.MALFORMED)
    with pytest.raises(DataError, match="Broken"):
        malformed(4, "Broken.", strict=True)
    with pytest.raises(ColumnError, match=r"No column\. Name one\."):
        malformed(4, ColumnError("No column.", "Name one."), strict=True)


def test_missing_columns_says_which_exist() -> None:
    error = missing_columns("f.csv", Columns("who", "text"), ["user", "text"])
    assert "f.csv has no column 'who'" in str(error)
    assert "'user', 'text'" in str(error)
    assert isinstance(error, ColumnError)
    assert str(error).endswith("Say which of them hold what by columns=Columns(user=..., text=...).")
    assert "text=..., label=...)" in str(missing_columns("f.csv", Columns(label="stars"), ["user", "text"]))
    assert "3 columns named 'text'" in str(missing_columns("f", Columns(), ["user", "text", "text", "text"]))
    assert missing_columns("f", Columns(), ["text", "user", "x", "x"]) is None


def test_one_column_plays_one_role() -> None:
    with pytest.raises(InputError, match="two roles"):
        Columns(user="a", text="a")
    assert Columns(label="l").names == ("user", "text", "l")
