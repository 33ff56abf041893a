"""State a bank's root, and prove or check one of its entries."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from canarybank.cli.output import Output, facts, paragraph
from canarybank.cli.rounds import RoundNumber
from canarybank.cli.whole_numbers import whole_number
from canarybank.errors import ConfigError

__all__ = ["command"]

FAILED = 1


def command(
    bank: Annotated[
        str | None, Parameter(help="A file of texts, the folder of an evolution, or embedded.", metavar="BANK")
    ] = None,
    /,
    *,
    entry: Annotated[
        int | None, Parameter(converter=whole_number, help="Prove the entry at this position, from 0.", metavar="N")
    ] = None,
    round_number: RoundNumber = None,
    check: Annotated[Path | None, Parameter(help="Check the proof in this file.", metavar="PROOF")] = None,
    root: Annotated[str | None, Parameter(help="The root to check it against.", metavar="SHA256")] = None,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """State the root of a bank, which a server publishes before anybody votes; prove or check one entry.

    A client compares the root of the bank that it was sent with the published one. With --entry and --json the proof of
    one entry is printed, with its text. --check and --root say whether such a proof holds, for the text in it or for
    that of your own copy of the bank; it exits with 1 when it does not.
    """
    from canarybank.flow.prove import check_proof, prove_bank

    if (check is None) != (root is None):
        raise ConfigError("A proof is checked against a published root: give both --check and --root.")
    if check is not None and entry is not None:
        raise ConfigError("A proof names its own entry; leave out --entry beside --check.")
    if check is not None and root is not None:
        found = check_proof(check, root, bank, round_number)
        said = f"The proof {'holds' if found.holds else 'does NOT hold'}: entry {found.position} of {found.size:,}"
        document: dict[str, Any] = {
            "holds": found.holds,
            "root": found.root,
            "position": found.position,
            "size": found.size,
            "text": found.text,
        }
        output.result("prove", document, paragraph(said, "bold"), facts({"root": found.root, "text": found.text}))
        return 0 if found.holds else FAILED
    if bank is None:
        raise ConfigError("Name a bank: a file of texts, the folder of an evolution, or embedded.")
    made = prove_bank(bank, entry, round_number)
    lines: dict[str, object] = {"root": made.root}
    if made.proof is not None:
        lines |= {"entry": made.proof.position, "text": made.text, "proof": " ".join(made.proof.path) or "empty"}
    if made.notes:
        lines["notes"] = " ".join(made.notes)
    output.result("prove", made.to_json(), paragraph(f"{bank}: {made.size:,} entries", "bold"), facts(lines))
    return 0
