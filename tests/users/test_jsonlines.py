import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canarybank.errors import DataError
from canarybank.users import Columns, Fault, JsonLines, Row, Skip


def _rows(path: Path, *, strict: bool = True, **choices: Any) -> list[Row | Skip]:
    return list(JsonLines(**choices).rows(path, strict=strict))


def test_one_object_a_line(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", '\ufeff{"user": "a", "text": "héllo\\nyou"}\r\n\n{"user": 7, "text": "x", "more": [1]}')
    assert _rows(path) == [Row(1, "a", "héllo\nyou"), Skip(2, Fault.BLANK), Row(3, "7", "x")]


def test_space_around_an_object_is_nothing(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", ' \t{"user": "a", "text": "b"}\n{"user": "a", "text": "c"} \t\r\n')
    assert _rows(path) == [Row(1, "a", "b"), Row(2, "a", "c")]


def test_columns_and_labels(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", '{"who": 1, "body": "x", "stars": 4.0}\n{"who": 1, "body": "y", "stars": null}\n')
    assert _rows(path, columns=Columns("who", "body", "stars")) == [
        Row(1, "1", "x", "4"),
        Skip(2, Fault.NO_LABEL, "1"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"user": "a", "text": "b"', "Line 2 of .* is broken JSON: Expecting ',' delimiter at character"),
        ('{"user": "a", "text": "b"} x', "Line 2 of .* is broken JSON: Extra data"),
        ("nonsense", "Line 2 of .* is broken JSON"),
        ("[" * 100_000, "Line 2 of .* is broken JSON"),
        ('{"user": ' + "9" * 5000 + ', "text": "b"}', "Line 2 of .* is broken JSON"),
        ('{"user": "a\0"}', "Line 2 of .* is broken JSON: Invalid control character at character 12"),
        ('{"user": "a", "body": "b"}', "Line 2 of .* has no column 'text'. The columns that exist are: 'user', 'body'"),
        ('{"user": "a", "text": "b", "user": "c"}', "Line 2 of .* has the key 'user' 2 times"),
        ('{"user": "a", "text": "b", "text": "b", "t\\u0065xt": "c"}', "Line 2 of .* has the key 'text' 3 times"),
        ('["a", "b"]', "Line 2 of .* is a JSON list, not an object"),
        ('"user text"', "Line 2 of .* is a JSON str, not an object"),
        ("12", "Line 2 of .* is a JSON int, not an object"),
        ("null", "Line 2 of .* is a JSON NoneType, not an object"),
    ],
)
def test_a_line_that_is_no_row(write: Callable[..., Path], line: str, message: str) -> None:
    good = json.dumps({"user": "a", "text": "b"})
    path = write("a.jsonl", f"{good}\n{line}\n{good}\n")
    with pytest.raises(DataError, match=message):
        _rows(path)
    assert _rows(path, strict=False) == [Row(1, "a", "b"), Skip(2, Fault.MALFORMED), Row(3, "a", "b")]


def test_a_json_array_is_told_apart(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="one JSON array, not one object a line"):
        _rows(write("a.json", '[\n{"user": "a", "text": "b"}\n]\n'))


def test_a_json_array_on_one_line_is_told_apart(write: Callable[..., Path]) -> None:
    for content in ('[{"user": "a", "text": "b"}, {"user": "a", "text": "c"}]', "[]"):
        with pytest.raises(DataError, match=r"one JSON array, not one object a line; convert it first: jq -c '\.\[\]'"):
            _rows(write("a.json", content))
    with pytest.raises(DataError, match=r"Line 1 of .* is a JSON list, not an object"):
        _rows(write("a.json", '["user", "text"]\n["a", "b"]\n'))


def test_a_repeated_key_that_is_no_column_harms_nobody(write: Callable[..., Path]) -> None:
    line = '{"user": "a", "text": "b", "stars": 1, "stars": 2, "more": {"text": 1, "text": 2}}\n'
    path = write("a.jsonl", line)
    assert _rows(path) == [Row(1, "a", "b")]
    with pytest.raises(DataError, match="'stars' 2 times"):
        _rows(path, columns=Columns(label="stars"))


def test_content_that_cannot_be_used_is_counted(write: Callable[..., Path]) -> None:
    records = [
        {"user": None, "text": "x"},
        {"user": [], "text": "x"},
        {"user": "a", "text": None},
        {"user": "a", "text": 5},
        {"user": "a", "text": "a\0b"},
        {"user": "a", "text": "\ud83d"},
    ]
    path = write("a.jsonl", "\n".join(map(json.dumps, records)))
    faults = [row.fault for row in _rows(path)]
    assert faults == [Fault.NO_USER, Fault.BAD_USER, Fault.EMPTY, Fault.NOT_TEXT, Fault.NUL, Fault.ENCODING]


def test_invalid_bytes(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", b'{"user": "a", "text": "caf\xe9"}\n')
    with pytest.raises(DataError, match=r"Line 1 of .*latin-1"):
        _rows(path)
    assert _rows(path, strict=False) == [Skip(1, Fault.ENCODING, "a")]
    assert _rows(path, encoding="latin-1") == [Row(1, "a", "café")]
