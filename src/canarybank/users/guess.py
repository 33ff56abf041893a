"""Guess which columns of a file hold users and texts, by the names that its first row gives them."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from canarybank.store import check_parquet, parquet_errors
from canarybank.users.delimited import Delimited
from canarybank.users.files import lines, opened
from canarybank.users.jsonlines import JsonLines
from canarybank.users.members import Member
from canarybank.users.parquet import Parquet
from canarybank.users.rows import PLAIN, Columns
from canarybank.users.sources import Format

__all__ = ["column_names", "guess_columns"]

_PEOPLE = ("user", "author", "username", "customer", "client", "member", "account", "person", "patient", "speaker")
_TEXTS = ("text", "body", "message", "comment", "content", "review", "post", "tweet", "note", "utterance", "sentence")
_ENDINGS = ("", "_id", "id", "_name", "_text", "_body")


def guess_columns(path: Path, format: Format) -> Columns:  # noqa: A002, as in source()
    """Return the columns that hold users and texts, told by their names; the format's own where names tell nothing.

    Case, blanks and hyphens do not matter: ``Author``, ``author_id`` and ``author-id`` all name users. Where several
    columns would do, the more usual name wins. Labels are never guessed.

    Args:
        path: The file. Only its first row, or its schema, is read.
        format: How the file is written, such as ``FORMATS["csv"]``.

    Example:
        >>> from canarybank.users import FORMATS
        >>> _ = Path("posts.csv").write_text("id,Author,subject,Body")
        >>> guess_columns(Path("posts.csv"), FORMATS["csv"])
        Columns(user='Author', text='Body', label=None)
    """
    if format.columns != PLAIN:
        return format.columns
    found = column_names(path, format)
    user = _best(_PEOPLE, found) or PLAIN.user
    text = _best(_TEXTS, [name for name in found if name != user]) or PLAIN.text
    return Columns(user, text)


def column_names(path: Path, format: Format) -> list[str]:  # noqa: A002, as in source()
    """Return the names of a file's columns: a header's, the keys of the first JSON object, or those of a schema."""
    if isinstance(format, Parquet):
        return [] if _is_packed(path) else _parquet_names(path)
    if not isinstance(format, Delimited | JsonLines):
        return []
    with opened(path, Member(format.member, format.usual)) as file:
        content = lines(file, format.encoding, strict=False)
        if isinstance(format, Delimited):
            rows = csv.reader(
                content,
                delimiter=format.delimiter,
                quotechar=format.quote,
                quoting=csv.QUOTE_NONE if format.quote is None else csv.QUOTE_MINIMAL,
            )
            return next(rows, [])
        try:
            first = json.loads(next(line for line in content if line.strip()))
        except (StopIteration, ValueError, RecursionError):
            return []  # the reader of rows says what is wrong, and where
    return list(first) if isinstance(first, dict) else []


def _is_packed(path: Path) -> bool:
    with opened(path) as file:
        return file.packed


def _parquet_names(path: Path) -> list[str]:
    import polars as pl

    check_parquet(path, ())
    with parquet_errors(path):
        return list(pl.scan_parquet(path, glob=False).collect_schema())


@dataclass(frozen=True, slots=True, order=True)
class _Match:
    """How well a column's name fits: the ending counts first, then how usual the word is, then where it stands."""

    ending: int
    word: int
    place: int


def _best(words: tuple[str, ...], names: list[str]) -> str | None:
    """Return the column whose name says best that it holds one of these; None where none does."""
    ranked = {f"{word}{ending}": (_ENDINGS.index(ending), words.index(word)) for ending in _ENDINGS for word in words}
    plain = ["_".join(name.casefold().replace("-", " ").split()) for name in names]
    matches = [_Match(*ranked[each], place) for place, each in enumerate(plain) if each in ranked]
    return names[min(matches).place] if matches else None
