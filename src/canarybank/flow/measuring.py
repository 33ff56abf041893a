"""Measure texts against the records of real users: files of texts from anywhere, or the populations of an evolution."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from canarybank.config.model import Config
from canarybank.errors import ConfigError, DataError
from canarybank.evolution import NOT_PRIVATE, Evolution
from canarybank.flow.bank import embedded_bank, read_entries, read_labels
from canarybank.flow.generators import EMBEDDED
from canarybank.flow.inputs import admit_users, cached_encoder
from canarybank.measure import NEIGHBOURS, Compared, Mauve, TextSet, compare_texts
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import EVOLUTION
from canarybank.store import StageCache
from canarybank.users import Admission

__all__ = ["MeasuredTexts", "measure_texts"]

NO_MAUVE = "MAUVE is left out: mauve-text is not installed. Run: pip install 'canarybank[mauve]'"

NO_LABELS = (
    "The texts have labels and the users have none, so there are no label figures. Name the users' column by --label."
)
FEW_LABELS = (
    "The texts have labels, but the two halves of the users share fewer than 2, so there are no label figures. Give "
    "more users."
)


@dataclass(frozen=True, slots=True)
class MeasuredTexts:
    """What sets of texts are worth, and what they were measured with."""

    names: tuple[str, ...]
    """What each set is called, in the order of the figures."""
    sizes: tuple[int, ...]
    """How many texts each has, before all were cut to one size."""
    compared: Compared
    encoder: str
    users: str
    """Where the real users come from."""
    notes: tuple[str, ...] = ()
    statement: str = NOT_PRIVATE

    def document(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Named:
    """Texts that were read, with a name."""

    name: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None


def measure_texts(
    texts: Sequence[str],
    config: Config,
    *,
    column: str = "text",
    rounds: Literal["last", "all"] = "last",
    neighbours: int = NEIGHBOURS,
    buckets: int | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> MeasuredTexts:
    """Measure texts against the records of the users that a configuration names.

    Args:
        texts: Files of texts, a column ``label`` beside them where they have labels, folders of evolutions, or the word
            embedded for the bank that is built in.
        config: Its ``users`` and ``encoder`` say what real text is and how texts become vectors.
        column: The column that holds the texts of a file.
        rounds: Of an evolution's folder: the last population, or all of them.
        neighbours: Which nearest neighbour the balls reach to.
        buckets: The clusters of MAUVE; left out, one for 20 texts of a set.
        seed: Decides the halves of the users, and which texts are left out of larger sets.
        progress: Is told of what is done.

    Example:
        >>> from canarybank.config import resolve_users
        >>> config = resolve_users("my-users.csv", {"encoder.name": "hashing"}).config
        >>> found = measure_texts(["bank.txt"], config)
        >>> found.sizes, found.compared.users, 0 <= found.compared.sets[0].recall <= 1
        ((60,), 24, True)
    """
    if not texts:
        raise ConfigError("Name at least one file of texts, or the folder of an evolution.")
    named, notes = _renamed([each for given in texts for each in _read(given, column, rounds)]), []
    users = config.users
    if users.cap is None and users.source != "chitchat":
        users = users.model_copy(update={"cap": Admission().cap})
    people = admit_users(users, config.cohorts, StageCache(), progress).users
    encoder = cached_encoder(config.encoder, progress)
    real = people.with_vectors(encoder.encode(people.require_texts()))
    filled = [_without_blanks(each) for each in named]
    if blank := sum(len(each.texts) for each in named) - sum(len(each.texts) for each in filled):
        notes.append(f"{blank:,} blank texts are left out.")
    mauve = None if find_spec("mauve") is None else Mauve(buckets=buckets)
    notes += [] if mauve else [NO_MAUVE]
    compared = compare_texts(
        [TextSet(encoder.encode(each.texts), each.texts, each.labels) for each in filled],
        real,
        mauve=mauve,
        neighbours=neighbours,
        seed=seed,
        progress=progress,
    )
    if any(each.labels for each in filled) and not compared.labels:
        notes.append(FEW_LABELS if real.labels else NO_LABELS)
    return MeasuredTexts(
        names=tuple(each.name for each in filled),
        sizes=tuple(len(each.texts) for each in filled),
        compared=compared,
        encoder=encoder.name,
        users=config.users.source,
        notes=tuple(notes),
    )


def _read(given: str, column: str, rounds: Literal["last", "all"]) -> list[_Named]:
    """Return the texts of a file or of the embedded bank, or the populations of an evolution, the first one first."""
    path = Path(given)
    if given == EMBEDDED:
        bank = embedded_bank()
        return [_Named("embedded bank", bank.texts, bank.labels)]
    if not path.exists():
        raise DataError(f"There is no file or folder {given!r}; check the path.")
    if not path.is_dir():
        return [_Named(path.name, read_entries(path, column), read_labels(path, column))]
    place = path / EVOLUTION if (path / EVOLUTION).is_dir() else path
    if not (place / "run.json").exists():
        raise DataError(f"The folder {given!r} holds no evolution; name the folder of one, or a file of texts.")
    evolution = Evolution.load(place)
    populations = [*(each.population for each in evolution.rounds), evolution.population]
    names = ["first population", *(f"after round {number}" for number in range(1, len(populations)))]
    found = [
        _Named(f"{path.resolve().name}, {name}", each.texts, each.labels if any(each.labels) else None)
        for name, each in zip(names, populations, strict=True)
    ]
    return found if rounds == "all" else found[-1:]


def _renamed(named: list[_Named]) -> list[_Named]:
    """Return the sets with a number after a name that comes again."""
    seen: dict[str, int] = {}
    found = []
    for each in named:
        seen[each.name] = count = seen.get(each.name, 0) + 1
        found.append(each if count == 1 else _Named(f"{each.name} ({count})", each.texts, each.labels))
    return found


def _without_blanks(given: _Named) -> _Named:
    rows = [i for i, text in enumerate(given.texts) if text.strip()]
    labels = None if given.labels is None else tuple(given.labels[i] for i in rows)
    return _Named(given.name, tuple(given.texts[i] for i in rows), labels)
