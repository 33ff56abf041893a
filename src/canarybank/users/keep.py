"""Keep admitted users in a Parquet file, for the stages that come after."""

from pathlib import Path

import numpy as np

from canarybank.errors import DataError
from canarybank.store import atomic_writer, parquet_errors
from canarybank.users.files import opened
from canarybank.users.records import Users

__all__ = ["load_users", "save_users"]


def save_users(users: Users, path: str | Path) -> None:
    """Write ids, texts and labels as the columns user, text and label, one row a record; vectors stay out.

    The file appears whole or not at all.
    """
    import polars as pl

    columns = {
        "user": [users.ids[i] for i in users.owners],
        "text": users.require_texts(),
        "label": users.labels,
    }
    frame = pl.DataFrame({name: pl.Series(values, dtype=pl.String) for name, values in columns.items() if values})
    with atomic_writer(path) as file:
        frame.write_parquet(file)


def load_users(path: str | Path) -> Users:
    """Return the users that ``save_users`` wrote, in the same order, with the same hash."""
    import polars as pl

    path = Path(path)
    with opened(path):
        pass
    with parquet_errors(path, "admit the users again"):
        frame = pl.read_parquet(path, glob=False)
    if [*frame.columns, "label"][:3] != ["user", "text", "label"] or set(frame.dtypes) != {pl.String}:
        raise DataError(f"{path} has columns {frame.columns}, not those of saved users; admit the users again.")
    names = frame["user"].to_list()
    ids = tuple(dict.fromkeys(names))
    index = {name: i for i, name in enumerate(ids)}
    return Users(
        ids=ids,
        owners=np.array([index[name] for name in names], dtype=np.int64),
        texts=tuple(frame["text"].to_list()),
        labels=tuple(frame["label"].to_list()) if "label" in frame.columns else None,
    )
