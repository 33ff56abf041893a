"""Make the stage of the bank: read, generate or take the embedded candidate texts."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canarybank.errors import ColumnError, ConfigError, DataError
from canarybank.experiment.config import BankConfig, UsersConfig
from canarybank.experiment.embedded import embedded_bank
from canarybank.experiment.stage_cache import StageCache, stage_key
from canarybank.experiment.written import counters_of
from canarybank.generate import CandidateBank, Generator, Prompt, load_prompt, make_bank
from canarybank.generate.table import read_table, text_column
from canarybank.progress import SILENT, Progress
from canarybank.store import file_errors, parse_json
from canarybank.users.delimited import csv_column

__all__ = ["GENERATED_SIZE", "Candidates", "bank_labels", "bank_prompt", "gather_candidates", "read_texts"]

GENERATED_SIZE = 8192
BUILT_IN_USERS = "chitchat"


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


def read_texts(path: Path, column: str = "text") -> tuple[str, ...]:
    """Return a file's different texts in its order: a column of parquet, csv or jsonl, or the lines of txt."""
    if not path.is_file():
        raise DataError(f"There is no file of texts {str(path)!r}; check the path.")
    suffix = path.suffix.lower()
    if suffix in {".parquet", ".pq"}:
        return _some(_parquet(path, column), path)
    with file_errors(path, "read"):
        try:
            content = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 ({error}); convert it first.") from None
    readers = {".csv": _csv, ".jsonl": _jsonl, ".txt": _lines}
    if suffix not in readers:
        raise DataError(f"The name of {path} does not tell its format; use one of .parquet, .csv, .jsonl and .txt.")
    texts = [text for text in readers[suffix](content, column, path) if text.strip()]
    return _some(tuple(dict.fromkeys(texts)), path)


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
    path = Path(config.source)
    texts = _first(read_texts(path, config.text), config.size, config.source)
    if path.suffix.lower() not in {".parquet", ".pq"} or config.text != "text":
        return Candidates(texts)
    bank = CandidateBank.read(path)
    labels = bank.labels[: len(texts)]
    return Candidates(texts, labels=labels if any(labels) else None, counters=counters_of(bank.provenance))


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


def _some(texts: tuple[str, ...], path: Path) -> tuple[str, ...]:
    if not texts:
        raise DataError(f"{path} holds no texts; it must hold at least one.")
    return texts


def _parquet(path: Path, column: str) -> tuple[str, ...]:
    if column == "text":
        return CandidateBank.read(path).texts
    frame, _ = read_table(path)
    return tuple(dict.fromkeys(text_column(frame, column, path, gaps=True)))


def _csv(content: str, column: str, path: Path) -> list[str]:
    try:
        return csv_column(io.StringIO(content), str(path), column)
    except ColumnError as error:
        raise DataError(f"{error.what} Set bank.text.") from None


def _jsonl(content: str, column: str, path: Path) -> list[str]:
    texts = []
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        row = parse_json(line, f"{path}, line {number}")
        if not isinstance(row, dict) or not isinstance(row.get(column), str):
            raise DataError(f"Line {number} of {path} holds no text under {column!r}; set bank.text.")
        texts.append(row[column])
    return texts


def _lines(content: str, column: str, path: Path) -> list[str]:
    del column, path
    return content.split("\n")  # as every line end was read; splitlines() would cut at others inside a text too
