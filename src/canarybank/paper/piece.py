"""Hold one table or figure as a typed file: every cell with the paper's numbers, ours, and what sampling explains.

The paper's own numbers stand here as it prints them; where it plots without numbers, that is said.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from canarybank import __version__
from canarybank.run.commitment import Epsilon, Figure, Record
from canarybank.run.folder import read_document
from canarybank.run.results import NOT_PRIVATE
from canarybank.store import canonical_json, write_atomic

__all__ = [
    "DATASETS",
    "ROUND_THEORY",
    "THEORY",
    "UNPUBLISHED",
    "Cell",
    "PaperValue",
    "Piece",
    "Span",
    "encoder_values",
    "read_piece",
    "table_values",
    "write_piece",
]

UNPUBLISHED: Final = "not published as a number"
THEORY: Final = 1.695
"""The paper's theory at q=0.1, sigma=1, delta=1e-5: the upper end of an accountant's band."""
ROUND_THEORY: Final = (1.345, 1.540, 1.682, 1.800, 1.905, 2.000)
"""The paper's theory after one to six releases at q=0.1, sigma=1.1088, delta=1e-5."""
DATASETS: Final[Mapping[str, str]] = MappingProxyType({"yelp": "Yelp", "sentiment140": "Sentiment140"})

# Rows by the name of an attack: a number stays with its attack whatever other attacks there are, in whatever order.
_MAIN: Final[Mapping[str, Mapping[str, float]]] = {
    "ordinary": {"yelp": 0.268, "sentiment140": 0.252},
    "exact": {"yelp": 0.371, "sentiment140": 0.363},
    "paraphrase": {"yelp": 0.276, "sentiment140": 0.599},
    "paraphrase-norm": {"yelp": 0.316, "sentiment140": 0.327},
    "paraphrase-mueff": {"yelp": 0.560, "sentiment140": 0.682},
    "nonce": {"yelp": 1.049, "sentiment140": 1.052},
    "nonce-norm": {"yelp": 1.110, "sentiment140": 1.088},
    "nonce-mueff": {"yelp": 1.110, "sentiment140": 1.086},
}
_FULL: Final[Mapping[str, Mapping[str, Mapping[str, float]]]] = {
    "ordinary": {"yelp": {"A": 0.247, "B": 0.295}, "sentiment140": {"A": 0.475, "B": 0.429}},
    "exact": {"yelp": {"A": 0.313, "B": 0.304}, "sentiment140": {"A": 0.363, "B": 0.587}},
    "paraphrase": {"yelp": {"A": 0.276, "B": 0.297}, "sentiment140": {"A": 0.599, "B": 0.759}},
    "paraphrase-norm": {"yelp": {"A": 0.316, "B": 0.457}, "sentiment140": {"A": 0.327, "B": 0.871}},
    "paraphrase-mueff": {"yelp": {"A": 0.560, "B": 0.439}, "sentiment140": {"A": 0.682, "B": 0.932}},
    "nonce": {"yelp": {"A": 1.038, "B": 1.047}, "sentiment140": {"A": 1.018, "B": 1.014}},
    "nonce-norm": {"yelp": {"A": 1.110, "B": 1.120}, "sentiment140": {"A": 1.088, "B": 1.063}},
    "nonce-mueff": {"yelp": {"A": 1.110, "B": 0.958}, "sentiment140": {"A": 1.086, "B": 0.977}},
}
_ENCODERS: Final[Mapping[str, Mapping[str, Mapping[str, float]]]] = {
    "ordinary": {
        "yelp": {"minilm": 0.268, "minilm-l12": 0.232, "mpnet": 0.273},
        "sentiment140": {"minilm": 0.252, "minilm-l12": 0.272, "mpnet": 0.249},
    },
    "exact": {
        "yelp": {"minilm": 0.371, "minilm-l12": 0.357, "mpnet": 0.387},
        "sentiment140": {"minilm": 0.363, "minilm-l12": 0.341, "mpnet": 0.245},
    },
    "nonce": {
        "yelp": {"minilm": 1.049, "minilm-l12": 1.105, "mpnet": 1.087},
        "sentiment140": {"minilm": 1.052, "minilm-l12": 1.088, "mpnet": 1.078},
    },
}
Coordinate = str | int | float
_BITS = 1e-9


class PaperValue(Record):
    """One number of the paper, and where it stands."""

    dataset: str = Field(description="The dataset, by its short name.")
    table: str = Field(description="The table of the paper that holds it.")
    value: float = Field(description="The number as it is printed there.")


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
    """Write a piece into a folder, under its name; the same piece gives the same bytes.

    Args:
        piece: The table or figure.
        folder: Where its file is written, as ``NAME.json``.

    Example:
        >>> piece = Piece(name="mine", title="Mine", about="", shape="table", coordinates=(), cells=(), setup={})
        >>> write_piece(piece, Path("tables")).as_posix()
        'tables/mine.json'
    """
    path = folder / f"{piece.name}.json"
    write_atomic(path, canonical_json(piece.model_dump(mode="json"), indent=2) + "\n")
    return path


def read_piece(path: Path) -> Piece:
    """Read a piece; a file that is none is refused in words.

    Args:
        path: The file that ``write_piece`` wrote.

    Example:
        >>> piece = Piece(name="mine", title="Mine", about="", shape="table", coordinates=(), cells=(), setup={})
        >>> read_piece(write_piece(piece, Path("tables"))) == piece
        True
    """
    return read_document(path, Piece)


def table_values(dataset: str | None, arm: str, attack: str) -> tuple[PaperValue, ...]:
    """Return what the paper's two tables say of an attack on an arm: for one of its datasets, or else for both.

    Where both tables give the same number for the same arm, it stands once. There is nothing for an attack that the
    paper does not have.
    """
    values = []
    for name in _chosen(dataset) if attack in _FULL else ():
        tables = {"main table": _MAIN[attack][name]} if arm == "A" else {}
        tables["full table"] = _FULL[attack][name][arm]
        if len(tables) > len(set(tables.values())):
            tables = {"both tables": tables["full table"]}
        values += [PaperValue(dataset=name, table=table, value=value) for table, value in tables.items()]
    return tuple(values)


def encoder_values(dataset: str | None, encoder: str, attack: str) -> tuple[PaperValue, ...]:
    """Return what the paper's table of encoders says of an attack; nothing where it has no such cell."""
    rows = _ENCODERS.get(attack, {})
    return tuple(
        PaperValue(dataset=name, table="encoders", value=rows[name][encoder])
        for name in _chosen(dataset)
        if encoder in rows.get(name, {})
    )


def _chosen(dataset: str | None) -> tuple[str, ...]:
    return tuple(DATASETS) if dataset is None else (dataset,)
