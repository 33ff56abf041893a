"""Read a bank exactly as it was published: every entry in its place, repeated and blank ones and probes included."""

from dataclasses import dataclass
from itertools import count
from pathlib import Path

from canarybank.errors import ConfigError, DataError, StoreError
from canarybank.evolution import FolderArchive
from canarybank.flow.bank import embedded_bank, read_entries
from canarybank.flow.generators import EMBEDDED
from canarybank.mechanism import Mechanism
from canarybank.run.folder import EVOLUTION
from canarybank.store import read_checked

__all__ = ["PublishedBank", "read_published"]


@dataclass(frozen=True, slots=True)
class PublishedBank:
    """The texts of a bank in the order in which clients see them, and what a reader should know of them.

    ``k`` is how many entries each record votes for, where the bank is that of a run.
    """

    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    k: int | None = None


def read_published(bank: str, round_number: int | None = None) -> PublishedBank:
    """Return a bank as clients see it, probes among the rest.

    Args:
        bank: A file of texts, the folder of an evolution, or ``embedded``.
        round_number: The round of an evolution whose bank is meant, from 1; left out, the first.
    """
    path = Path(bank)
    if bank != EMBEDDED and path.is_dir():
        return _read_round(path, round_number)
    if round_number is not None:
        raise ConfigError(f"Only the folder of an evolution has rounds, and {bank!r} is none; leave out --round.")
    if bank == EMBEDDED:
        return PublishedBank(embedded_bank().texts)
    if not path.exists():
        raise DataError(
            f"There is no bank {bank!r}; name a file of texts, such as `canarybank bank` writes, the folder of an "
            "evolution, or embedded for the bank that is built in."
        )
    texts = read_entries(path)
    return PublishedBank(texts, _note_repeats(texts))


def _note_repeats(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note where a file holds repeated or blank entries: a run would use another bank than the file."""
    filled = [text for text in texts if text.strip()]
    repeated, blank = len(filled) - len(set(filled)), len(texts) - len(filled)
    if not repeated + blank:
        return ()
    note = (
        f"Of {len(texts):,} entries {repeated:,} repeat an earlier one and {blank:,} are blank. All count here, each "
        "at its place. A run that reads this file skips them, so its bank has another root."
    )
    return (note,)


def _read_round(folder: Path, round_number: int | None) -> PublishedBank:
    """Return the bank of a round that has a release: what a run keeps after its last release nobody voted on."""
    place = folder / EVOLUTION if (folder / EVOLUTION).is_dir() else folder
    if not (place / "run.json").exists():
        raise DataError(
            f"The folder {str(folder)!r} holds no evolution; name the folder of one, a file of texts, or embedded."
        )
    declared = read_checked(place / "run.json", or_unmarked=True)
    try:
        archive, k = FolderArchive(place, declared["insecure_seed"]), Mechanism(**declared["mechanism"]).k
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"run.json in {str(place)!r} declares no run ({error!r}); restore it.") from error
    voted = next(number for number in count() if archive.release(number) is None)
    if not voted:
        raise DataError(
            f"Nobody has voted in {str(folder)!r} yet: it has no release. Run the same command to resume it."
        )
    number = 1 if round_number is None else round_number
    if not 1 <= number <= voted:
        raise DataError(
            f"{str(folder)!r} has no round {number} with a release; rounds count from 1, and the last one is {voted}."
        )
    published = archive.bank(number - 1)
    if published is None or published.bank.texts is None:
        raise StoreError(f"The bank of round {number} in {str(folder)!r} is not there; restore its files.")
    return PublishedBank(published.bank.texts, (f"The bank of round {number}, as voters saw it.",), k)
