from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.users import Users


def _users(**changes: Any) -> Users:
    columns = {"ids": ("a", "b"), "owners": np.array([0, 0, 1]), "texts": ("x", "y", "z"), "labels": ("1", "2", "1")}
    return Users(**(columns | changes))


def test_counts_and_length() -> None:
    users = _users()
    assert len(users) == 2
    assert users.counts.tolist() == [2, 1]
    assert repr(users) == "Users(2 users, 3 records)"


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": ("a", "c")},
        {"texts": ("x", "y", "w")},
        {"texts": ("xy", "", "z")},
        {"labels": ("1", "2", "2")},
        {"labels": None},
        {"texts": ("y", "x", "z")},
        {"owners": np.array([0, 1, 1])},
    ],
)
def test_a_digest_follows_from_all_that_a_user_has(changes: dict[str, Any]) -> None:
    changed = _users(**changes)
    assert changed.digest != _users().digest
    for index in range(2):
        alone = changed.take([index])
        assert np.array_equal(alone.digests[0], changed.digests[index])


def test_a_digest_is_of_texts_where_there_are_some_and_else_of_vectors() -> None:
    one, other = np.zeros((3, 2)), np.ones((3, 2))
    assert _users(vectors=one).digest == _users(vectors=other).digest == _users().digest
    bare = [_users(texts=None, labels=None, vectors=vectors).digest for vectors in (one, other)]
    assert bare[0] != bare[1]
    assert _users().take([1, 0]).digest != _users().digest


def test_the_first_records_are_those_that_stand_first() -> None:
    assert _users().first_records(1).texts == ("x", "z")
    assert _users().first_records(2).hash == _users().hash


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ("a", "a")}, "same id"),
        ({"owners": np.array([0, 0, 2])}, "from 0 to 2"),
        ({"owners": np.array([-1, 0, 1])}, "from -1 to 1"),
        ({"owners": np.array([], dtype=np.int64)}, "at least one"),
        ({"owners": np.array([0.0, 0.5, 1.0])}, "whole numbers"),
        ({"owners": np.array([0, 1, 0])}, "grouped by user"),
        ({"ids": ("a", "b", "c")}, "User 'c' has no records"),
        ({"texts": ("x",)}, "1 texts for 3 records"),
        ({"labels": ("x",)}, "1 labels for 3 records"),
        ({"vectors": np.zeros((2, 4))}, "2 vectors for 3 records"),
        ({"vectors": np.zeros(3)}, "shape"),
        ({"vectors": np.array([[0.0], [np.nan], [0.0]])}, "record 1 is NaN"),
    ],
)
def test_refuses_columns_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _users(**changes)


def test_leaves_the_callers_arrays_writable() -> None:
    owners, vectors = np.array([0, 0, 1]), np.zeros((3, 2), dtype=np.float32)
    users = _users(owners=owners, vectors=vectors)
    assert owners.flags.writeable
    assert vectors.flags.writeable
    assert not users.owners.flags.writeable
    assert not users.require_vectors().flags.writeable


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_take_equals_a_loop_over_users(counts: list[int], data: st.DataObject) -> None:
    owners = np.repeat(np.arange(len(counts)), counts)
    texts = tuple(f"t{i}" for i in range(len(owners)))
    users = Users(tuple(map(str, range(len(counts)))), owners, texts, texts, np.arange(len(owners))[:, None])
    chosen = data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=1, unique=True))
    taken = users.take(chosen)
    rows = [i for user in chosen for i in range(len(owners)) if owners[i] == user]
    assert taken.ids == tuple(str(user) for user in chosen)
    assert taken.texts == taken.labels == tuple(texts[i] for i in rows)
    assert taken.require_vectors()[:, 0].tolist() == rows
    assert taken.counts.tolist() == [counts[user] for user in chosen]


@pytest.mark.parametrize("indices", [[], [-1], [2]])
def test_take_refuses_indices_outside(indices: list[int]) -> None:
    with pytest.raises(InputError, match="from 0 to 1"):
        _users().take(indices)


def test_hash_sees_every_column_and_the_order() -> None:
    base = _users()
    others = [
        _users(ids=("a", "c")),
        _users(owners=np.array([0, 1, 1])),
        _users(texts=("x", "y", "w")),
        _users(texts=("xy", "", "z")),
        _users(labels=("1", "1", "1")),
        _users(labels=None),
        _users(texts=None),
        base.take([1, 0]),
        base.with_vectors(np.zeros((3, 2))),
        base.with_vectors(np.ones((3, 2))),
        base.with_vectors(np.zeros((3, 4))),
    ]
    assert base.hash == _users().hash
    assert len({base.hash, *(other.hash for other in others)}) == len(others) + 1


def test_from_vectors_names_users() -> None:
    users = Users.from_vectors({"a": [[1, 0], [0, 1]], "b": [1, 0]})
    assert users.ids == ("a", "b")
    assert users.counts.tolist() == [2, 1]
    assert Users.from_vectors(users) is users
    assert Users.from_vectors([[[1.0]], [[2.0]]]).ids == ("0", "1")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [({}, "no users"), ({"a": []}, "'a' has no records"), ({"a": [[1]], "b": [[1, 2]]}, "dimensions")],
)
def test_from_vectors_refuses(vectors: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Users.from_vectors(vectors)


def test_says_what_is_missing() -> None:
    users = _users(texts=None)
    with pytest.raises(InputError, match="no vectors"):
        users.require_vectors()
    with pytest.raises(InputError, match="no texts"):
        users.require_texts()
