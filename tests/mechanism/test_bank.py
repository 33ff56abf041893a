from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.mechanism import Bank

VECTORS = np.arange(24, dtype=np.float32).reshape(8, 3)
TEXTS = tuple("abcdefgh")


def test_holds_read_only_float32_and_leaves_the_given_array_alone() -> None:
    given = VECTORS.copy()
    bank = Bank(given)
    given[0, 0] = 99
    assert bank.vectors.dtype == np.float32
    assert bank.vectors[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        bank.vectors[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        bank.reserved = (1,)  # type: ignore[misc]
    assert (bank.size, len(bank), bank.dimension, bank.texts) == (8, 8, 3, None)


def test_base_is_what_is_not_reserved() -> None:
    assert Bank(VECTORS, reserved=(6, 0, 3)).base.tolist() == [1, 2, 4, 5, 7]
    assert Bank(VECTORS).base.tolist() == list(range(8))


def test_hash_commits_to_vectors_texts_and_order_of_reserved_positions() -> None:
    changed = VECTORS.copy()
    changed[7, 2] = np.nextafter(changed[7, 2], np.float32(np.inf))
    banks = [
        Bank(VECTORS),
        Bank(VECTORS[::-1]),
        Bank(VECTORS.reshape(4, 6)),
        Bank(changed),
        Bank(VECTORS, TEXTS),
        Bank(VECTORS, ("ab", *TEXTS[2:], "")),
        Bank(VECTORS, ("a", "b" + TEXTS[2], *TEXTS[3:], "")),
        Bank(VECTORS, reserved=(1, 2)),
        Bank(VECTORS, reserved=(2, 1)),
        Bank(VECTORS, barred=(1, 2)),
        Bank(VECTORS, reserved=(1,), barred=(2,)),
    ]
    assert len({bank.hash for bank in banks}) == len(banks)
    assert Bank(VECTORS.astype(np.float64), list(TEXTS)).hash == Bank(VECTORS, TEXTS).hash  # type: ignore[arg-type]
    assert all(len(bank.hash) == 64 for bank in banks)


def test_hash_is_pinned() -> None:
    # A commitment that was published must stay checkable by later versions.
    pinned = Bank(VECTORS, TEXTS, reserved=(5, 2)).hash
    assert pinned == "2f895c9291aa71c1af7e7d3d17119c099485dbfd8c9be31f873b39de1ba0fafb"


def test_barred_entries_stay_in_the_bank_and_are_not_open() -> None:
    bank = Bank(VECTORS, TEXTS, reserved=(5, 2)).bar([6, 2])
    assert bank.barred == (2, 6)
    assert bank.open.tolist() == [0, 1, 3, 4, 5, 7]
    assert (bank.size, bank.base.tolist()) == (8, [0, 1, 3, 4, 6, 7])
    assert bank.bar([0, 2]).barred == (0, 2, 6)
    assert bank.with_probes(VECTORS[:1], ["x"]).barred == (2, 6)
    assert "2 reserved, 2 barred" in repr(bank)
    assert Bank(VECTORS, TEXTS, reserved=(5, 2)).bar([]).hash == Bank(VECTORS, TEXTS, reserved=(5, 2)).hash


def test_equality_and_repr_go_by_content() -> None:
    assert Bank(VECTORS) == Bank(VECTORS.copy())
    assert Bank(VECTORS) != Bank(VECTORS, TEXTS)
    assert Bank(VECTORS) != "bank"
    assert len({Bank(VECTORS), Bank(VECTORS.copy())}) == 1
    assert repr(Bank(VECTORS)).startswith("Bank(8 entries, dimension 3, 0 reserved, hash ")


def test_reserve_draws_distinct_positions_by_seed() -> None:
    bank = Bank(np.zeros((100, 2)))
    one, same, other = bank.reserve(20, 1), bank.reserve(20, 1), bank.reserve(20, 2)
    assert one.reserved == same.reserved != other.reserved
    assert len(set(one.reserved)) == 20
    assert list(one.reserved) != sorted(one.reserved)
    assert bank.reserved == ()
    assert bank.reserve(30, 1).reserved[:20] == one.reserved


def test_positions_may_be_reserved_among_the_first_ones_alone() -> None:
    bank = Bank(np.zeros((100, 2)))
    everywhere, early = bank.reserve(99, 1).reserved, bank.reserve(20, 1, within=30).reserved
    assert early == tuple(position for position in everywhere if position < 30)[:20]
    assert bank.reserve(20, 1, within=100) == bank.reserve(20, 1)
    with pytest.raises(InputError, match="31 positions cannot be reserved among the first 30; plant fewer probes"):
        bank.reserve(31, 1, within=30)


def test_probes_fill_reserved_positions_in_the_order_drawn() -> None:
    bank = Bank(VECTORS, TEXTS, reserved=(6, 0, 3))
    probes = np.full((2, 3), -1.0) * [[1], [2]]
    planted = bank.with_probes(probes, ["x", "y"])
    assert planted.vectors[6].tolist() == [-1, -1, -1]
    assert planted.vectors[0].tolist() == [-2, -2, -2]
    untouched = [1, 2, 3, 4, 5, 7]
    assert np.array_equal(planted.vectors[untouched], VECTORS[untouched])
    assert planted.texts == ("y", *TEXTS[1:6], "x", "h")
    assert planted.reserved == bank.reserved
    assert planted.hash != bank.hash
    assert np.array_equal(bank.vectors, VECTORS)
    assert bank.texts == TEXTS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"vectors": np.full((2, 2), np.nan)}, ["bank entry 0", "NaN"]),
        ({"vectors": np.full((2, 2), 1e40)}, ["1e+40", "float32"]),
        ({"vectors": np.ones(4)}, ["shape (4,)"]),
        ({"texts": ("a", "b")}, ["one text for each of the 8", "2"]),
        ({"texts": "abcdefgh"}, ["one text for each"]),
        ({"reserved": (8,)}, ["position 8", "8 entries"]),
        ({"reserved": (-1,)}, ["position -1"]),
        ({"reserved": (1, 4, 1)}, ["position 1 is reserved twice"]),
        ({"reserved": tuple(range(8))}, ["All 8 positions are reserved"]),
        ({"barred": (8,)}, ["The barred position 8", "8 entries"]),
        ({"barred": (1, 1)}, ["position 1 is barred twice"]),
        ({"barred": tuple(range(8))}, ["All 8 positions are barred"]),
    ],
)
def test_refuses_what_makes_no_bank(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        Bank(**({"vectors": VECTORS} | arguments))
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("count", [-1, 8, 9])
def test_refuses_to_reserve_all_or_less_than_nothing(count: int) -> None:
    with pytest.raises(InputError, match=f"{count} positions cannot be reserved in a bank of 8"):
        Bank(VECTORS).reserve(count, 0)


@pytest.mark.parametrize(
    ("vectors", "texts", "words"),
    [
        (np.ones((3, 3)), None, "3 probes were given for 2 reserved positions"),
        (np.ones((1, 4)), None, "Probes have dimension 4 but the bank has 3"),
        (np.full((1, 3), np.inf), None, "probe 0 is NaN or infinite"),
        (np.ones((1, 3)), ["x"], "texts exactly where the bank has them"),
    ],
)
def test_refuses_probes_that_do_not_fit(vectors: Any, texts: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Bank(VECTORS, reserved=(0, 1)).with_probes(vectors, texts)


def test_refuses_a_wrong_number_of_probe_texts() -> None:
    with pytest.raises(InputError, match="one text for each of the 1 probes, not 2"):
        Bank(VECTORS, TEXTS, reserved=(0, 1)).with_probes(np.ones((1, 3)), ["x", "y"])
