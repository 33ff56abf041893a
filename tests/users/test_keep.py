from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from canarybank.errors import DataError, InputError, StoreError
from canarybank.users import Columns, Users, admit, load_users, read, save_users


def test_users_come_back_with_the_same_hash(tmp_path: Path, people: Callable[..., Users]) -> None:
    users = people([3, 1, 2]).take([2, 0, 1])
    for one in (users, replace(users, labels=None)):
        save_users(one, tmp_path / "users.parquet")
        assert load_users(tmp_path / "users.parquet").hash == one.hash


def test_vectors_stay_out(tmp_path: Path, people: Callable[..., Users]) -> None:
    users = people([1, 2])
    save_users(users.with_vectors(np.ones((3, 2))), tmp_path / "u.parquet")
    assert load_users(tmp_path / "u.parquet").hash == users.hash


def test_the_file_is_a_source_like_any_other(tmp_path: Path, people: Callable[..., Users]) -> None:
    users = people([3, 2])
    save_users(users, tmp_path / "users.parquet")
    rows = list(read(tmp_path / "users.parquet", columns=Columns(label="label")))
    assert [row.text for row in rows] == list(users.texts)
    assert len(admit(tmp_path / "users.parquet").users) == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "users.parquet"]


def test_texts_are_needed(tmp_path: Path, people: Callable[..., Users]) -> None:
    with pytest.raises(InputError, match="no texts"):
        save_users(replace(people([1]), texts=None), tmp_path / "u.parquet")


def test_what_cannot_be_loaded(tmp_path: Path, write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="no file"):
        load_users(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load_users(write("a.parquet", "junk"))
    pl.DataFrame({"who": ["a"], "text": ["b"]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"columns \['who', 'text'\], not those of saved users"):
        load_users(tmp_path / "b.parquet")


def test_what_cannot_be_written(people: Callable[..., Users], write: Callable[..., Path]) -> None:
    with pytest.raises(StoreError, match="Cannot"):
        save_users(people([1]), write("file", "x") / "u.parquet")
