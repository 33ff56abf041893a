"""Make the stage of the bank: read, generate or take the embedded candidate texts."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canarybank.config.model import BankConfig, UsersConfig
from canarybank.errors import ColumnError, ConfigError, DataError
from canarybank.flow.embedded import counters_of, embedded_bank
from canarybank.generate import CandidateBank, Generator, Prompt, load_prompt, make_bank
from canarybank.generate.table import read_table, text_column
from canarybank.progress import SILENT, Progress
from canarybank.store import parse_json, require_file
from canarybank.store.stage_cache import StageCache, stage_key
from canarybank.users.delimited import csv_column
from canarybank.users.files import lines, opened

__all__ = [
    "GENERATED_SIZE",
    "Candidates",
    "TextFile",
    "bank_labels",
    "bank_prompt",
    "gather_candidates",
    "read_bank",
    "read_text_file",
    "read_texts",
]

GENERATED_SIZE = 8192
BUILT_IN_USERS = "chitchat"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Candidates:
    """The texts of a bank, what a reader should know of them, and their labels where they were written for some.

    ``counters`` tell what became of the answers that the whole bank was chosen from, where that is known.
    """

    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


_STAND_IN = (
    "The bank is the embedded one, everyday chat written for the built-in users, and these users are others: the "
    "figures hold "
    "for this bank. Name the bank that you use by bank.source, or generate one."
)


def gather_candidates(
    config: BankConfig,
    users: UsersConfig,
    generator: Generator | None,
    cache: StageCache,
    *,
    progress: Progress = SILENT,
) -> Candidates:
    """Return the bank's candidate texts, from the embedded bank, a file, or the generator.

    Nothing here depends on users' data: a bank is public, and only what the configuration says of users is read.
    """
    if config.source == "embedded":
        bank = embedded_bank()
        texts = _first(_labelled(bank, config.labels), config.size, "the embedded bank")
        notes = () if users.source == BUILT_IN_USERS else (_STAND_IN,)
        return Candidates(texts, notes, counters=counters_of(bank.provenance))
    if config.source == "generate":
        if generator is None:
            raise ConfigError(
                "bank.source is generate, but no generator is named; set generator.kind, or name a bank file by "
                "bank.source."
            )
        return _generated(config, users, generator, cache, progress)
    return _read(config)


def bank_prompt(config: BankConfig) -> tuple[Prompt, tuple[str, ...] | None]:
    """Return the prompt that a bank is generated with, and the public examples that it shows."""
    examples = read_texts(Path(config.examples)) if config.examples else None
    return load_prompt(config.prompt or ("bank-examples" if config.examples else "bank-label")), examples


def bank_labels(config: BankConfig, users: UsersConfig) -> tuple[str, ...]:
    """Return the labels to generate for, which the configuration must declare: they reach the generator."""
    if declared := config.labels or users.labels:
        return tuple(dict.fromkeys(declared))
    raise ConfigError(
        "A bank is generated label by label, and no labels are declared. Set bank.labels to labels or topics, such as "
        "food,travel. They are not read from users' records, because the generator and the bank would show them."
    )


@dataclass(frozen=True, slots=True)
class TextFile:
    """The different texts of a file, in its order, and how many entries of it were skipped."""

    texts: tuple[str, ...]
    repeated: int = 0
    blank: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Say how many entries were skipped, where any were."""
        if not self.repeated and not self.blank:
            return ()
        found = len(self.texts) + self.repeated + self.blank
        said = (
            f"The bank file has {found:,} entries: {len(self.texts):,} are used, {self.repeated:,} repeated and "
            f"{self.blank:,} blank ones are skipped."
        )
        return (said,)


def read_texts(path: Path, column: str = "text") -> tuple[str, ...]:
    """Return a file's different texts in its order: a column of parquet, csv or jsonl, or the lines of txt."""
    return read_text_file(path, column).texts


def read_bank(path: Path, column: str = "text") -> tuple[CandidateBank, tuple[str, ...]]:
    """Return a bank file of any format, with labels and provenance where it has some, and notes on it."""
    read = read_text_file(path, column)
    if path.suffix.lower() not in {".parquet", ".pq"} or column != "text":
        return CandidateBank(read.texts, ("",) * len(read.texts)), read.notes
    bank = CandidateBank.read(path)
    labels = tuple(label for text, label in zip(bank.texts, bank.labels, strict=True) if text.strip())
    return CandidateBank(read.texts, labels, provenance=bank.provenance), read.notes


def read_text_file(path: Path, column: str = "text") -> TextFile:
    """Return a file's different texts in its order, and how many entries of it were skipped."""
    require_file(path, "file of texts")
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise DataError(f"The name of {path} does not tell its format; use one of .parquet, .csv, .jsonl and .txt.")
    found = _READERS[suffix](path, column)
    texts = [text for text in found if text.strip()]
    different = tuple(dict.fromkeys(texts))
    if not different:
        raise DataError(f"{path} holds no texts; it must hold at least one.")
    return TextFile(different, repeated=len(texts) - len(different), blank=len(found) - len(texts))


def _generated(
    config: BankConfig, users: UsersConfig, generator: Generator, cache: StageCache, progress: Progress
) -> Candidates:
    prompt, examples = bank_prompt(config)
    labels, size = bank_labels(config, users), config.size or GENERATED_SIZE
    key = stage_key(
        "bank",
        layout="with labels and counters",
        generator=generator.fingerprint,
        prompt=prompt.hash,
        labels=labels,
        examples=examples,
        **config.model_dump(mode="json", include={"shots", "near", "tries", "seed"}),
        size=size,
    )

    def make() -> dict[str, Any]:
        bank: CandidateBank = make_bank(
            generator,
            size,
            labels,
            prompt=prompt,
            seed=config.seed,
            examples=examples,
            shots=config.shots,
            near=config.near,
            tries=config.tries,
            progress=progress,
        )
        counters = counters_of(bank.provenance)
        return {"texts": list(bank.texts), "labels": list(bank.labels), "counters": counters}

    made = cache.document("bank", key, make)
    return Candidates(tuple(made["texts"]), labels=tuple(made["labels"]), counters=made["counters"])


def _read(config: BankConfig) -> Candidates:
    """Return the texts of a file; of one that `canarybank bank make` wrote, the labels and counters too."""
    bank, notes = read_bank(Path(config.source), config.text)
    texts = _first(bank.texts, config.size, config.source)
    labels = bank.labels[: len(texts)]
    return Candidates(texts, notes, labels if any(labels) else None, counters_of(bank.provenance))


def _labelled(bank: CandidateBank, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of the embedded bank, all or those of some labels."""
    for label in labels:
        if label not in bank.labels:
            raise ConfigError(
                f"The embedded bank has no label {label!r}; `canarybank bank show` lists those that it has."
            )
    return tuple(text for text, label in zip(bank.texts, bank.labels, strict=True) if not labels or label in labels)


def _first(texts: Sequence[str], size: int | None, where: str) -> tuple[str, ...]:
    if size is not None and size > len(texts):
        raise ConfigError(
            f"bank.size is {size}, but {where} has {len(texts)} different texts; ask for at most that many."
        )
    return tuple(texts[:size])


def _parquet(path: Path, column: str) -> list[str]:
    if column == "text":
        return list(CandidateBank.read(path).texts)
    frame, _ = read_table(path)
    texts = text_column(frame, column, path, gaps=True)
    return texts + [""] * (len(frame) - len(texts))


def _csv(path: Path, column: str) -> list[str]:
    with _content(path) as content:
        try:
            return csv_column(content, str(path), column)
        except ColumnError as error:
            raise DataError(f"{error.what} Set bank.text.") from None


def _jsonl(path: Path, column: str) -> list[str]:
    texts = []
    with _content(path) as content:
        for number, line in enumerate(content, start=1):
            if not line.strip():
                texts.append("")
                continue
            row = parse_json(line, f"{path}, line {number}", given=True)
            if not isinstance(row, dict) or not isinstance(row.get(column), str):
                raise DataError(f"Line {number} of {path} holds no text under {column!r}; set bank.text.")
            texts.append(row[column])
    return texts


def _txt(path: Path, column: str) -> list[str]:
    del column
    with _content(path) as content:
        return [line.removesuffix("\n") for line in content]


_READERS: Mapping[str, Callable[[Path, str], list[str]]] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".txt": _txt,
}


@contextmanager
def _content(path: Path) -> Iterator[Iterator[str]]:
    """Give the lines of a file, each of which may end in any of the usual ways, and none of which may be endless."""
    with opened(path) as file:
        yield _line_feeds(lines(file, "utf-8", strict=False), path)


def _line_feeds(content: Iterable[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(content, start=1):
        if _SURROGATE.search(line):
            raise DataError(f"Line {number} of {path} is not UTF-8; convert the file first.")
        # splitlines() would cut at other characters inside a text too
        yield from io.StringIO(line.replace("\r\n", "\n").replace("\r", "\n"))
