"""Gather honest banks: some set the thresholds of vetting, and others judge them.

A bank is honest where nobody planted an entry in it. They come from

- a language model (``--written`` and ``--judging``): what ``tools/write_banks.py`` wrote with SmolLM2, by many prompts,
  labels, seeds and temperatures, and banks of later rounds in the manner of some entries or reworded from them;
- real text: the built-in users, the advocates of ``--court`` (a parquet file with columns text and label), and the
  messages in many languages that the wheels of Django and chatterbot-corpus carry (``--wheels``, a folder);
- an evolution (``--evolved``, its folder), without the positions that hold probes;
- the grammars of ``user_sets.py``, the embedded bank and the embedded rewordings.

What is not given is skipped. Each bank also names public text of its kind: other texts of the same source.
"""

import gettext
import gzip
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from user_sets import SETS, bank_texts

from canarybank.config import Config
from canarybank.flow.bank import POOL_FILE, embedded_bank, embedded_file
from canarybank.flow.inputs import admit_users
from canarybank.store import StageCache

__all__ = ["HonestBank", "Sources", "gather_banks"]

Role = Literal["set", "judged"]
PUBLIC = 1500
FOREIGN = {"spanish": "es", "french": "fr", "german": "de"}
SET_SIZES = (
    *(256, 512, 1024, 2048, 256, 256, 512, 512, 1024, 1024, 2048, 4096),
    *(256, 512, 1024, 2048, 256, 512),
)
JUDGED_SIZES = (256, 256, 512, 512, 1024, 2048)
COURT_SIZES = (256, 1024, 4096, 256, 1024, 2048, 256, 512, 1024)
SET_COURT = 6
SET_LANGUAGES = (
    *("ar", "be", "ca", "cs", "da", "el", "es", "et", "eu", "fi", "fr", "gl", "he", "hr", "it", "ja", "ko", "lt", "lv"),
    *("mk", "mn", "nb", "nl", "pl", "ru", "sk", "sl", "zh_Hans", "az", "ckb", "dsb", "eo", "es_AR", "ga", "gd", "hsb"),
    *("is", "ky", "ms", "nn", "pt", "ro", "sq", "sr_Latn", "ug", "zh_Hant"),
)
JUDGED_LANGUAGES = (
    *("af", "ar_DZ", "bg", "de", "en_AU", "es_CO", "fa", "hu", "ia", "id", "ml", "pt_BR", "sr", "sv", "sw", "tg", "tr"),
    *("uk", "vi"),
)


@dataclass(frozen=True)
class HonestBank:
    """A bank that nobody shaped, with public text of its kind."""

    name: str
    role: Role
    texts: tuple[str, ...]
    public: tuple[str, ...]

    @property
    def hash(self) -> str:
        """Return the SHA-256 of the texts, each with its length."""
        digest = hashlib.sha256()
        for text in self.texts:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()


@dataclass(frozen=True)
class Sources:
    """Where banks that do not come with canarybank are found; None skips them."""

    written: tuple[Path, ...] = ()
    judging: tuple[Path, ...] = ()
    court: Path | None = None
    wheels: Path | None = None
    evolved: Path | None = None


def gather_banks(sources: Sources) -> list[HonestBank]:
    """Return all honest banks that the sources give, those that set thresholds and those that judge them."""
    found = [*_built_in(), *_reworded(), *_grammars()]
    for path in sources.written:
        found += _written(path, "set", sources.wheels)
    for path in sources.judging:
        found += _written(path, "judged", sources.wheels)
    if sources.court:
        found += _court(sources.court)
    if sources.evolved:
        found += _evolved(sources.evolved)
    if sources.wheels:
        found += [*_catalogues(sources.wheels), *_dialogues(sources.wheels)]
    return found


def _built_in() -> Iterator[HonestBank]:
    """Yield the embedded bank, and disjoint banks of the built-in users' messages."""
    texts, at = _messages(), PUBLIC
    public = tuple(texts[:PUBLIC])
    yield HonestBank("embedded", "set", tuple(embedded_bank().texts), public)
    for number, size in enumerate((*SET_SIZES, *JUDGED_SIZES)):
        role: Role = "set" if number < len(SET_SIZES) else "judged"
        if at + size <= len(texts):
            yield HonestBank(f"chitchat/{number}", role, tuple(texts[at : at + size]), public)
        at += size


@cache
def _messages() -> tuple[str, ...]:
    config = Config()
    users = admit_users(config.users, config.cohorts, StageCache()).users
    return _shuffled(_different(users.require_texts()), "chitchat")


def _reworded() -> Iterator[HonestBank]:
    """Yield what a model made of the records of the embedded canaries: banks of rewordings, a canary each."""
    found: dict[str, list[str]] = {}
    for line in gzip.decompress(embedded_file(POOL_FILE).read_bytes()).decode("utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["canary"], []).append(row["text"])
    for number, texts in enumerate(found.values()):
        yield HonestBank(f"reworded/{number}", "judged", tuple(_different(texts)), _messages()[:PUBLIC])


def _grammars() -> Iterator[HonestBank]:
    """Yield the banks of the user sets, and others that other people of the same kind wrote."""
    for name in SETS:
        public = bank_texts(name, PUBLIC, seed=1)
        yield HonestBank(f"grammar/{name}", "set", tuple(_different(bank_texts(name))), public)
        yield HonestBank(f"grammar/{name}/2", "set", tuple(_different(bank_texts(name, 1024, seed=2))), public)
        yield HonestBank(f"grammar/{name}/3", "judged", tuple(_different(bank_texts(name, 512, seed=3))), public)


def _written(path: Path, role: Role, wheels: Path | None) -> Iterator[HonestBank]:
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        language = FOREIGN.get(row["name"].split("-")[0])
        public = _messages()[:PUBLIC]
        if language and wheels:
            public = _catalogue(wheels)[language][:PUBLIC]
        yield HonestBank(f"written/{row['name']}", role, tuple(_different(row["texts"])), public)


def _court(path: Path) -> Iterator[HonestBank]:
    """Yield disjoint banks of each decade, two thirds of which set thresholds."""
    for (label,), rows in pl.read_parquet(path).group_by(["label"], maintain_order=True):
        texts, at = _shuffled(_different(rows["text"].to_list()), f"court {label}"), PUBLIC
        for number, size in enumerate(COURT_SIZES):
            if at + size <= len(texts):
                role: Role = "set" if number < SET_COURT else "judged"
                yield HonestBank(f"court/{label}/{number}", role, texts[at : at + size], texts[:PUBLIC])
            at += size


def _evolved(folder: Path) -> Iterator[HonestBank]:
    """Yield the banks of an evolution's rounds, without its probes: every other one sets thresholds."""
    for number in range(7):
        rows = (folder / "evolution" / "rounds" / f"{number:03d}" / "bank.jsonl").read_text("utf-8").splitlines()
        role: Role = "judged" if number % 2 else "set"
        # What an earlier round kept stands in the next one too, so rounds share a twentieth of their texts.
        texts = tuple(_different(json.loads(row)["text"] for row in rows))
        yield HonestBank(f"evolved/{number}", role, texts, _messages()[:PUBLIC])


@cache
def _catalogue(wheels: Path) -> dict[str, tuple[str, ...]]:
    """Return the longer messages of Django's catalogues, by language."""
    found: dict[str, list[str]] = {}
    with zipfile.ZipFile(next(wheels.glob("[Dd]jango*.whl"))) as wheel:
        for name in sorted(wheel.namelist()):
            if match := re.fullmatch(r".*/locale/([^/]+)/LC_MESSAGES/django(?:js)?\.mo", name):
                read = gettext.GNUTranslations(io.BytesIO(wheel.read(name)))
                messages = read._catalog  # noqa: SLF001, the only way to list a catalogue
                found.setdefault(match[1], []).extend(
                    text for key, text in messages.items() if key and isinstance(text, str) and _is_long(text, match[1])
                )
    return {language: _shuffled(_different(texts), language) for language, texts in found.items()}


def _is_long(text: str, language: str) -> bool:
    return len(text) >= 12 and (len(text.split()) >= 3 or language[:2] in {"ja", "zh"})


def _catalogues(wheels: Path) -> Iterator[HonestBank]:
    for language in (*SET_LANGUAGES, *JUDGED_LANGUAGES):
        texts = _catalogue(wheels).get(language, ())
        role: Role = "set" if language in SET_LANGUAGES else "judged"
        if len(texts) >= 256:
            size = len(texts) * 3 // 4
            yield HonestBank(f"django/{language}", role, texts[:size], texts[size:])


def _dialogues(wheels: Path) -> Iterator[HonestBank]:
    """Yield the lines of chatterbot-corpus, a bank a language: all of them set thresholds."""
    found: dict[str, list[str]] = {}
    with zipfile.ZipFile(next(wheels.glob("chatterbot_corpus*.whl"))) as wheel:
        for name in sorted(wheel.namelist()):
            if match := re.fullmatch(r"chatterbot_corpus/data/([^/]+)/.*\.yml", name):
                said = (line for line in wheel.read(name).decode("utf-8").splitlines() if re.match(r"\s*- ", line))
                found.setdefault(match[1], []).extend(re.sub(r"^[\s-]+", "", line).strip("'\"") for line in said)
    for language, lines in found.items():
        texts = _shuffled(_different(lines), language)
        if len(texts) >= 320:
            size = len(texts) * 4 // 5
            yield HonestBank(f"chatterbot/{language}", "set", texts[:size], texts[size:])


def _different(texts: Iterator[str] | Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text.strip() for text in texts if text.strip()))


def _shuffled(texts: Sequence[str], name: str) -> tuple[str, ...]:
    seed = int.from_bytes(hashlib.sha256(f"honest {name}".encode()).digest()[:8], "little")
    return tuple(texts[i] for i in np.random.default_rng(seed).permutation(len(texts)))
