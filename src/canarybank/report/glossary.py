"""The words of the project with their meanings, bundled with every page; a page links a word to its meaning."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["Term", "find_term", "glossary"]


@dataclass(frozen=True, slots=True)
class Term:
    """One word, the other spellings that lead to it, and what it means."""

    key: str
    term: str
    also: tuple[str, ...]
    meaning: str


@cache
def glossary() -> tuple[Term, ...]:
    """Return every term, in the order of reading."""
    text = resources.files("canarybank.report").joinpath("glossary.toml").read_text(encoding="utf-8")
    return tuple(
        Term(key, entry["term"], tuple(entry["also"]), entry["meaning"]) for key, entry in tomllib.loads(text).items()
    )


def find_term(word: str) -> Term | None:
    """Return the term that a word is, or is another spelling of; None where the glossary has none."""
    return _by_spelling().get(word.casefold())


@cache
def _by_spelling() -> dict[str, Term]:
    others = {spelling.casefold(): term for term in glossary() for spelling in term.also}
    return others | {term.term.casefold(): term for term in glossary()}
