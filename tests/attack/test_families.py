"""Hold every family of texts to what a group must be."""

import numpy as np
import pytest

from canarybank.attack import FAMILIES
from canarybank.attack.families import chosen_families, variants
from canarybank.encode import WordLlamaEncoder
from canarybank.errors import InputError

WORDS = ("\u2581the", " of", "x", "  ", "", "\u00e9t\u00e9", "ing", "##ly")


@pytest.fixture(scope="module")
def encode():
    return WordLlamaEncoder().encode


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_a_group_is_different_texts_close_together_and_the_generator_decides_all(family, encode):
    first, same, other = (family.write(np.random.default_rng(seed), 4, 10, WORDS) for seed in (0, 0, 1))
    assert first == same != other
    assert [len(group) for group in first] == [10] * 4
    for group in first:
        assert len(set(group)) == 10
        assert all(text and text == text.strip() for text in group)
    cores = {group[0] for group in first}
    assert len(cores) == 4 or family.name == "vocabulary"
    within = [vectors @ vectors.T for vectors in map(encode, first)]
    assert min(similar.min() for similar in within) > (0.3 if family.fluent else 0.95)
    assert family.description


def test_the_names_are_the_keys_and_there_are_many_scripts():
    assert all(family.name == name for name, family in FAMILIES.items())
    assert {"nonces", "hexadecimal", "cherokee", "vocabulary", "facts", "made-up words"} <= set(FAMILIES)
    assert [name for name, family in FAMILIES.items() if family.fluent] == ["facts"]
    assert len(FAMILIES) >= 30


def test_without_a_vocabulary_that_family_writes_nothing():
    assert FAMILIES["vocabulary"].write(np.random.default_rng(0), 4, 10, ()) == []
    written = FAMILIES["vocabulary"].write(np.random.default_rng(0), 50, 3, WORDS)
    assert {word for group in written for word in group[0].split()} == {
        "\u2581the",
        "of",
        "x",
        "\u00e9t\u00e9",
        "ing",
        "##ly",
    }


def test_variants_say_the_same_words_in_other_orders_and_more_often():
    assert variants(("a", "b"), 4) == ("a b", "b a", "a b a b", "b a b a")
    assert variants(("a", "a"), 2) == ("a a", "a a a a")
    assert variants(("a",), 3) == ("a", "a a", "a a a")
    for words in ((), ("a", "")):
        with pytest.raises(InputError, match="words that are not empty"):
            variants(words, 2)


def test_families_are_chosen_by_name():
    assert chosen_families(None) == tuple(FAMILIES.values())
    assert [family.name for family in chosen_families(["yi", "facts", "yi"])] == ["yi", "facts"]
    with pytest.raises(InputError, match="There is no family 'latin'; choose from nonces, hexadecimal"):
        chosen_families(["latin"])
    with pytest.raises(InputError, match="at least one family"):
        chosen_families([])
