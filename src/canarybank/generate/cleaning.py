"""Turn what a model wrote into a candidate text, or say why it cannot be one."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from canarybank.errors import InputError
from canarybank.generate.distinct import words

__all__ = ["Cleaned", "Cleaning", "Rejection", "Strip"]

_TIMES = 2
_RUN = 4


class Rejection(StrEnum):
    """Why a text was not taken; each has its own counter in the outcome."""

    EMPTY = "empty"
    REFUSAL = "refusal"
    META = "meta"
    BANNED = "banned"
    LANGUAGE = "language"
    TRUNCATED = "truncated"
    SHORT = "too-short"
    LONG = "too-long"
    REPETITIVE = "repetitive"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near-duplicate"
    VERBATIM = "verbatim"
    DISSIMILAR = "dissimilar"


class Strip(StrEnum):
    """What was taken off a text that was kept; each has its own counter in the outcome."""

    QUOTES = "stripped-quotes"
    NUMBERING = "stripped-numbering"
    PREAMBLE = "stripped-preamble"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text that passed, and what was stripped off it."""

    text: str
    stripped: frozenset[Strip] = frozenset()


_QUOTES = {'"': '"', "“": "”", "«": "»", "‘": "’", "'": "'", "`": "`", "„": "“", "*": "*", "_": "_"}
_NUMBERING = re.compile(r"^\s*(?:\(?\d{1,3}[.):]|[-*•–—]|#{1,6})\s+")
_PREAMBLE = re.compile(
    r"^\s*(?:(?:sure|certainly|of course|absolutely|okay|ok|great|alright)\b[^\n:]{0,120}:"
    r"|here(?:'s|’s| is| are)\b[^\n:]{0,120}:"
    r"|(?:\w+ ){0,3}(?:answer|candidate|continuation|example|in other words|message|original|output|paraphrase|"
    r"paraphrased|reply|response|review|rewrite|rewritten|text|tweet|version)(?: \w+){0,3}\s*:)\s*",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(?:i(?:'m| am) (?:sorry|afraid),? (?:but )?(?:i|that)(?: am|'m)? (?:can ?no?t|can'?t|unable|not able|cannot)"
    r"|i (?:can ?not|can'?t|am unable to|am not able to|won'?t) "
    r"(?:assist|help (?:you )?with|comply|fulfil|provide|write|generate)"
    r"|as an? (?:ai|artificial|language|large language)\b|i(?:'m| am) an? (?:ai|language model|virtual assistant)"
    r"|ai (?:language )?model|ai assistant)",
    re.IGNORECASE,
)
_META = re.compile(
    r"\[[^\]]{1,40}\]|<\|?[a-z_/]+\|?>|https?://|\b(?:paraphras|rephras|rewrit)\w*|\bchatbot\b"
    r"|\bthe (?:original|user|phrase|prompt)\b|\bsentences?\b|\bfirst person\b|\bchat message\b|\bin other words\b"
    r"|\btexts? (?:of this kind|in this style)\b|\b(?:small|short) story\b|\bgreat (?:question|way to start)\b"
    r"|\b(?:happy|here|ready|glad) to (?:help|assist|chat|share)\b|\b(?:assist|help) you (?:with|today|find)\b"
    r"|\btell me (?:more )?about what you\b|\bhow can i help\b|\byour (?:question|request|prompt)\b"
    r"|\((?:laugh|smil|glanc|sigh|paus|chuckl|wink|grin)\w*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r".+?(?:[.!?…]+[\"'”’)]*(?=\s|$)|$)", re.DOTALL)
_COMMON = frozenset(
    words(
        "a about all am an and are as at be because been but by can cant could did do does dont for from get go going "
        "good got had has have he her him his how i id if im in is it its ive just know like love me my no not now of "
        "on one or our out really she so some that the them then there they think this time to too up us was we well "
        "were what when which who why will with would yeah yes you your"
    )
)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The rules that a text must pass, in the order in which they are applied.

    Stripped: chat preambles up to their colon, list numbering, quotes around the whole, space; of several
    paragraphs the first is kept, and of its sentences at most ``sentences``, as many as fit in ``longest``
    words. Rejected: nothing left; a refusal; talk about the task itself, placeholders, stage directions and
    addresses; a word that is ``banned``; another language (fewer than ``latin`` of the letters are Latin, or
    eight or more words of which fewer than ``common`` are everyday English; None switches either off); a
    sentence that does not end (where ``whole``); fewer than ``shortest`` or more than ``longest`` words; a word
    bigram three times, or a word four times running.
    """

    shortest: int = 4
    longest: int = 30
    sentences: int | None = 2
    whole: bool = True
    latin: float | None = 0.9
    common: float | None = 0.15
    banned: frozenset[str] = frozenset()
    tidy: bool = False
    """Whether a quotation that is left open and marks of formatting are rejected as well, as truncated."""

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise InputError(
                f"Texts must be allowed 1 <= shortest <= longest words, not {self.shortest} to {self.longest}."
            )
        if self.sentences is not None and self.sentences < 1:
            raise InputError(f"At least one sentence must be kept, not {self.sentences}; None keeps all.")

    def to_json(self) -> dict[str, Any]:
        """Return the rules as plain JSON values."""
        return asdict(self) | {"banned": sorted(self.banned)}

    def clean(self, text: str, *, finished: bool = True) -> str | Rejection:
        """Return the cleaned text, or the first rule that rejects it."""
        judged = self.judge(text, finished=finished)
        return judged if isinstance(judged, Rejection) else judged.text

    def judge(self, text: str, *, finished: bool = True) -> Cleaned | Rejection:
        """Return the cleaned text with what was stripped off it, or the first rule that rejects it."""
        bare = stripped(text)
        if not bare.text:
            return Rejection.EMPTY
        if _REFUSAL.search(bare.text):
            return Rejection.REFUSAL
        leading, ended = self._leading(bare.text, finished=finished)
        kept = unquoted(leading)
        quotes = {Strip.QUOTES} if kept != leading else set()
        return self._rejected(kept, ended=ended) or Cleaned(kept, bare.stripped | quotes)

    def _rejected(self, kept: str, *, ended: bool) -> Rejection | None:
        if _META.search(kept):
            return Rejection.META
        if self.banned & set(words(kept)):
            return Rejection.BANNED
        if self._foreign(kept):
            return Rejection.LANGUAGE
        return self._measured(kept, ended=ended)

    def _leading(self, text: str, *, finished: bool) -> tuple[str, bool]:
        """Return the leading sentences that fit, and whether the last of them ended."""
        kept: list[str] = []
        count = 0
        sentences = list(_sentences(text))
        for i, sentence in enumerate(sentences[: self.sentences]):
            cut = i == len(sentences) - 1 and not finished and not _ended(sentence)
            count += len(words(sentence))
            if kept and (cut or count > self.longest):
                break
            kept.append(sentence)
        return " ".join(kept), finished or len(kept) < len(sentences) or _ended(kept[-1])

    def _foreign(self, text: str) -> bool:
        letters = [c for c in text if c.isalpha()]
        if not letters:
            return self.latin is not None
        if self.latin is not None and sum(_is_latin(c) for c in letters) < self.latin * len(letters):
            return True
        found = words(text)
        return (
            self.common is not None
            and len(found) >= 8  # noqa: PLR2004, a shorter text can do without a common word
            and sum(word in _COMMON for word in found) < self.common * len(found)
        )

    def _measured(self, text: str, *, ended: bool) -> Rejection | None:
        found = words(text)
        if (self.whole and not ended) or (self.tidy and _untidy(text)):
            return Rejection.TRUNCATED
        if len(found) < self.shortest:
            return Rejection.SHORT
        if len(found) > self.longest:
            return Rejection.LONG
        return Rejection.REPETITIVE if _repetitive(found) else None


def stripped(text: str) -> Cleaned:
    """Return the first paragraph's text without preamble, numbering, surrounding quotes and stray space."""
    found: set[Strip] = set()

    def without(strip: Strip, text: str) -> str:
        bare = _STRIPS[strip](text)
        if bare.strip() != text.strip():
            found.add(strip)
        return bare

    text = "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))
    text = without(Strip.PREAMBLE, text.strip()).strip()
    paragraph = next((line for line in text.split("\n") if line.strip()), "")
    before = None
    while before != paragraph:
        before = paragraph
        for strip in (Strip.PREAMBLE, Strip.QUOTES, Strip.NUMBERING):
            paragraph = without(strip, paragraph)
    return Cleaned(re.sub(r"\s+", " ", paragraph).strip(), frozenset(found))


def unquoted(text: str) -> str:
    """Drop the quotes around a whole text, and one that opens or closes it alone."""
    text = text.strip()
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    for mark in '"“”«»`*':
        if text.count(mark) == 1:
            text = text.strip(mark).strip()
    return text


_STRIPS: dict[Strip, Callable[[str], str]] = {
    Strip.PREAMBLE: lambda text: _PREAMBLE.sub("", text, count=1),
    Strip.QUOTES: unquoted,
    Strip.NUMBERING: lambda text: _NUMBERING.sub("", text),
}


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        if sentence := match.group().strip():
            yield sentence


def _ended(sentence: str) -> bool:
    return sentence.rstrip("\"'”’)*").endswith((".", "!", "?", "…", ")")) or unicodedata.category(sentence[-1]) == "So"


def _is_latin(letter: str) -> bool:
    return letter < "\u0250" or "LATIN" in unicodedata.name(letter, "")


def _repetitive(found: list[str]) -> bool:
    pairs = Counter(itertools.pairwise(found))
    running = (len(set(found[i : i + _RUN])) == 1 for i in range(len(found) - _RUN + 1))
    return max(pairs.values(), default=0) > _TIMES or any(running)


def _untidy(text: str) -> bool:
    """Say whether a quotation is left open, or marks of formatting are left over."""
    return bool(text.count('"') % 2) or "**" in text or text.endswith("_")
