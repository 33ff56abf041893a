import pytest

from canarybank.auditing import RunEvidence
from canarybank.config import resolve
from canarybank.errors import CanarybankError, ConfigError
from canarybank.flow.canaries import count_canaries, declare_run, refuse_untestable
from canarybank.flow.design import claim_of


def config(**flags):
    return resolve(flags={key.replace("__", "."): value for key, value in flags.items()}).config


@pytest.mark.parametrize(
    ("size", "flags", "count"),
    [
        (8192, {}, 81),
        (8192, {"one_run__share": 0.25}, 409),
        (32_768, {"one_run__share": 0.25}, 1638),
        (8192, {"one_run__canaries": 9}, 9),
        (45, {"one_run__canaries": 8}, 8),
        (2048, {"mechanism__k": 1}, 102),
    ],
)
def test_a_share_of_the_bank_carries_as_many_canaries_as_its_probes_fit(size, flags, count):
    assert count_canaries(config(**flags), size) == count


@pytest.mark.parametrize(
    ("size", "flags", "message"),
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
def test_a_share_that_carries_none_and_canaries_that_do_not_fit_are_refused(size, flags, message):
    with pytest.raises(ConfigError, match=message):
        count_canaries(config(**flags), size)


@pytest.mark.parametrize(
    ("flags", "message"),
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
def test_what_one_run_cannot_test_is_refused(flags, message):
    chosen = config(**flags)
    with pytest.raises(CanarybankError, match=message):
        refuse_untestable(chosen, claim_of(chosen))


@pytest.mark.parametrize(
    ("flags", "evidence"),
    [
        ({}, {"known-coins"}),
        ({"one_run__coins": "fair"}, {"order-statistics", "guessing"}),
        ({"one_run__coins": "fair", "system__mechanism": False, "audit__accounted": 3}, {"guessing"}),
        ({"one_run__evidence": "known-coins,guessing", "mechanism__q": 1.0}, {"known-coins", "guessing"}),
    ],
)
def test_what_it_can_test_is_declared(flags, evidence):
    chosen = config(**flags)
    refuse_untestable(chosen, claim_of(chosen))
    declared = declare_run(chosen, claim_of(chosen), 20, 0.9)
    assert set(declared.evidence) == set(map(RunEvidence, evidence))
    assert (declared.canaries, declared.shift, declared.alpha) == (20, 0.9, 0.05)
