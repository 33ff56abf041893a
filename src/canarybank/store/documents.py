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
    """
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, indent=indent, separators=separators, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"This value has no canonical JSON form: {error}; write plain finite values only.") from error


def parse_json(text: str | bytes, source: Path | str, *, given: bool = False) -> Any:
    """Parse JSON that came from some source, or say where it is broken; ``given`` is what a user wrote, not we."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if given:
            raise DataError(f"{str(source)!r} is not JSON ({error}); mend it or write it again.") from error
        raise StoreError(
            f"{str(source)!r} is not JSON ({error}); it was altered or cut short, so restore it or delete it."
        ) from error


def read_json(path: Path | str) -> Any:
    """Read a JSON document, or say why it cannot be read."""
    with file_errors(path, "read"):
        data = Path(path).read_bytes()
    return parse_json(data, path)


def write_json(path: Path | str, value: Any, *, indent: int | None = 2, durable: bool = True) -> None:
    """Write a value as a canonical JSON document, whole or not at all, ending in a newline."""
    write_atomic(path, canonical_json(value, indent=indent) + "\n", durable=durable)


def write_checked(path: Path | str, value: Mapping[str, Any], *, indent: int | None = 2, durable: bool = True) -> None:
    """Write a JSON object with a checksum of itself among its keys, whole or not at all."""
    write_json(path, {**value, _CHECKSUM: _checksum(value)}, indent=indent, durable=durable)


def read_checked(path: Path | str, *, or_unmarked: bool = False) -> dict[str, Any]:
    """Read what ``write_checked`` wrote, or say that it was altered; the checksum itself is left out.

    ``or_unmarked`` takes an object without a checksum too, as version 0.1.0 wrote them.
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
    """Return a cell of a CSV file so that a spreadsheet takes it for text: one that it would run gets an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a JSON type")
