import pytest

from canarybank.generate import Rejection, Strip, outcome_text

COUNTERS = {"asked": 1030, "kept": 1000, "surplus": 4, "too-long": 5, "refusal": 20, "meta": 1}


@pytest.mark.parametrize(
    ("counters", "reasons", "text"),
    [
        (COUNTERS, None, "1,030 asked, 1,000 kept, 4 surplus, 26 rejected (20 refusal, 5 too-long, 1 meta)"),
        (COUNTERS, 1, "1,030 asked, 1,000 kept, 4 surplus, 26 rejected (20 refusal, 6 for other reasons)"),
        ({"asked": 2, "kept": 2, "surplus": 0}, None, "2 asked, 2 kept, 0 surplus, 0 rejected"),
        (
            {"kept": 9, "stripped-quotes": 7, "stripped-preamble": 2},
            None,
            "9 kept, 0 rejected; of those kept, stripped: 7 of quotes, 2 of preamble",
        ),
    ],
)
def test_one_line_tells_what_became_of_the_answers(counters, reasons, text):
    assert outcome_text(counters, reasons) == text


def test_each_rule_is_a_rejection_and_no_strip_is():
    counters = dict.fromkeys(("asked", "kept", "surplus", *map(str, Rejection), *map(str, Strip)), 1)
    told = outcome_text(counters)
    assert f"{len(Rejection)} rejected (" in told
    listed = told.partition("(")[2].partition(")")[0]
    assert sorted(listed.split(", ")) == sorted(f"1 {reason}" for reason in Rejection)
