"""Make text from users and models fit to show: short, and without characters that rearrange what stands around it."""

import unicodedata

__all__ = ["clean", "label", "short_hash"]

LIMIT = 240
_MARKS = 3
"""More combining marks than this on one character are dropped: they would pile up over other lines."""
_HIDDEN = frozenset("\u00ad\u061c\u180e\u200b\u200e\u200f\u2060\ufeff")
_BLOCKS = ((0x202A, 0x202E), (0x2066, 0x206F), (0xFFF9, 0xFFFB), (0xE0000, 0xE01EF))


def clean(text: str, limit: int = LIMIT) -> str:
    """Return a text of at most ``limit`` characters of the original, every control character made visible.

    White space becomes single spaces. Controls of direction, zero-width characters, tags and lone surrogates are
    written as their code point, so that a text neither reorders nor hides anything. Escaping is the template's part.
    """
    cut = text[:limit]
    shown = "".join(_visible(character) for character in _unpiled(" ".join(cut.split())))
    return shown + "…" if len(text) > limit else shown


def label(text: str) -> str:
    """Return an id as a short label."""
    return clean(text, 48)


def short_hash(digest: str) -> str:
    """Return as much of a hash as a person compares."""
    return digest[:12]


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
