"""Hold the paper's own numbers, as it prints them; where it plots without numbers, say so."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from pydantic import Field

from canarybank.experiment.commitment import Record
from canarybank.experiment.config import ATTACK_NAMES

__all__ = ["DATASETS", "ROUND_THEORY", "THEORY", "UNPUBLISHED", "PaperValue", "encoder_values", "table_values"]

UNPUBLISHED: Final = "not published as a number"
THEORY: Final = 1.695
"""The paper's theory at q=0.1, sigma=1, delta=1e-5: the upper end of an accountant's band."""
ROUND_THEORY: Final = (1.345, 1.540, 1.682, 1.800, 1.905, 2.000)
"""The paper's theory after one to six releases at q=0.1, sigma=1.1088, delta=1e-5."""
DATASETS: Final[Mapping[str, str]] = MappingProxyType({"yelp": "Yelp", "sentiment140": "Sentiment140"})

Column = tuple[float, ...]

_MAIN: Final[Mapping[str, Column]] = {
    "yelp": (0.268, 0.371, 0.276, 0.316, 0.560, 1.049, 1.110, 1.110),
    "sentiment140": (0.252, 0.363, 0.599, 0.327, 0.682, 1.052, 1.088, 1.086),
}
_FULL: Final[Mapping[tuple[str, str], Column]] = {
    ("yelp", "A"): (0.247, 0.313, 0.276, 0.316, 0.560, 1.038, 1.110, 1.110),
    ("yelp", "B"): (0.295, 0.304, 0.297, 0.457, 0.439, 1.047, 1.120, 0.958),
    ("sentiment140", "A"): (0.475, 0.363, 0.599, 0.327, 0.682, 1.018, 1.088, 1.086),
    ("sentiment140", "B"): (0.429, 0.587, 0.759, 0.871, 0.932, 1.014, 1.063, 0.977),
}
_ENCODER_ATTACKS = ("ordinary", "exact", "nonce")
_ENCODERS: Final[Mapping[tuple[str, str], Column]] = {
    ("yelp", "minilm"): (0.268, 0.371, 1.049),
    ("yelp", "minilm-l12"): (0.232, 0.357, 1.105),
    ("yelp", "mpnet"): (0.273, 0.387, 1.087),
    ("sentiment140", "minilm"): (0.252, 0.363, 1.052),
    ("sentiment140", "minilm-l12"): (0.272, 0.341, 1.088),
    ("sentiment140", "mpnet"): (0.249, 0.245, 1.078),
}


class PaperValue(Record):
    """One number of the paper, and where it stands."""

    dataset: str = Field(description="The dataset, by its short name.")
    table: str = Field(description="The table of the paper that holds it.")
    value: float = Field(description="The number as it is printed there.")

    def __str__(self) -> str:
        return f"{self.value:.3f} ({DATASETS[self.dataset]}, {self.table})"


def table_values(dataset: str | None, arm: str, attack: str) -> tuple[PaperValue, ...]:
    """Return what the paper's two tables say of an attack on an arm: for one of its datasets, or else for both.

    Where both tables give the same number for the same arm, it stands once.
    """
    place = ATTACK_NAMES.index(attack)
    return tuple(value for name in _chosen(dataset) for value in _of_arm(name, arm, place))


def encoder_values(dataset: str | None, encoder: str, attack: str) -> tuple[PaperValue, ...]:
    """Return what the paper's table of encoders says of an attack; nothing where it has no such cell."""
    if attack not in _ENCODER_ATTACKS:
        return ()
    place = _ENCODER_ATTACKS.index(attack)
    return tuple(
        PaperValue(dataset=name, table="encoders", value=_ENCODERS[name, encoder][place])
        for name in _chosen(dataset)
        if (name, encoder) in _ENCODERS
    )


def _chosen(dataset: str | None) -> tuple[str, ...]:
    return (dataset,) if dataset is not None else tuple(DATASETS)


def _of_arm(name: str, arm: str, place: int) -> Iterator[PaperValue]:
    full = _FULL[name, arm][place]
    main = _MAIN[name][place] if arm == "A" else full
    if main == full:
        yield PaperValue(dataset=name, table="both tables" if arm == "A" else "full table", value=full)
    else:
        yield PaperValue(dataset=name, table="main table", value=main)
        yield PaperValue(dataset=name, table="full table", value=full)
