import pytest

from canarybank.errors import InputError
from canarybank.evolve.variety import variety


def test_distinct_n_grams_by_hand() -> None:
    # Words: a b a c / a b. Ones: {a, b, c} of 6. Twos: ab ba ac ab, {ab, ba, ac} of 4. Threes: aba bac of 2.
    found = variety(["a b a c", "A, b!"])
    assert found.distinct_1 == pytest.approx(3 / 6)
    assert found.distinct_2 == pytest.approx(3 / 4)
    assert found.distinct_3 == pytest.approx(2 / 2)


def test_copies_and_near_copies_are_shares_of_all_texts() -> None:
    one = "the cat sat on the mat by the door today"
    texts = [one, one.upper() + "!", one.replace("today", "now"), "something else was said here"]
    found = variety(texts)
    assert found.duplicates == pytest.approx(1 / 4)
    assert found.near_duplicates == pytest.approx(2 / 4)
    assert variety(texts, similarity=1.0).near_duplicates == pytest.approx(1 / 4)


def test_texts_without_so_many_words_have_no_n_grams() -> None:
    found = variety(["one", "two"])
    assert (found.distinct_1, found.distinct_2, found.distinct_3) == (1.0, 0.0, 0.0)


def test_no_text_is_refused() -> None:
    for wrong in ([], "one text"):
        with pytest.raises(InputError, match="at least one text"):
            variety(wrong)
