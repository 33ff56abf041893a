"""Write a population as a table for people and programs: Parquet, JSON lines and CSV."""

import io
from pathlib import Path

from canarybank.evolve.population import Candidate, Population
from canarybank.store import canonical_json, inert_cell, parse_json, write_atomic

__all__ = ["json_lines", "read_json_lines", "write_population"]


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
    rows = [candidate.to_json() | stamp for candidate in population.candidates]
    strings = dict.fromkeys(("id", "text", "label", "prompt"), pl.String())
    schema = {**strings, "born": pl.Int64(), "parents": pl.List(pl.String()), **dict.fromkeys(stamp, pl.Int64())}
    frame = pl.DataFrame(rows, schema=schema)
    parquet, csv = io.BytesIO(), io.BytesIO()
    frame.write_parquet(parquet)
    shown = [{**row, "parents": " ".join(row["parents"])} for row in rows]
    inert = [{name: inert_cell(value) for name, value in row.items()} for row in shown]
    pl.DataFrame(inert, schema={**schema, "parents": pl.String()}).write_csv(csv)
    lines = "".join(map(_line, rows)).encode()
    contents = {"parquet": parquet.getvalue(), "jsonl": lines, "csv": csv.getvalue()}
    paths = {Path(folder) / f"{name}.{kind}": data for kind, data in contents.items()}
    for path, data in paths.items():
        write_atomic(path, data)
    return tuple(paths)


def json_lines(candidates: tuple[Candidate, ...]) -> str:
    """Return candidates as JSON lines."""
    return "".join(_line(candidate.to_json()) for candidate in candidates)


def read_json_lines(text: str, source: Path | str) -> tuple[Candidate, ...]:
    """Read candidates from the JSON lines of some source."""
    return tuple(Candidate.from_json(parse_json(line, source)) for line in text.splitlines())


def _line(row: dict[str, object]) -> str:
    return canonical_json(row) + "\n"
