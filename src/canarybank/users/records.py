"""Hold users and their records as columns: ids, owners, texts, labels, vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError

__all__ = ["Users"]


@dataclass(frozen=True, slots=True, eq=False)
class Users:
    """Users and their records, the records of one user standing together in the order of ``ids``.

    ``owners[i]`` is the index into ``ids`` of the user who owns record ``i``. Texts, labels and vectors are
    optional columns over the records; an audit needs vectors, an encoder needs texts.
    """

    ids: tuple[str, ...]
    owners: NDArray[np.int64]
    texts: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    vectors: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        owners = np.ascontiguousarray(self.owners, dtype=np.int64)
        owners.setflags(write=False)
        object.__setattr__(self, "owners", owners)
        if len(set(self.ids)) != len(self.ids):
            raise InputError("Two users have the same id; ids must be unique, so merge their records or rename one.")
        counts = np.bincount(owners, minlength=len(self.ids)) if len(owners) and owners.min() >= 0 else None
        if counts is None or len(counts) != len(self.ids):
            raise InputError(f"Owners must be indices into the {len(self.ids)} ids, with at least one record in all.")
        if (counts == 0).any():
            name = self.ids[int(np.argmin(counts))]
            raise InputError(f"User {name!r} has no records; drop users without records before building Users.")
        if (np.diff(owners) < 0).any():
            raise InputError("Records must stand grouped by user, in the order of ids; sort them by owner first.")
        for name, column in (("texts", self.texts), ("labels", self.labels), ("vectors", self.vectors)):
            if column is not None and len(column) != len(owners):
                raise InputError(
                    f"There are {len(column)} {name} for {len(owners)} records; there must be one for each."
                )
        if self.vectors is not None:
            object.__setattr__(self, "vectors", _checked_vectors(self.vectors))

    @classmethod
    def from_vectors(cls, vectors: "Users | Mapping[str, ArrayLike] | Sequence[ArrayLike]") -> "Users":
        """Build users from one array of record vectors a user; a mapping's keys become the ids."""
        if isinstance(vectors, Users):
            return vectors
        named = vectors if isinstance(vectors, Mapping) else {str(i): v for i, v in enumerate(vectors)}
        arrays = {str(name): np.atleast_2d(np.asarray(v, dtype=np.float32)) for name, v in named.items()}
        if not arrays:
            raise InputError("There are no users; give at least one array of record vectors.")
        for name, array in arrays.items():
            if array.size == 0:
                raise InputError(f"User {name!r} has no records; drop users without records first.")
        if len({a.shape[1] for a in arrays.values()}) > 1:
            dimensions = sorted({a.shape[1] for a in arrays.values()})
            raise InputError(
                f"Record vectors have different dimensions {dimensions}; encode all records with one encoder."
            )
        owners = np.repeat(np.arange(len(arrays)), [len(a) for a in arrays.values()])
        return cls(ids=tuple(arrays), owners=owners, vectors=np.concatenate(list(arrays.values())))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Users({len(self.ids)} users, {len(self.owners)} records)"

    @property
    def counts(self) -> NDArray[np.int64]:
        """Return the number of records of each user."""
        return np.bincount(self.owners, minlength=len(self.ids))

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> "Users":
        """Return the users at these indices, in this order, with their records."""
        chosen = np.asarray(indices, dtype=np.int64)
        starts = np.searchsorted(self.owners, chosen, side="left")
        sizes = np.searchsorted(self.owners, chosen, side="right") - starts
        offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
        rows = np.arange(sizes.sum()) + offsets
        return Users(
            ids=tuple(self.ids[i] for i in chosen),
            owners=np.repeat(np.arange(len(chosen)), sizes),
            texts=None if self.texts is None else tuple(self.texts[i] for i in rows),
            labels=None if self.labels is None else tuple(self.labels[i] for i in rows),
            vectors=None if self.vectors is None else self.vectors[rows],
        )

    def with_vectors(self, vectors: ArrayLike) -> "Users":
        """Return the same users with these record vectors."""
        return replace(self, vectors=np.asarray(vectors, dtype=np.float32))

    def require_vectors(self) -> NDArray[np.float32]:
        """Return the record vectors, or say that the records were never encoded."""
        if self.vectors is None:
            raise InputError("These users have no vectors; encode their texts first and add them by with_vectors().")
        return self.vectors


def _checked_vectors(vectors: ArrayLike) -> NDArray[np.float32]:
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    if array.ndim != 2:  # noqa: PLR2004, a table has two axes
        raise InputError(f"Record vectors must be a table (records, dimension), not an array of shape {array.shape}.")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise InputError(
            f"The vector of record {int(np.argmax(bad))} is NaN or infinite; fix the encoder or drop the record."
        )
    array.setflags(write=False)
    return array
