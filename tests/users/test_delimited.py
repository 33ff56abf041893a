import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import DataError, InputError
from canarybank.users import Columns, Delimited, Fault, Row, Skip


def _rows(path: Path, *, strict: bool = True, **choices: Any) -> list[Row | Skip]:
    return list(Delimited(**choices).rows(path, strict=strict))


def test_rows_carry_the_line_they_begin_on(write: Callable[..., Path]) -> None:
    path = write("a.csv", 'user,text\r\na,"two\nlines"\r\nb,"say ""hi"", you"\r\n\r\n7,x\r\n')
    assert _rows(path) == [
        Row(2, "a", "two\nlines"),
        Row(4, "b", 'say "hi", you'),
        Skip(5, Fault.BLANK),
        Row(6, "7", "x"),
    ]


def test_columns_are_found_by_name_in_any_order(write: Callable[..., Path]) -> None:
    path = write("a.csv", "\ufeffid,body,who,stars\n1,hello,me,4\n")
    assert _rows(path, columns=Columns("who", "body", "stars")) == [Row(2, "me", "hello", "4")]


def test_no_line_feed_at_the_end(write: Callable[..., Path]) -> None:
    assert _rows(write("a.csv", "user,text\na,b")) == [Row(2, "a", "b")]
    assert _rows(write("a.csv", 'user,text\na,"b"')) == [Row(2, "a", "b")]


def test_tabs_and_files_without_quoting(write: Callable[..., Path]) -> None:
    path = write("a.tsv", 'user\ttext\na\t"open and, never closed\n')
    with pytest.raises(DataError, match=r"The quote opened on line 2 of .* is never closed"):
        _rows(path, delimiter="\t")
    assert _rows(path, delimiter="\t", quote=None) == [Row(2, "a", '"open and, never closed')]


@pytest.mark.parametrize("strict", [True, False])
def test_a_quote_that_swallows_rows_until_a_field_is_too_long_is_always_an_error(
    write: Callable[..., Path], *, strict: bool
) -> None:
    rows = "".join(f"u{i},{'x' * 90}\n" for i in range(2000))
    path = write("a.csv", f'user,text\na,fine\nb,"open\n{rows}')
    with pytest.raises(DataError, match=r"quote opened on line 3 of .* is not closed by line \d+.*131,072") as caught:
        _rows(path, strict=strict)
    assert 'quote=""' in str(caught.value)
    assert len(_rows(path, quote=None)) == 2002


def test_a_delimiter_in_a_field_that_is_read_without_quoting_is_told_how_to_be_quoted(
    write: Callable[..., Path],
) -> None:
    path = write("a.csv", 'user,text\na,"b,c"\n')
    with pytest.raises(
        DataError, match=r"line 2 of .* has 3 fields instead of 2; it is read without quoting.*--users.quote '\"'"
    ):
        _rows(path, quote=None)


@pytest.mark.parametrize("strict", [True, False])
def test_an_open_quote_is_always_an_error(write: Callable[..., Path], *, strict: bool) -> None:
    path = write("a.csv", 'user,text\na,b\nc,"d\ne,f\n')
    with pytest.raises(DataError, match="quote opened on line 3"):
        _rows(path, strict=strict)


def test_missing_columns_say_which_exist(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"no column 'text'. The columns that exist are: 'user', ' text'"):
        _rows(write("a.csv", "user, text\na,b\n"))
    with pytest.raises(DataError, match="2 columns named 'text'"):
        _rows(write("a.csv", "user,text,text\na,b,c\n"))


def test_a_wrong_number_of_fields(write: Callable[..., Path]) -> None:
    path = write("a.csv", "user,text\na,b,c\nd\ne,f\n")
    with pytest.raises(DataError, match=r"row on line 2 of .* has 3 fields instead of 2"):
        _rows(path)
    assert _rows(path, strict=False) == [Skip(2, Fault.MALFORMED), Skip(3, Fault.MALFORMED), Row(4, "e", "f")]


def test_a_huge_field(write: Callable[..., Path]) -> None:
    path = write("a.csv", f"user,text\na,{'x' * (csv.field_size_limit() + 1)}\nb,c\n")
    with pytest.raises(DataError, match=r"row on line 2 of .* larger than field limit .*or Parquet"):
        _rows(path)
    assert _rows(path, strict=False) == [Skip(2, Fault.MALFORMED), Row(3, "b", "c")]


def test_a_carriage_return_inside_an_unquoted_field(write: Callable[..., Path]) -> None:
    path = write("a.csv", "user,text\na,b\rc,d\n")
    with pytest.raises(DataError, match="carriage return inside an unquoted field"):
        _rows(path)


def test_content_that_cannot_be_used_is_counted_even_when_strict(write: Callable[..., Path]) -> None:
    path = write("a.csv", "user,text\n,b\na,\na,  \na,x\0y\n")
    assert _rows(path) == [
        Skip(2, Fault.NO_USER),
        Skip(3, Fault.EMPTY, "a"),
        Skip(4, Fault.EMPTY, "a"),
        Skip(5, Fault.NUL, "a"),
    ]


def test_invalid_bytes(write: Callable[..., Path]) -> None:
    path = write("a.csv", b"user,text\na,fine\nb,caf\xe9\nc,fine\n")
    with pytest.raises(DataError, match="Line 3"):
        _rows(path)
    assert _rows(path, strict=False)[1] == Skip(3, Fault.ENCODING, "b")
    assert _rows(path, encoding="latin-1")[1] == Row(3, "b", "café")


def test_a_header_that_cannot_be_read(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="no line that names its columns"):
        _rows(write("a.csv", "\n\n"))
    with pytest.raises(DataError, match="no line that names its columns"):
        _rows(write("a.csv", "a\rb\n"), strict=False)
    assert _rows(write("a.csv", "\nuser,text\na,b\n")) == [Row(3, "a", "b")]


def test_delimiters_are_single_characters() -> None:
    with pytest.raises(InputError, match="one character each"):
        Delimited(delimiter=";;")


def _naive(table: list[tuple[str, str]]) -> Any:
    line, rows = 2, []
    for user, text in table:
        rows.append((line, user, text))
        line += 1 + user.count("\n") + text.count("\n")
    return rows


_FIELD = st.text(st.sampled_from('ab",\n é'), min_size=1).map(lambda t: f"x{t}")


@given(st.lists(st.tuples(_FIELD, _FIELD), min_size=1, max_size=8))
def test_whatever_is_written_is_read_back_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("user", "text"), *table])
    assert [row[:3] for row in _rows(path)] == _naive(table)
