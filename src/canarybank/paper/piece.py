"""Hold one table or figure as a typed file: every cell with the paper's numbers, ours, and what sampling explains."""

import math
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from canarybank import __version__
from canarybank.paper.published import PaperValue
from canarybank.run.commitment import Epsilon, Figure, Record
from canarybank.run.folder import read_document
from canarybank.run.results import NOT_PRIVATE
from canarybank.store import canonical_json, write_atomic

__all__ = ["Cell", "Piece", "Span", "read_piece", "write_piece"]

Coordinate = str | int | float
_BITS = 1e-9


class Span(Record):
    """The two ends of an interval."""

    low: Figure = Field(description="The lower end.")
    high: Figure = Field(description="The upper end.")


class Cell(Record):
    """One cell: what the paper says, and what we found."""

    at: dict[str, Coordinate] = Field(description="Which cell, by the names of its coordinates.")
    paper: tuple[PaperValue, ...] = Field(default=(), description="The paper's numbers for this cell.")
    observed: float = Field(description="The bound that the trials gave, by the declared method.")
    exact: Figure = Field(description="The exact epsilon of the attack, over all thresholds.")
    rule: Figure = Field(description="The exact epsilon at the frozen threshold.")
    expected: Figure = Field(description="The median of the bound at so many trials, by the exact rates.")
    likely: Span = Field(description="Where 90% of such bounds fall, at the frozen thresholds.")
    explained: Span | None = Field(default=None, description="Where the bound falls by sampling alone, at 99.9%.")
    mechanism: Epsilon = Field(description="The exact epsilon of the mechanism; null where it is infinite.")
    accounted: float | None = Field(default=None, description="What the paper's accountant claims, where it applies.")
    claim: Literal["stands", "fails"] | None = Field(
        default=None,
        description="Whether the run's own claim is below what is computed or measured; null where unasked.",
    )
    method: str = Field(description="How counts became the bound.")
    confidence: float = Field(description="The confidence of the bound.")
    trials: int = Field(description="The trials of each hypothesis of each canary.")
    canaries: int = Field(description="The canaries that the bound is the largest of.")
    threshold: str = Field(description="How thresholds were frozen.")
    delta: float = Field(description="The delta at which epsilon is stated.")
    more: dict[str, float] = Field(default_factory=dict, description="Further figures of the cell, by name.")

    @property
    def is_explained(self) -> bool | None:
        """Say whether the observed bound lies where sampling alone puts it, or None where that was not computed."""
        return self.explains(self.observed)

    def explains(self, value: float) -> bool | None:
        """Say whether sampling alone, on our users and bank, could give this bound; None where that is unknown."""
        if self.explained is None:
            return None
        low, high = (math.inf if end is None else end for end in (self.explained.low, self.explained.high))
        # A bound at the very end of the interval was computed by another sum: the last bits may differ.
        return low - _BITS <= value <= high + _BITS


class Piece(Record):
    """A table or figure of the paper, or a sweep."""

    schema_version: int = Field(default=1, description="The version of this file's layout.")
    canarybank: str = Field(default=__version__, description="The version of canarybank.")
    statement: str = Field(default=NOT_PRIVATE, description="What this file may not be taken for.")
    name: str = Field(description="The name of the piece and of its files.")
    title: str = Field(description="What it is, in a line.")
    about: str = Field(description="What was done, in a few sentences.")
    shape: Literal["table", "curves", "rounds"] = Field(description="How it is drawn.")
    coordinates: tuple[str, ...] = Field(description="The names of the cells' coordinates, in their order.")
    cells: tuple[Cell, ...] = Field(description="The cells, in their order.")
    unpublished: bool = Field(default=False, description="Whether the paper has a plot here, and no numbers.")
    setup: dict[str, str] = Field(description="What was audited with.")
    notes: tuple[str, ...] = Field(default=(), description="What a reader should know.")
    runs: tuple[str, ...] = Field(default=(), description="The runs behind the cells, by their place in the folder.")

    @field_validator("cells")
    @classmethod
    def _in_order(cls, cells: tuple[Cell, ...], known: ValidationInfo) -> tuple[Cell, ...]:
        """Give every cell its coordinates in the piece's order: a file keeps them by the alphabet."""
        names: tuple[str, ...] = known.data.get("coordinates", ())
        for each in cells:
            if set(each.at) != set(names):
                raise ValueError(f"a cell has the coordinates {sorted(each.at)}, not {sorted(names)}")
        return tuple(each.model_copy(update={"at": {name: each.at[name] for name in names}}) for each in cells)


def write_piece(piece: Piece, folder: Path) -> Path:
    """Write a piece into a folder, under its name; the same piece gives the same bytes."""
    path = folder / f"{piece.name}.json"
    write_atomic(path, canonical_json(piece.model_dump(mode="json"), indent=2) + "\n")
    return path


def read_piece(path: Path) -> Piece:
    """Read a piece; a file that is none is refused in words."""
    return read_document(path, Piece)
