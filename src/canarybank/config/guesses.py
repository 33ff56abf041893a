"""Know the keys that people are likely to guess, where the letters of a guess lead elsewhere."""

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["GUESSES", "guessed_keys"]

_ATTACKS, _CANARIES, _COLUMNS = ("attack.names",), ("cohorts.canaries",), ("users.user", "users.text")
GUESSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "attack": _ATTACKS,
        "attacks": _ATTACKS,
        "attack.attacks": _ATTACKS,
        "audit.attack": _ATTACKS,
        "audit.attacks": _ATTACKS,
        "canaries": _CANARIES,
        "attack.canaries": _CANARIES,
        "audit.canaries": _CANARIES,
        "users.canaries": _CANARIES,
        "column": _COLUMNS,
        "columns": _COLUMNS,
        "users.column": _COLUMNS,
        "users.columns": _COLUMNS,
        "users.id": ("users.user",),
        "users.file": ("users.source",),
        "users.path": ("users.source",),
    }
)
"""The keys that are meant, by what was typed; none of these is a key itself."""


def guessed_keys(name: str) -> tuple[str, ...]:
    """Return the keys that are meant by a likely guess; none where it is not one.

    Args:
        name: What was typed, as a dotted key.

    Example:
        >>> guessed_keys("audit.attacks"), guessed_keys("mechanism.sgima")
        (('attack.names',), ())
    """
    return GUESSES.get(name, ())
