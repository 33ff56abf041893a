"""Commit to a bank's texts so that one entry can be checked without the others.

The server publishes one root before anybody votes. A client that votes on some entries, or somebody who was shown one
text, asks for a proof of a few hashes and checks that this very text stands at this very position of the bank that
everybody votes on. That catches a server that shows different banks to different clients. It does not make the bank
good: a bank full of probes has a root too.

The tree is that of RFC 6962, section 2.1, over SHA-256: a leaf is H(0x00 | text), a node H(0x01 | left | right), the
left part of n leaves the largest power of two below n. The root that is published is H(0x02 | n | top) with n in eight
bytes, most significant first: so a proof cannot lie about the bank's size, from which position and size fix how long a
proof is and on which side each of its hashes stands. Texts are encoded as UTF-8.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from canarybank.errors import InputError

__all__ = ["Proof", "bank_root", "prove"]

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Proof:
    """The hashes that lead from one entry of a bank to its root, nearest to the entry first.

    It holds no text: whoever checks it brings the text that they were shown.
    """

    position: int
    """The position of the entry, from 0."""
    size: int
    """How many entries the bank has."""
    path: tuple[str, ...]
    """The hash of each neighbour on the way up, in hexadecimal."""

    def __post_init__(self) -> None:
        for name in ("position", "size"):
            if type(getattr(self, name)) is not int:
                raise InputError(f"The {name} of a proof must be a whole number, not {getattr(self, name)!r}.")
        if not 0 <= self.position < self.size < 2**63:
            raise InputError(
                f"A proof of entry {self.position} in a bank of {self.size} entries cannot be; positions run from 0 to "
                "the size less one."
            )
        path = tuple(self.path)
        if wrong := [each for each in path if not isinstance(each, str) or not _DIGEST.fullmatch(each)]:
            raise InputError(f"A proof is made of SHA-256 hashes of 64 hexadecimal digits, not {wrong[0]!r}.")
        object.__setattr__(self, "path", path)

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> "Proof":
        """Return the proof that a document holds, as ``to_json`` writes it; further keys are ignored."""
        try:
            return cls(document["position"], document["size"], tuple(document["path"]))
        except (KeyError, TypeError) as error:
            raise InputError(
                f"This document is no proof: it needs a position, a size and a path of hashes ({error!r})."
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return the proof as plain values."""
        return asdict(self) | {"path": list(self.path)}

    def holds(self, root: str, text: str) -> bool:
        """Say whether this text stands at this position of the bank of this size that has this root."""
        above = _sides(self.position, self.size)
        if len(above) != len(self.path):
            return False
        found = _leaf(text)
        for is_left, other in zip(above, self.path, strict=True):
            neighbour = bytes.fromhex(other)
            found = _node(neighbour, found) if is_left else _node(found, neighbour)
        return _sealed(found, self.size) == root.lower()


def bank_root(texts: Sequence[str]) -> str:
    """Return the root of a bank's texts in their order, in hexadecimal: what a server publishes before the vote.

    The formula: the Merkle tree hash of RFC 6962, section 2.1, https://www.rfc-editor.org/rfc/rfc6962#section-2.1.

    Args:
        texts: The bank's texts; their order matters.

    Example:
        >>> bank_root(["good day", "hello"]) == bank_root(["hello", "good day"])
        False
    """
    leaves = _leaves(texts)
    return _sealed(_top(leaves), len(leaves))


def prove(texts: Sequence[str], position: int) -> Proof:
    """Return the proof that a bank's text stands at a position.

    The formula: the audit path of RFC 6962, section 2.1.1, https://www.rfc-editor.org/rfc/rfc6962#section-2.1.1.

    Args:
        texts: The bank's texts, in their order.
        position: The position of the text that is proven.

    Example:
        >>> bank = ["good day", "hello", "see you"]
        >>> proof = prove(bank, 1)
        >>> proof.holds(bank_root(bank), "hello"), proof.holds(bank_root(bank), "hallo")
        (True, False)
    """
    leaves = _leaves(texts)
    if not 0 <= position < len(leaves):
        raise InputError(f"There is no entry {position} in a bank of {len(leaves)}; positions run from 0.")
    path, start, stop = list[str](), 0, len(leaves)
    while stop - start > 1:
        middle = start + _left_part(stop - start)
        path.append(_top(leaves[middle:stop] if position < middle else leaves[start:middle]).hex())
        start, stop = (start, middle) if position < middle else (middle, stop)
    return Proof(position, len(leaves), tuple(reversed(path)))


def _sides(position: int, size: int) -> list[bool]:
    """Say of each neighbour on the way up from a position whether it stands on the left."""
    sides, start, stop = list[bool](), 0, size
    while stop - start > 1:
        middle = start + _left_part(stop - start)
        sides.append(position >= middle)
        start, stop = (start, middle) if position < middle else (middle, stop)
    return sides[::-1]


def _left_part(count: int) -> int:
    """Return the largest power of two below a count of at least 2."""
    return 1 << ((count - 1).bit_length() - 1)


def _top(hashes: Sequence[bytes]) -> bytes:
    """Return the hash above these leaves.

    Joining neighbours level by level, an odd one going up as it is, gives the tree that splits at powers of two.
    """
    level = list(hashes)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [_node(left, right) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]


def _leaves(texts: Sequence[str]) -> list[bytes]:
    if isinstance(texts, str) or not texts:
        raise InputError("A bank has at least one text; give a list of them.")
    return [_leaf(text) for text in texts]


def _leaf(text: str) -> bytes:
    return hashlib.sha256(b"\x00" + text.encode("utf-8", "surrogatepass")).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _sealed(top: bytes, size: int) -> str:
    return hashlib.sha256(b"\x02" + size.to_bytes(8, "big") + top).hexdigest()
