import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.generate import Distinct, fold
from canarybank.generate.distinct import jaccard, shingles, words

TEXTS = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=9).map(" ".join), max_size=25)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hello, World!", "hello world"),
        ("don't", "DON’T"),
        ("a\u00a0 b\n", "A b"),
        ("ｆｕｌｌ", "full"),
        ("so - so", "so so"),
    ],
)
def test_case_space_and_punctuation_fold_away(one, other):
    assert fold(one) == fold(other)


def test_words_and_accents_do_not_fold_away():
    assert len({fold(t) for t in ("ab", "a b", "äb", "abc", ":)", ":(")}) == 6


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_plain_text_are_those_of_every_text(text):
    # The short way of plain text must be the long way's: beside one word of another script they are split alike.
    assert words(text) == words(f"{text} é")[:-1]


@given(TEXTS, st.sampled_from([0.3, 0.5, 0.6, 0.7, 0.9, 1.0]))
def test_the_index_finds_what_comparing_with_every_text_finds(texts, similarity):
    distinct = Distinct(similarity)
    seen: list[str] = []
    for text in texts:
        naive = any(jaccard(shingles(text), shingles(other)) >= similarity for other in seen)
        assert distinct.resembles(text) == naive
        assert distinct.duplicates(text) == (fold(text) in {fold(other) for other in seen})
        distinct.add(text)
        seen.append(text)


def test_texts_at_the_start_count_once():
    distinct = Distinct(0.7, ["Hi there", "hi there!"])
    assert len(distinct) == 1
    assert distinct.duplicates("HI THERE")


@pytest.mark.parametrize("similarity", [0.0, 1.1, float("nan")])
def test_the_similarity_is_checked(similarity):
    with pytest.raises(InputError, match="similarity"):
        Distinct(similarity)
