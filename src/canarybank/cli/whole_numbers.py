"""Read whole numbers as they are typed: what is no whole number is refused, and never rounded to one."""

from collections.abc import Sequence
from typing import Any

__all__ = ["whole_number", "whole_numbers"]


def whole_number(_: Any, tokens: Sequence[Any]) -> int:
    """Return the number of an option that takes one.

    Args:
        tokens: What was typed for the option.

    Example:
        >>> from types import SimpleNamespace
        >>> whole_number(int, [SimpleNamespace(value="12")])
        12
        >>> whole_number(int, [SimpleNamespace(value="4.5")])
        Traceback (most recent call last):
            ...
        ValueError: '4.5' is no whole number
    """
    text = str(tokens[0].value)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def whole_numbers(_: Any, tokens: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of an option that takes several.

    Args:
        tokens: What was typed for the option.

    Example:
        >>> from types import SimpleNamespace
        >>> whole_numbers(int, [SimpleNamespace(value="1"), SimpleNamespace(value="8")])
        (1, 8)
    """
    return tuple(whole_number(int, [token]) for token in tokens)
