"""How many canaries an audit of one run has, and what it can test: as its design says."""

import pytest

from canarybank.config import resolve
from canarybank.errors import CanarybankError, ConfigError
from canarybank.flow import design_one_run


@pytest.fixture
def designed(flags, tmp_path):
    """Return a function that designs an audit of one run of somebody else's system, and returns what it commits to."""
    small = {key: value for key, value in flags.items() if not key.startswith(("audit.", "mechanism."))}
    small |= {"system.one_run": True, "bank.size": 150}
    return lambda **given: (
        design_one_run(
            resolve(flags=small | {key.replace("__", "."): value for key, value in given.items()}), tmp_path / "run"
        ).one_run
    )


@pytest.mark.parametrize(
    ("size", "told", "count"),
    [
        (150, {"one_run__share": 0.3}, 9),
        (150, {"one_run__share": 0.5}, 15),
        (149, {"one_run__share": 0.5}, 14),
        (150, {"one_run__canaries": 11}, 11),
        (45, {"one_run__canaries": 8}, 8),
        (150, {"mechanism__k": 1, "one_run__share": 0.06}, 9),
    ],
)
def test_a_share_of_the_bank_carries_as_many_canaries_as_its_probes_fit(size, told, count, designed):
    assert designed(bank__size=size, **told).declaration.canaries == count


@pytest.mark.parametrize(
    ("size", "told", "message"),
    [
        (100, {}, r"0\.05 of a bank of 100 entries: room for 5 probes.*Set one_run\.canaries to a number from 8 to 19"),
        (40, {"one_run__share": 0.9999}, "bank.size to 45 or more, or mechanism.k to less"),
        (
            44,
            {"one_run__canaries": 8},
            r"8 canaries with 5 probes each need 40 of the bank's 44 entries.*Set bank\.size to 45 or more",
        ),
        (100, {"one_run__canaries": 20}, r"Set one_run\.canaries to a number from 8 to 19"),
    ],
)
def test_a_share_that_carries_none_and_canaries_that_do_not_fit_are_refused(size, told, message, designed):
    with pytest.raises(ConfigError, match=message):
        designed(bank__size=size, **told)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"system__neighbours": "replace", "audit__accounted": 3}, r"system\.neighbours is replace.*add-remove"),
        ({"system__by_label": True}, r"system\.by_label asks for a bank for each label"),
        ({"system__mechanism": False, "audit__accounted": 3}, "need a mechanism in the claim"),
        (
            {
                "system__mechanism": False,
                "audit__accounted": 3,
                "one_run__coins": "fair",
                "one_run__evidence": "order-statistics",
            },
            "order-statistics is no evidence here",
        ),
        ({"one_run__evidence": "guessing"}, "choose fair coins"),
        ({"one_run__coins": "fair", "one_run__evidence": "known-coins"}, "choose known coins"),
    ],
)
def test_what_one_run_cannot_test_is_refused(told, message, designed):
    with pytest.raises(CanarybankError, match=message):
        designed(**told)


@pytest.mark.parametrize(
    ("told", "evidence"),
    [
        ({}, {"known-coins"}),
        ({"one_run__coins": "fair"}, {"order-statistics", "guessing"}),
        ({"one_run__coins": "fair", "system__mechanism": False, "audit__accounted": 3}, {"guessing"}),
        ({"one_run__evidence": "known-coins,guessing", "mechanism__q": 1.0}, {"known-coins", "guessing"}),
    ],
)
def test_what_it_can_test_is_declared(told, evidence, designed):
    declared = designed(one_run__canaries=20, **told).declaration
    assert set(declared.evidence) == evidence
    assert (declared.canaries, declared.alpha) == (20, 0.05)
