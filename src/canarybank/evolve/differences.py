"""Say what differs between what was declared once and what is asked for now."""

from collections.abc import Mapping
from typing import Any

__all__ = ["differences"]


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return one phrase for each key whose values differ, nested keys joined by dots, in the order of their names."""
    found: list[str] = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(f"{prefix}{key} was {old!r} and is now {new!r}")
    return found
