"""Keep a run's banks and releases: in a folder, durable step by step, or in memory; write its population as tables.

The folder of a run::

    run.json                 what was declared: parameters, fingerprints, the first bank's hash; never changed
    ledger.log               the list of releases and what they spend
    account.json             the id by which the budget account knows this run, where it has one
    responses.log            the generator's answers, so that nothing is asked twice
    rounds/000/bank.npy      the bank's vectors, probes included, in bank order
    rounds/000/bank.jsonl    the candidates with their lineage, in bank order, probes left out
    rounds/000/probes.jsonl  the probes' positions and texts, where there are any
    rounds/000/bank.json     the bank's hash and its files' hashes: written last, so what it names is whole
    rounds/000/release.npy   the noisy histogram over that bank; release.insecure.npy of a run with an insecure seed
    rounds/006/              the bank after the last round, never released over
    population.*             the final population, as parquet, JSON lines and CSV
    evolution.json           the summary: written last of all

Nothing here is made of users' records but the releases.
"""

import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import StoreError
from canarybank.evolution.population import Candidate, Population, Probes, lay_out
from canarybank.mechanism import Bank
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

__all__ = ["Archive", "FolderArchive", "MemoryArchive", "Published", "write_population"]

Floats = NDArray[np.float64]


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
        cls, population: Population, probes: Probes | None, rejected: Mapping[str, int] | None = None
    ) -> "Published":
        """Lay a population and the probes out as a bank."""
        return cls(population, probes, lay_out(population, probes), dict(rejected or {}))


class MemoryArchive:
    """Keep a run's steps for as long as the process lives."""

    def __init__(self) -> None:
        self._banks: dict[int, Published] = {}
        self._releases: dict[int, Floats] = {}

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
            published = _read_bank(place, tuple(record["reserved"]), record["rejected"])
            if (record["round"], record["hash"]) != (round_number, published.bank.hash):
                raise StoreError(f"The bank in {str(place)!r} is not the one that was published; restore its files.")
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"The bank in {str(place)!r} cannot be read ({error}); restore its files.") from error
        return published

    def put_bank(self, round_number: int, published: Published) -> None:
        """Write a round's bank, the file that vouches for the others last: durable once this returns."""
        place, bank, probes = self._round_folder(round_number), published.bank, published.probes
        contents: dict[str, bytes | str] = {
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
            "reserved": list(bank.reserved),
            "rejected": dict(published.rejected),
            "files": {name: hash_file(place / name) for name in contents},
        }
        write_checked(place / "bank.json", record | self._stamp)

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

    def _round_folder(self, round_number: int) -> Path:
        return self.folder / "rounds" / f"{round_number:03d}"

    def _release_path(self, round_number: int) -> Path:
        return self._round_folder(round_number) / ("release.insecure.npy" if self._stamp else "release.npy")


Archive = MemoryArchive | FolderArchive
"""Where a run keeps its steps."""


def write_population(
    population: Population, folder: Path | str, *, name: str = "population", insecure_seed: int | None = None
) -> tuple[Path, ...]:
    """Write a population with its lineage as NAME.parquet, NAME.jsonl and NAME.csv, and return the three paths.

    The rows of a run with an insecure seed carry that seed in a column of its own. In CSV the parents are one
    field, their ids separated by spaces, and a text that a spreadsheet would run as a formula (it begins with = + - @,
    a tab or a carriage return) has an apostrophe before it: programs read Parquet or JSON lines, which hold every text
    as it is.
    """
    import polars as pl

    stamp = {} if insecure_seed is None else {"insecure_seed": insecure_seed}
    rows = [asdict(candidate) | stamp for candidate in population.candidates]
    strings = dict.fromkeys(("id", "text", "label", "prompt"), pl.String())
    schema = {**strings, "born": pl.Int64(), "parents": pl.List(pl.String()), **dict.fromkeys(stamp, pl.Int64())}
    parquet, csv = io.BytesIO(), io.BytesIO()
    pl.DataFrame(rows, schema=schema).write_parquet(parquet)
    joined = [row | {"parents": " ".join(row["parents"])} for row in rows]
    cells = [{key: inert_cell(value) for key, value in row.items()} for row in joined]
    pl.DataFrame(cells, schema={**schema, "parents": pl.String()}).write_csv(csv)
    contents: dict[str, bytes | str] = {
        "parquet": parquet.getvalue(),
        "jsonl": _json_lines(rows),
        "csv": csv.getvalue(),
    }
    paths = {Path(folder) / f"{name}.{kind}": data for kind, data in contents.items()}
    for path, data in paths.items():
        write_atomic(path, data)
    return tuple(paths)


def _read_bank(place: Path, reserved: tuple[int, ...], rejected: dict[str, int]) -> Published:
    vectors = np.asarray(_read_npy(place / "bank.npy"), dtype=np.float32)
    rows = _read_lines(place / "bank.jsonl")
    candidates = tuple(Candidate(**row | {"parents": tuple(row["parents"])}) for row in rows)
    population = Population(candidates, np.delete(vectors, reserved, axis=0))
    if not reserved:
        return Published.of(population, None, rejected)
    texts = tuple(str(line["text"]) for line in _read_lines(place / "probes.jsonl"))
    return Published.of(population, Probes(reserved, vectors[list(reserved)], texts), rejected)


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(canonical_json(row) + "\n" for row in rows)


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
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # the header is parsed as Python, so its damage raises whatever Python can
        raise StoreError(f"{str(path)!r} is no numpy array ({error}); restore it from a copy.") from error
    return array
