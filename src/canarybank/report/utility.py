"""Lay out what texts are worth: every measure of every set of texts, with real text beside them."""

from collections.abc import Sequence
from typing import Any

from canarybank.report.tables import known_columns
from canarybank.report.text import UNKNOWN, clean, decimal
from canarybank.report.worth import chance_range, value_at

__all__ = ["compared_by_measure", "compared_by_round", "compared_notes", "compared_part", "population_names"]

MEASURES: tuple[tuple[str, str], ...] = (
    ("MAUVE", "mauve"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("density", "density"),
    ("coverage", "coverage"),
    ("Fréchet distance", "frechet"),
    ("effective texts", "effective"),
    ("distinct pairs", "variety/distinct_2"),
    ("near duplicates", "variety/near_duplicates"),
    ("label agreement", "agreement/share"),
    ("agreement, shuffled labels", "agreement/chance"),
    ("task accuracy", "task/accuracy"),
    ("task, balanced", "task/balanced"),
    ("task, shuffled labels", "task/chance"),
)
"""What each measure is called in a table, and where it stands in a ``Worth``."""
REAL, CHANCE = "real text", "chance alone"


def _shown(value: float | None, path: str) -> str:
    return f"{value:,.1f}" if path == "effective" and value is not None else decimal(value)


def _values(worth: dict[str, Any]) -> list[str]:
    """Return every measure of one set as it is shown."""
    return [_shown(value_at(worth, path), path) for _, path in MEASURES]


def _chance(compared: dict[str, Any]) -> list[str]:
    """Return the range of every measure as it is shown."""
    ranges = ((chance_range(compared, path), path) for _, path in MEASURES)
    return [
        UNKNOWN if found is None else f"{_shown(found[0], path)} to {_shown(found[1], path)}" for found, path in ranges
    ]


def population_names(populations: int) -> list[str]:
    """Return what the populations of an evolution are called."""
    return ["first population", *(f"after round {number}" for number in range(1, populations))]


def compared_part(utility: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the table and the notes that the page of an evolution shows; None where nothing was compared."""
    compared = None if utility is None else utility.get("compared")
    if compared is None:
        return None
    return {"table": compared_by_round(compared), "notes": compared_notes(compared)}


def compared_by_round(compared: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return columns and rows: a row for each population of an evolution, one for chance, and one for real text."""
    names = population_names(len(compared["sets"]))
    rows = [(name, *_values(each)) for name, each in zip(names, compared["sets"], strict=True)]
    rows += [(CHANCE, *_chance(compared))] * bool(compared.get("chance")) + [(REAL, *_values(compared["real"]))]
    return known_columns(("texts", *(name for name, _ in MEASURES)), rows)


def compared_by_measure(
    compared: dict[str, Any], names: Sequence[str], shown: Sequence[int] | None = None
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return columns and rows: a row for each measure, a column for each set that is shown, chance, and real text."""
    chosen = range(len(names)) if shown is None else shown
    sets = [_values(compared["sets"][index]) for index in chosen]
    has_chance = bool(compared.get("chance"))
    columns = [*sets, *([_chance(compared)] * has_chance), _values(compared["real"])]
    rows = [
        (name, *(column[index] for column in columns))
        for index, (name, _) in enumerate(MEASURES)
        if any(column[index] != UNKNOWN for column in columns)
    ]
    heads = (*(clean(names[index], 40) for index in chosen), *([CHANCE] * has_chance), REAL)
    return ("measure", *heads), rows


def compared_notes(compared: dict[str, Any]) -> tuple[str, ...]:
    """Say what the figures stand on: sizes, halves, chance, and how each is read."""
    size, users = compared["size"], compared["users"]
    sizes = (
        f"{size:,} texts of each set are measured against {size:,} records of one half of {users:,} reference users. "
        "Real text is as many records of the other half, measured the same way. Compare figures of one encoder and "
        "one size only."
    )
    balls = (
        f"Balls reach to neighbour {compared['neighbours']}. A few outliers among the texts raise recall. Density and "
        "coverage use balls around real records alone, so they do not. Two samples of one distribution have a coverage "
        f"of {compared['expected_coverage']:.3f} and a density of 1 in expectation, if records are independent."
    )
    lines = [sizes, balls]
    if compared["labels"]:
        lines.append(
            f"Label agreement is how often a classifier that learnt {len(compared['labels'])} labels from real text "
            "gives a text its own label. Task accuracy is how often a classifier that learnt from the texts gives real "
            "records their labels. Figures with shuffled labels are what chance gives."
        )
    if cuts := len(compared.get("chance") or ()):
        lines.append(
            f"Chance alone is the lowest and the highest figure of {cuts} other cuts of the first population to "
            f"{size:,} texts, drawn at random: without votes, and with nothing written. One more such cut lies above "
            f"all of them in 1 case of {cuts + 1}, so a figure within the range is no rise. What goes beyond it is "
            "the work of votes and generation together."
        )
    return (*lines, *(clean(note, 600) for note in compared["notes"]))
