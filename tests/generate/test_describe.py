import pytest

from canarybank.generate import CandidateBank, describe_bank


def test_statistics_are_those_of_the_texts():
    bank = CandidateBank(("a b a b", "a b c", "d"), ("x", "x", "y"))
    found = describe_bank(bank, sample=2, seed=1)
    assert (found.size, found.labels) == (3, {"x": 2, "y": 1})
    assert found.words["50%"] == 3.0
    assert found.distinct_1 == pytest.approx(4 / 8)
    assert found.distinct_2 == pytest.approx(3 / 5)
    assert found.distinct_3 == pytest.approx(3 / 3)
    assert len(found.sample) == 2
    assert set(found.sample) <= set(bank.texts)
    assert describe_bank(bank, sample=2, seed=1) == found


def test_an_empty_bank_has_empty_statistics():
    found = describe_bank(CandidateBank((), ()))
    assert (found.size, found.distinct_1, found.sample) == (0, 0.0, ())
