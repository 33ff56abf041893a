import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.auditing import AlphaLedger
from canarybank.errors import BudgetError, InputError


def test_spending_gives_a_new_ledger_and_leaves_the_old():
    empty = AlphaLedger(0.05)
    once = empty.spend("nonce/canary-0", 0.01)
    assert empty.entries == ()
    assert once.entries == (("nonce/canary-0", 0.01),)
    assert (once.spent, once.left) == pytest.approx((0.01, 0.04))


def test_overspending_is_refused_with_what_is_left():
    ledger = AlphaLedger(0.05).spend("first", 0.03)
    with pytest.raises(BudgetError, match=r"'second' asks for alpha 0.03, but 0.02 of 0.05 is left"):
        ledger.spend("second", 0.03)
    assert ledger.spend("second", 0.02).left == 0


def test_one_claim_is_paid_once():
    with pytest.raises(BudgetError, match="'first' already has its share"):
        AlphaLedger(0.05).spend("first", 0.01).spend("first", 0.01)


@given(st.floats(1e-6, 0.99), st.integers(1, 200))
def test_a_split_spends_all_and_never_more(total, claims):
    ledger = AlphaLedger.split(total, [f"claim {i}" for i in range(claims)])
    assert ledger.spent == pytest.approx(total, rel=1e-9)
    with pytest.raises(BudgetError):
        ledger.spend("one more", total * 1e-6)


def test_rebuilding_a_ledger_checks_it_again():
    with pytest.raises(BudgetError):
        AlphaLedger(0.05, (("a", 0.03), ("b", 0.03)))
    with pytest.raises(BudgetError):
        AlphaLedger(0.05, (("a", 0.01), ("a", 0.01)))


def test_a_ledger_survives_json():
    ledger = AlphaLedger.split(0.05, ["a", "b"])
    assert AlphaLedger(**json.loads(json.dumps(asdict(ledger)))) == ledger


@pytest.mark.parametrize("total", [0.0, 1.0, -0.1, float("nan")])
def test_a_total_outside_the_unit_interval_is_refused(total):
    with pytest.raises(InputError, match="total alpha"):
        AlphaLedger(total)


@pytest.mark.parametrize("share", [0.0, -0.01, float("nan")])
def test_a_share_must_be_positive(share):
    with pytest.raises(InputError, match="must be positive"):
        AlphaLedger(0.05).spend("a", share)


def test_nothing_to_split_over_is_an_error():
    with pytest.raises(InputError, match="no claim"):
        AlphaLedger.split(0.05, [])


def test_a_ledger_reads_as_a_sentence():
    assert str(AlphaLedger(0.05).spend("a", 0.01)) == "alpha 0.05: a 0.01; 0.04 left"
