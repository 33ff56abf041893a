"""Register things by name: attacks, encoders, generators, methods, systems and engines.

An entry is an object of canarybank's own, an entry point of somebody else's package in the registry's group, or
``module:name``, which imports that object. Built-in entries are named here as ``module:name`` too, so that names are
known without loading anything. What a name spells decides nothing: whatever differs between entries stands in them.

    [project.entry-points."canarybank.attacks"]
    my-attack = "my_package.attacks:MY_ATTACK"

Importing a plug-in runs its code. So a registry imports what the user named, in a configuration or a call, and a name
that comes out of somebody else's run folder goes through ``built_in`` only.
"""

import difflib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from canarybank.errors import ConfigError, MissingError

__all__ = ["ATTACKS", "ENGINES", "METHODS", "SYSTEMS", "Plugin", "Registry"]

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in that a run used, as its manifest pins it."""

    kind: str
    """What it is: an attack, an encoder, ..."""
    name: str
    """The name that the configuration gives it."""
    package: str
    """The package that it comes from, with its version where that is known."""
    sha256: str
    """The sha256 of the source file that defines it; empty where there is none."""


@dataclass(frozen=True)
class Registry(Generic[Entry]):
    """The entries of one kind, by name; ``places`` holds canarybank's own, each as ``module:name``."""

    kind: str
    group: str
    places: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        """Return every name that can be used: canarybank's own, in their order, then those of installed plug-ins."""
        return tuple(dict.fromkeys((*self.places, *self._installed())))

    def find(self, name: str) -> Entry:
        """Return the entry of a name, importing it; or say which names there are, and which may have been meant."""
        if name in self.places:
            return self.built_in(name)
        installed = self._installed()
        if name not in installed and ":" not in name:
            raise ConfigError(self.unknown(name))
        entry: Entry = self._load(installed.get(name, name), name)
        return entry

    def built_in(self, name: str) -> Entry:
        """Return one of canarybank's own entries; a plug-in is refused, and not imported."""
        if name not in self.places:
            raise ConfigError(f"The {self.kind} {name!r} is not one of canarybank's own, and it is not imported here.")
        entry: Entry = self._load(self.places[name], name)
        return entry

    def check(self, name: str) -> str:
        """Return a name that is registered or has the form ``module:name``, importing nothing; or refuse it."""
        if name in self.places or ":" in name or name in self._installed():
            return name
        raise ConfigError(self.unknown(name))

    def pin(self, name: str) -> Plugin | None:
        """Return what pins a plug-in in a manifest: where it comes from; None for one of canarybank's own."""
        if name in self.places:
            return None
        place = self._installed().get(name, name)
        module = place.partition(":")[0]
        self._load(place, name)
        return Plugin(self.kind, name, _package(module), _source_hash(module))

    def unknown(self, name: str) -> str:
        """Say that there is no such entry, and what may have been meant."""
        names = self.names()
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names)}, or give module:name."
        return f"There is no {self.kind} {name!r}; {hint}"

    def _installed(self) -> dict[str, str]:
        return {point.name: point.value for point in metadata.entry_points(group=self.group)}

    def _load(self, place: str, name: str) -> Any:
        module, _, attribute = place.partition(":")
        try:
            found: Any = import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except ImportError as error:
            if error.name and module.startswith(error.name):
                raise MissingError(
                    f"The {self.kind} {name!r} stands in the module {module!r}, which cannot be imported; install the "
                    "package that holds it, or check the name."
                ) from error
            raise
        except AttributeError as error:
            raise ConfigError(
                f"The module {module!r} holds no {attribute!r}; check the {self.kind} {name!r}."
            ) from error
        return found


def _package(module: str) -> str:
    root = module.partition(".")[0]
    owners = metadata.packages_distributions().get(root, [])
    return f"{owners[0]} {metadata.version(owners[0])}" if owners else root


def _source_hash(module: str) -> str:
    path = getattr(import_module(module), "__file__", None)
    if not path:
        return ""
    with open(path, "rb") as file:  # noqa: PTH123, a path as the import system has it
        return hashlib.file_digest(file, "sha256").hexdigest()


def _table(module: str, names: Iterable[str] | Mapping[str, str]) -> Mapping[str, str]:
    places = names if isinstance(names, Mapping) else {name: name.replace("-", "_").upper() for name in names}
    return MappingProxyType({name: f"{module}:{attribute}" for name, attribute in places.items()})


ATTACKS: Registry[Any] = Registry(
    "attack",
    "canarybank.attacks",
    _table(
        "canarybank.attack.attacks",
        (
            "ordinary",
            "exact",
            "paraphrase",
            "paraphrase-norm",
            "paraphrase-mueff",
            "nonce",
            "nonce-norm",
            "nonce-mueff",
        ),
    ),
)
METHODS: Registry[Any] = Registry(
    "method",
    "canarybank.methods",
    MappingProxyType(
        {
            name: f"canarybank.audit.methods.{name.replace('-', '_')}:{name.replace('-', '_').upper()}"
            for name in ("paper", "clopper-pearson", "joint", "pooled", "stratified")
        }
    ),
)
ENGINES: Registry[Any] = Registry(
    "engine",
    "canarybank.engines",
    _table("canarybank.engine.local", {"threads": "Threads", "processes": "Processes", "serial": "Serial"}),
)
SYSTEMS: Registry[Any] = Registry(
    "system", "canarybank.systems", _table("canarybank.audit.system", {"mechanism": "BankSystem"})
)
