"""Read the glossary: the words of the pages and the documentation, with their meanings, from glossary.toml."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["GlossaryTerm", "read_glossary"]


@dataclass(frozen=True, slots=True)
class GlossaryTerm:
    """One word with its meaning.

    Attributes:
        key: the anchor that links lead to.
        term: the heading.
        also: other spellings of the same thing.
        meaning: one or two plain sentences.
    """

    key: str
    term: str
    also: tuple[str, ...]
    meaning: str


@cache
def read_glossary() -> tuple[GlossaryTerm, ...]:
    """Return every term, in the order of reading.

    >>> next(word.term for word in read_glossary() if "canaries" in word.also)
    'canary'
    """
    text = resources.files("canarybank.report").joinpath("glossary.toml").read_text(encoding="utf-8")
    return tuple(
        GlossaryTerm(key, each["term"], tuple(each["also"]), each["meaning"])
        for key, each in tomllib.loads(text).items()
    )
