"""Write the six user sets on which attacks are studied, with a public bank for each, the same bytes on every machine.

    python tools/user_sets.py FOLDER [--sets technical,code] [--users 600] [--seed 0]

A set is a grammar in ``user_sets.toml``. A person has favourites: kinds of records, words, a rate of typing errors. All
records of one person come from these. The bank is made in the same way by other people. ``FOLDER/NAME.jsonl`` holds the
users, ``FOLDER/NAME-bank.jsonl`` the bank; the hashes of both are printed and stand in ``docs/attacks.md``.

Only ``random.Random.random`` is drawn from, which Python promises to keep for a given seed, and only products and sums
of floats decide, which are the same everywhere.
"""

import argparse
import hashlib
import json
import random
import re
import string
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["SETS", "Grammar", "Person", "bank_texts", "load_grammar", "set_bytes", "user_rows", "write_set"]

GRAMMARS = Path(__file__).with_suffix(".toml")
SETS = ("technical", "code", "russian", "chinese", "forms", "short")
USERS, RECORDS, BANK = 600, 32, 2048

_SLOT = re.compile(r"«(\w+)(?::(\d+)(?:-(\d+))?)?»")
ALPHABETS = {
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "b32": "023456789acdefghjklmnpqrstuvwxyz",
    "b62": string.digits + string.ascii_letters,
    "b64": string.ascii_letters + string.digits + "+/",
    "digits": string.digits,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "license": "ABCDEFGHJKLMNPRSTUVWXYZ23456789",
    "symbols": "!@#$%^&*()_+-=[]{};:,./?|~",
    "mash": "asdfghjklasdfghjklasdfjkl;qwertyuiopzxcvbnm",
}


@dataclass(frozen=True)
class Grammar:
    """What people of a set write: lines for each word of the grammar, and how much people differ."""

    name: str
    about: str
    rules: Mapping[str, tuple[str, ...]]
    personal: tuple[str, ...]
    """The words of which each person has a few of their own, filled once: their machines, the people they know."""
    habits: tuple[str, ...]
    """The words of which each person has a few favourite lines, filled anew each time."""
    typos: float
    """The highest rate of swapped letters that a person can have."""


@cache
def load_grammar(name: str) -> Grammar:
    """Read one grammar; ``⏎`` in a line stands for a line feed."""
    content = tomllib.loads(GRAMMARS.read_text(encoding="utf-8"))[name]
    rules = {
        word: tuple(line.replace("⏎", "\n") for line in lines.strip("\n").split("\n"))
        for word, lines in content["rules"].items()
    }
    return Grammar(
        name, content["about"], rules, tuple(content["personal"]), tuple(content["habits"]), content["typos"]
    )


class Person:
    """Somebody who writes records; the seed, the set and a name decide all that they will ever write."""

    def __init__(self, grammar: Grammar, seed: int, name: str) -> None:
        self._grammar = grammar
        self._random = random.Random(f"{seed}/{grammar.name}/{name}").random  # noqa: S311 - made-up people hold no secret
        kinds = len(grammar.rules["record"])
        # The cube of a uniform number: most kinds of records are rare for a person, and a few make up most of them.
        self._weights = [u * u * u for u in (self._random() for _ in range(kinds))]
        self._favourites: dict[str, list[str]] = {}
        for word in grammar.habits:
            self._favourites[word] = [self._pick(grammar.rules[word]) for _ in range(1 + self._below(4))]
        for word in grammar.personal:
            lines = [self._pick(grammar.rules[word]) for _ in range(1 + self._below(4))]
            self._favourites[word] = [self._filled(line) for line in lines]
        self._typos = grammar.typos * self._random() * self._random()

    def write(self) -> str:
        """Write one record."""
        mark, place = self._random() * sum(self._weights), 0
        while place < len(self._weights) - 1 and mark >= self._weights[place]:
            mark -= self._weights[place]
            place += 1
        return self._mistyped(self._filled(self._grammar.rules["record"][place])).strip()

    def _below(self, count: int) -> int:
        return int(self._random() * count)

    def _pick(self, lines: Sequence[str]) -> str:
        return lines[self._below(len(lines))]

    def _filled(self, line: str) -> str:
        return _SLOT.sub(self._slot, line)

    def _slot(self, found: re.Match[str]) -> str:
        word, least, most = found.groups()
        if word == "int":
            return str(self._below(int(least)))
        if word in ALPHABETS and word not in self._grammar.rules:
            length = int(least) + self._below(int(most or least) - int(least) + 1)
            return "".join(self._pick(ALPHABETS[word]) for _ in range(length))
        return self._filled(self._pick(self._favourites.get(word) or self._grammar.rules[word]))

    def _mistyped(self, text: str) -> str:
        if not self._typos:
            return text
        letters = list(text)
        for place in range(1, len(letters)):
            if self._random() < self._typos and letters[place].isalpha() and letters[place - 1].isalpha():
                letters[place - 1], letters[place] = letters[place], letters[place - 1]
        return "".join(letters)


def user_rows(name: str, users: int = USERS, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the rows of a set: a user's id and one of their 32 records."""
    for number in range(users):
        person = Person(load_grammar(name), seed, f"user {number}")
        for _ in range(RECORDS):
            yield f"{name}-{number:04}", person.write()


def bank_texts(name: str, size: int = BANK, seed: int = 0) -> tuple[str, ...]:
    """Return the texts of a set's bank, no two alike, one from each of as many other people as it takes."""
    found: dict[str, None] = {}
    number = 0
    while len(found) < size:
        found.setdefault(Person(load_grammar(name), seed, f"bank {number}").write())
        number += 1
    return tuple(found)


def set_bytes(name: str, users: int = USERS, size: int = BANK, seed: int = 0) -> tuple[bytes, bytes]:
    """Return the two files of a set: its users and its bank, one JSON object a line."""
    rows = ({"user": user, "text": text} for user, text in user_rows(name, users, seed))
    return _lines(rows), _lines({"text": text} for text in bank_texts(name, size, seed))


def _lines(rows: Iterator[dict[str, str]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write_set(folder: Path, name: str, users: int = USERS, seed: int = 0) -> tuple[str, str]:
    """Write the two files of a set, and return their hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = set_bytes(name, users, seed=seed)
    for suffix, content in zip(("", "-bank"), contents, strict=True):
        (folder / f"{name}{suffix}.jsonl").write_bytes(content)
    one, other = (hashlib.sha256(content).hexdigest() for content in contents)
    return one, other


def main() -> None:
    """Write the sets and print their hashes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.sets.split(","):
        for file, digest in zip(("users", "bank"), write_set(given.folder, name, given.users, given.seed), strict=True):
            print(f"{name:10} {file:5} {digest}")


if __name__ == "__main__":
    main()
