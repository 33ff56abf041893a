"""Read and write JSON in one canonical form, so that equal values are equal bytes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from canarybank.errors import DataError, InputError, StoreError
from canarybank.store.files import file_errors, write_atomic

__all__ = [
    "canonical_json",
    "differences",
    "inert_cell",
    "parse_json",
    "read_checked",
    "read_json",
    "write_checked",
    "write_json",
]

_CHECKSUM = "sha256"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula."""


def canonical_json(value: Any, *, indent: int | None = None) -> str:
    """Return the canonical JSON text of a value: equal values give equal text, on every machine.

    Keys are sorted, a float is its shortest text that reads back to the same number, and all but ASCII is
    escaped, so that any string survives and a document without indent is one line. Numpy numbers and arrays
    count as plain ones. NaN and infinity are refused, for JSON has none.

    Args:
        value: What to write: dicts, lists, strings, numbers, booleans, None, and numpy's numbers and arrays.
        indent: How many spaces a level is indented by; None puts everything on one line.

    Example:
        >>> canonical_json({"b": np.array([1, 2]), "a": 0.1 + 0.2})
        '{"a":0.30000000000000004,"b":[1,2]}'
    """
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, indent=indent, separators=separators, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"This value has no canonical JSON form: {error}; write plain finite values only.") from error


def parse_json(text: str | bytes, source: Path | str, *, given: bool = False) -> Any:
    """Parse JSON that came from some source, or say where it is broken.

    Args:
        text: The JSON text.
        source: Where it came from, for the message.
        given: Whether a user wrote it: then it is a DataError that asks to mend it. What we wrote ourselves is a
            StoreError that says that it was altered.

    Example:
        >>> parse_json('{"trials": 400}', "notes.json")
        {'trials': 400}
        >>> parse_json('{"trials": 4', "notes.json", given=True)
        Traceback (most recent call last):
        canarybank.errors.DataError: 'notes.json' is not JSON (...); mend it or write it again.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if given:
            raise DataError(f"{str(source)!r} is not JSON ({error}); mend it or write it again.") from error
        raise StoreError(
            f"{str(source)!r} is not JSON ({error}); it was altered or cut short, so restore it or delete it."
        ) from error


def read_json(path: Path | str) -> Any:
    """Read a JSON document, or say why it cannot be read.

    Args:
        path: The file.

    Example:
        >>> read_json("runs/demo/manifest.json")["kind"]
        'audit'
    """
    with file_errors(path, "read"):
        data = Path(path).read_bytes()
    return parse_json(data, path)


def write_json(path: Path | str, value: Any, *, indent: int | None = 2, durable: bool = True) -> None:
    r"""Write a value as a canonical JSON document, whole or not at all, ending in a newline.

    Args:
        path: The file; its folder is made where there is none.
        value: What to write, as ``canonical_json`` takes it.
        indent: How many spaces a level is indented by; None puts everything on one line.
        durable: Whether it must survive a loss of power once this returns.

    Example:
        >>> write_json("written/one.json", {"b": 1, "a": 2}, indent=None)
        >>> Path("written/one.json").read_text()
        '{"a":2,"b":1}\n'
    """
    write_atomic(path, canonical_json(value, indent=indent) + "\n", durable=durable)


def write_checked(path: Path | str, value: Mapping[str, Any], *, indent: int | None = 2, durable: bool = True) -> None:
    """Write a JSON object with a checksum of itself among its keys, whole or not at all.

    Args:
        path: The file; its folder is made where there is none.
        value: The object; its key sha256 is taken by the checksum.
        indent: How many spaces a level is indented by; None puts everything on one line.
        durable: Whether it must survive a loss of power once this returns.

    Example:
        >>> write_checked("written/checked.json", {"trials": 400})
        >>> sorted(read_json("written/checked.json"))
        ['sha256', 'trials']
    """
    write_json(path, {**value, _CHECKSUM: _checksum(value)}, indent=indent, durable=durable)


def read_checked(path: Path | str, *, or_unmarked: bool = False) -> dict[str, Any]:
    """Read what ``write_checked`` wrote, or say that it was altered; the checksum itself is left out.

    Args:
        path: The file.
        or_unmarked: Whether to take an object without a checksum too, as version 0.1.0 wrote them.

    Example:
        >>> write_checked("written/to-read.json", {"trials": 400})
        >>> read_checked("written/to-read.json")
        {'trials': 400}
        >>> altered = Path("written/to-read.json").read_text().replace("400", "4000")
        >>> _ = Path("written/to-read.json").write_text(altered)
        >>> read_checked("written/to-read.json")
        Traceback (most recent call last):
        canarybank.errors.StoreError: 'written/to-read.json' does not fit its checksum: ...
    """
    value = read_json(path)
    if isinstance(value, dict):
        checksum = value.pop(_CHECKSUM, None)
        if checksum == _checksum(value) or (or_unmarked and checksum is None):
            return value
    raise StoreError(f"{str(path)!r} does not fit its checksum: it was altered or cut short; restore it or delete it.")


def _checksum(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(dict(value)).encode()).hexdigest()


def differences(before: Any, now: Any, key: str = "") -> dict[str, tuple[Any, Any]]:
    """Return both values at each dotted key at which two JSON values differ, in the order of the keys' names.

    Lists of one length are compared item by item, with the item's number as its key.

    Args:
        before: One value.
        now: The other.
        key: The dotted key at which both stand; left out, they are whole documents.

    Example:
        >>> differences({"audit": {"trials": 400, "alpha": 0.05}}, {"audit": {"trials": 900, "alpha": 0.05}})
        {'audit.trials': (400, 900)}
    """
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return differences(dict(enumerate(before)), dict(enumerate(now)), key)
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return {} if before == now else {key: (before, now)}
    found: dict[str, tuple[Any, Any]] = {}
    for name in sorted({*before, *now}):
        found |= differences(before.get(name), now.get(name), f"{key}.{name}" if key else str(name))
    return found


def inert_cell(value: Any) -> Any:
    """Return a cell of a CSV file so that a spreadsheet takes it for text: one that it would run gets an apostrophe.

    The rule is OWASP's against CSV injection (https://owasp.org/www-community/attacks/CSV_Injection).

    Args:
        value: The cell; only a string can be a formula.

    Example:
        >>> inert_cell("=1+1"), inert_cell("one and one"), inert_cell(-2)
        ("'=1+1", 'one and one', -2)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a JSON type")
