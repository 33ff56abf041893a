"""Build the generator that a configuration names, behind the cache of its answers."""

from pathlib import Path

from canarybank.errors import ConfigError
from canarybank.experiment.config import Config, GeneratorConfig
from canarybank.generate import (
    CachedGenerator,
    Ceiling,
    Generator,
    HFGenerator,
    LlamaCppGenerator,
    OpenAIGenerator,
    ResponseCache,
)
from canarybank.store import cache_root, tighten

__all__ = ["build_generator", "cached_generator", "response_file"]


def build_generator(whole: Config) -> Generator | None:
    """Return the generator that a configuration names, or None; no model is loaded before its first request."""
    config = whole.generator
    model = config.model or ""
    match config.kind:
        case "none":
            return None
        case "smollm2":
            return LlamaCppGenerator(threads=config.threads)
        case "llamacpp":
            return LlamaCppGenerator(model, threads=config.threads)
        case "transformers":
            return HFGenerator(model, device=config.device, revision=config.revision or None)
    return OpenAIGenerator(
        model,
        config.base_url,
        key_variable=config.api_key_env,
        concurrency=config.concurrency,
        deadline=config.deadline,
        ceiling=_ceiling(config),
        prefill=config.prefill,
        revision=config.revision,
        send_records=whole.attack.send_records,
    )


def cached_generator(generator: Generator) -> CachedGenerator:
    """Return a generator that asks only for what was never answered before on this machine."""
    path = response_file(generator)
    tighten(path.parent)
    return CachedGenerator(generator, ResponseCache(path))


def response_file(generator: Generator) -> Path:
    """Return the file that keeps a generator's answers."""
    return cache_root() / "responses" / f"{generator.fingerprint[:32]}.log"


def _ceiling(config: GeneratorConfig) -> Ceiling:
    if config.max_cost is not None and config.prompt_price == config.completion_price == 0:
        raise ConfigError("generator.max_cost needs prices; set generator.prompt_price and generator.completion_price.")
    return Ceiling(config.max_tokens, config.max_cost, config.prompt_price, config.completion_price)
