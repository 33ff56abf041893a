"""The tree of a bank's texts against a twin that follows RFC 6962 word by word, and against every kind of tampering."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from canarybank.errors import InputError
from canarybank.mechanism import Proof, bank_root, prove

SIZES = range(1, 41)


def texts(size: int) -> list[str]:
    return [f"entry {i}" for i in range(size)]


def naive_top(data: list[bytes]) -> bytes:
    """Hash as the standard defines it, by recursion over the largest power of two below the length."""
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = 1
    while 2 * k < len(data):
        k *= 2
    return hashlib.sha256(b"\x01" + naive_top(data[:k]) + naive_top(data[k:])).digest()


@pytest.mark.parametrize("size", SIZES)
def test_the_root_is_that_of_the_standard_bound_to_the_size(size: int) -> None:
    data = [text.encode() for text in texts(size)]
    expected = hashlib.sha256(b"\x02" + size.to_bytes(8, "big") + naive_top(data)).hexdigest()
    assert bank_root(texts(size)) == expected


def test_the_tree_is_the_published_one() -> None:
    # The leaf hash of the empty string and the tree of two known leaves, by the standard's definition alone.
    empty = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    sealed = hashlib.sha256(b"\x02" + (1).to_bytes(8, "big") + bytes.fromhex(empty)).hexdigest()
    assert bank_root([""]) == sealed


@pytest.mark.parametrize("size", SIZES)
def test_every_entry_has_a_proof_and_no_tampered_one_holds(size: int) -> None:
    bank = texts(size)
    root = bank_root(bank)
    others = [bank_root([*bank[:i], "another", *bank[i + 1 :]]) for i in range(size)]
    for position, text in enumerate(bank):
        proof = prove(bank, position)
        assert proof.holds(root, text)
        assert proof.holds(root.upper(), text)
        assert not any(proof.holds(other, text) for other in others)
        assert not proof.holds(root, text + " ")
        assert not proof.holds(root, "")
        for at in range(size):  # no other entry's text, and no other position, goes by this proof
            if at != position:
                assert not proof.holds(root, bank[at])
                assert not replace(proof, position=at).holds(root, text)
        for claimed in range(position + 1, 2 * size + 2):  # nor a bank of another size
            if claimed != size:
                assert not replace(proof, size=claimed).holds(root, text)
        for step, digest in enumerate(proof.path):  # nor a path that was changed, shortened, lengthened or reordered
            flipped = f"{int(digest[0], 16) ^ 1:x}{digest[1:]}"
            assert not replace(proof, path=(*proof.path[:step], flipped, *proof.path[step + 1 :])).holds(root, text)
            assert not replace(proof, path=(*proof.path[:step], *proof.path[step + 1 :])).holds(root, text)
            if step:
                swapped = [*proof.path]
                swapped[step - 1 : step + 1] = swapped[step - 1 : step + 1][::-1]
                assert not replace(proof, path=tuple(swapped)).holds(root, text)
        assert not replace(proof, path=(*proof.path, "0" * 64)).holds(root, text)


def test_roots_depend_on_every_text_their_order_and_their_number() -> None:
    bank = texts(9)
    variants = [bank, bank[::-1], bank[:8], [*bank, "x"], *([*bank[:i], "x", *bank[i + 1 :]] for i in range(9))]
    # An odd entry goes up as it is: a bank that repeats it must have another root.
    variants += [[*bank, bank[-1]], texts(3), [*texts(3), texts(3)[-1]]]
    assert len({bank_root(each) for each in variants}) == len(variants)


def test_a_proof_is_a_small_document() -> None:
    bank = texts(2048)
    proof = prove(bank, 1500)
    assert len(proof.path) == 11
    assert Proof.of_json(json.loads(json.dumps(proof.to_json()))) == proof
    assert Proof.of_json(proof.to_json() | {"note": "ignored"}) == proof


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"position": 4}, "entry 4 in a bank of 4"),
        ({"position": -1}, "entry -1"),
        ({"position": 1.0}, "position of a proof must be a whole number"),
        ({"size": True}, "size of a proof must be a whole number"),
        ({"path": ("xyz",)}, "64 hexadecimal digits, not 'xyz'"),
        ({"path": ("A" * 64,)}, "64 hexadecimal digits"),
    ],
)
def test_refuses_what_is_no_proof(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(prove(texts(4), 1), **change)


@pytest.mark.parametrize("document", [{}, {"position": 1, "size": 4}, {"position": 1, "size": 4, "path": 3}])
def test_refuses_a_document_without_a_proof(document: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no proof"):
        Proof.of_json(document)


def test_refuses_entries_that_are_not_there() -> None:
    with pytest.raises(InputError, match="no entry 4 in a bank of 4"):
        prove(texts(4), 4)
    for nothing in ([], "text"):
        with pytest.raises(InputError, match="at least one text"):
            bank_root(nothing)
