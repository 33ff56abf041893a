"""Register things by name: attacks, selection rules, encoders, generators, methods, systems, engines, rules of rounds.

An entry is an object of canarybank's own, an entry point of somebody else's package in the registry's group, or
``module:name``, which imports that object. Built-in entries are named here as ``module:name`` too, so that names are
known without loading anything. What a name spells decides nothing: whatever differs between entries stands in them.

    [project.entry-points."canarybank.attacks"]
    my-attack = "my_package.attacks:MY_ATTACK"

Importing a plug-in runs its code. So a registry imports what the user named, in a configuration or a call. A name that
comes out of a run folder goes through ``received``, which imports nothing that the user has not named as well.
"""

import difflib
import hashlib
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, metadata
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from canarybank.errors import ConfigError, MissingError

__all__ = [
    "ATTACKS",
    "ENCODERS",
    "ENGINES",
    "FEEDBACKS",
    "GENERATORS",
    "KEEPERS",
    "METHODS",
    "PARENT_RULES",
    "REGISTRIES",
    "SELECTIONS",
    "SYSTEMS",
    "Plugin",
    "Registry",
    "call_with",
    "is_place",
    "nearest",
    "takes",
]

Entry = TypeVar("Entry")
Made = TypeVar("Made")

_PLACE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


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
    is_open: bool = False
    """Whether other names mean something too, such as a path: then a name is refused only where it looks mistyped."""
    _named: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    """The plug-ins that the user named, and that were imported for it, in this process."""

    def has(self, name: str) -> bool:
        """Return whether a name is registered or has the form ``module:name``; nothing is imported."""
        if name in self.places or any(point.name == name for point in self._points()):
            return True
        return is_place(name) and not (self.is_open and os.path.exists(name))  # noqa: PTH110, any text may be asked for

    def names(self) -> tuple[str, ...]:
        """Return every name that can be used: canarybank's own, in their order, then those of installed plug-ins."""
        return tuple(dict.fromkeys((*self.places, *(point.name for point in self._points()))))

    def find(self, name: str) -> Entry:
        """Return the entry of a name, importing it; or say which names there are, and which may have been meant."""
        if name in self.places:
            return self.built_in(name)
        place, _ = self._plugin(name)
        entry: Entry = self._imported(place, name)
        return entry

    def built_in(self, name: str) -> Entry:
        """Return one of canarybank's own entries; a plug-in is refused, and not imported."""
        if name not in self.places:
            raise ConfigError(f"The {self.kind} {name!r} is not one of canarybank's own, and it is not imported here.")
        entry: Entry = _attribute(self.places[name])
        return entry

    def received(self, name: str) -> Entry:
        """Return the entry that a received folder names: one of canarybank's own, or one that the user has named too.

        Any other plug-in is refused, and not imported. ``find`` imports it, once the user has said so.
        """
        self.permit(name)
        return self.find(name)

    def permit(self, name: str) -> str:
        """Return a name out of a received folder whose entry is at hand without importing anything; or refuse it."""
        if name not in self.places and name not in self._named:
            raise ConfigError(
                f"The {self.kind} {name!r} is a plug-in, and nothing is imported because a folder names it. If you "
                f"know this plug-in and it is installed here, add --trust {name}."
            )
        return name

    def check(self, name: str, words: Collection[str] = ()) -> str:
        """Return a name that is registered, or one of the words that can stand in its place; or refuse it."""
        if name in words or self.has(name) or (self.is_open and not self._is_mistyped(name)):
            return name
        raise ConfigError(self.unknown(name, words))

    def pin(self, name: str) -> Plugin | None:
        """Return what pins a plug-in in a manifest: where it comes from; None for one of canarybank's own."""
        if name in self.places:
            return None
        place, package = self._plugin(name)
        self._imported(place, name)
        module = place.partition(":")[0]
        return Plugin(self.kind, name, package or _package(module.partition(".")[0]), _source_hash(module))

    def unknown(self, name: str, words: Collection[str] = ()) -> str:
        """Say that there is no such entry, and what may have been meant."""
        known = (*words, *self.names())
        close = nearest(name, known)
        hint = f"did you mean {close!r}?" if close else f"choose one of {', '.join(known)}, or give module:name."
        return f"There is no {self.kind} {name!r}; {hint}"

    def _is_mistyped(self, name: str) -> bool:
        is_path = "/" in name or os.path.exists(name)  # noqa: PTH110, as above
        return not is_path and bool(difflib.get_close_matches(name, self.names(), n=1, cutoff=0.75))

    def _points(self) -> metadata.EntryPoints:
        return metadata.entry_points(group=self.group)

    def _plugin(self, name: str) -> tuple[str, str]:
        """Return a plug-in's place, and the package and version that register it, where one does."""
        found = {point.value: point for point in self._points() if point.name == name}
        if len(found) > 1:
            raise ConfigError(
                f"Two packages register the {self.kind} {name!r}; say which you mean: {' or '.join(sorted(found))}."
            )
        for place, point in found.items():
            return place, f"{point.dist.name} {point.dist.version}" if point.dist else ""
        if not is_place(name):
            raise ConfigError(self.unknown(name))
        return name, ""

    def _imported(self, place: str, name: str) -> Any:
        module, _, attribute = place.partition(":")
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise MissingError(
                f"The {self.kind} {name!r} cannot be imported: there is no module {error.name!r}. Install the package "
                "that holds it, put its folder on PYTHONPATH, or check the name."
            ) from error
        except Exception as error:
            raise ConfigError(
                f"The {self.kind} {name!r} cannot be imported: the module {module!r} raised {type(error).__name__}: "
                f"{error}."
            ) from error
        try:
            found = _attribute(place)
        except AttributeError as error:
            raise ConfigError(
                f"The {self.kind} {name!r} is not there: the module {module!r} holds no {attribute!r}; check the name."
            ) from error
        self._named.add(name)
        return found


def is_place(name: str) -> bool:
    """Return whether a name has the form ``module:name``."""
    return _PLACE.fullmatch(name) is not None


def call_with(factory: Callable[..., Made], *arguments: Any, **options: Any) -> Made:
    """Call a factory with the keyword options that it takes, and without those that it does not."""
    given = {name: value for name, value in options.items() if takes(factory, name)}
    try:
        inspect.signature(factory).bind(*arguments, **given)
    except ValueError:  # something built into Python, which says nothing of what it takes
        pass
    except TypeError as error:
        shown = ", ".join([*(type(each).__name__ for each in arguments), *given])
        raise ConfigError(
            f"The plug-in {getattr(factory, '__qualname__', factory)!r} cannot be called with ({shown}): {error}."
        ) from error
    return factory(*arguments, **given)


def takes(factory: Callable[..., Any], option: str) -> bool:
    """Return whether a factory can be called with a keyword option of that name."""
    try:
        known = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # nothing to call, or built into Python and silent on what it takes
        return False
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values()):
        return True
    return option in known and known[option].kind is not inspect.Parameter.POSITIONAL_ONLY


def _attribute(place: str) -> Any:
    module, _, attribute = place.partition(":")
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


@cache
def _package(root: str) -> str:
    """Return the package that holds a module which is imported, and so stays what it is; asking reads every package."""
    owners = metadata.packages_distributions().get(root, [])
    return f"{owners[0]} {metadata.version(owners[0])}" if owners else root


def _source_hash(module: str) -> str:
    path = getattr(import_module(module), "__file__", None)
    if not path:
        return ""
    with open(path, "rb") as file:  # noqa: PTH123, a path as the import system has it
        return hashlib.file_digest(file, "sha256").hexdigest()


def _registry(kind: str, places: Mapping[str, str], *, is_open: bool = False) -> Registry[Any]:
    own = {name: f"canarybank.{place}" for name, place in places.items()}
    return Registry(kind, f"canarybank.{kind.replace(' ', '_')}s", MappingProxyType(own), is_open)


ATTACKS = _registry(
    "attack",
    {
        "ordinary": "attack.attacks:ORDINARY",
        "exact": "attack.attacks:EXACT",
        "paraphrase": "attack.attacks:PARAPHRASE",
        "paraphrase-norm": "attack.attacks:PARAPHRASE_NORM",
        "paraphrase-mueff": "attack.attacks:PARAPHRASE_MUEFF",
        "paraphrase-exact": "attack.attacks:PARAPHRASE_EXACT",
        "nonce": "attack.attacks:NONCE",
        "nonce-norm": "attack.attacks:NONCE_NORM",
        "nonce-mueff": "attack.attacks:NONCE_MUEFF",
        "searched": "attack.attacks:SEARCHED",
    },
)
"""Entries are ``Attack`` values."""
SELECTIONS = _registry(
    "selection",
    {
        "all": "attack.selection:take_all",
        "spread": "attack.selection:spread",
        "uniform": "attack.selection:uniform",
        "greedy-norm": "attack.selection:greedy_norm",
        "greedy-mueff": "attack.selection:greedy_mueff",
        "greedy-exact": "attack.exact:greedy_exact",
    },
)
"""Entries take a ``SelectionContext`` and return pool indices, the first for the first place. Attacks name them."""
ENCODERS = _registry(
    "encoder",
    {
        "hashing": "encode.hashing:HashingEncoder",
        "minilm": "encode.sentence:MINILM",
        "minilm-l12": "encode.sentence:MINILM_L12",
        "mpnet": "encode.sentence:MPNET",
        "wordllama": "encode.wordllama:WordLlamaEncoder",
    },
    is_open=True,
)
"""Entries return an ``Encoder``; they are given those of device, batch_size, precision and isolated that they take."""
GENERATORS = _registry(
    "generator",
    {
        "smollm2": "flow.generators:SMOLLM2",
        "openai": "flow.generators:OPENAI",
        "llamacpp": "flow.generators:LLAMACPP",
        "transformers": "flow.generators:TRANSFORMERS",
    },
)
"""Entries take the configuration's section generator, and send_records where they want it, and return a ``Generator``.

One whose attribute ``in_process`` is True promises that its requests never leave this process; of any other, ``url``
is where they go by default.
"""
METHODS = _registry(
    "method",
    {
        "paper": "auditing.methods:PAPER",
        "clopper-pearson": "auditing.methods:CLOPPER_PEARSON",
        "joint": "auditing.methods.joint:JOINT",
        "pooled": "auditing.methods:POOLED",
        "stratified": "auditing.methods:STRATIFIED",
    },
)
SYSTEMS = _registry("system", {"mechanism": "systems.mechanism:BankSystem"})
"""Entries take the users' contributions and the canary's, on the inspected coordinates, and the mechanism.

They return a ``System``.
"""
ENGINES = _registry(
    "engine",
    {
        "threads": "engine.local:Threads",
        "processes": "engine.processes:Processes",
        "ray": "engine.ray:Ray",
        "serial": "engine.local:Serial",
    },
)
"""Entries return an ``Engine``; they are given those of workers and address that they take."""
KEEPERS = _registry(
    "keeper",
    {
        "top": "evolution.keeping:KeepTop",
        "votes": "evolution.keeping:KeepByVotes",
        "threshold": "evolution.keeping:KeepAboveNoise",
        "clusters": "evolution.keeping:KeepClusters",
        "projection": "evolution.keeping:KeepProjected",
    },
)
"""Entries return a ``Keeper``; they are given the threshold where they take it."""
PARENT_RULES = _registry(
    "parent rule",
    {
        "even": "evolution.parents:ParentsEvenly",
        "turns": "evolution.parents:ParentsInTurn",
        "votes": "evolution.parents:ParentsByVotes",
        "neighbours": "evolution.parents:NeighbouringParents",
    },
)
"""Entries return a ``ParentRule``."""
FEEDBACKS = _registry(
    "feedback",
    {
        "in-context": "evolution.feedback:InContext",
        "paraphrase": "evolution.feedback:ParaphraseKept",
        "vary": "evolution.feedback:Vary",
        "blanks": "evolution.feedback:FillBlanks",
        "fresh": "evolution.feedback:Fresh",
    },
)
"""Entries return a ``Feedback``; they are given those of prompt, high, low, kind, parents, distance, examples and shots
that they take."""
REGISTRIES: Mapping[str, Registry[Any]] = MappingProxyType(
    {
        registry.kind: registry
        for registry in (
            *(ATTACKS, SELECTIONS, ENCODERS, GENERATORS, METHODS, SYSTEMS, ENGINES),
            *(KEEPERS, PARENT_RULES, FEEDBACKS),
        )
    }
)
"""Every registry by the kind of its entries."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a mistyped one; None where none is like it.

    >>> nearest("nonse", ["ordinary", "exact", "nonce"])
    'nonce'

    Args:
        name: What was typed.
        known: The names that there are.
    """
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), None)
