"""Read rows from JSON lines: one object a line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from canarybank.errors import DataError
from canarybank.progress import SILENT, Progress
from canarybank.users.files import lines, opened
from canarybank.users.members import Member
from canarybank.users.rows import PLAIN, Columns, Fault, Row, Skip, as_row, malformed, missing_columns

__all__ = ["JsonLines"]


@dataclass(frozen=True, slots=True)
class JsonLines:
    """One JSON object on each line, whose keys are the columns.

    ``member`` asks for a file of an archive, and ``usual`` is what it is called as the format is distributed.
    """

    name: str = "jsonl"
    columns: Columns = PLAIN
    encoding: str = "utf-8"
    member: str | None = None
    usual: str | None = None

    def rows(
        self,
        path: Path,
        *,
        strict: bool = True,
        isolated: bool = False,
        progress: Progress = SILENT,
        work: str = "read",
    ) -> Iterator[Row | Skip]:
        """Yield every row of the file, each with its line."""
        user, text, label = self.columns.user, self.columns.text, self.columns.label
        labelled = label is not None
        with opened(path, Member(self.member, self.usual), progress, work, isolated=isolated) as file:
            for line, content in enumerate(lines(file, self.encoding, strict=strict, isolated=isolated), 1):
                try:
                    found = _decode(content)
                    if type(found) is _Repeating and (why := found.why(line, file.name, self.columns)):
                        yield malformed(line, why, strict=strict)
                        continue
                    item = as_row(
                        line,
                        found[user],
                        found[text],
                        found[label] if labelled else None,
                        labelled=labelled,
                        isolated=isolated,
                    )
                except (ValueError, RecursionError) as error:
                    if content.isspace():
                        item = Skip(line, Fault.BLANK)
                    else:
                        item = malformed(line, _broken(line, file.name, content, error), strict=strict)
                except (KeyError, TypeError):
                    item = malformed(line, _unlike(line, file.name, found, self.columns), strict=strict)
                yield item


class _Repeating(dict[str, Any]):
    """An object in which a key stands more than once; the last value holds."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.keys_written = [key for key, _ in pairs]

    def why(self, line: int, name: str, columns: Columns) -> str | None:
        """Return why this is no row: a column is repeated. Other keys are read by nobody and may be."""
        for column in columns.names:
            if (times := self.keys_written.count(column)) > 1:
                return f"Line {line} of {name} has the key {column!r} {times} times; leave one of them."
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeating(pairs)


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _decode(content: str) -> Any:
    """Return the value of a line; the plain case, an object from the first character to the last, is the fast one."""
    if content[:1] == "{":
        found, end = _DECODER.raw_decode(content)
        if not content[end:].strip(" \t\r\n"):
            return found
    return _DECODER.decode(content)


def _broken(line: int, name: str, content: str, error: Exception) -> str:
    if line == 1 and content.lstrip().startswith("["):
        return _array(name)
    what = error.msg.removesuffix(" at") if isinstance(error, json.JSONDecodeError) else str(error)
    where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
    return f"Line {line} of {name} is broken JSON: {what}{where}. Mend or remove the line."


def _unlike(line: int, name: str, found: object, columns: Columns) -> str | DataError:
    where = f"Line {line} of {name}"
    if line == 1 and isinstance(found, list) and all(isinstance(each, dict) for each in found):
        return _array(name)
    if not isinstance(found, dict):
        return f"{where} is a JSON {type(found).__name__}, not an object with the columns {list(columns.names)}."
    return cast("DataError", missing_columns(where, columns, list(found)))


def _array(name: str) -> str:
    return f"{name} holds one JSON array, not one object a line; convert it first: jq -c '.[]'."
