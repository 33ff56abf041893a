import numpy as np
import pytest

from canarybank.attack.vectors import column, frozen_vectors
from canarybank.errors import InputError


def test_vectors_are_frozen_as_float32() -> None:
    frozen = frozen_vectors([[1, 2], [3, 4]], "row")
    assert frozen.dtype == np.float32
    assert not frozen.flags.writeable
    with pytest.raises(InputError, match="row 0 is NaN or infinite"):
        frozen_vectors([[1e39, 0.0]], "row")


def test_columns_have_an_entry_for_each_row() -> None:
    assert column(None, 3, "texts") is None
    assert column(["a", "b"], 2, "texts") == ("a", "b")
    with pytest.raises(InputError, match="1 texts for 2 vectors"):
        column(["a"], 2, "texts")
