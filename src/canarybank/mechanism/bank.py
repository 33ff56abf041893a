"""Hold the bank: the ordered, shared list of candidates, and the positions reserved in it for probes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.vectors import check_vectors
from canarybank.seeds import stream
from canarybank.store import hash_array, hash_json

__all__ = ["Bank"]


@dataclass(frozen=True, eq=False)
class Bank:
    """The ordered, shared list of candidates, committed to by its content hash.

    ``vectors`` (size, dimension) are kept as read-only float32; ``texts`` are optional. ``reserved`` are the
    positions set aside for probes, in the order in which probes fill them. ``barred`` are the positions that nobody
    votes for, ascending: what vetting found before the vote. They stay in the bank, and a release holds noise alone
    there. A bank never changes: reserving or barring positions or planting probes gives a new one. Two banks are equal
    when their hashes are.
    """

    vectors: NDArray[np.float32]
    texts: tuple[str, ...] | None = None
    reserved: tuple[int, ...] = ()
    barred: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        vectors = _float32(self.vectors, "bank entry")
        if vectors.flags.writeable and np.may_share_memory(vectors, self.vectors):
            vectors = vectors.copy()
        vectors.setflags(write=False)
        object.__setattr__(self, "vectors", vectors)
        if self.texts is not None:
            object.__setattr__(self, "texts", _texts(self.texts, len(vectors), "bank entries"))
        object.__setattr__(self, "reserved", _positions(self.reserved, len(vectors), "reserved"))
        object.__setattr__(self, "barred", tuple(sorted(_positions(self.barred, len(vectors), "barred"))))

    def __len__(self) -> int:
        return len(self.vectors)

    def __eq__(self, other: object) -> bool:
        return self.hash == other.hash if isinstance(other, Bank) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        shape = f"{self.size} entries, dimension {self.dimension}, {len(self.reserved)} reserved"
        shape += f", {len(self.barred)} barred" if self.barred else ""
        return f"Bank({shape}, hash {self.hash[:12]})"

    @property
    def size(self) -> int:
        """Return p, the number of entries."""
        return len(self.vectors)

    @property
    def dimension(self) -> int:
        """Return the dimension of the entries' vectors."""
        return int(self.vectors.shape[1])

    @cached_property
    def base(self) -> NDArray[np.int64]:
        """Return the positions that are not reserved, ascending."""
        return _all_but(self.reserved, self.size)

    @cached_property
    def open(self) -> NDArray[np.int64]:
        """Return the positions that records may vote for, ascending: all that are not barred."""
        return _all_but(self.barred, self.size)

    @cached_property
    def open_base(self) -> NDArray[np.int64]:
        """Return the positions that are neither reserved nor barred, ascending."""
        return _all_but((*self.reserved, *self.barred), self.size)

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of vectors, texts, reserved and barred positions: what the server commits to.

        Barred positions enter it only where there are some.
        """
        digest = hashlib.sha256(b"canarybank bank 1")
        digest.update(np.asarray(self.vectors.shape, dtype="<i8").tobytes())
        digest.update(self.vectors.astype("<f4", copy=False).data)
        digest.update(np.asarray([len(self.reserved), *self.reserved], dtype="<i8").tobytes())
        for text in self.texts or ():
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        if self.barred:
            digest.update(b"barred" + np.asarray([len(self.barred), *self.barred], dtype="<i8").tobytes())
        return digest.hexdigest()

    @cached_property
    def base_hash(self) -> str:
        """Return the content address of what a search of the base depends on."""
        barred = [self.barred] if self.barred else []
        return hash_json([hash_array(self.vectors[self.base]), self.size, sorted(self.reserved), *barred])

    def reserve(self, count: int, seed: int, within: int | None = None) -> "Bank":
        """Return the bank with ``count`` positions reserved for probes, drawn by seed, in the order drawn.

        They are among the first ``within`` positions: of an evolution, those that its smallest bank has.
        """
        if not 0 <= count < self.size:
            raise InputError(
                f"{count} positions cannot be reserved in a bank of {self.size}; at least one entry must stay free."
            )
        drawn = stream(seed, "mechanism", "reserved").permutation(self.size)
        found = drawn[drawn < (self.size if within is None else within)][:count]
        if len(found) < count:
            raise InputError(f"{count} positions cannot be reserved among the first {within}; plant fewer probes.")
        return replace(self, reserved=tuple(int(position) for position in found))

    def bar(self, positions: Sequence[int] | NDArray[np.int64]) -> "Bank":
        """Return the bank in which nobody votes for these positions, nor for those barred before."""
        return replace(self, barred=tuple({*self.barred, *(int(position) for position in positions)}))

    def with_probes(self, vectors: ArrayLike, texts: Sequence[str] | None = None) -> "Bank":
        """Return the bank with the t-th probe at the t-th reserved position; the rest stays as it was."""
        probes = _float32(vectors, "probe")
        if len(probes) > len(self.reserved):
            raise InputError(
                f"{len(probes)} probes were given for {len(self.reserved)} reserved positions; "
                "reserve more or plant fewer."
            )
        if probes.shape[1] != self.dimension:
            raise InputError(
                f"Probes have dimension {probes.shape[1]} but the bank has {self.dimension}; "
                "encode both with one encoder."
            )
        if (texts is None) != (self.texts is None):
            raise InputError("Probes need texts exactly where the bank has them: give both or neither.")
        places = list(self.reserved[: len(probes)])
        filled = self.vectors.copy()
        filled[places] = probes
        filled.setflags(write=False)
        return replace(self, vectors=filled, texts=self._texts_with(places, texts))

    def _texts_with(self, places: list[int], texts: Sequence[str] | None) -> tuple[str, ...] | None:
        if texts is None or self.texts is None:
            return None
        written = list(self.texts)
        for place, text in zip(places, _texts(texts, len(places), "probes"), strict=True):
            written[place] = text
        return tuple(written)


def _float32(values: ArrayLike, what: str) -> NDArray[np.float32]:
    table = check_vectors(values, what)
    if table.dtype == np.float64 and np.abs(table).max() > np.finfo(np.float32).max:
        raise InputError(
            f"A {what} vector holds {np.abs(table).max():.3g}, which float32 cannot; scale records and bank alike."
        )
    return table.astype(np.float32, copy=False)


def _texts(texts: Sequence[str], count: int, what: str) -> tuple[str, ...]:
    if isinstance(texts, str) or len(texts) != count:
        raise InputError(f"There must be one text for each of the {count} {what}, not {len(texts)}.")
    return tuple(texts)


def _all_but(positions: tuple[int, ...], size: int) -> NDArray[np.int64]:
    free = np.ones(size, dtype=bool)
    free[list(positions)] = False
    others = np.flatnonzero(free).astype(np.int64)
    others.setflags(write=False)
    return others


def _positions(given: Sequence[int], size: int, what: str) -> tuple[int, ...]:
    positions = tuple(int(position) for position in given)
    for position in positions:
        if not 0 <= position < size:
            raise InputError(f"The {what} position {position} is outside the bank of {size} entries.")
    if len(set(positions)) != len(positions):
        twice = next(position for position in positions if positions.count(position) > 1)
        raise InputError(f"The position {twice} is {what} twice; name every position once.")
    if len(positions) >= size:
        raise InputError(f"All {size} positions are {what}; at least one entry of the bank must stay free.")
    return positions
