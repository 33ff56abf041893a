"""Hold the evolving population, the bank that it makes, and where a run keeps both: in a folder, or in memory.

Candidates have a lineage and a vector. The auditor's probes stand beside the population, at the same positions of every
round's bank.

The folder of a run::

    run.json                 what was declared: parameters, fingerprints, the first bank's hash; never changed
    ledger.log               the list of releases and what they spend
    account.json             the id by which the budget account knows this run, where it has one
    responses.log            the generator's answers, so that nothing is asked twice
    rounds/000/bank.npy      the bank's vectors, probes included, in bank order
    rounds/000/bank.jsonl    the candidates with their lineage, in bank order, probes left out
    rounds/000/probes.jsonl  the probes' positions and texts, where there are any
    rounds/000/bank.json     the bank's hash, the root of its texts and its files' hashes: written last, so what it
                             names is whole
    rounds/000/background.npz  what everybody would contribute to the probes: only in a simulation with canaries
    rounds/000/coins.json    which of the auditor's canaries took part, where there are any: written before the release
    rounds/000/kept.json     who stayed, and their weights: only where the keeper is not the default one
    rounds/000/release.npy   the noisy histogram over that bank; release.insecure.npy of a run with an insecure seed
    rounds/006/              the bank after the last round, never released over
    population.*             the final population, as parquet, JSON lines and CSV
    evolution.json           the summary: written last of all

Nothing here is made of users' records but the releases, and the background, which only a simulation keeps: that is not
private anyway. Coins are those of canaries, who are nobody. A run that is killed before a release is durable draws it,
and its coins, again.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, load_npz, save_npz

from canarybank.encode import Encoder
from canarybank.errors import InputError, StoreError
from canarybank.evolution.keeping import Kept
from canarybank.mechanism import Bank, bank_root
from canarybank.store import (
    altered_files,
    canonical_json,
    file_errors,
    hash_file,
    inert_cell,
    parse_json,
    read_checked,
    sweep_temporaries,
    write_atomic,
    write_checked,
)

__all__ = [
    "Archive",
    "Candidate",
    "FolderArchive",
    "MemoryArchive",
    "Population",
    "Probes",
    "Published",
    "candidate_id",
    "encode_texts",
    "lay_out",
    "split",
    "write_candidates",
    "write_population",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One text of the population and its lineage.

    ``born`` is the number of the first round whose bank held it, 0 for the first population; ``parents`` are the ids
    of the candidates that its prompt showed; ``prompt`` names that prompt.
    """

    id: str
    text: str
    label: str = ""
    born: int = 0
    parents: tuple[str, ...] = ()
    prompt: str = ""


@dataclass(frozen=True, eq=False)
class Population:
    """Candidates in order, each with its vector; probes are never among them."""

    candidates: tuple[Candidate, ...]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        vectors = np.ascontiguousarray(self.vectors, dtype=np.float32).view()
        if not self.candidates:
            raise InputError("A population needs at least one candidate, and this one is empty.")
        if vectors.ndim != 2 or len(vectors) != len(self.candidates):  # noqa: PLR2004, a table has two axes
            raise InputError(
                f"{len(self.candidates)} candidates need a table of as many vectors, not one of shape {vectors.shape}."
            )
        if len(set(self.ids)) != len(self.ids):
            twice = next(name for name in self.ids if self.ids.count(name) > 1)
            raise InputError(f"Two candidates have the id {twice!r}; lineage needs every id to be unique.")
        vectors.setflags(write=False)
        object.__setattr__(self, "vectors", vectors)

    @classmethod
    def start(cls, texts: Sequence[str], vectors: ArrayLike, labels: Sequence[str] | None = None) -> "Population":
        """Return a first population of these texts, born in round 0 of no parents."""
        if isinstance(texts, str) or (labels is not None and len(labels) != len(texts)):
            raise InputError("Give a list of texts, and as many labels as texts or none at all.")
        pairs = enumerate(zip(texts, [""] * len(texts) if labels is None else labels, strict=True))
        candidates = tuple(Candidate(candidate_id(0, i), text, label) for i, (text, label) in pairs)
        return cls(candidates, np.asarray(vectors, dtype=np.float32))

    def __len__(self) -> int:
        return len(self.candidates)

    def __repr__(self) -> str:
        return f"Population({len(self)} candidates, born in rounds {sorted({c.born for c in self.candidates})})"

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the candidates' ids, in order."""
        return tuple(candidate.id for candidate in self.candidates)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the candidates' texts, in order."""
        return tuple(candidate.text for candidate in self.candidates)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the candidates' labels, in order."""
        return tuple(candidate.label for candidate in self.candidates)

    def followed_by(self, kept: Sequence[int], new: Iterable[Candidate], vectors: ArrayLike) -> "Population":
        """Return the next population: these kept candidates in this order, then the new ones with their vectors."""
        table = np.concatenate([self.vectors[list(kept)], np.asarray(vectors, dtype=np.float32)])
        return Population((*(self.candidates[i] for i in kept), *new), table)


@dataclass(frozen=True, eq=False)
class Probes:
    """Entries that the auditor plants: the t-th of them stands at ``positions[t]`` of every round's bank.

    They take votes like any entry, and never enter selection, feedback or the population.
    """

    positions: tuple[int, ...]
    vectors: NDArray[np.float32]
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", tuple(int(position) for position in self.positions))
        object.__setattr__(self, "vectors", np.asarray(self.vectors, dtype=np.float32))
        object.__setattr__(self, "texts", tuple(self.texts))
        counts = (len(self.positions), len(self.vectors), len(self.texts))
        if len(set(counts)) != 1:
            raise InputError(f"Probes need a position, a vector and a text each; there are {counts}.")

    def __len__(self) -> int:
        return len(self.positions)


def lay_out(population: Population, probes: Probes | None = None) -> Bank:
    """Return the bank of a population: probes at their positions, the candidates in order at the others.

    Args:
        population: The candidates.
        probes: What stands at reserved positions; left out, nothing.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Bank
        >>> bank = Bank(np.eye(4, dtype=np.float32), ("a", "b", "c", "d")).reserve(1, seed=0)
        >>> lay_out(*split(bank)).hash == bank.hash
        True
    """
    if probes is None:
        return Bank(population.vectors, population.texts)
    size = len(population) + len(probes)
    if max(probes.positions, default=0) >= size:
        raise InputError(
            f"A probe stands at position {max(probes.positions)}, but a bank of {len(population)} candidates and "
            f"{len(probes)} probes ends at {size - 1}; generate more candidates a round or reserve lower positions."
        )
    own, planted = population.vectors.shape[1], probes.vectors.shape[-1]
    if own != planted:
        raise InputError(f"Candidates have dimension {own} and probes {planted}; use one encoder.")
    order = np.argsort([*np.setdiff1d(np.arange(size), probes.positions), *probes.positions])
    vectors, texts = np.concatenate([population.vectors, probes.vectors]), (*population.texts, *probes.texts)
    return Bank(vectors[order], tuple(texts[i] for i in order), probes.positions)


def split(bank: Bank, labels: Sequence[str] | None = None) -> tuple[Population, Probes | None]:
    """Return a bank's candidates as a first population, and what stands at its reserved positions as probes.

    ``labels`` are those of the candidates alone, in bank order. ``lay_out`` of the two is the same bank.

    Args:
        bank: The bank.
        labels: The labels of the candidates alone, in bank order.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Bank
        >>> bank = Bank(np.eye(4, dtype=np.float32), ("a", "b", "c", "d")).reserve(1, seed=0)
        >>> population, probes = split(bank)
        >>> len(population), len(probes)
        (3, 1)
    """
    if bank.texts is None:
        raise InputError(
            "This bank has no texts, and evolution writes new texts from old ones; give the bank its texts."
        )
    population = Population.start([bank.texts[i] for i in bank.base], bank.vectors[bank.base], labels)
    if not bank.reserved:
        return population, None
    texts = tuple(bank.texts[place] for place in bank.reserved)
    return population, Probes(bank.reserved, bank.vectors[list(bank.reserved)], texts)


def candidate_id(round_number: int, index: int) -> str:
    """Return the id of the index-th candidate born in a round."""
    return f"r{round_number}-{index:05d}"


def encode_texts(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Encode texts and check that one vector of the encoder's dimension came back for each."""
    vectors = np.asarray(encoder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), encoder.dimension):
        raise InputError(
            f"The encoder {encoder.name!r} gave an array of shape {vectors.shape} for {len(texts)} texts, but it must "
            f"be ({len(texts)}, {encoder.dimension}); fix the encoder."
        )
    return vectors


@dataclass(frozen=True, eq=False)
class Published:
    """A round's bank as it was published, the population in it, and the probes beside that.

    ``rejected`` counts the generator's answers that did not become candidates of this bank, by reason.
    """

    population: Population
    probes: Probes | None
    bank: Bank
    rejected: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        population: Population,
        probes: Probes | None,
        rejected: Mapping[str, int] | None = None,
        barred: Sequence[int] = (),
    ) -> "Published":
        """Lay a population and the probes out as a bank in which nobody votes for the barred positions."""
        return cls(population, probes, lay_out(population, probes).bar(barred), dict(rejected or {}))

    @cached_property
    def root(self) -> str:
        """Return the root of the bank's texts: what every client can hold its copy of the bank against."""
        return bank_root(self.bank.texts or ())


@dataclass(frozen=True, eq=False)
class MemoryArchive:
    """Keep a run's steps for as long as the process lives."""

    _banks: dict[int, Published] = field(default_factory=dict, init=False)
    _releases: dict[int, Floats] = field(default_factory=dict, init=False)
    _coins: dict[int, NDArray[np.bool_]] = field(default_factory=dict, init=False)
    _backgrounds: dict[int, csr_array] = field(default_factory=dict, init=False)
    _kept: dict[int, Kept] = field(default_factory=dict, init=False)

    def bank(self, round_number: int) -> Published | None:
        """Return a round's bank, or None where it was not published yet."""
        return self._banks.get(round_number)

    def put_bank(self, round_number: int, published: Published) -> None:
        """Keep a round's bank."""
        self._banks[round_number] = published

    def release(self, round_number: int) -> Floats | None:
        """Return a round's release, or None where there is none."""
        return self._releases.get(round_number)

    def put_release(self, round_number: int, release: Floats) -> None:
        """Keep a round's release."""
        self._releases[round_number] = release

    def coins(self, round_number: int) -> NDArray[np.bool_] | None:
        """Return which canaries took part in a round, or None where no coins were kept."""
        return self._coins.get(round_number)

    def put_coins(self, round_number: int, took: NDArray[np.bool_]) -> None:
        """Keep which canaries took part in a round."""
        self._coins[round_number] = took

    def background(self, round_number: int) -> csr_array | None:
        """Return what everybody would contribute to the probes of a round, or None where it was not kept."""
        return self._backgrounds.get(round_number)

    def put_background(self, round_number: int, votes: csr_array) -> None:
        """Keep what everybody would contribute to the probes of a round."""
        self._backgrounds[round_number] = votes

    def kept(self, round_number: int) -> Kept | None:
        """Return who stayed after a round, as bank positions, or None where that was not kept."""
        return self._kept.get(round_number)

    def put_kept(self, round_number: int, kept: Kept) -> None:
        """Keep who stayed after a round."""
        self._kept[round_number] = kept


class FolderArchive:
    """Keep a run's steps in a folder, for later processes too; ``insecure_seed`` stamps what it writes."""

    def __init__(self, folder: Path | str, insecure_seed: int | None = None) -> None:
        self.folder = Path(folder)
        self._stamp: dict[str, Any] = {} if insecure_seed is None else {"insecure_seed": insecure_seed}

    def bank(self, round_number: int) -> Published | None:
        """Return a round's bank, checked against its hashes, or None where its last file is not written."""
        place = self._round_folder(round_number)
        if not (place / "bank.json").exists():
            return None
        record = read_checked(place / "bank.json", or_unmarked=True)
        try:
            if altered := altered_files(place, record["files"]):
                raise StoreError(
                    f"In {str(place)!r} files were changed since they were written: {altered}; restore them."
                )
            reserved, barred = tuple(record["reserved"]), tuple(record.get("barred", ()))
            published = _read_bank(place, reserved, barred, record["rejected"])
            named = (record["round"], record["hash"], record.get("root", published.root))
            if named != (round_number, published.bank.hash, published.root):
                raise StoreError(f"The bank in {str(place)!r} is not the one that was published; restore its files.")
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"The bank in {str(place)!r} cannot be read ({error}); restore its files.") from error
        return published

    def put_bank(self, round_number: int, published: Published) -> None:
        """Write a round's bank, the file that vouches for the others last: durable once this returns."""
        place, bank, probes = self._round_folder(round_number), published.bank, published.probes
        contents = {
            "bank.npy": _npy(bank.vectors),
            "bank.jsonl": _json_lines(map(asdict, published.population.candidates)),
        }
        if probes is not None:
            pairs = zip(probes.positions, probes.texts, strict=True)
            contents["probes.jsonl"] = _json_lines({"position": at, "text": text} for at, text in pairs)
        for name, data in contents.items():
            write_atomic(place / name, data)
        record = {
            "round": round_number,
            "hash": bank.hash,
            "size": bank.size,
            "root": published.root,
            "reserved": list(bank.reserved),
            **({"barred": list(bank.barred)} if bank.barred else {}),
            "rejected": dict(published.rejected),
            "files": {name: hash_file(place / name) for name in contents},
            **self._stamp,
        }
        write_checked(place / "bank.json", record)

    def release(self, round_number: int) -> Floats | None:
        """Return a round's release, or None where none is durable."""
        path = self._release_path(round_number)
        if not path.exists():
            return None
        release = _read_npy(path)
        if release.ndim != 1 or release.dtype.kind not in "fi":
            raise StoreError(f"{str(path)!r} is not what a round releases; restore it from a copy.")
        return np.asarray(release, dtype=np.float64)

    def put_release(self, round_number: int, release: Floats) -> None:
        """Write a round's release, durably; what a killed process left of an earlier draw goes first.

        That remnant may hold a whole release which nobody was shown; two of them must never lie side by side.
        """
        path = self._release_path(round_number)
        sweep_temporaries(path.parent, older_than=0)
        write_atomic(path, _npy(release))

    def coins(self, round_number: int) -> NDArray[np.bool_] | None:
        """Return which canaries took part in a round, or None where no coins were kept."""
        path = self._round_folder(round_number) / "coins.json"
        if not path.exists():
            return None
        record = read_checked(path)
        try:
            count, chosen = int(record["canaries"]), [int(each) for each in record["took"]]
            if record["round"] != round_number or chosen != sorted(set(chosen) & set(range(count))):
                raise ValueError("it names another round, or canaries that there are not")  # noqa: TRY301
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{str(path)!r} holds no coins of this round ({error}); restore it.") from error
        return np.isin(np.arange(count), chosen)

    def put_coins(self, round_number: int, took: NDArray[np.bool_]) -> None:
        """Write which canaries took part in a round: durable once this returns, and before the release is written."""
        record = {"round": round_number, "canaries": len(took), "took": np.flatnonzero(took), **self._stamp}
        write_checked(self._round_folder(round_number) / "coins.json", record, indent=None)

    def background(self, round_number: int) -> csr_array | None:
        """Return what everybody would contribute to the probes of a round, or None where it was not kept."""
        path = self._round_folder(round_number) / "background.npz"
        if not path.exists():
            return None
        with file_errors(path, "read"):
            data = path.read_bytes()
        try:
            loaded: Any = load_npz(io.BytesIO(data))
            votes: csr_array = loaded.tocsr().astype(np.float64)
            votes.check_format()
            if not np.isfinite(votes.data).all():
                raise ValueError("some contributions are not finite")  # noqa: TRY301
        except Exception as error:  # zip files and their arrays fail in many ways
            raise StoreError(f"{str(path)!r} holds no contributions ({error}); restore it from a copy.") from error
        return votes

    def put_background(self, round_number: int, votes: csr_array) -> None:
        """Write what everybody would contribute to the probes of a round: durable once this returns.

        This is made of users' records, without noise. So only a simulation may keep it.
        """
        if not self._stamp:
            raise StoreError("A real run keeps nothing of its users but the releases; its background is not written.")
        buffer = io.BytesIO()
        save_npz(buffer, votes)
        write_atomic(self._round_folder(round_number) / "background.npz", buffer.getvalue())

    def kept(self, round_number: int) -> Kept | None:
        """Return who stayed after a round, as bank positions, or None where that was not kept."""
        path = self._round_folder(round_number) / "kept.json"
        if not path.exists():
            return None
        record = read_checked(path)
        try:
            kept = Kept(record["kept"], record["weights"])
            if record["round"] != round_number or not 1 <= len(kept.indices) == len(kept.weights):
                raise ValueError("it names another round, or not one weight for each candidate")  # noqa: TRY301
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{str(path)!r} does not say who stayed in this round ({error}); restore it.") from error
        return kept

    def put_kept(self, round_number: int, kept: Kept) -> None:
        """Write who stayed after a round: durable once this returns."""
        record = {"round": round_number, "kept": kept.indices.tolist(), "weights": kept.weights.tolist(), **self._stamp}
        write_checked(self._round_folder(round_number) / "kept.json", record, indent=None)

    def _round_folder(self, round_number: int) -> Path:
        return self.folder / "rounds" / f"{round_number:03d}"

    def _release_path(self, round_number: int) -> Path:
        return self._round_folder(round_number) / ("release.insecure.npy" if self._stamp else "release.npy")


Archive = MemoryArchive | FolderArchive
"""Where a run keeps its steps."""


def write_population(
    population: Population, folder: Path | str, *, name: str = "population", insecure_seed: int | None = None
) -> tuple[Path, ...]:
    """Write a population with its lineage, as ``write_candidates`` does, and return the three paths.

    Args:
        population: The population.
        folder: Where the files go.
        name: What the files are called.
        insecure_seed: The seed of a simulated run, which every row then carries.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Bank
        >>> bank = Bank(np.eye(4, dtype=np.float32), ("a", "b", "c", "d")).reserve(1, seed=0)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in write_population(split(bank)[0], folder)]
        ['population.parquet', 'population.jsonl', 'population.csv']
    """
    return write_candidates(population.candidates, folder, name, insecure_seed=insecure_seed)


def write_candidates(
    candidates: Iterable[Candidate], folder: Path | str, name: str, *, insecure_seed: int | None = None
) -> tuple[Path, ...]:
    """Write candidates with their lineage as NAME.parquet, NAME.jsonl and NAME.csv, and return the three paths.

    The rows of a run with an insecure seed carry that seed in a column of its own. In CSV the parents are one
    field, their ids separated by spaces, and a text that a spreadsheet would run as a formula (it begins with = + - @,
    a tab or a carriage return) has an apostrophe before it: programs read Parquet or JSON lines, which hold every text
    as it is.

    Args:
        candidates: The candidates.
        folder: Where the files go.
        name: What the files are called.
        insecure_seed: The seed of a simulated run, which every row then carries.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Bank
        >>> bank = Bank(np.eye(4, dtype=np.float32), ("a", "b", "c", "d")).reserve(1, seed=0)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in write_candidates(split(bank)[0].candidates, folder, "texts")]
        ['texts.parquet', 'texts.jsonl', 'texts.csv']
    """
    import polars as pl

    stamp = {} if insecure_seed is None else {"insecure_seed": insecure_seed}
    rows = [asdict(candidate) | stamp for candidate in candidates]
    strings = dict.fromkeys(("id", "text", "label", "prompt"), pl.String())
    schema = {**strings, "born": pl.Int64(), "parents": pl.List(pl.String()), **dict.fromkeys(stamp, pl.Int64())}
    parquet, csv = io.BytesIO(), io.BytesIO()
    pl.DataFrame(rows, schema=schema).write_parquet(parquet)
    joined = (row | {"parents": " ".join(row["parents"])} for row in rows)
    cells = [{key: inert_cell(value) for key, value in row.items()} for row in joined]
    pl.DataFrame(cells, schema={**schema, "parents": pl.String()}).write_csv(csv)
    contents = {"parquet": parquet.getvalue(), "jsonl": _json_lines(rows), "csv": csv.getvalue()}
    for kind, data in contents.items():
        write_atomic(Path(folder) / f"{name}.{kind}", data)
    return tuple(Path(folder) / f"{name}.{kind}" for kind in contents)


def _read_bank(place: Path, reserved: tuple[int, ...], barred: tuple[int, ...], rejected: dict[str, int]) -> Published:
    vectors = np.asarray(_read_npy(place / "bank.npy"), dtype=np.float32)
    candidates = tuple(
        Candidate(**row | {"parents": tuple(row["parents"])}) for row in _read_lines(place / "bank.jsonl")
    )
    probes = None
    if reserved:
        texts = tuple(str(line["text"]) for line in _read_lines(place / "probes.jsonl"))
        probes = Probes(reserved, vectors[list(reserved)], texts)
    return Published.of(Population(candidates, np.delete(vectors, reserved, axis=0)), probes, rejected, barred)


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(canonical_json(row) + "\n" for row in rows).encode()


def _read_lines(path: Path) -> list[Any]:
    with file_errors(path, "read"):
        text = path.read_text(encoding="utf-8")
    return [parse_json(line, path) for line in text.splitlines()]


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _read_npy(path: Path) -> NDArray[Any]:
    with file_errors(path, "read"):
        data = path.read_bytes()
    try:
        return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))
    except Exception as error:  # the header is parsed as Python, so its damage raises whatever Python can
        raise StoreError(f"{str(path)!r} is no numpy array ({error}); restore it from a copy.") from error
