"""Derive a configuration from another: some keys set anew, or only those that nobody set."""

from collections.abc import Mapping
from typing import Any

from canarybank.config.loading import Resolved, refuse_unknown, validated

__all__ = ["filled", "is_default", "varied"]


def varied(resolved: Resolved, changes: Mapping[str, Any], origin: str) -> Resolved:
    """Return the configuration with these values by dotted key in place of its own, remembering their origin."""
    for key in changes:
        refuse_unknown(key, origin)
    origins = {**resolved.origins, **dict.fromkeys(changes, origin)}
    return Resolved(validated({**resolved.values(), **changes}, origins), origins)


def filled(resolved: Resolved, values: Mapping[str, Any], origin: str) -> Resolved:
    """Return the configuration with these values where it has only its defaults."""
    return varied(resolved, {key: value for key, value in values.items() if is_default(resolved, key)}, origin)


def is_default(resolved: Resolved, key: str) -> bool:
    """Say whether nobody set a key."""
    return resolved.origins.get(key, "default") == "default"
