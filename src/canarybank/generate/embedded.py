"""Remake the embedded bank and paraphrase pools, which SmolLM2 wrote, and read them.

The bank is written from everyday topics alone: no record of any user stands in its prompts. Remaking has
two steps, so that a machine with a GPU and little else can do the writing:

1. ``prefetch(generator, embedded_requests(canaries), path)`` asks for everything that the second step can ever
   need, in one go, and exports the answers to one file;
2. ``make_embedded(generator, canaries, ...)``, with a ``CachedGenerator`` over those answers, cleans and chooses.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from canarybank.generate.bank import CandidateBank, bank_plan, make_bank
from canarybank.generate.cache import CachedGenerator, ResponseCache
from canarybank.generate.cleaning import Cleaning
from canarybank.generate.paraphrase import (
    PARAPHRASE_CLEANING,
    Paraphrases,
    Similarity,
    make_paraphrases,
    paraphrase_plan,
)
from canarybank.generate.protocol import Generator, Request
from canarybank.progress import SILENT, Progress

__all__ = [
    "BANK_SIZE",
    "POOL_SIZE",
    "chat_topics",
    "embedded_bank",
    "embedded_requests",
    "make_embedded",
    "prefetch",
]

BANK_SIZE = 2048
POOL_SIZE = 512
_PROMPT = "bank-chat"
# The bank is shipped, so words that not everybody wants to read stay out of it.
_BANNED = frozenset(
    ("fuck", "fucking", "fucked", "shit", "shitty", "bitch", "bitches", "whore", "slut", "ass", "sex", "sexy", "porn")
) | {"kill", "suicide", "dumbass"}
_CLEANING = Cleaning(shortest=4, longest=24, sentences=2, banned=_BANNED, latin=1.0, tidy=True)
_POOL_CLEANING = replace(PARAPHRASE_CLEANING, tidy=True)
_BANK_TRIES = 4.0
_POOL_TRIES = 12.0


def chat_topics() -> tuple[str, ...]:
    """Return the everyday topics that the embedded bank is written from."""
    file = resources.files("canarybank.generate") / "prompts" / "chat-topics.txt"
    return tuple(line for line in file.read_text(encoding="utf-8").splitlines() if line)


def embedded_requests(
    canaries: Sequence[Sequence[str]], *, bank_size: int = BANK_SIZE, pool_size: int = POOL_SIZE, seed: int = 0
) -> list[Request]:
    """Return every request that the embedded bank, and a pool for each canary's records, can ever need."""
    topics = chat_topics()
    plan = bank_plan(bank_size, topics, prompt=_PROMPT, seed=seed, tries=_BANK_TRIES)
    requests = plan.requests()
    for index, records in enumerate(canaries):
        requests += paraphrase_plan(records, pool_size, seed=seed + index, tries=_POOL_TRIES).requests()
    return requests


def prefetch(
    generator: Generator, requests: Sequence[Request], path: Path | str, *, progress: Progress = SILENT
) -> int:
    """Ask for requests, keep the answers beside ``path`` as they come, and export them there; count them.

    A killed run resumes from what stands in ``PATH.log``.
    """
    cache = ResponseCache(Path(f"{path}.log"))
    with progress.stage("asking", len(requests), "answers") as stage:
        for _ in CachedGenerator(generator, cache).generate(requests):
            stage.advance()
    return cache.export(path)


def embedded_bank(
    generator: Generator, *, size: int = BANK_SIZE, seed: int = 0, progress: Progress = SILENT
) -> CandidateBank:
    """Make the embedded bank: chat messages from topics alone."""
    return make_bank(
        generator,
        size,
        chat_topics(),
        prompt=_PROMPT,
        seed=seed,
        cleaning=_CLEANING,
        near=0.6,
        tries=_BANK_TRIES,
        progress=progress,
    )


def make_embedded(
    generator: Generator,
    canaries: Sequence[Sequence[str]],
    *,
    similarity: Similarity | None = None,
    minimum: float = 0.5,
    bank_size: int = BANK_SIZE,
    pool_size: int = POOL_SIZE,
    seed: int = 0,
    progress: Progress = SILENT,
) -> tuple[CandidateBank, list[Paraphrases]]:
    """Make the embedded bank, and a pool of paraphrases of each canary's records."""
    bank = embedded_bank(generator, size=bank_size, seed=seed, progress=progress)
    pools = [
        make_paraphrases(
            generator,
            records,
            pool_size,
            seed=seed + index,
            similarity=similarity,
            minimum=minimum,
            cleaning=_POOL_CLEANING,
            tries=_POOL_TRIES,
            progress=progress,
        )
        for index, records in enumerate(canaries)
    ]
    return bank, pools
