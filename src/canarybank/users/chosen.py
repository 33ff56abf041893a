"""Choose at most m records of a user by seed, whatever the order in which they come."""

import hashlib
from collections.abc import Iterator
from heapq import heappush, heapreplace
from itertools import islice

__all__ = ["Chosen", "rank"]

Record = tuple[str, str | None]


def rank(seed: int, user: str, text: str, label: str | None) -> int:
    """Return the place of a record among all, uniform over 128 bits; it follows from these values alone."""
    content = f"{seed}\0{user}\0{label or ''}\0{text}".encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:16], "big")


class Chosen:
    """The records of one user, of which at most ``cap`` are kept.

    Records that differ come first, in the order of their rank; copies of a record come only after every
    record that differs. So each set of ``cap`` differing records is equally likely over seeds, the choice
    depends on no order, and no more than ``cap`` texts are ever held: a record that once ranks behind
    ``cap`` others always will.
    """

    __slots__ = ("_cap", "_copies", "_records", "_worst", "seen")

    def __init__(self, cap: int) -> None:
        self.seen = 0
        self._cap = cap
        self._records: dict[int, Record] = {}
        self._copies: dict[int, int] = {}
        self._worst: list[int] = []

    def add(self, place: int, text: str, label: str | None = None) -> None:
        """Offer one record with its rank."""
        self.seen += 1
        key = -place  # heapq keeps the smallest in front, and the worst has the largest rank
        if key in self._records:
            self._copies[key] = self._copies.get(key, 1) + 1
        elif len(self._worst) < self._cap:
            heappush(self._worst, key)
            self._records[key] = (text, label)
        elif key > self._worst[0]:
            dropped = heapreplace(self._worst, key)
            del self._records[dropped]
            self._copies.pop(dropped, None)
            self._records[key] = (text, label)

    def records(self) -> list[Record]:
        """Return the records that are kept, in an order that depends on ranks alone."""
        return list(islice(self._in_order(), self._cap))

    def _in_order(self) -> Iterator[Record]:
        left = {key: self._copies.get(key, 1) for key in sorted(self._records, reverse=True)}
        while left:
            yield from (self._records[key] for key in left)
            left = {key: count - 1 for key, count in left.items() if count > 1}
