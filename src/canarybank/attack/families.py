"""Hold the families of texts that a search for canaries goes through, as data.

A family writes groups. A group is a core and its variants: texts that differ, and that an encoder puts closer to each
other than to anything else. A canary whose records are variants gives all its votes to the probes that are variants.
Nobody knows beforehand which family the users of some data stay away from, so all are measured.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from canarybank.attack.facts import PHRASINGS, phrase_facts
from canarybank.attack.nonce import nonces
from canarybank.errors import InputError

__all__ = ["FAMILIES", "Family", "Group", "chosen_families", "variants"]

Group: TypeAlias = tuple[str, ...]
"""Different texts that an encoder puts close together; the first is the core."""
Write: TypeAlias = Callable[[np.random.Generator, int, int, Sequence[str]], list[Group]]
"""Write so many groups of so many texts each; the last argument is the encoder's vocabulary, which may be empty."""


@dataclass(frozen=True, slots=True)
class Family:
    """A way to write groups of texts; one that is ``fluent`` writes sentences that people could have written.

    A group has as many texts as were asked for, or all that the family has for it.
    """

    name: str
    description: str
    write: Write
    fluent: bool = False


def variants(words: Sequence[str], size: int) -> Group:
    """Return so many different texts made of the same words, in other orders and more often.

    An encoder that averages words gives all of them one vector, up to rounding.
    """
    if not words or not all(words):
        raise InputError(f"Variants are made of words that are not empty, not of {list(words)!r}.")
    found: dict[str, None] = {}
    for times in count_from(1):
        for turn in range(len(words)):
            found.setdefault(" ".join((*words[turn:], *words[:turn]) * times))
            if len(found) == size:
                return tuple(found)
    raise AssertionError("there is always one more repetition")


def _of_words(draw: Callable[[np.random.Generator], Sequence[str]]) -> Write:
    def write(rng: np.random.Generator, number: int, size: int, _: Sequence[str]) -> list[Group]:
        return [variants(draw(rng), size) for _ in range(number)]

    return write


def _alphabet(name: str, description: str, characters: str, lengths: Sequence[int]) -> Family:
    """Return the family of words whose characters are drawn uniformly; a group has words of the lengths given."""

    def draw(rng: np.random.Generator) -> list[str]:
        return ["".join(characters[i] for i in rng.integers(len(characters), size=length)) for length in lengths]

    return Family(name, description, _of_words(draw))


def _characters(*ranges: tuple[int, int]) -> str:
    """Return the letters, signs and symbols between code points, the last ones included."""
    return "".join(chr(point) for first, last in ranges for point in range(first, last + 1) if chr(point).isprintable())


_SCRIPTS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "arabic": ((0x0621, 0x063A), (0x0641, 0x064A)),
    "armenian": ((0x0561, 0x0586),),
    "bengali": ((0x0995, 0x09A8), (0x09AA, 0x09B0)),
    "braille": ((0x2801, 0x28FF),),
    "cherokee": ((0x13A0, 0x13EF),),
    "cuneiform": ((0x12000, 0x12300),),
    "cyrillic": ((0x0430, 0x044F),),
    "devanagari": ((0x0905, 0x0914), (0x0915, 0x0939)),
    "ethiopic": ((0x1200, 0x1248),),
    "georgian": ((0x10D0, 0x10F0),),
    "greek": ((0x03B1, 0x03C9),),
    "han": ((0x4E00, 0x9FA5),),
    "hangul": ((0xAC00, 0xD7A3),),
    "hebrew": ((0x05D0, 0x05EA),),
    "kana": ((0x3041, 0x3096), (0x30A1, 0x30FA)),
    "khmer": ((0x1780, 0x17A2),),
    "mongolian": ((0x1820, 0x1842),),
    "ogham": ((0x1681, 0x169A),),
    "runic": ((0x16A0, 0x16EA),),
    "sinhala": ((0x0D9A, 0x0DB1),),
    "tamil": ((0x0B8E, 0x0B90), (0x0BAE, 0x0BB9)),
    "thai": ((0x0E01, 0x0E2E),),
    "tibetan": ((0x0F40, 0x0F47), (0x0F49, 0x0F6A)),
    "yi": ((0xA000, 0xA48C),),
}
_SYMBOLS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "arrows": ((0x2190, 0x21FF),),
    "boxes": ((0x2500, 0x257F),),
    "emoji": ((0x1F600, 0x1F64F),),
    "mathematics": ((0x2200, 0x22FF),),
    "music": ((0x1D100, 0x1D126),),
}
_RARE = _characters(*(stretch for table in (_SCRIPTS, _SYMBOLS) for ranges in table.values() for stretch in ranges))


_ONSETS = ("b", "bl", "d", "dw", "f", "g", "gn", "h", "j", "k", "kv", "l", "m", "n", "p", "q", "s", "t", "v", "x", "z")
_RHYMES = ("a", "ax", "eb", "ez", "ia", "ik", "o", "ogh", "oo", "u", "ulf", "urz", "y", "yx")


def _repeated_sign(rng: np.random.Generator) -> list[str]:
    return [_RARE[int(rng.integers(len(_RARE)))] * int(rng.integers(1, 9))]


def _made_up_words(rng: np.random.Generator) -> list[str]:
    return [
        "".join(str(rng.choice(_ONSETS)) + str(rng.choice(_RHYMES)) for _ in range(int(rng.integers(1, 4))))
        for _ in range(int(rng.integers(1, 4)))
    ]


def _tokens(rng: np.random.Generator, number: int, size: int, vocabulary: Sequence[str]) -> list[Group]:
    words = [word for word in (text.strip() for text in vocabulary) if word and not word.isspace()]
    if not words:
        return []
    drawn = rng.permutation(len(words))
    pairs = [words[int(place)] for place in drawn[: 2 * number]]
    single = [(word,) for word in pairs[: (number + 1) // 2]]
    double = list(zip(pairs[len(single) :: 2], pairs[len(single) + 1 :: 2], strict=False))
    return [variants(each, size) for each in (*single, *double)[:number]]


def _facts(rng: np.random.Generator, number: int, size: int, _: Sequence[str]) -> list[Group]:
    return phrase_facts(number, min(size, PHRASINGS), rng)


_ALL = (
    Family("nonces", "random letters and digits", _of_words(lambda rng: nonces(1, rng))),
    _alphabet("hexadecimal", "random hexadecimal digits, as hashes have", string.digits + "abcdef", (32,)),
    _alphabet("digits", "random digits", string.digits, (24,)),
    _alphabet("base64", "random characters of base64", string.ascii_letters + string.digits + "+/", (44,)),
    _alphabet("punctuation", "random punctuation", "!#$%&*+;<=>?@^|~", (16,)),
    *(_alphabet(name, f"random letters of {name}", _characters(*at), (6, 6)) for name, at in _SCRIPTS.items()),
    *(_alphabet(name, f"random signs: {name}", _characters(*at), (4, 4)) for name, at in _SYMBOLS.items()),
    Family("repeated sign", "one rare sign, repeated", _of_words(_repeated_sign)),
    Family("made-up words", "short words that no language has", _of_words(_made_up_words)),
    Family("vocabulary", "one or two of the encoder's own tokens, repeated", _tokens),
    Family("facts", "made-up facts about made-up people, in fluent sentences", _facts, fluent=True),
)
FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _ALL})
"""Every family by name."""


def chosen_families(names: Sequence[str] | None) -> tuple[Family, ...]:
    """Return the families of some names, or all of them."""
    if names is None:
        return tuple(FAMILIES.values())
    if unknown := [name for name in names if name not in FAMILIES]:
        raise InputError(f"There is no family {unknown[0]!r}; choose from {', '.join(FAMILIES)}.")
    if not names:
        raise InputError("A search needs at least one family of texts; name some, or leave families out for all.")
    return tuple(FAMILIES[name] for name in dict.fromkeys(names))
