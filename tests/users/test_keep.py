import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from canarybank.errors import DataError, InputError
from canarybank.users import Columns, Users, admit, pack_users, read, unpack_users


def test_users_come_back_with_the_same_hash(people: Callable[..., Users]) -> None:
    users = people([3, 1, 2]).take([2, 0, 1])
    for one in (users, replace(users, labels=None)):
        assert unpack_users(pack_users(one)).hash == one.hash


def test_vectors_stay_out(people: Callable[..., Users]) -> None:
    users = people([1, 2])
    assert unpack_users(pack_users(users.with_vectors(np.ones((3, 2))))).hash == users.hash


def test_the_bytes_are_a_source_like_any_other(tmp_path: Path, people: Callable[..., Users]) -> None:
    users = people([3, 2])
    (tmp_path / "users.parquet").write_bytes(pack_users(users))
    rows = list(read(tmp_path / "users.parquet", columns=Columns(label="label")))
    assert [row.text for row in rows] == list(users.texts)
    assert len(admit(tmp_path / "users.parquet").users) == 2


def test_texts_are_needed(people: Callable[..., Users]) -> None:
    with pytest.raises(InputError, match="no texts"):
        pack_users(replace(people([1]), texts=None))


def test_what_cannot_be_unpacked() -> None:
    for junk in (b"", b"junk"):
        with pytest.raises(DataError, match="cannot be read as Parquet"):
            unpack_users(junk)
    other = io.BytesIO()
    pl.DataFrame({"who": ["a"], "text": ["b"]}).write_parquet(other)
    with pytest.raises(DataError, match=r"columns \['who', 'text'\], not those of packed ones"):
        unpack_users(other.getvalue())
