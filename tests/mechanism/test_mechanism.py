import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from canarybank.errors import InputError
from canarybank.mechanism import Grid, Mechanism, epsilon, one_round_epsilon


def test_defaults_are_the_papers() -> None:
    assert Mechanism() == Mechanism(k=5, clip=0.1, sigma=1.0, q=0.1, delta=1e-5)


def test_noise_is_sigma_times_clip() -> None:
    assert Mechanism(clip=0.5, sigma=3.0).noise == 1.5


def test_is_frozen_and_hashable() -> None:
    with pytest.raises(FrozenInstanceError):
        Mechanism().sigma = 2.0  # type: ignore[misc]
    assert len({Mechanism(), Mechanism(k=5), Mechanism(k=4)}) == 2


def test_takes_numpy_numbers_and_keeps_plain_ones() -> None:
    made = Mechanism(k=np.int64(3), clip=np.float32(0.5), sigma=np.float64(2), q=1, delta=np.float64(0.01))  # type: ignore[arg-type]
    assert [type(getattr(made, name)) for name in ("k", "clip", "sigma", "q", "delta")] == [int, *[float] * 4]
    assert made.q == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 0}, ["k must be a whole number", "0"]),
        ({"k": 2.5}, ["k must be a whole number", "2.5"]),
        ({"k": True}, ["k must be a whole number", "True"]),
        ({"clip": 0.0}, ["clip must be positive", "0.0"]),
        ({"clip": -0.1}, ["clip must be positive", "-0.1"]),
        ({"sigma": 0}, ["sigma must be positive"]),
        ({"sigma": float("inf")}, ["sigma must be a finite number", "inf"]),
        ({"sigma": float("nan")}, ["sigma must be a finite number", "nan"]),
        ({"sigma": "1"}, ["sigma must be a finite number", "'1'"]),
        ({"clip": True}, ["clip must be a finite number", "True"]),
        ({"q": 0.0}, ["q must lie in (0, 1]", "0.0"]),
        ({"q": 1.0001}, ["q must lie in (0, 1]", "1.0001"]),
        ({"delta": -1e-9}, ["delta must lie in [0, 1)", "-1e-09"]),
        ({"delta": 1.0}, ["delta must lie in [0, 1)", "1.0"]),
        ({"share": 0.0}, ["share must lie in (0, 1]", "0.0"]),
        ({"share": 1.5}, ["share must lie in (0, 1]", "1.5"]),
        ({"share": "all"}, ["share must be a finite number", "'all'"]),
        ({"entry_cap": 0.0}, ["entry_cap must lie in (0, 1]", "0.0"]),
        ({"entry_cap": 1.01}, ["entry_cap must lie in (0, 1]", "1.01"]),
        ({"entry_cap": float("nan")}, ["entry_cap must be a finite number", "nan"]),
    ],
)
def test_refuses_what_makes_no_mechanism(change: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        replace(Mechanism(), **change)
    assert all(word in str(caught.value) for word in words)


def test_documents_name_a_defence_only_where_it_is_on() -> None:
    plain = {"k": 5, "clip": 0.1, "sigma": 1.0, "q": 0.1, "delta": 1e-5}
    assert Mechanism().to_json() == plain
    assert Mechanism(share=0.5, entry_cap=0.02).to_json() == plain | {"share": 0.5, "entry_cap": 0.02}
    adapter = TypeAdapter(Mechanism)
    for made in (
        Mechanism(),
        Mechanism(share=0.25),
        Mechanism(entry_cap=1.0),
        Mechanism(k=3, share=0.5, entry_cap=0.1),
    ):
        assert json.loads(adapter.dump_json(made)) == made.to_json()
        assert adapter.dump_python(made) == made.to_json()
        assert adapter.validate_python(made.to_json()) == made
        assert Mechanism(**made.to_json()) == made
        assert adapter.validate_python(made) is made
    assert adapter.json_schema()["properties"].keys() >= {"k", "share", "entry_cap"}


def test_defences_leave_the_formal_epsilon_as_it_is() -> None:
    for defended in (Mechanism(share=0.1), Mechanism(entry_cap=0.001)):
        assert epsilon(defended, 2) == epsilon(Mechanism(), 2)
        assert one_round_epsilon(defended) == one_round_epsilon(Mechanism())
        assert Grid.of(defended) == Grid.of(Mechanism())
    assert Mechanism(share=0.1, entry_cap=0.5).whole_bank == Mechanism(entry_cap=0.5)
    assert Mechanism(share=0.1, entry_cap=0.5).defence_text == ", secret share 0.1, entry cap 0.5"
    assert Mechanism().defence_text == ""
