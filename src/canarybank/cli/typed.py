"""Remember what the user typed: manifests name it, and an interrupted run is resumed by it."""

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

__all__ = ["remember", "typed"]

_WORDS: ContextVar[tuple[str, ...]] = ContextVar("words", default=())


def remember(words: Sequence[str]) -> None:
    """Keep the words of the command that runs now."""
    _WORDS.set(tuple(words))


def typed() -> str:
    """Return the command that runs now, as it can be typed again."""
    return shlex.join(["canarybank", *_WORDS.get()])
