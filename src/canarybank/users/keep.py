"""Turn admitted users into bytes and back, for the stages that come after."""

import io

import numpy as np

from canarybank.errors import DataError
from canarybank.store import parquet_errors
from canarybank.users.records import Users

__all__ = ["pack_users", "unpack_users"]


def pack_users(users: Users) -> bytes:
    """Return ids, texts and labels as a Parquet file with the columns user, text and label; vectors stay out.

    Args:
        users: Users with texts.

    Example:
        >>> from canarybank.users import admit
        >>> users = admit("my-users.csv").users
        >>> unpack_users(pack_users(users)).hash == users.hash
        True
    """
    import polars as pl

    columns = {
        "user": [users.ids[i] for i in users.owners],
        "text": users.require_texts(),
        "label": users.labels,
    }
    frame = pl.DataFrame(
        {name: pl.Series(values, dtype=pl.String) for name, values in columns.items() if values is not None}
    )
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def unpack_users(data: bytes) -> Users:
    """Return the users that ``pack_users`` packed, in the same order, with the same hash.

    Args:
        data: The bytes of the Parquet file.

    Example:
        >>> from canarybank.users import Users
        >>> users = Users(("ann", "bob"), [0, 1], texts=("Hello.", "Good morning."))
        >>> unpack_users(pack_users(users)).texts
        ('Hello.', 'Good morning.')
    """
    import polars as pl

    with parquet_errors("the kept users", "admit them again"):
        frame = pl.read_parquet(io.BytesIO(data))
    if [*frame.columns, "label"][:3] != ["user", "text", "label"] or set(frame.dtypes) != {pl.String}:
        raise DataError(f"The kept users have the columns {frame.columns}, not those of packed ones; admit them again.")
    names = frame["user"].to_list()
    ids = tuple(dict.fromkeys(names))
    index = {name: i for i, name in enumerate(ids)}
    return Users(
        ids=ids,
        owners=np.array([index[name] for name in names], dtype=np.int64),
        texts=tuple(frame["text"].to_list()),
        labels=tuple(frame["label"].to_list()) if "label" in frame.columns else None,
    )
