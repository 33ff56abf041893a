"""Ids in one block read like a tuple of them, and take few bytes."""

import pytest

from canarybank.users import Names

GIVEN = ("ann", "", "Zoë", "a\0b", "日本", "bob")


def test_names_read_like_a_tuple() -> None:
    names = Names.of(iter(GIVEN))
    assert len(names) == len(GIVEN)
    assert tuple(names) == GIVEN == names[:]
    assert [names[place] for place in range(-6, 6)] == [GIVEN[place] for place in range(-6, 6)]
    assert names[1:4] == GIVEN[1:4]
    assert names[::-2] == GIVEN[::-2]
    assert "Zoë" in names
    assert "Zo" not in names
    assert names.index("日本") == 4
    assert tuple(reversed(names)) == GIVEN[::-1]
    for place in (6, -7):
        with pytest.raises(IndexError):
            names[place]
    assert tuple(Names.of(())) == ()


def test_a_name_takes_eight_bytes_and_its_letters() -> None:
    names = Names.of(f"u{number:07d}" for number in range(1000))
    assert len(names.block) + names.ends.nbytes == 16 * 1000
