"""Read of what a generator wrote how it came to be."""

from collections.abc import Mapping
from typing import Any

__all__ = ["counters_of"]


def counters_of(provenance: Any) -> dict[str, int]:
    """Return the counters that a provenance holds; none, where it is from elsewhere and holds something else."""
    found = provenance.get("counters") if isinstance(provenance, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {str(name): count for name, count in found.items() if type(count) is int}
