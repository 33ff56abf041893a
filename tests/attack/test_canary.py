import numpy as np
import pytest

from canarybank.attack import Canary, CanaryKind
from canarybank.errors import InputError
from canarybank.users import Users


def test_a_user_becomes_a_real_canary() -> None:
    users = Users(("a", "b"), np.array([0, 1, 1]), texts=("x", "y", "z"), vectors=np.arange(6.0).reshape(3, 2))
    canary = Canary.of(users, 1)
    assert canary.id == "b"
    assert canary.kind is CanaryKind.REAL
    assert canary.texts == ("y", "z")
    assert np.array_equal(canary.vectors, [[2, 3], [4, 5]])
    assert repr(canary) == "Canary('b', real, 2 records)"


def test_vectors_are_a_read_only_copy() -> None:
    given = np.ones((2, 2), dtype=np.float32)
    canary = Canary(given)
    given[0] = 3
    assert (canary.vectors == 1).all()
    assert given.flags.writeable


def test_unusable_canaries_are_refused() -> None:
    with pytest.raises(InputError, match="canary record 1 is NaN or infinite"):
        Canary(np.array([[0.0], [np.inf]]))
    with pytest.raises(InputError, match="non-empty"):
        Canary(np.zeros((0, 3)))
    with pytest.raises(InputError, match="1 texts for 2 vectors"):
        Canary(np.zeros((2, 3)), texts=("a",))
    with pytest.raises(InputError, match="no vectors"):
        Canary.of(Users(("a",), np.array([0]), texts=("x",)), 0)
