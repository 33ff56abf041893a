"""Hold the ids of many users in few bytes."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Names"]


@dataclass(frozen=True, slots=True, eq=False)
class Names(Sequence[str]):
    """Texts in order, as one block of UTF-8: 8 bytes each and their letters, where a ``str`` takes about 60 more."""

    block: bytes
    ends: NDArray[np.int64]
    """Where each text ends in the block; the next one begins there."""

    @classmethod
    def of(cls, names: Iterable[str]) -> "Names":
        """Return these texts, taken one by one.

        Args:
            names: The texts.

        Example:
            >>> names = Names.of(["ann", "", "Zoë"])
            >>> len(names), names[2], names[:2], "ann" in names
            (3, 'Zoë', ('ann', ''), True)
        """
        block, ends = bytearray(), array("q")
        for name in names:
            block += name.encode()
            ends.append(len(block))
        return cls(bytes(block), np.array(ends, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(*place.indices(len(self))))
        number = range(len(self))[place]
        return self.block[self.ends[number - 1] if number else 0 : self.ends[number]].decode()

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self.ends:
            yield self.block[start:end].decode()
            start = end
