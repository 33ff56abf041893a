import doctest
import sys

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.measure import concentration, effective_texts, variety


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


def test_without_noise_it_counts_equal_votes() -> None:
    found = concentration([3.0, 3.0, 3.0, 0.0, 0.0, 0.0], [0, 1], noise=0.0)
    assert found.effective == pytest.approx(3.0)
    assert found.kept_share == pytest.approx(2 / 3)
    assert found.probe_share is None


def test_probes_are_left_out_and_their_part_is_told() -> None:
    found = concentration([3.0, 6.0, 3.0, 0.0], [0, 2], noise=0.0, reserved=(1,))
    assert found.effective == pytest.approx(2.0)
    assert found.kept_share == pytest.approx(1.0)
    assert found.probe_share == pytest.approx(0.5)


def test_a_negative_vote_takes_nothing_from_the_share_of_those_that_stay() -> None:
    assert concentration([4.0, -3.0, 4.0, -1.0], [0, 1], noise=0.0).kept_share == pytest.approx(1 / 2)


def test_noise_is_taken_off_in_expectation() -> None:
    # 20 equal votes of 5 among 400, noise 1: by the delta method the figure has a standard deviation below 3.
    votes = np.zeros(400)
    votes[:20] = 5.0
    noisy = votes + np.random.default_rng(1).normal(size=400)
    assert concentration(noisy, [0, 1], noise=1.0).effective == pytest.approx(20, abs=15)
    assert concentration(noisy, [0, 1], noise=0.0).effective < 15


def test_drowned_votes_have_no_figure() -> None:
    found = concentration([-1.0, 0.1, -0.2, -3.0], [1, 2], noise=2.0, reserved=(0,))
    assert found.effective is None
    assert found.probe_share is None
    assert concentration([-1.0, -2.0, -3.0], [0, 1], noise=1.0).kept_share == 0.0


def test_the_effective_number_lies_between_one_and_all() -> None:
    assert 1.0 <= concentration([1.0, 2.0, 3.0, 4.0], [3, 2], noise=0.1).effective <= 4.0
    assert concentration([5.0, 0.5, -0.5, -1.0], [0], noise=0.3).effective == 1.0


def test_effective_texts_counts_groups_of_alike_texts() -> None:
    # Groups of equal vectors, orthogonal to each other: the exponential of the entropy of their sizes.
    table = np.repeat(np.eye(4)[:3] * [[1.0], [5.0], [0.1]], [2, 2, 4], axis=0)
    assert effective_texts(table) == pytest.approx(np.exp(0.5 * np.log(4) + 0.5 * np.log(2)))
    assert effective_texts(np.ones((7, 3))) == pytest.approx(1.0)
    assert effective_texts(np.eye(6)) == pytest.approx(6.0)
    assert not doctest.testmod(sys.modules["canarybank.measure.variety"]).failed


def test_effective_texts_is_its_naive_twin_on_either_side_of_the_dimension() -> None:
    for shape in ((30, 5), (5, 30)):
        table = np.random.default_rng(3).normal(size=shape)
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        values = np.linalg.svd(unit @ unit.T / len(unit))[1]
        assert effective_texts(table) == pytest.approx(np.prod([value**-value for value in values if value > 1e-14]))
    with pytest.raises(InputError, match="no direction"):
        effective_texts([[0.0, 0.0], [1.0, 0.0]])
