"""Tell what became of a generator's answers, in words that keep what was rejected and what was stripped apart."""

from collections.abc import Mapping

from canarybank.generate.cleaning import Strip

__all__ = ["outcome_text", "rejections"]

_ALL = frozenset(("asked", "kept", "surplus", *Strip))


def rejections(counters: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of rejected answers, the most frequent reason first."""
    return dict(sorted(((name, n) for name, n in counters.items() if name not in _ALL), key=lambda row: -row[1]))


def outcome_text(counters: Mapping[str, int], reasons: int | None = None) -> str:
    """Return one line on what became of the answers, with all reasons of rejection or only the most frequent ones.

    Counters of a file from before strips were counted tell of none.

    Args:
        counters: How many answers were asked for, kept, left over, and rejected by which rule, as a bank's provenance
            holds them.
        reasons: How many reasons of rejection are named; left out, all.

    Example:
        >>> outcome_text({"asked": 10, "kept": 6, "surplus": 1, "duplicate": 2, "too-short": 1}, reasons=1)
        '10 asked, 6 kept, 1 surplus, 3 rejected (2 duplicate, 1 for other reasons)'
    """
    rejected = rejections(counters)
    parts = [f"{counters[name]:,} {name}" for name in ("asked", "kept", "surplus") if name in counters]
    parts.append(f"{sum(rejected.values()):,} rejected{_why(rejected, reasons)}")
    return ", ".join(parts) + _stripped(counters)


def _why(rejected: Mapping[str, int], reasons: int | None) -> str:
    named = [f"{count:,} {reason}" for reason, count in list(rejected.items())[:reasons]]
    if len(named) < len(rejected):
        named.append(f"{sum(list(rejected.values())[len(named) :]):,} for other reasons")
    return f" ({', '.join(named)})" if named else ""


def _stripped(counters: Mapping[str, int]) -> str:
    found = [f"{counters[s]:,} of {s.removeprefix('stripped-')}" for s in Strip if counters.get(s)]
    return f"; of those kept, stripped: {', '.join(found)}" if found else ""
