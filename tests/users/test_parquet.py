import gzip
import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from canarybank.errors import DataError
from canarybank.progress import Lines
from canarybank.users import Columns, Fault, Parquet, Row, Skip


def _rows(path: Path, **choices: Any) -> list[Row | Skip]:
    return list(Parquet(**choices).rows(path))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a.parquet"
    frame = {"id": [1, 2, None, 1], "text": ["x", None, "y", "z\0"], "user": ["a", "b", "c", "d"], "n": [1.5, 2, 3, 4]}
    pl.DataFrame(frame).write_parquet(path)
    return path


def test_rows_have_numbers_and_whole_ids(table: Path) -> None:
    assert _rows(table, columns=Columns("id", "text", "n")) == [
        Row(1, "1", "x", "1.5"),
        Skip(2, Fault.EMPTY, "2"),
        Skip(3, Fault.NO_USER),
        Skip(4, Fault.NUL, "1"),
    ]


def test_ids_that_pandas_made_floats(tmp_path: Path) -> None:
    pl.DataFrame({"user": [1.0, None, float("nan")], "text": ["x", "y", "z"]}).write_parquet(tmp_path / "a.parquet")
    assert _rows(tmp_path / "a.parquet") == [Row(1, "1", "x"), Skip(2, Fault.NO_USER), Skip(3, Fault.NO_USER)]


@pytest.mark.parametrize(("kind", "limit"), [(pl.Float32, 2**24), (pl.Float64, 2**53)])
def test_ids_that_a_float_cannot_tell_apart_are_no_ids(tmp_path: Path, kind: Any, limit: int) -> None:
    ids = pl.Series([0, limit - 1, limit, limit + 1, -limit, None, float("nan")], dtype=kind, strict=False)
    pl.DataFrame({"user": ids, "text": ["x"] * 7}).write_parquet(tmp_path / "a.parquet")
    rows = _rows(tmp_path / "a.parquet")
    assert rows[:2] == [Row(1, "0", "x"), Row(2, str(limit - 1), "x")]
    assert [row.fault for row in rows[2:] if isinstance(row, Skip)] == [Fault.BAD_USER] * 3 + [Fault.NO_USER] * 2


def test_decimals_and_dates_have_a_text(tmp_path: Path) -> None:
    users = pl.Series([Decimal(7), Decimal(10**20 + 1)], dtype=pl.Decimal(38, 0))
    frame = {"user": users, "text": ["x", "y"], "day": [date(2026, 1, 2), date(2026, 1, 3)]}
    pl.DataFrame(frame).write_parquet(tmp_path / "a.parquet")
    assert _rows(tmp_path / "a.parquet", columns=Columns(label="day")) == [
        Row(1, "7", "x", "2026-01-02"),
        Row(2, str(10**20 + 1), "y", "2026-01-03"),
    ]


@pytest.mark.parametrize("value", [b"a", ["a"], {"a": 1}, timedelta(1)])
def test_ids_and_labels_without_a_text_are_refused(tmp_path: Path, value: Any) -> None:
    pl.DataFrame({"odd": [value], "user": ["a"], "text": ["x"]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"column 'odd' of .* holds .*, and user ids are text or whole .* as strings"):
        _rows(tmp_path / "a.parquet", columns=Columns("odd"))
    with pytest.raises(DataError, match=r"column 'odd' of .* holds .*, and labels are text, numbers or dates; write"):
        _rows(tmp_path / "a.parquet", columns=Columns(label="odd"))


def test_categories_are_text(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": ["a"], "text": ["x"]}, schema={"user": pl.Categorical, "text": pl.Categorical})
    frame.write_parquet(tmp_path / "a.parquet")
    assert _rows(tmp_path / "a.parquet") == [Row(1, "a", "x")]


def test_missing_and_wrong_columns(table: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'who'. The columns that exist are: 'id', 'text', 'user', 'n'"):
        _rows(table, columns=Columns("who"))
    with pytest.raises(DataError, match=r"column 'n' of .* holds Float64, not text"):
        _rows(table, columns=Columns("user", "n"))


def test_a_file_that_is_no_parquet(write: Callable[..., Path], table: Path) -> None:
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        _rows(write("b.parquet", "user,text\n"))
    table.write_bytes(table.read_bytes()[:-10])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        _rows(table)


def test_packed_parquet(write: Callable[..., Path], tmp_path: Path, table: Path) -> None:
    plain = _rows(table)
    assert _rows(write("b.parquet.gz", gzip.compress(table.read_bytes()))) == plain
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.write(table, "a.parquet")
    assert _rows(tmp_path / "c.zip") == plain
    for content in (table.read_bytes(), os.urandom(2**21)):
        with pytest.raises(DataError, match="damaged or cut short"):
            _rows(write("d.parquet.gz", gzip.compress(content)[:-20]))


def test_an_unpacked_copy_is_private_and_goes_when_reading_ends(
    write: Callable[..., Path], cache: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "everybody's"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    rows = Parquet().rows(write("b.parquet.gz", gzip.compress(table.read_bytes())))
    next(rows)
    (copy,) = (path for path in cache.rglob("*") if path.is_file())
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    assert list(elsewhere.iterdir()) == []
    rows.close()
    assert not copy.exists()


_KILLED = """
import os, signal, sys
from canarybank.users import source
rows = source(sys.argv[1], isolated=True).rows()
next(rows)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_reader_unpacked_is_removed_by_the_next_prune(
    write: Callable[..., Path], cache: Path, table: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "temporaries"
    elsewhere.mkdir()
    packed = write("b.parquet.gz", gzip.compress(table.read_bytes()))
    command = [sys.executable, "-c", _KILLED, str(packed)]
    killed = subprocess.run(command, check=False, timeout=60, env=os.environ | {"TMPDIR": str(elsewhere)})
    assert killed.returncode == -signal.SIGKILL

    def left() -> list[bytes]:
        return [path.read_bytes() for folder in (cache, elsewhere) for path in folder.rglob("*") if path.is_file()]

    assert left() == [table.read_bytes()]
    subprocess.run([sys.executable, "-m", "canarybank.cli", "cache", "prune", "--unused-days", "30"], check=True)
    assert left() == []


def test_many_parts_are_read_in_order_and_shown(tmp_path: Path) -> None:
    path, size = tmp_path / "star*[a].parquet", 150_000  # more than two parts of 65,536 rows
    table = pl.DataFrame({"user": range(size), "text": [f"t{i}" for i in range(size)]})
    table.write_parquet(path, row_group_size=11_000)
    shown = io.StringIO()
    rows = list(Parquet().rows(path, progress=Lines(shown, every=0), work="count"))
    assert rows == [Row(i + 1, str(i), f"t{i}") for i in range(size)]
    assert "150,000 of 150,000 rows" in shown.getvalue()
