"""Choose the figures of an evolution's text that tables and curves show: those at one size, and chance beside them."""

from typing import Any

__all__ = ["chance_range", "figures_by_round", "value_at"]


def figures_by_round(utility: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the figures of every population that tables and curves show: those at one size, where they were made.

    Precision, recall and variety of a whole population depend on its size; runs of older versions have no others.
    """
    if utility is None:
        return []
    compared, no_votes = utility.get("compared"), dict.fromkeys(("kept_share", "effective", "probe_share"))
    rows = []
    for index, each in enumerate(utility["figures"]):
        row = {**each, **each["variety"], **(each["concentration"] or no_votes), "after": each["round"]}
        if compared is not None:
            worth = compared["sets"][index]
            row |= {name: worth[name] for name in ("mauve", "precision", "recall")} | (worth["variety"] or {})
        rows.append(row)
    return rows


def value_at(worth: dict[str, Any], path: str) -> float | None:
    """Return a measure of one set; None where it was not made."""
    value: Any = worth
    for part in path.split("/"):
        value = None if value is None else value[part]
    return None if value is None else float(value)


def chance_range(compared: dict[str, Any] | None, path: str) -> tuple[float, float] | None:
    """Return the lowest and the highest figure of the other cuts of the first population; None where none was made."""
    made = [value_at(each, path) for each in (compared or {}).get("chance") or ()]
    known = [value for value in made if value is not None]
    return (min(known), max(known)) if known else None
