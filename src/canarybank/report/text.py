"""Make texts and numbers fit to show.

Text from users and models becomes short, without characters that rearrange what stands around it. Numbers are written
as people read them; a dash stands for what nobody computed.
"""

import math
import unicodedata
from typing import Any

from canarybank.wording import shown_epsilon

__all__ = [
    "COMMAND",
    "LONG",
    "NAME",
    "SHORT",
    "UNKNOWN",
    "clean",
    "confidence",
    "counted",
    "decimal",
    "epsilon",
    "interval_text",
    "label",
    "percent",
    "rate",
    "reach_text",
    "rung_text",
    "setting_text",
    "together",
]

UNKNOWN = "—"
"""What stands for a figure that nobody computed."""

LIMIT = 240
COMMAND, LONG, SHORT, NAME = 2000, 600, 120, 80
"""The most characters of a command, a note, a value and a name."""
_LARGE = 0.01
_MARKS = 3
"""More combining marks than this on one character are dropped: they would pile up over other lines."""
_HIDDEN = frozenset("\u00ad\u061c\u180e\u200b\u200e\u200f\u2060\ufeff")
_BLOCKS = ((0x202A, 0x202E), (0x2066, 0x206F), (0xFFF9, 0xFFFB), (0xE0000, 0xE01EF))


def clean(text: str, limit: int = LIMIT) -> str:
    """Return a text of at most ``limit`` characters of the original, every control character made visible.

    White space becomes single spaces. Controls of direction, zero-width characters, tags and lone surrogates are
    written as their code point, so that a text neither reorders nor hides anything. Escaping is the template's part.
    """
    shown = "".join(map(_visible, _unpiled(" ".join(text[:limit].split()))))
    return shown + "…" if len(text) > limit else shown


def label(text: str) -> str:
    """Return an id as a short label."""
    return clean(text, 48)


def _visible(character: str) -> str:
    code = ord(character)
    control = unicodedata.category(character) in {"Cc", "Cs", "Cn"}
    hidden = character in _HIDDEN or any(low <= code <= high for low, high in _BLOCKS)
    return f"⟨U+{code:04X}⟩" if control or hidden else character


def _unpiled(text: str) -> str:
    kept, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) or unicodedata.category(character) == "Me" else 0
        if marks <= _MARKS:
            kept.append(character)
    return "".join(kept)


def epsilon(value: float | None) -> str:
    """Return an epsilon as ``shown_epsilon`` does; a dash where it is unknown."""
    if value is None:
        return UNKNOWN
    return "∞" if math.isinf(value) else shown_epsilon(value)


def reach_text(reached: tuple[float, bool] | None) -> str:
    """Return an exact epsilon, or where the second value says so, that it is at least this."""
    if reached is None:
        return UNKNOWN
    return f"{'at least ' if reached[1] else ''}{epsilon(reached[0])}"


def rung_text(rung: dict[str, Any] | None) -> str:
    """Return the epsilon of a rung of a summary."""
    return UNKNOWN if rung is None else reach_text((rung["epsilon"], rung["is_least"]))


def interval_text(ends: dict[str, Any] | None, low: str = "low", high: str = "high") -> str:
    """Return an interval of epsilons by its ends, or one number where both are shown alike."""
    if ends is None:
        return UNKNOWN
    first, last = epsilon(ends[low]), epsilon(ends[high])
    return first if first == last else f"{first} to {last}"


def setting_text(value: str | float) -> str:
    """Return the value of a setting as people write it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def decimal(value: float | None, sign: str = "") -> str:
    """Return a number with three decimals, after a plus where ``sign`` asks for one."""
    return UNKNOWN if value is None else f"{value:{sign}.3f}"


def rate(value: float | None) -> str:
    """Return a rate to three significant digits."""
    if value is None:
        return UNKNOWN
    return "0" if value == 0 else f"{value:.3f}" if value >= _LARGE else f"{value:.2e}"


def percent(value: float) -> str:
    """Return a share in percent, to a decimal, or where it is below one percent to two significant digits."""
    shown = f"{100 * value:.1f}" if value >= _LARGE else f"{100 * value:.2g}"
    return f"{shown.removesuffix('.0')}%"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun, in the singular for one."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def together(number: int, noun: str = "together") -> str:
    """Return "both attacks" for two of them, "all 3 attacks" for more."""
    words = {2: "both"}.get(number, f"all {number:,}")
    return f"{words} {noun}"


def confidence(level: float) -> str:
    """Return a confidence in percent with no more digits than it has."""
    return f"{100 * level:.6g}%"
