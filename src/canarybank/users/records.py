"""Hold users and their records as columns: ids, owners, texts, labels, vectors."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError

__all__ = ["Users", "combined_digest"]

_HASHED_TOGETHER = 2**14
"""How many users' digests are copied at a time."""


@dataclass(frozen=True, eq=False)
class Users:
    """Users and their records, the records of one user standing together in the order of ``ids``.

    ``owners[i]`` is the index into ``ids`` of the user who owns record ``i``. Texts, labels and vectors are
    optional columns over the records; an audit needs vectors, an encoder needs texts. There may be no users at all: a
    real release over nobody is noise alone.
    """

    ids: tuple[str, ...]
    owners: NDArray[np.int64]
    texts: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    vectors: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(self.ids))
        object.__setattr__(self, "owners", _checked_owners(self.owners, self.ids))
        for name in ("texts", "labels", "vectors"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.owners):
                raise InputError(
                    f"There are {len(column)} {name} for {len(self.owners)} records; there must be one for each."
                )
        for name in ("texts", "labels"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
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

    @cached_property
    def hash(self) -> str:
        """Return the sha256 of all that is held here: ids, owners and every column that is present.

        Equal hashes mean the same users in the same order with the same records in the same order.
        """
        digest = hashlib.sha256(b"canarybank users 1")
        for part in self._parts():
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()

    @property
    def digests(self) -> NDArray[np.uint8]:
        """Return the sha256 of each user (users, 32): of the id and the records, by texts and labels.

        Where there are no texts, vectors stand for them. A digest follows from that user alone, so those of a cohort
        can be taken shard by shard.
        """
        columns = [column for column in (self.texts, self.labels) if column is not None]
        found, start = bytearray(), 0
        for name, count in zip(self.ids, self.counts.tolist(), strict=True):
            stop = start + count
            parts = [name.encode(), *(value.encode() for column in columns for value in column[start:stop])]
            if self.texts is None and self.vectors is not None:
                parts.append(self.vectors[start:stop].astype("<f4").tobytes())
            sizes = np.array([len(columns), count, *map(len, parts)], dtype="<i8").tobytes()
            found += hashlib.sha256(b"canarybank user 1" + sizes + b"".join(parts)).digest()
            start = stop
        return np.frombuffer(bytes(found), dtype=np.uint8).reshape(-1, 32)

    @property
    def digest(self) -> str:
        """Return the sha256 of all users and their records, in their order; vectors are no part of it."""
        return combined_digest(self.digests)

    def _parts(self) -> Iterator[bytes]:
        for name in ("ids", "texts", "labels"):
            column: tuple[str, ...] | None = getattr(self, name)
            if column is not None:
                yield f"{name} {len(column)}".encode()
                yield from (value.encode() for value in column)
        yield b"counts"
        yield self.counts.astype("<i8").tobytes()
        if self.vectors is not None:
            yield f"vectors {self.vectors.shape[1]}".encode()
            yield self.vectors.astype("<f4").tobytes()

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> "Users":
        """Return the users at these indices, in this order, with their records."""
        chosen = np.asarray(indices, dtype=np.int64)
        if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= len(self):
            raise InputError(
                f"Take at least one user, by index from 0 to {len(self) - 1}; the indices given are "
                f"{'none' if len(chosen) == 0 else f'from {chosen.min()} to {chosen.max()}'}."
            )
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

    def keep_records(self, rows: Sequence[int] | NDArray[np.int64]) -> "Users":
        """Return the users with these of their records, given in their order; who has none left is left out."""
        chosen = np.asarray(rows, dtype=np.int64)
        present, owners = np.unique(self.owners[chosen], return_inverse=True)
        return Users(
            ids=tuple(self.ids[i] for i in present),
            owners=owners,
            texts=None if self.texts is None else tuple(self.texts[i] for i in chosen),
            labels=None if self.labels is None else tuple(self.labels[i] for i in chosen),
            vectors=None if self.vectors is None else self.vectors[chosen],
        )

    def first_records(self, most: int) -> "Users":
        """Return the users with at most so many of their first records."""
        if not len(self) or int(self.counts.max()) <= most:
            return self
        starts = np.searchsorted(self.owners, np.arange(len(self)))
        return self.keep_records(np.flatnonzero(np.arange(len(self.owners)) - starts[self.owners] < most))

    def with_vectors(self, vectors: ArrayLike) -> "Users":
        """Return the same users with these record vectors."""
        return replace(self, vectors=np.asarray(vectors, dtype=np.float32))

    def require_vectors(self) -> NDArray[np.float32]:
        """Return the record vectors, or say that the records were never encoded."""
        if self.vectors is None:
            raise InputError("These users have no vectors; encode their texts first and add them by with_vectors().")
        return self.vectors

    def require_texts(self) -> tuple[str, ...]:
        """Return the texts, or say that these users came without any."""
        if self.texts is None:
            raise InputError("These users have no texts; admit them from a file that holds their texts.")
        return self.texts


def combined_digest(digests: NDArray[np.uint8], places: NDArray[np.int64] | None = None) -> str:
    """Return the sha256 of users whose own digests these are, or of those at some places, in their order."""
    order = np.arange(len(digests)) if places is None else places
    digest = hashlib.sha256(b"canarybank users 2" + len(order).to_bytes(8, "big"))
    for first in range(0, len(order), _HASHED_TOGETHER):
        digest.update(digests[order[first : first + _HASHED_TOGETHER]].tobytes())
    return digest.hexdigest()


def _checked_owners(owners: ArrayLike, ids: tuple[str, ...]) -> NDArray[np.int64]:
    given = np.asarray(owners)
    if not ids and given.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    if given.ndim != 1 or given.size == 0 or not np.issubdtype(given.dtype, np.integer):
        raise InputError(
            f"Owners must be a list of whole numbers, one for each record and at least one where there are users, "
            f"not an array of type {given.dtype} and shape {given.shape}."
        )
    if len(set(ids)) != len(ids):
        raise InputError("Two users have the same id; ids must be unique, so merge their records or rename one.")
    array = given.astype(np.int64, copy=True)
    if array.min() < 0 or array.max() >= len(ids):
        raise InputError(
            f"Owners must be indices into the {len(ids)} ids, but they run from {array.min()} to {array.max()}."
        )
    if (np.diff(array) < 0).any():
        raise InputError("Records must stand grouped by user, in the order of ids; sort them by owner first.")
    counts = np.bincount(array, minlength=len(ids))
    if (counts == 0).any():
        name = ids[int(np.argmin(counts))]
        raise InputError(f"User {name!r} has no records; drop users without records before building Users.")
    array.setflags(write=False)
    return array


def _checked_vectors(vectors: ArrayLike) -> NDArray[np.float32]:
    # A view, so that marking ours as read-only leaves the caller's own array writable.
    array = np.ascontiguousarray(vectors, dtype=np.float32).view()
    if array.ndim != 2:  # noqa: PLR2004, a table has two axes
        raise InputError(f"Record vectors must be a table (records, dimension), not an array of shape {array.shape}.")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise InputError(
            f"The vector of record {int(np.argmax(bad))} is NaN or infinite; fix the encoder or drop the record."
        )
    array.setflags(write=False)
    return array
