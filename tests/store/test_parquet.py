import io
import os
import random
from pathlib import Path

import polars as pl
import pytest

from canarybank.errors import DataError
from canarybank.generate.table import read_table
from canarybank.store import check_parquet, parquet_errors
from canarybank.users import Columns, read

DATA = Path(__file__).parent / "data"
"""Two files of users with flipped bits: at one polars panics, at the other it aborts the process."""


@pytest.mark.parametrize(
    ("name", "why"), [("panics.parquet", "contradict each other"), ("aborts.parquet", "more memory than there is")]
)
def test_a_file_that_would_end_the_process_is_refused_in_silence(name, why, capfd):
    for reading in (check_parquet, read_table, lambda path: list(read(path, columns=Columns(label="label")))):
        with pytest.raises(DataError, match=f"cannot be read as Parquet .*{why}"):
            reading(DATA / name)
    assert capfd.readouterr() == ("", "")


def test_every_flip_of_a_footer_is_read_or_refused(tmp_path, capfd, count):
    made = io.BytesIO()
    pl.DataFrame({"text": ["one two", "three"], "label": [1, 2]}).write_parquet(made)
    data, rng = made.getvalue(), random.Random(8)  # noqa: S311, flips that can be repeated
    refused = 0
    for _ in range(20):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data) // 3, len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / "x.parquet").write_bytes(flipped)
        try:
            read_table(tmp_path / "x.parquet")
        except DataError:
            refused += 1
    count("flipped Parquet files", files=20, refused=refused)
    assert 0 < refused < 20
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error", [pl.exceptions.PanicException("boom"), pl.exceptions.ComputeError("bad"), OverflowError("far")]
)
def test_whatever_polars_raises_is_a_data_error(tmp_path, error):
    with (
        pytest.raises(DataError, match=r"cannot be read as Parquet .*; write or fetch it again\."),
        parquet_errors(tmp_path / "x"),
    ):
        raise error


def test_our_own_errors_pass_as_they_are(tmp_path):
    with pytest.raises(DataError, match=r"^mine$"), parquet_errors(tmp_path / "x"):
        raise DataError("mine")


def test_a_good_file_is_checked_once_until_it_changes(tmp_path, monkeypatch):
    path, started = tmp_path / "x.parquet", []
    run = __import__("subprocess").run
    monkeypatch.setattr("canarybank.store.parquet.subprocess.run", lambda *a, **b: started.append(1) or run(*a, **b))
    pl.DataFrame({"text": ["a"]}).write_parquet(path)
    check_parquet(path)
    check_parquet(path)
    assert len(started) == 1
    path.write_bytes(b"junk" * 10)
    for _ in range(2):
        with pytest.raises(DataError):
            check_parquet(path)
    assert len(started) == 3


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path, "a folder"), ("/dev/zero", "a device")):
        with pytest.raises(DataError, match=f"is {kind}, not a regular file"):
            check_parquet(path)
    with pytest.raises(DataError, match="There is no file"):
        check_parquet(tmp_path / "none")
