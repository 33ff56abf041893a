"""Hold the kinds of values that keys of the configuration take: counts, lists, schedules, registered names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import core_schema

from canarybank.registry import REGISTRIES

__all__ = [
    "FREE",
    "RECEIVED",
    "Count",
    "Heats",
    "Names",
    "Parts",
    "Price",
    "Registered",
    "Section",
    "Seed",
    "Shares",
    "joined",
    "listed",
    "shares_of",
]

RECEIVED: Mapping[str, Any] = MappingProxyType({"received": True})
"""The validation context of what comes out of a run folder: its names need not be registered on this machine."""

FREE: dict[str, Any] = {"decides": False}
"""What marks a field that changes how a run is done, but not what it finds."""


class Section(BaseModel):
    """A section of the configuration: it never changes, and knows no other keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def listed(value: Any) -> Any:
    """Split a text at its commas, so that a flag can hold a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def joined(value: Any) -> Any:
    """Join a list by commas, so that a file may hold one where a flag holds a text."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def _scheduled(value: Any) -> Any:
    """Split a text at its commas where it has some, and take a list of one number for that number."""
    parts = listed(value) if isinstance(value, str) and "," in value else value
    return parts[0] if isinstance(parts, list | tuple) and len(parts) == 1 else parts


def shares_of(text: str) -> tuple[tuple[str, float], ...]:
    """Return the names in a text such as ``in-context:0.5,vary:0.5``, each with its share; 1 where none is said."""
    found = []
    for entry in listed(text):
        name, _, share = entry.rpartition(":")
        try:
            found.append((name, float(share)) if name else (entry, 1.0))
        except ValueError:
            found.append((entry, 1.0))  # module:name
    return tuple(found)


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Shares = Annotated[Share | Annotated[tuple[Share, ...], Field(min_length=1)], BeforeValidator(_scheduled)]
Part = Annotated[float, Field(ge=0, le=1)]
Parts = Annotated[Part | Annotated[tuple[Part, ...], Field(min_length=1)], BeforeValidator(_scheduled)]
Heat = Annotated[float, Field(ge=0, le=2)]
Heats = Annotated[Heat | Annotated[tuple[Heat, ...], Field(min_length=1)], BeforeValidator(_scheduled)]


@dataclass(frozen=True, slots=True)
class Registered:
    """Mark a text as a name in the registry of a kind, or one of some words that can stand in its place.

    A name is checked and nothing is imported. Results that were made elsewhere are read with the context ``RECEIVED``.
    Where names are ``shared``, the text may hold several, separated by commas, each with its share (``shares_of``).
    """

    kind: str
    words: tuple[str, ...] = ()
    shared: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words, and the names of canarybank's own entries."""
        return (*self.words, *REGISTRIES[self.kind].places)

    def names(self, value: str | tuple[str, ...]) -> tuple[str, ...]:
        """Return the names in a value of the field."""
        if isinstance(value, tuple):
            return value
        return tuple(name for name, _ in shares_of(value)) if self.shared else (value,)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        plugin = f"The {self.kind} of a plug-in, by its name or as module:name."
        return {"anyOf": [{"enum": list(self.choices)}, {**handler(schema), "description": plugin}]}

    def _checked(self, value: str, info: core_schema.ValidationInfo) -> str:
        if info.context == RECEIVED:
            return value
        names = self.names(value)
        for name in names:
            REGISTRIES[self.kind].check(name, self.words)
        if not names or len(set(names)) != len(names):
            raise ValueError("it takes at least one rule, and each of them once, such as in-context:0.5,vary:0.5")
        if self.shared and not all(0 < share < math.inf for _, share in shares_of(value)):
            raise ValueError("a share must be a positive number, such as in-context:0.5,vary:0.5")
        return value
