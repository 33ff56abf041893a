"""Make the pools of candidate probes: nonces, paraphrases by the generator, or the embedded paraphrases."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import Attack, Canary, Encode, Pool, PoolKind, PoolSource, nonce_pool
from canarybank.config.model import AttackConfig
from canarybank.encode import Encoder
from canarybank.errors import ConfigError, InputError
from canarybank.flow.embedded import embedded_pool
from canarybank.generate import Generator, load_prompt, make_paraphrases, server_of
from canarybank.progress import SILENT, Progress
from canarybank.store.stage_cache import StageCache, stage_key

__all__ = ["Pools", "cosines", "paraphrase_source"]


@dataclass(frozen=True, slots=True)
class Pools:
    """The sources of every pool that an audit needs."""

    nonces: PoolSource
    paraphrases: PoolSource

    @classmethod
    def of(
        cls,
        config: AttackConfig,
        encoder: Encoder,
        generator: Generator | None,
        cache: StageCache,
        progress: Progress = SILENT,
    ) -> "Pools":
        """Return nonces by the encoder, and paraphrases by the generator where there is one, else the embedded ones."""
        if generator is None:
            return cls(nonce_pool(encoder.encode), embedded_pool(encoder.encode))
        return cls(nonce_pool(encoder.encode), paraphrase_source(config, encoder, generator, cache, progress))

    def make(self, attack: Attack, canary: Canary, size: int, seed: int) -> Pool | None:
        """Return an attack's pool for a canary, or None for an attack that plants nothing."""
        match attack.pool:
            case PoolKind.NONE:
                return None
            case PoolKind.RECORDS:
                return Pool.of_records(canary)
            case PoolKind.NONCES:
                return self.nonces(canary, size, seed)
        return self.paraphrases(canary, size, seed)


def paraphrase_source(
    config: AttackConfig, encoder: Encoder, generator: Generator, cache: StageCache, progress: Progress = SILENT
) -> PoolSource:
    """Return the source of paraphrases by a generator, each pool kept under all that it depends on.

    A canary's records go to a server only where ``send_records`` allows it, whoever asks.
    """
    prompt = load_prompt(config.paraphrase_prompt)

    def source(canary: Canary, size: int, seed: int) -> Pool:
        records = _texts(canary)
        if not config.send_records and (server := server_of(generator)) is not None:
            raise ConfigError(
                f"Paraphrases would send users' records to {server.url}, and nothing allows that. Set "
                "attack.send_records to true to allow it, or use a generator that runs in this process."
            )
        key = stage_key(
            "paraphrases",
            layout="with similarities and counters",
            generator=generator.fingerprint,
            encoder=encoder.fingerprint,
            prompt=prompt.hash,
            records=records,
            size=size,
            seed=seed,
            similarity=config.similarity,
            tries=config.tries,
        )

        def make() -> dict[str, Any]:
            made = make_paraphrases(
                generator,
                records,
                size,
                prompt=prompt,
                seed=seed,
                similarity=cosines(encoder.encode),
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

        kept = cache.document("paraphrases", key, make)
        return Pool(vectors=encoder.encode(kept["texts"]), measure=f"{encoder.name} cosine", **kept)

    return source


def cosines(encode: Encode) -> Callable[[Sequence[str], Sequence[str]], NDArray[np.float64]]:
    """Return the similarity of texts by the cosine of their vectors."""

    def cosine(sources: Sequence[str], texts: Sequence[str]) -> NDArray[np.float64]:
        left, right = (np.asarray(encode(each), np.float64) for each in (sources, texts))
        product: NDArray[np.float64] = (left * right).sum(axis=1)
        return product

    return cosine


def _texts(canary: Canary) -> tuple[str, ...]:
    if canary.texts is None:
        raise InputError(f"The canary {canary.id!r} has no texts, so nothing can paraphrase them.")
    return canary.texts
