"""Hold the paper's own numbers, as it prints them; where it plots without numbers, say so."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import Field

from canarybank.run.commitment import Record

__all__ = ["DATASETS", "ROUND_THEORY", "THEORY", "UNPUBLISHED", "PaperValue", "encoder_values", "table_values"]

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


class PaperValue(Record):
    """One number of the paper, and where it stands."""

    dataset: str = Field(description="The dataset, by its short name.")
    table: str = Field(description="The table of the paper that holds it.")
    value: float = Field(description="The number as it is printed there.")


def table_values(dataset: str | None, arm: str, attack: str) -> tuple[PaperValue, ...]:
    """Return what the paper's two tables say of an attack on an arm: for one of its datasets, or else for both.

    Where both tables give the same number for the same arm, it stands once. There is nothing for an attack that the
    paper does not have.
    """
    values = []
    for name in _chosen(dataset) if attack in _FULL else ():
        tables = {"full table": _FULL[attack][name][arm]}
        if arm == "A":
            tables = {"main table": _MAIN[attack][name], **tables}
            if len(set(tables.values())) == 1:
                tables = {"both tables": _MAIN[attack][name]}
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
