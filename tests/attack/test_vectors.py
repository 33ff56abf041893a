"""Canaries and pools keep their columns in one form."""

import numpy as np
import pytest

from canarybank.attack import Canary, Pool
from canarybank.errors import InputError


@pytest.mark.parametrize("kind", [Canary, Pool])
def test_vectors_are_frozen_as_float32(kind) -> None:
    given = np.array([[1.0, 2.0], [3.0, 4.0]])
    frozen = kind(given).vectors
    given[0] = 9.0
    assert frozen.tolist() == [[1, 2], [3, 4]]
    assert frozen.dtype == np.float32
    assert not frozen.flags.writeable
    with pytest.raises(InputError, match="0 is NaN or infinite"):
        kind([[1e39, 0.0]])


@pytest.mark.parametrize("kind", [Canary, Pool])
def test_columns_have_an_entry_for_each_row(kind) -> None:
    assert kind(np.eye(2)).texts is None
    assert kind(np.eye(2), texts=["a", "b"]).texts == ("a", "b")
    with pytest.raises(InputError, match="1 texts for 2 vectors"):
        kind(np.eye(2), texts=["a"])
