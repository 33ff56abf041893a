"""Prove that one text stands at one position of a published bank, and check such a proof.

The server publishes a bank's root before anybody votes. A client compares the root of the bank that it was sent with
the published one; whoever has a single entry asks for its proof.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canarybank.errors import InputError
from canarybank.flow.published import read_published
from canarybank.mechanism.merkle import Proof, bank_root, prove
from canarybank.store import file_errors, parse_json, require_file

__all__ = ["CheckedProof", "ProvenBank", "check_proof", "prove_bank"]


@dataclass(frozen=True, slots=True)
class ProvenBank:
    """A bank's root, and the proof of one entry with its text where one was asked for."""

    root: str
    size: int
    proof: Proof | None = None
    text: str | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values: with a proof, all that somebody else needs to check the entry."""
        proof = {} if self.proof is None else {**self.proof.to_json(), "text": self.text}
        return {"root": self.root, "size": self.size, **proof, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class CheckedProof:
    """What a check found: whether this text stands at this position of the bank with this root."""

    holds: bool
    root: str
    position: int
    size: int
    text: str


def prove_bank(bank: str, entry: int | None = None, round_number: int | None = None) -> ProvenBank:
    """Return the root of a bank, and the proof of one entry where one is asked for.

    The formulas: the tree hash and audit path of RFC 6962, https://www.rfc-editor.org/rfc/rfc6962#section-2.1.

    Args:
        bank: A file of texts, the folder of an evolution, or ``embedded``.
        entry: The position to prove, from 0.
        round_number: The round of an evolution whose bank is meant, from 1; left out, the first.

    Example:
        >>> proven = prove_bank("bank.txt", entry=3)
        >>> proven.size, len(proven.proof.path), proven.proof.holds(proven.root, proven.text)
        (60, 6, True)
    """
    published = read_published(bank, round_number)
    texts, root = published.texts, bank_root(published.texts)
    if entry is None:
        return ProvenBank(root, len(texts), notes=published.notes)
    return ProvenBank(root, len(texts), prove(texts, entry), texts[entry], published.notes)


def check_proof(path: Path, root: str, bank: str | None = None, round_number: int | None = None) -> CheckedProof:
    """Check a proof against a published root, for the text in it or for that of one's own copy of the bank.

    The formula: the audit path of RFC 6962, https://www.rfc-editor.org/rfc/rfc6962#section-2.1.1.

    Args:
        path: The file with the proof, as ``canarybank prove BANK --entry N --json`` prints it.
        root: The root that was published before the vote.
        bank: One's own copy of the bank; left out, the text in the file is checked.
        round_number: The round, where that copy is the folder of an evolution.

    Example:
        >>> from canarybank.store import write_json
        >>> proven, file = prove_bank("bank.txt", entry=3), Path("entry-3.json")
        >>> write_json(file, proven.to_json())
        >>> check_proof(file, proven.root, "bank.txt").holds, check_proof(file, root="0" * 64).holds
        (True, False)
    """
    if not re.fullmatch("[0-9a-fA-F]{64}", root):
        raise InputError(f"A root is a SHA-256 hash of 64 hexadecimal digits, not {root!r}; give the one published.")
    require_file(path, "proof")
    with file_errors(path, "read"):
        document = parse_json(path.read_bytes(), path, given=True)
    if not isinstance(document, dict):
        raise InputError(f"{str(path)!r} holds no proof; make one by `canarybank prove BANK --entry N --json`.")
    proof = Proof.of_json(document)
    if bank is None:
        text = document.get("text")
        if not isinstance(text, str):
            raise InputError(f"The proof in {str(path)!r} names no text; give the bank that you were sent beside it.")
    else:
        texts = read_published(bank, round_number).texts
        if len(texts) != proof.size:
            raise InputError(
                f"The proof is of a bank of {proof.size:,} entries, and {bank!r} has {len(texts):,}: it is of another "
                "bank. Check that you were sent the whole bank, and that the proof is of this one."
            )
        text = texts[proof.position]
    return CheckedProof(proof.holds(root, text), root, proof.position, proof.size, text)
