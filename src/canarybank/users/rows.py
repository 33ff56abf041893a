"""Say what a reader yields: a row that can be used, or the reason why one cannot."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from canarybank.errors import ColumnError, DataError, InputError

__all__ = ["PLAIN", "Columns", "Fault", "Row", "Skip", "as_row", "malformed", "missing_columns", "plain", "same_text"]

# Above this, neighbouring whole numbers share one float, so that two users could become one.
_EXACT_FLOATS = 2.0**53

# What a writer may take for a number, a truth value or a date: short, and told by its first character.
_LONGEST_SCALAR = 400
_SCALAR_STARTS = frozenset("0123456789+-.tTfF")
_TRUTHS = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_NUMBER = re.compile(r"([+-]?)(?=[.]?[0-9])([0-9]*)(?:[.]([0-9]*))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:$|[T ])")
_NANOSECONDS = re.compile(r"([.][0-9]{6})[0-9]+")


class Fault(StrEnum):
    """Why a row is skipped and counted."""

    BLANK = "blank line"
    MALFORMED = "malformed line"
    NO_USER = "no user id"
    BAD_USER = "user id is neither text nor a whole number"
    NOT_TEXT = "text is not a string"
    EMPTY = "empty text"
    NUL = "NUL character"
    ENCODING = "characters that are not valid Unicode"
    NO_LABEL = "no usable label"
    WORDS = "too few words"
    LABEL = "label not asked for"


class Row(NamedTuple):
    """One record as read: where it began, whose it is, what it says, and its label where there is one."""

    line: int
    user: str
    text: str
    label: str | None = None


class Skip(NamedTuple):
    """One row that cannot be used: where it began, why not, and whose it is where that is known."""

    line: int
    fault: Fault
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns that hold the user, the text and, where there is one, the label."""

    user: str = "user"
    text: str = "text"
    label: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise InputError(f"One column cannot play two roles, but the names are {list(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names in the order user, text, label; without the label where there is none."""
        return (self.user, self.text) if self.label is None else (self.user, self.text, self.label)


PLAIN = Columns()


def as_row(
    line: int, user: object, text: object, label: object = None, *, labelled: bool = False, isolated: bool = False
) -> Row | Skip:
    """Return the values of one row as a row, or the first reason why it cannot be one.

    When ``isolated``, each value is read as ``same_text`` says, so that a row follows from what its values say and not
    from the types that their writer inferred from all rows.
    """
    if isolated:
        user, text, label = same_text(user), same_text(text), same_text(label)
    name = user if type(user) is str else _whole(user)
    if name is None or not _usable(name):
        return Skip(line, _user_fault(user, name))
    if type(text) is not str or not _usable(text):
        return Skip(line, _text_fault(text), name)
    if not labelled:
        return Row(line, name, text)
    known = label if type(label) is str else plain(label)
    if known is None or not _usable(known):
        return Skip(line, Fault.NO_LABEL, name)
    return Row(line, name, text, known)


def malformed(line: int, why: str | DataError, *, strict: bool) -> Skip:
    """Raise the reason when strict, and otherwise count the line as malformed."""
    if strict:
        raise DataError(why) if isinstance(why, str) else why
    return Skip(line, Fault.MALFORMED)


def missing_columns(where: str, wanted: Columns, found: list[str], *, listed: bool = True) -> DataError | None:
    """Return the error to raise when a wanted column is not there, or is there twice.

    It lists the columns that exist unless ``listed`` is false: the first line of a file without a header is a record.
    """
    for name in wanted.names:
        if name not in found or (not listed and found.count(name) > 1):
            existing = ", ".join(repr(column) for column in found) or "none"
            label = "" if wanted.label is None else ", label=..."
            return ColumnError(
                f"{where} has no column {name!r}. The columns that exist are: {existing}."
                if listed
                else f"The first line of {where} must name the column {name!r}, once.",
                f"Say which of them hold what by columns=Columns(user=..., text=...{label}).",
            )
        if found.count(name) > 1:
            return DataError(f"{where} has {found.count(name)} columns named {name!r}; rename all but one.")
    return None


def plain(value: object) -> str | None:
    """Return a number, truth value or date as text, and None for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not value.is_integer():
        return repr(value) if math.isfinite(value) else None
    if (whole := _whole(value)) is not None:
        return whole
    if isinstance(value, Decimal):
        return f"{value:f}".rstrip("0")
    return str(value) if isinstance(value, date) else None


def same_text(value: object) -> str | None:
    """Return the text that a value has in every type that a writer of files may infer for it, or None for no value.

    7, 7.0, "7" and "007" are "7"; True and "TRUE" are "true"; a date and its ISO text are one, with and without a time
    of midnight, in UTC where there is a time zone. All other text stays as it is.
    """
    text = value if type(value) is str else _text_of(value)
    if text is None or len(text) > _LONGEST_SCALAR or text[:1] not in _SCALAR_STARTS:
        return text
    if text[0].isalpha():
        return text.lower() if text in _TRUTHS else text
    if text.isdecimal() and text.isascii():
        return text.lstrip("0") or "0"
    if found := _NUMBER.fullmatch(text):
        sign, whole, fraction = found.groups(default="")
        number = (whole.lstrip("0") or "0") + (f".{digits}" if (digits := fraction.rstrip("0")) else "")
        return f"-{number}" if sign == "-" and number != "0" else number
    return _same_date(text) if _DATE.match(text) else text


def _text_of(value: object) -> str | None:
    """Return a value that is no text as text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(value, float) and math.isfinite(value) and not value.is_integer():
        return f"{Decimal(repr(value)):f}"  # 0.0000001, and not 1e-07
    return plain(value)


def _same_date(text: str) -> str:
    """Return a date with its time, if that is not midnight; text that is no date stays as it is."""
    try:
        when = datetime.fromisoformat(_NANOSECONDS.sub(r"\1", text))
        when = when if when.tzinfo is None else when.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return text
    return str(when.date()) if when.time() == time() else str(when)


def _usable(text: str) -> bool:
    """Say whether a text says something, in characters that every later stage can take."""
    return bool(text) and not text.isspace() and "\0" not in text and (text.isascii() or _encodable(text))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text_fault(text: object) -> Fault:
    if isinstance(text, str) and text and not text.isspace():
        return Fault.NUL if "\0" in text else Fault.ENCODING
    return Fault.EMPTY if text is None or isinstance(text, str) else Fault.NOT_TEXT


def _user_fault(user: object, name: str | None) -> Fault:
    if name is not None:
        fault = _text_fault(name)
        return Fault.NO_USER if fault is Fault.EMPTY else fault
    absent = user is None or (isinstance(user, float) and math.isnan(user))
    return Fault.NO_USER if absent else Fault.BAD_USER


def _whole(value: object) -> str | None:
    """Return a whole number as text, 7 and 7.0 alike, and None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOATS:
        return str(int(value))
    if isinstance(value, Decimal) and value == int(value):
        return str(int(value))
    return None
