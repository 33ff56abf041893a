"""Build what a configuration names, and say which plug-ins it uses."""

from collections.abc import Iterator

from canarybank.config.loading import fields, registered
from canarybank.config.model import Config, RunConfig
from canarybank.engine import Engine
from canarybank.errors import ConfigError
from canarybank.registry import ENGINES, REGISTRIES, Plugin, call_with

__all__ = ["build_engine", "plugins_of"]

_AUDITING = ("audit.method", "audit.system")


def build_engine(config: RunConfig) -> Engine:
    """Return the engine that a configuration names, with as many workers as it says."""
    made = call_with(ENGINES.find(config.engine), workers=config.workers)
    if not isinstance(made, Engine):
        raise ConfigError(
            f"The engine {config.engine!r} made a {type(made).__name__}, which is no engine; it needs run. See "
            "canarybank.testing.check_engine."
        )
    return made


def plugins_of(config: Config, *, evolving: bool = False) -> tuple[Plugin, ...]:
    """Return every plug-in that a run of this configuration uses, imported and pinned; ``evolving`` for an evolution.

    What a run does not use is not imported: an evolution without an audit has no attack, method or system.
    """
    pins = (REGISTRIES[kind].pin(name) for kind, name in _used_names(config, evolving=evolving))
    return tuple(pin for pin in pins if pin is not None)


def _used_names(config: Config, *, evolving: bool) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of every entry that a run uses, words such as "all" left out."""
    for key, field in fields().items():
        mark = registered(field)
        if mark is None or not _is_used(key, config, evolving=evolving):
            continue
        section, _, name = key.partition(".")
        value = getattr(getattr(config, section), name)
        registry = REGISTRIES[mark.kind]
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and each not in mark.words and registry.has(each):
                yield mark.kind, each


def _is_used(key: str, config: Config, *, evolving: bool) -> bool:
    if key == "attack.names":
        return not evolving
    if key == "evolve.audit":
        return evolving
    return key not in _AUDITING or not evolving or bool(config.evolve.audit)
