import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import InputError, StoreError
from canarybank.store import canonical_json, differences, read_json, write_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_reads_back_and_is_one_ascii_line(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert canonical_json(json.loads(text)) == text


def test_order_of_keys_and_kind_of_number_do_not_matter() -> None:
    plain = {"b": [1, 2.5], "a": {"y": 1, "x": 0.1}}
    other = {"a": {"x": np.float64(0.1), "y": np.int32(1)}, "b": np.array([1.0, 2.5])}
    assert canonical_json(plain) == '{"a":{"x":0.1,"y":1},"b":[1,2.5]}'
    assert canonical_json({**other, "b": (1, 2.5)}) == canonical_json(plain)


@pytest.mark.parametrize("value", [math.nan, -math.inf, np.array([np.inf]), {1, 2}, object(), {"a": b"bytes"}])
def test_what_json_has_not_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="no canonical JSON form"):
        canonical_json({"a": value})


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InputError):
        canonical_json(endless)


def test_a_document_round_trips_and_ends_in_a_newline(tmp_path: Path) -> None:
    value = {"b": "zwölf \ud83d\x00", "a": 1e-300}
    write_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == value
    data = (tmp_path / "x.json").read_bytes()
    assert data.endswith(b"}\n")
    write_json(tmp_path / "y.json", dict(reversed(value.items())))
    assert (tmp_path / "y.json").read_bytes() == data


def test_a_broken_or_missing_document_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1')
    with pytest.raises(StoreError, match=r"x\.json.*is not JSON"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(StoreError, match="is not JSON"):
        read_json(tmp_path / "x.json")
    with pytest.raises(StoreError, match="it is not there"):
        read_json(tmp_path / "y.json")


def test_differences_are_at_dotted_keys_with_both_values():
    one = {"a": {"b": [1, {"c": 2}]}, "d": 1, "e": [1], "g": "x"}
    other = {"a": {"b": [1, {"c": 3}]}, "d": 1, "e": [1, 2], "f": 0}
    expected = {"a.b.1.c": (2, 3), "e": ([1], [1, 2]), "f": (None, 0), "g": ("x", None)}
    assert list(differences(one, other).items()) == list(expected.items())
    assert differences(1, {"a": 1}) == {"": (1, {"a": 1})}


@given(VALUES, VALUES)
def test_only_equal_values_have_no_differences(one, other):
    # A missing key counts as null, so the two dictionaries are compared by what they say of every key.
    assert differences(one, one) == {}
    assert bool(differences([one], [other])) == bool(differences([other], [one]))
    if not isinstance(one, dict | list) or not isinstance(other, dict | list):
        assert (differences(one, other) == {}) == (one == other)
