import pytest

from canarybank.flow.bank import counters_of


@pytest.mark.parametrize(
    ("provenance", "counters"),
    [
        ({"counters": {"asked": 3, "kept": "2", "meta": True}}, {"asked": 3}),
        ({"counters": [1]}, {}),
        ({}, {}),
        ([], {}),
    ],
)
def test_counters_are_numbers_whatever_a_file_says(provenance, counters):
    assert counters_of(provenance) == counters
